//! Core: what is wrong with a network, by field.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::{DNS_SERVERS_MAX, IpRange, Network, RANGES_MAX, SUBNETS_MAX, Subnet, range};

/// Sizes of packets that IP allows: RFC 791 section 3.2 has 576 as what every host takes.
const MTU: RangeInclusive<u16> = 576..=u16::MAX;
/// Smallest packet size of IPv6 (RFC 8200 section 5).
const MTU_IPV6_MIN: u16 = 1_280;
/// VLANs of IEEE 802.1Q; 0 and 4,095 are reserved.
const VLANS: RangeInclusive<u16> = 1..=4_094;
/// The first of the addresses that each link has for itself (RFC 4291 section 2.5.6).
const LINK_LOCAL: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0));

/// A fault of a network: the field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct NetworkFault {
    /// The field, such as `subnets[0].pools[1]`.
    pub field: String,
    /// The fault, and the value that is wanted.
    pub why: String,
}

impl NetworkFault {
    fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

impl Network {
    /// The same with reserved ranges in order, and single addresses that follow each other as one pool.
    pub fn normalized(mut self) -> Self {
        for subnet in &mut self.subnets {
            subnet.reserved = range::merged(std::mem::take(&mut subnet.reserved));
            let pools = std::mem::take(&mut subnet.pools);
            for pool in pools {
                match subnet.pools.last_mut() {
                    Some(last) if range::next(last.last()) == Some(pool.first()) => {
                        *last = IpRange::new(last.first(), pool.last()).unwrap_or(pool);
                    }
                    _ => subnet.pools.push(pool),
                }
            }
        }
        self
    }

    /// Checks what can be told from the network alone.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), NetworkFault> {
        let wrong = |field: &str, why: String| Err(NetworkFault::new(field, why));
        if self.subnets.is_empty() {
            return wrong("subnets", "a network needs at least one".to_owned());
        }
        if self.subnets.len() > SUBNETS_MAX {
            return wrong("subnets", format!("at most {SUBNETS_MAX} are taken"));
        }
        if self.dns_servers.len() > DNS_SERVERS_MAX {
            return wrong("dns_servers", format!("at most {DNS_SERVERS_MAX} are taken"));
        }
        if let Some(address) = self.dns_servers.iter().find(|address| is_of_no_host(**address)) {
            return wrong("dns_servers", format!("{address} is no address of a host"));
        }
        if let Some(vlan) = self.vlan.filter(|vlan| !VLANS.contains(vlan)) {
            return wrong(
                "vlan",
                format!("{vlan} is none of {} to {}", VLANS.start(), VLANS.end()),
            );
        }
        let has_ipv6 = self.subnets.iter().any(|subnet| !subnet.is_ipv4());
        let least = if has_ipv6 { MTU_IPV6_MIN } else { *MTU.start() };
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu < least) {
            return wrong("mtu", format!("{mtu} is none of {least} to {}", MTU.end()));
        }
        if let Some(prefix) = self.mac_prefix.as_deref().filter(|prefix| !is_mac_prefix(prefix)) {
            return wrong(
                "mac_prefix",
                format!("`{prefix}` must be three bytes such as `aa:00:55`"),
            );
        }
        for (number, subnet) in self.subnets.iter().enumerate() {
            subnet.check().map_err(|fault| {
                NetworkFault::new(format!("subnets[{number}].{}", fault.field), fault.why)
            })?;
            let before = self.subnets.iter().take(number);
            if let Some(other) = before.into_iter().find(|other| other.all().meets(subnet.all())) {
                let why = format!("{} overlaps {}", subnet.prefix, other.prefix);
                return wrong(&format!("subnets[{number}].prefix"), why);
            }
        }
        Ok(())
    }
}

impl Subnet {
    fn check(&self) -> Result<(), NetworkFault> {
        let wrong = |field: String, why: String| Err(NetworkFault::new(field, why));
        if self.prefix.trunc() != self.prefix {
            let why = format!("{} has host bits set; write {}", self.prefix, self.prefix.trunc());
            return wrong("prefix".to_owned(), why);
        }
        let ends = [self.prefix.network(), self.prefix.broadcast()];
        if ends.into_iter().any(is_of_no_host) || self.prefix.contains(&LINK_LOCAL) {
            return wrong("prefix".to_owned(), format!("hosts cannot use {}", self.prefix));
        }
        if let Some(gateway) = self.gateway
            && !self.hosts().contains(gateway)
        {
            let why = format!("{gateway} is no address of a host in {}", self.prefix);
            return wrong("gateway".to_owned(), why);
        }
        for (field, ranges) in [("pools", &self.pools), ("reserved", &self.reserved)] {
            if ranges.len() > RANGES_MAX {
                return wrong(field.to_owned(), format!("at most {RANGES_MAX} ranges are taken"));
            }
            for (number, range) in ranges.iter().enumerate() {
                if !(self.all().contains(range.first()) && self.all().contains(range.last())) {
                    let why = format!("{range} is not within {}", self.prefix);
                    return wrong(format!("{field}[{number}]"), why);
                }
            }
        }
        let mut sorted: Vec<(IpRange, usize)> =
            self.pools.iter().enumerate().map(|(number, pool)| (*pool, number)).collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            let [(one, _), (other, number)] = pair else { continue };
            if one.meets(*other) {
                return wrong(format!("pools[{number}]"), format!("{other} overlaps {one}"));
            }
        }
        if let Some((number, pool)) = self
            .pools
            .iter()
            .enumerate()
            .find(|(_, pool)| pool.count() == 1 && self.is_blocked(pool.first()))
        {
            let why = format!(
                "no claim can ever have {pool}: it is the gateway, reserved, or of no host"
            );
            return wrong(format!("pools[{number}]"), why);
        }
        self.check_pre_allocated()
    }

    fn check_pre_allocated(&self) -> Result<(), NetworkFault> {
        let wrong = |why: String| Err(NetworkFault::new("pre_allocated", why));
        if self.pre_allocated.len() > RANGES_MAX {
            return wrong(format!("at most {RANGES_MAX} addresses are taken"));
        }
        let mut owners = std::collections::BTreeSet::new();
        for (address, owner) in &self.pre_allocated {
            if !self.hosts().contains(*address) {
                return wrong(format!(
                    "{address} of {owner} is no address of a host in {}",
                    self.prefix
                ));
            }
            if self.gateway == Some(*address) {
                return wrong(format!("{address} of {owner} is the gateway"));
            }
            if !owners.insert(owner) {
                return wrong(format!(
                    "{owner} has two addresses of {}; one can be kept",
                    self.prefix
                ));
            }
        }
        Ok(())
    }

    /// Whether a pool of this one address gives nothing.
    fn is_blocked(&self, address: IpAddr) -> bool {
        !self.hosts().contains(address)
            || self.gateway == Some(address)
            || self.reserved.iter().any(|range| range.contains(address))
    }
}

/// Whether no host of a network can have an address.
fn is_of_no_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            first == 0 || first == 127 || first >= 224
        }
        IpAddr::V6(address) => {
            address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some()
        }
    }
}

/// Three bytes, of a card of one host (IEEE 802: the lowest bit of the first byte is for groups).
fn is_mac_prefix(text: &str) -> bool {
    let bytes: Vec<&str> = text.split(':').collect();
    let byte = |text: &&str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let first = bytes.first().and_then(|byte| u8::from_str_radix(byte, 16).ok());
    bytes.len() == 3 && bytes.iter().all(byte) && first.is_some_and(|byte| byte & 1 == 0)
}

#[cfg(test)]
mod tests;
