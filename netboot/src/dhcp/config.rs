//! Core: what the DHCP server of a rack is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

pub use model::rack::GUEST_LEASE_SECONDS;
use model::{MacAddress, NodeName};

use super::packet::Identity;

/// Ranges of one server: a rack has one for each of its networks.
pub const RANGES_MAX: usize = 16;
/// Addresses of one range: tables are searched in order, and a rack has tens of machines.
pub const RANGE_ADDRESSES_MAX: u32 = 4_096;
/// Shortest lease: below it clients renew so often that they do little else.
pub const LEASE_SECONDS_MIN: u32 = 10;
/// A lease that does not end, RFC 2131 section 3.3.
pub const LEASE_SECONDS_INFINITE: u32 = u32::MAX;
/// Name servers that are told: more would crowd out other options.
pub const DNS_MAX: usize = 8;
/// Of so many addresses one may be a guest's, however many machines there are: new ones are found by it.
const GUESTS_SHARE: usize = 8;
/// Longest base of boot URLs: a whole URL must fit one option of 255 bytes.
pub const BOOT_BASE_URL_MAX: usize = 200;

/// The ranges that a server serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The ranges, of networks that do not overlap.
    pub ranges: Vec<ServedRange>,
}

/// The lease range of one network and what its clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRange {
    /// Our address on that network; replies come from it.
    pub interface_address: Ipv4Addr,
    /// Leading bits that name the network, 8 to 30; told as subnet mask.
    pub prefix_len: u8,
    /// First address to lease.
    pub first: Ipv4Addr,
    /// Last address to lease.
    pub last: Ipv4Addr,
    /// Addresses that are never leased, whether in the range or not. Our own, the gateway's and
    /// those of the name servers need not be listed.
    pub excluded: BTreeSet<Ipv4Addr>,
    /// When, in microseconds since the epoch, addresses may first be leased, where another agent may
    /// have leased them before.
    pub later: BTreeMap<Ipv4Addr, i64>,
    /// Addresses that other agents lease. Their leases are renewed here where they were told, since any
    /// agent of a rack does that.
    pub others: BTreeMap<Ipv4Addr, OtherPart>,
    /// The time, in microseconds since the epoch, when all leases have ended that agents renewed before
    /// they left the rack. An agent that left tells nobody what it did. 0 where none left.
    pub settled_us: i64,
    /// The other agents of the rack, each of which may renew what this one gave.
    pub peers: BTreeSet<NodeName>,
    /// Whether clients come by relays alone: then no host can be asked for its address.
    pub relays_only: bool,
    /// How addresses are kept for machines of the inventory; none where that has none with known cards.
    pub guests: Option<GuestRules>,
    /// The router (option 3), if there is one.
    pub gateway: Option<Ipv4Addr>,
    /// Name servers (option 6).
    pub dns: Vec<Ipv4Addr>,
    /// Time servers (option 42).
    pub ntp: Vec<Ipv4Addr>,
    /// Domain of the clients (option 15).
    pub domain: Option<NodeName>,
    /// Seconds of a lease, from [`LEASE_SECONDS_MIN`]; [`LEASE_SECONDS_INFINITE`] never ends.
    pub lease_seconds: u32,
    /// The base URL of boot files, such as `http://10.69.0.3:10080`, without a slash at the end.
    pub boot_base_url: String,
    /// Decide and send nothing.
    pub observe: bool,
    /// Whether switches on the clients' own link may add option 82.
    pub trusted_circuits: bool,
    /// The installer for switches that boot by ONIE; none are told anything without it.
    pub onie: Option<Onie>,
    /// The address by which clients know this server (option 54), as a rule the interface address;
    /// renewals are sent to it.
    pub server_id: Ipv4Addr,
}

/// The rules for cards that are in no inventory: guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRules {
    /// The cards of the machines.
    pub known: Arc<BTreeSet<MacAddress>>,
    /// Addresses of this agent that all guests hold together, at most.
    pub addresses_max: usize,
}

impl GuestRules {
    /// The rules for an agent that gives so many addresses, in a rack with so many machines whose cards
    /// are known. Guests get what the machines leave, and at least one address in `GUESTS_SHARE`.
    pub fn new(
        known: Arc<BTreeSet<MacAddress>>,
        machines: usize,
        addresses: usize,
    ) -> Option<Self> {
        let left = addresses.saturating_sub(machines);
        let addresses_max = left.max(addresses / GUESTS_SHARE).max(1);
        (machines > 0).then_some(Self { known, addresses_max })
    }

    /// Addresses that guests of one circuit hold together, at most: half of them are left to other
    /// ports, whatever is behind this one.
    pub fn of_circuit_max(&self) -> usize {
        self.addresses_max.div_ceil(2)
    }
}

/// The part of a range that another agent leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPart {
    /// The agent; none while the part is on its way from one to another.
    pub agent: Option<NodeName>,
    /// From when it leases.
    pub from_us: i64,
}

/// The agent that gives an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Giver<'a> {
    /// This agent.
    Us,
    /// Another agent of the rack.
    Agent(&'a NodeName),
    /// Nobody at the moment: its part is on its way.
    Nobody,
}

/// The installer of switches (option 114).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Onie {
    /// Where it is.
    pub url: String,
    /// The cards that are told: those of machines of the inventory.
    pub known: Arc<BTreeSet<MacAddress>>,
}

/// Why a configuration cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too many ranges.
    #[error("{0} ranges are more than the {RANGES_MAX} that one server has")]
    Ranges(usize),
    /// Two ranges of one network.
    #[error("the networks of ranges {0} and {1} overlap")]
    Overlap(Ipv4Addr, Ipv4Addr),
    /// One range is wrong.
    #[error("the range that begins at {first} cannot be served: {why}")]
    Range {
        /// Its first address.
        first: Ipv4Addr,
        /// What is wrong.
        why: &'static str,
    },
}

impl Config {
    /// Whether it can be served.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.ranges.len() > RANGES_MAX {
            return Err(ConfigError::Ranges(self.ranges.len()));
        }
        for (at, range) in self.ranges.iter().enumerate() {
            range
                .flaw()
                .map_or(Ok(()), |why| Err(ConfigError::Range { first: range.first, why }))?;
            for other in self.ranges.iter().skip(at + 1) {
                let shorter = if range.prefix_len < other.prefix_len { range } else { other };
                if shorter.on_network(range.first) && shorter.on_network(other.first) {
                    return Err(ConfigError::Overlap(range.first, other.first));
                }
            }
        }
        Ok(())
    }
}

impl ServedRange {
    /// The subnet mask.
    pub fn mask(&self) -> Ipv4Addr {
        let host_bits = u32::from(32_u8.saturating_sub(self.prefix_len));
        u32::MAX.checked_shl(host_bits).unwrap_or(0).into()
    }

    /// Whether `address` is of this network.
    pub fn on_network(&self, address: Ipv4Addr) -> bool {
        let mask = u32::from(self.mask());
        u32::from(address) & mask == u32::from(self.interface_address) & mask
    }

    /// Whether `address` can be that of one host, on this network or elsewhere.
    pub fn may_be_host(&self, address: Ipv4Addr) -> bool {
        let (at, hosts) = (u32::from(address), !u32::from(self.mask()));
        let is_of_all = self.on_network(address) && [0, hosts].contains(&(at & hosts));
        !(is_of_all || address.is_unspecified() || address.is_broadcast() || address.is_multicast())
    }

    /// Whether `address` can be that of another host on this network.
    pub fn is_neighbour(&self, address: Ipv4Addr) -> bool {
        self.on_network(address)
            && self.may_be_host(address)
            && ![self.interface_address, self.server_id].contains(&address)
    }

    /// Whether clients may know a relay by `address` in our place (RFC 5107). The relay's own address is
    /// good. A relay elsewhere may also use an address of this network that is nobody else's, for all
    /// that is known here.
    pub fn may_stand_in(&self, address: Ipv4Addr, relay: Ipv4Addr) -> bool {
        let is_free = !self.leases(address) && !self.excluded.contains(&address);
        address == relay || (!self.on_network(relay) && self.is_neighbour(address) && is_free)
    }

    /// Whether `address` may be leased.
    pub fn leases(&self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address)
            && address != self.interface_address
            && address != self.server_id
            && self.gateway != Some(address)
            && !self.dns.contains(&address)
            && !self.excluded.contains(&address)
    }

    /// Whether a client is in no inventory, where machines are kept addresses for.
    pub fn is_guest(&self, client: &Identity) -> bool {
        let knows = |rules: &GuestRules| client.mac().is_some_and(|mac| rules.known.contains(&mac));
        self.guests.as_ref().is_some_and(|rules| !knows(rules))
    }

    /// The agent that gives `address` at `now`: one that takes a part over waits until no lease of the
    /// one before can live.
    pub fn giver(&self, address: Ipv4Addr, now: i64) -> Giver<'_> {
        match self.others.get(&address) {
            Some(OtherPart { agent: Some(agent), from_us }) if *from_us <= now => {
                Giver::Agent(agent)
            }
            Some(_) => Giver::Nobody,
            None if self.later.get(&address).is_none_or(|from| *from <= now) => Giver::Us,
            None => Giver::Nobody,
        }
    }

    /// Whether `address` may be leased here anew at `now`.
    pub fn is_ours(&self, address: Ipv4Addr, now: i64) -> bool {
        self.giver(address, now) == Giver::Us
    }

    /// Seconds that a lease of `address` may last which is given or renewed at `now`. None where that is
    /// too short for a lease, or where nobody knows yet who takes the address over. An agent that takes
    /// it over counts on it that no earlier lease lives by then.
    pub fn seconds_of(&self, address: Ipv4Addr, now: i64) -> Option<u32> {
        let Some(other) = self.others.get(&address) else { return Some(self.lease_seconds) };
        other.agent.as_ref()?;
        if other.from_us <= now {
            return Some(self.lease_seconds);
        }
        let left = other.from_us.saturating_sub(now) / 1_000_000;
        let seconds = u32::try_from(left).unwrap_or(u32::MAX).min(self.lease_seconds);
        (seconds >= LEASE_SECONDS_MIN).then_some(seconds)
    }

    /// All addresses that may be leased, lowest first.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addresses_from(self.first)
    }

    /// The same from this address on.
    pub fn addresses_from(&self, from: Ipv4Addr) -> impl Iterator<Item = Ipv4Addr> {
        let all = u32::from(from.max(self.first))..=u32::from(self.last);
        all.map(Ipv4Addr::from).filter(|address| self.leases(*address))
    }

    fn flaw(&self) -> Option<&'static str> {
        let network = u32::from(self.interface_address) & u32::from(self.mask());
        let broadcast = network | !u32::from(self.mask());
        let (first, last) = (u32::from(self.first), u32::from(self.last));
        if !(8..=30).contains(&self.prefix_len) {
            Some("the prefix must have 8 to 30 bits")
        } else if first > last {
            Some("its last address comes before its first")
        } else if !self.on_network(self.first) || !self.on_network(self.last) {
            Some("it leaves the network of the interface address")
        } else if first == network || last == broadcast {
            Some("it holds the network's own or broadcast address")
        } else if last - first >= RANGE_ADDRESSES_MAX {
            Some("it has more than 4096 addresses")
        } else if self.lease_seconds < LEASE_SECONDS_MIN {
            Some("a lease must last 10 seconds or more")
        } else if self.dns.len().max(self.ntp.len()) > DNS_MAX {
            Some("it has more than 8 name servers")
        } else if !self.may_be_host(self.server_id) {
            Some("its server identifier is no host's address")
        } else {
            self.boot_url_flaw()
        }
    }

    fn boot_url_flaw(&self) -> Option<&'static str> {
        let url = self.boot_base_url.as_str();
        if url.len() > BOOT_BASE_URL_MAX {
            Some("its boot URL has more than 200 bytes")
        } else if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            Some("its boot URL has characters other than visible ASCII")
        } else if !url.starts_with("http://") && !url.starts_with("https://") {
            Some("its boot URL does not begin with http:// or https://")
        } else if url.ends_with('/') {
            // Firmware does not follow the redirection that a double slash leads to.
            Some("its boot URL ends with a slash")
        } else {
            None
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Rack 0 of the specification's sample: .32 to .62 of a /26.
    pub(crate) fn sample() -> ServedRange {
        ServedRange {
            interface_address: Ipv4Addr::new(10, 69, 0, 3),
            prefix_len: 26,
            first: Ipv4Addr::new(10, 69, 0, 32),
            last: Ipv4Addr::new(10, 69, 0, 62),
            excluded: BTreeSet::new(),
            later: BTreeMap::new(),
            others: BTreeMap::new(),
            settled_us: 0,
            peers: BTreeSet::new(),
            relays_only: false,
            guests: None,
            gateway: Some(Ipv4Addr::new(10, 69, 0, 1)),
            dns: vec![Ipv4Addr::new(10, 69, 0, 2)],
            ntp: Vec::new(),
            domain: None,
            lease_seconds: 3_600,
            boot_base_url: "http://10.69.0.3:10080".to_owned(),
            observe: false,
            trusted_circuits: false,
            onie: None,
            server_id: Ipv4Addr::new(10, 69, 0, 3),
        }
    }

    fn flaw(change: impl FnOnce(&mut ServedRange)) -> Option<ConfigError> {
        let mut range = sample();
        change(&mut range);
        Config { ranges: vec![range] }.check().err()
    }

    #[test]
    fn the_sample_is_served() {
        assert_eq!(flaw(|_| ()), None);
        assert_eq!(sample().mask(), Ipv4Addr::new(255, 255, 255, 192));
        assert_eq!(sample().addresses().count(), 31);
    }

    #[test]
    fn flaws_are_told() {
        let at = |last| Ipv4Addr::new(10, 69, 0, last);
        type Change = Box<dyn FnOnce(&mut ServedRange)>;
        let changes: [(&str, Change); 12] = [
            ("8 to 30", Box::new(|r| r.prefix_len = 31)),
            ("8 to 30", Box::new(|r| r.prefix_len = 255)),
            ("before its first", Box::new(move |r| r.last = at(31))),
            ("leaves the network", Box::new(move |r| r.last = at(64))),
            ("broadcast", Box::new(move |r| r.last = at(63))),
            ("broadcast", Box::new(move |r| r.first = at(0))),
            ("10 seconds", Box::new(|r| r.lease_seconds = 0)),
            ("name servers", Box::new(move |r| r.dns = vec![at(9); 9])),
            ("no host's", Box::new(|r| r.server_id = Ipv4Addr::UNSPECIFIED)),
            ("slash", Box::new(|r| r.boot_base_url.push('/'))),
            ("http://", Box::new(|r| r.boot_base_url = "10.69.0.3".to_owned())),
            ("200 bytes", Box::new(|r| r.boot_base_url.push_str(&"x".repeat(200)))),
        ];
        for (why, change) in changes {
            let text = flaw(change).unwrap().to_string();
            assert!(text.contains(why), "{text}");
        }
        let wide = flaw(|r| {
            (r.prefix_len, r.first, r.last) =
                (16, Ipv4Addr::new(10, 69, 1, 0), Ipv4Addr::new(10, 69, 17, 0));
        });
        assert!(wide.unwrap().to_string().contains("4096"));
    }

    #[test]
    fn networks_must_not_overlap() {
        let wide = ServedRange {
            prefix_len: 16,
            first: Ipv4Addr::new(10, 69, 9, 1),
            last: Ipv4Addr::new(10, 69, 9, 9),
            ..sample()
        };
        for ranges in [vec![sample(), wide.clone()], vec![wide, sample()], vec![sample(); 2]] {
            assert!(matches!(Config { ranges }.check(), Err(ConfigError::Overlap(..))));
        }
        let next = ServedRange {
            interface_address: Ipv4Addr::new(10, 69, 0, 67),
            first: Ipv4Addr::new(10, 69, 0, 96),
            last: Ipv4Addr::new(10, 69, 0, 126),
            ..sample()
        };
        assert_eq!(Config { ranges: vec![sample(), next] }.check(), Ok(()));
        assert!(Config { ranges: vec![sample(); 17] }.check().is_err());
    }

    #[test]
    fn addresses_with_an_owner_are_not_leased() {
        let mut range = sample();
        range.first = Ipv4Addr::new(10, 69, 0, 1);
        range.excluded = [Ipv4Addr::new(10, 69, 0, 40)].into();
        let leased: BTreeSet<_> = range.addresses().collect();
        for last in [1, 2, 3, 40] {
            assert!(!leased.contains(&Ipv4Addr::new(10, 69, 0, last)), "{last}");
        }
        assert_eq!(leased.len(), 62 - 4);
    }
}
