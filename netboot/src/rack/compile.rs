//! Core: from rack documents and network interfaces to what the DHCP server is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use model::dhcp::RackDhcp;
use model::ipam::LeaseRange;
use model::machine::SWITCH_ROLE;
use model::rack::RackDocument;
use model::shares::Part;
use model::{MacAddress, NodeName};
use rpc::calls::LeaseRangeServed;
use stdx::net::Interface;

use crate::dhcp::config::{GuestRules, Onie, OtherPart};
use crate::dhcp::leases::CLOCKS_DIFFER_US;
use crate::dhcp::{Config, ServedRange};
use crate::rack::BootPlaces;

/// A place where the server listens: a link of [`Config`]'s ranges.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// A whole interface, on DHCP's own port.
    Interface {
        name: String,
        /// Our address on it, which lies in the range's network.
        address: Ipv4Addr,
    },
    /// An address, for relays alone.
    Address(Ipv4Addr),
}

impl Listener {
    /// Our address there.
    pub const fn address(&self) -> Ipv4Addr {
        match self {
            Self::Interface { address, .. } | Self::Address(address) => *address,
        }
    }
}

/// The places to listen at, in the order of the ranges, and the configuration for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compiled {
    /// One place for each range that can be served here.
    pub places: BTreeSet<Listener>,
    /// The configuration of the server.
    pub config: Config,
    /// Our addresses in networks of racks that yield to other servers.
    pub yielding: BTreeSet<Ipv4Addr>,
    /// The ranges, as the master is told of them.
    pub served: Vec<LeaseRangeServed>,
    /// Addresses at which machines are served by HTTP, by rack.
    pub boot: BootPlaces,
    /// Networks of ranges that cannot be served here, since no place has an address in them.
    pub unserved: Vec<Ipv4Net>,
}

/// Our addresses: those of the interfaces that are up, or those that the operator named, which
/// serve relays alone.
pub fn places(interfaces: &[Interface], relays_only: &[Ipv4Addr]) -> Vec<Listener> {
    if !relays_only.is_empty() {
        return relays_only.iter().copied().map(Listener::Address).collect();
    }
    let up = interfaces.iter().filter(|interface| interface.up && !interface.loopback);
    up.flat_map(|interface| {
        interface.addresses.iter().map(|address| Listener::Interface {
            name: interface.name.clone(),
            address: address.address,
        })
    })
    .collect()
}

/// Serves every range in whose network one of our `places` lies. Machines are told to boot from
/// `boot`; where it is no address of its own (0.0.0.0), from our address in their network.
pub fn compile(
    documents: &[Arc<RackDocument>],
    places: &[Listener],
    boot: SocketAddr,
    own: &NodeName,
) -> Compiled {
    let fixed: BTreeSet<Ipv4Addr> =
        documents.iter().flat_map(|d| &d.machines).flat_map(|m| m.addresses.clone()).collect();
    let mut compiled = Compiled::default();
    for document in documents {
        let (onie, cards) = (onie(document), Cards::of(document));
        for range in &document.ranges {
            let Some(place) = places.iter().find(|p| range.subnet.contains(&p.address())) else {
                compiled.unserved.push(range.subnet);
                continue;
            };
            let RackDhcp { observe, trusted_circuits, .. } = document.dhcp;
            let settings = document.dhcp.clone();
            let mut served = ServedRange {
                dns: settings.name_servers,
                ntp: settings.ntp_servers,
                domain: settings.domain_name,
                excluded: fixed.range(range.first..=range.last).copied().collect(),
                peers: peers(document, own),
                relays_only: matches!(place, Listener::Address(_)),
                observe,
                trusted_circuits,
                onie: onie.clone(),
                ..served(range, document.lease_seconds, place.address(), boot)
            };
            share(&mut served, range, &document.parts, own);
            let told = told(document.rack, &served);
            served.guests = GuestRules::new(Arc::clone(&cards.known), cards.machines, told.own);
            compiled.served.push(told);
            compiled.config.ranges.push(served);
            compiled.places.insert(place.clone());
            let at = boot_address(place.address(), boot);
            compiled.boot.entry(document.rack).or_default().push(at);
            if document.dhcp.hold_back {
                compiled.yielding.insert(place.address());
            }
        }
    }
    compiled
}

/// The cards of a rack's machines.
struct Cards {
    known: Arc<BTreeSet<MacAddress>>,
    /// Machines of which one is known at least.
    machines: usize,
}

impl Cards {
    fn of(document: &RackDocument) -> Self {
        let known = document.machines.iter().flat_map(|machine| machine.mac.iter().copied());
        let machines = document.machines.iter().filter(|machine| !machine.mac.is_empty()).count();
        Self { known: Arc::new(known.collect()), machines }
    }
}

/// Says which addresses of a range the agent `own` gives, and which others do.
fn share(served: &mut ServedRange, range: &LeaseRange, all: &[Part], own: &NodeName) {
    for (address, part) in parts(range, all) {
        // By the clock of whoever gave leases before.
        let from = part.from.micros().saturating_add(CLOCKS_DIFFER_US);
        served.settled_us = served.settled_us.max(from);
        if part.owner.as_ref() == Some(own) {
            served.later.insert(address, from);
        } else {
            let other = OtherPart { agent: part.owner.clone(), from_us: part.from.micros() };
            served.others.insert(address, other);
        }
    }
}

/// A range that is served, as the master is told of it.
fn told(rack: u32, served: &ServedRange) -> LeaseRangeServed {
    let own = served.addresses().filter(|address| !served.others.contains_key(address)).count();
    let addresses = served.addresses().count();
    LeaseRangeServed { rack, first: served.first, last: served.last, addresses, own }
}

/// The other agents that renew leases of the rack.
fn peers(document: &RackDocument, own: &NodeName) -> BTreeSet<NodeName> {
    document.agents.iter().map(|agent| agent.name.clone()).filter(|name| name != own).collect()
}

/// The installer for the rack's switches: those that are in its inventory.
fn onie(document: &RackDocument) -> Option<Onie> {
    let url = document.dhcp.onie_installer_url.clone()?;
    let switches = document.machines.iter().filter(|machine| machine.role == SWITCH_ROLE);
    let known = switches.flat_map(|machine| machine.mac.iter().copied());
    Some(Onie { url, known: Arc::new(known.collect()) })
}

/// The addresses of a range with the part that each is in; none where the range has no parts.
fn parts<'a>(range: &LeaseRange, parts: &'a [Part]) -> impl Iterator<Item = (Ipv4Addr, &'a Part)> {
    let addresses = u32::from(range.first)..=u32::from(range.last);
    addresses.zip(parts.iter().cycle()).map(|(address, part)| (address.into(), part))
}

/// The address to boot from, for machines in whose network our address is this one.
fn boot_address(address: Ipv4Addr, boot: SocketAddr) -> SocketAddr {
    let host = match boot.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() => ip,
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    };
    SocketAddr::new(host.into(), boot.port())
}

fn served(
    range: &LeaseRange,
    lease_seconds: u32,
    address: Ipv4Addr,
    boot: SocketAddr,
) -> ServedRange {
    ServedRange {
        interface_address: address,
        prefix_len: range.subnet.prefix_len(),
        first: range.first,
        last: range.last,
        excluded: BTreeSet::new(),
        later: BTreeMap::new(),
        others: BTreeMap::new(),
        settled_us: 0,
        peers: BTreeSet::new(),
        relays_only: false,
        guests: None,
        gateway: Some(range.gateway),
        dns: Vec::new(),
        ntp: Vec::new(),
        domain: None,
        lease_seconds,
        boot_base_url: format!("http://{}", boot_address(address, boot)),
        observe: false,
        trusted_circuits: false,
        onie: None,
        server_id: address,
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::rack::RackMachine;
    use stdx::net::InterfaceAddress;

    use super::*;
    use crate::dhcp::config::Giver;
    use crate::testing::{name, rack};

    fn own() -> NodeName {
        name("n2")
    }

    fn interface(name: &str, address: [u8; 4], up: bool) -> Interface {
        Interface {
            name: name.to_owned(),
            index: 1,
            mac: None,
            addresses: vec![InterfaceAddress { address: address.into(), prefix_len: 26 }],
            up,
            loopback: name == "lo",
        }
    }

    fn boot() -> SocketAddr {
        "0.0.0.0:10080".parse().unwrap()
    }

    #[test]
    fn interfaces_in_a_range_are_served() {
        let interfaces = [
            interface("lo", [127, 0, 0, 1], true),
            interface("eth0", [192, 0, 2, 1], true),
            interface("rack0", [10, 69, 0, 3], true),
            interface("down0", [10, 69, 0, 5], false),
        ];
        let mut document = rack(0, 1);
        // A machine that was given an address of the range by hand.
        document.machines[0].addresses.push("10.69.0.40".parse().unwrap());
        let compiled = compile(&[Arc::new(document)], &places(&interfaces, &[]), boot(), &own());
        let address = Ipv4Addr::new(10, 69, 0, 3);
        let place = Listener::Interface { name: "rack0".to_owned(), address };
        assert_eq!(compiled.places, [place].into());
        assert_eq!(compiled.config.check(), Ok(()));
        let [range] = compiled.config.ranges.as_slice() else { panic!() };
        assert_eq!((range.interface_address, range.server_id), (address, address));
        assert_eq!(range.boot_base_url, "http://10.69.0.3:10080");
        let at: SocketAddr = "10.69.0.3:10080".parse().unwrap();
        assert_eq!(compiled.boot, [(0, vec![at])].into());
        assert_eq!(range.gateway, Some(Ipv4Addr::new(10, 69, 0, 1)));
        assert_eq!(range.excluded, [Ipv4Addr::new(10, 69, 0, 40)].into());
        assert_eq!(range.addresses().count(), 30);
    }

    #[test]
    fn an_agent_leases_its_own_parts() {
        let interfaces = [interface("rack0", [10, 69, 0, 3], true)];
        let mut document = rack(0, 1);
        let part = |owner: &str, from: i64| Part {
            owner: Some(owner.parse().unwrap()),
            leaving: None,
            from: Timestamp::from_micros(from),
        };
        let hour = 3_600_000_000;
        document.parts = vec![part("n2", 0), part("n3", hour), part("n2", 77), Part::default()];
        let places = places(&interfaces, &[]);
        let compiled = compile(&[Arc::new(document)], &places, boot(), &own());
        let range = &compiled.config.ranges[0];
        let begins = 77 + CLOCKS_DIFFER_US;
        let ours = range.addresses().filter(|address| range.is_ours(*address, begins));
        let leased: Vec<u8> = ours.map(|address| address.octets()[3]).collect();
        assert_eq!(leased, [32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62]);
        let now = |now| range.addresses().filter(|address| range.is_ours(*address, now)).count();
        assert_eq!((now(begins - 1), now(begins)), (8, 16));
        let of_another = Ipv4Addr::new(10, 69, 0, 33);
        assert_eq!(range.seconds_of(of_another, hour / 2), Some(1_800), "until that one leases it");
        assert_eq!(range.seconds_of(of_another, hour - 1), None);
        assert_eq!(range.seconds_of(of_another, hour), Some(3_600), "told of, it may be renewed");
        let moving = Ipv4Addr::new(10, 69, 0, 35);
        assert_eq!((range.giver(moving, hour), range.seconds_of(moving, 0)), (Giver::Nobody, None));
        assert!(range.leases(moving), "its leases are known on its way to another agent");
    }

    #[test]
    fn addresses_are_kept_for_machines_whose_cards_are_known() {
        let interfaces = [interface("rack0", [10, 69, 0, 3], true)];
        let places = places(&interfaces, &[]);
        let max = |machines: u8, with_cards: u8, parts: Vec<Part>| {
            let mut document = rack(0, 1);
            let one = document.machines.remove(0);
            document.machines.extend((0..machines).map(|number| {
                let mac = (number < with_cards).then(|| MacAddress::new([2, 0, 0, 0, 0, number]));
                RackMachine { mac: mac.into_iter().collect(), addresses: Vec::new(), ..one.clone() }
            }));
            document.parts = parts;
            let compiled = compile(&[Arc::new(document)], &places, boot(), &own());
            let range = &compiled.config.ranges[0];
            let told = &compiled.served[0];
            let rules = range.guests.as_ref();
            (
                (told.addresses, told.own),
                rules.map(|rules| (rules.addresses_max, rules.known.len())),
            )
        };
        let half = || {
            let part = |owner: &str| Part { owner: Some(name(owner)), ..Part::default() };
            vec![part("n2"), part("n3")]
        };
        for (machines, with_cards, parts, expected) in [
            (28, 0, Vec::new(), ((31, 31), None)),
            (28, 1, Vec::new(), ((31, 31), Some((30, 1)))),
            (28, 28, Vec::new(), ((31, 31), Some((3, 28)))),
            (200, 200, Vec::new(), ((31, 31), Some((3, 200)))),
            (28, 28, half(), ((31, 16), Some((2, 28)))),
        ] {
            assert_eq!(max(machines, with_cards, parts), expected, "{machines} {with_cards}");
        }
    }

    #[test]
    fn named_addresses_serve_relays_and_nothing_else() {
        let interfaces = [interface("rack0", [10, 69, 0, 3], true)];
        let named = Ipv4Addr::new(10, 69, 0, 9);
        let places = places(&interfaces, &[named]);
        let boot = "10.69.0.9:8080".parse().unwrap();
        let compiled = compile(&[Arc::new(rack(0, 1))], &places, boot, &own());
        assert_eq!(compiled.places, [Listener::Address(named)].into());
        assert_eq!(compiled.config.ranges[0].boot_base_url, "http://10.69.0.9:8080");
    }

    #[test]
    fn a_rack_without_an_interface_here_is_not_served() {
        let interfaces = [interface("eth0", [192, 0, 2, 1], true)];
        let compiled = compile(&[Arc::new(rack(0, 1))], &places(&interfaces, &[]), boot(), &own());
        let unserved = compiled.unserved.clone();
        assert_eq!(compiled, Compiled { unserved, ..Compiled::default() });
        assert_eq!(compiled.unserved.len(), rack(0, 1).ranges.len());
    }
}
