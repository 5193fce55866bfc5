//! Core: whether rules of addresses can work. Every range that they give is looked at.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use ipnet::Ipv4Net;

use super::{IpamConfig, IpamError, Share, address, number, size};

/// Networks without hosts (IANA's registry of special addresses), and what they are for.
const SPECIAL: [(Ipv4Addr, u8, &str); 4] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "which stands for this network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "whose packets never leave a host"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "which is for multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "which is reserved"),
];

/// Racks that numbers go to.
const RACKS_MAX: u64 = 65_536;

/// How the ranges of one pool lie.
pub(super) struct Layout {
    /// The beginning of the first range.
    base: u64,
    /// Addresses of a range.
    range: u64,
    ranges_per_rack: u64,
    /// Racks that have room.
    pub(super) racks: u32,
    /// The places of a range whose addresses are given: to machines, and by leases behind them.
    given: RangeInclusive<u64>,
    last_index: u64,
    mask: u8,
    gateway: (&'static str, u64),
    /// The kind of hosts that have the addresses.
    what: &'static str,
    /// The fields that place a range.
    fields: &'static str,
}

impl IpamConfig {
    /// Checks that the rules can work, for every rack that they have room for.
    ///
    /// Stricter than the system that the document describes. A range must have room for every index and
    /// for at least one lease, or machines of one rack would get addresses of the next.
    ///
    /// # Errors
    /// The first rule that cannot work, with what would.
    pub fn validate(&self) -> Result<(), IpamError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// All rules that cannot work. Addresses are looked at once the rules by themselves can work.
    pub fn faults(&self) -> Vec<IpamError> {
        if let Err(error) = self.check_ranges() {
            return vec![error.into()];
        }
        let mut faults = self.wrong_pools();
        faults.extend(self.wrong_sizes());
        faults.extend(self.wrong_ipv6());
        let bases = [self.node_base(0), self.bmc_base(0)];
        faults.extend(bases.into_iter().filter_map(Result::err));
        if faults.is_empty() {
            let both = [self.nodes(), self.controllers()];
            faults.extend(both.iter().filter_map(Layout::wrong_address));
            faults.extend(both.iter().filter_map(|layout| layout.wrong_gateway(&both)));
        }
        faults
    }

    pub(super) fn nodes(&self) -> Layout {
        let range = size(self.node_ipv4_range_size);
        Layout {
            range,
            ranges_per_rack: u64::from(self.node_ip_per_node),
            given: u64::from(self.node_index_offset)..=range.saturating_sub(2),
            mask: self.node_ipv4_range_mask,
            gateway: ("node-gateway-offset", u64::from(self.node_gateway_offset.unwrap_or(1))),
            what: "machine",
            fields: "node-ipv4-offset, node-ipv4-range-size or node-ipv4-range-mask",
            ..self.layout(&self.node_share())
        }
    }

    pub(super) fn controllers(&self) -> Layout {
        Layout {
            range: size(self.bmc_ipv4_range_size),
            mask: self.bmc_ipv4_range_mask,
            gateway: (
                "bmc-ipv4-gateway-offset",
                u64::from(self.bmc_ipv4_gateway_offset.unwrap_or(1)),
            ),
            what: "controller",
            fields: "bmc-ipv4-offset, bmc-ipv4-range-size or bmc-ipv4-range-mask",
            ..self.layout(&self.bmc_share())
        }
    }

    fn layout(&self, share: &Share) -> Layout {
        let last_index = u64::from(self.last_index());
        let racks = (share.room() / share.per_rack).min(RACKS_MAX);
        Layout {
            base: number(share.pool.network()) + share.offset.map_or(0, number),
            range: share.per_rack,
            ranges_per_rack: 1,
            racks: u32::try_from(racks).expect("it was just limited"),
            given: u64::from(self.node_index_offset)..=last_index,
            last_index,
            mask: 32,
            gateway: ("", 0),
            what: "",
            fields: "",
        }
    }

    fn wrong_pools(&self) -> Vec<IpamError> {
        let (node, bmc) = (self.node_ipv4_pool, self.bmc_ipv4_pool);
        let mut faults = Vec::new();
        for (field, pool) in [("node-ipv4-pool", node), ("bmc-ipv4-pool", bmc)] {
            if pool.trunc() != pool {
                faults.push(IpamError::HostBits { field, value: pool, trimmed: pool.trunc() });
            }
            for (first, length, why) in SPECIAL {
                let network = Ipv4Net::new_assert(first, length);
                if pool.contains(&network) || network.contains(&pool) {
                    faults.push(IpamError::Special { field, pool, network, why });
                }
            }
        }
        if node.contains(&bmc) || bmc.contains(&node) {
            faults.push(IpamError::Overlap { node, bmc });
        }
        faults
    }

    fn wrong_sizes(&self) -> Vec<IpamError> {
        let mut faults = Vec::new();
        let mut wrong = |field, value: u64, wanted| {
            faults.push(IpamError::OutOfRange { field, value, wanted });
        };
        let (node, bmc) = (self.node_ipv4_range_size, self.bmc_ipv4_range_size);
        for (size_field, bits, field, mask) in [
            ("node-ipv4-range-size", node, "node-ipv4-range-mask", self.node_ipv4_range_mask),
            ("bmc-ipv4-range-size", bmc, "bmc-ipv4-range-mask", self.bmc_ipv4_range_mask),
        ] {
            let longest = 32_u8.saturating_sub(bits);
            if mask > longest {
                let wanted = format!("at most {longest}, as {size_field} is {bits}");
                wrong(field, mask.into(), wanted);
            }
        }
        let last_index = u64::from(self.last_index());
        if last_index + 2 >= size(node) {
            let wanted = format!("large enough for index {last_index} and one lease behind it");
            wrong("node-ipv4-range-size", node.into(), wanted);
        }
        if last_index >= size(bmc) {
            let wanted = format!("large enough for index {last_index}");
            wrong("bmc-ipv4-range-size", bmc.into(), wanted);
        }
        faults
    }
}

impl Layout {
    fn subnet_size(&self) -> u64 {
        size(32 - self.mask)
    }

    /// First address of the network in which a host with this address is.
    fn network_of(&self, number: u64) -> u64 {
        number - number % self.subnet_size()
    }

    fn subnet(&self, network: u64) -> Ipv4Net {
        Ipv4Net::new_assert(address(network), self.mask)
    }

    /// Every range: its rack, and where it begins.
    fn ranges(&self) -> impl Iterator<Item = (u32, u64)> {
        let per_rack = self.ranges_per_rack;
        (0..self.racks).flat_map(move |rack| {
            (0..per_rack)
                .map(move |i| (rack, self.base + (u64::from(rack) * per_rack + i) * self.range))
        })
    }

    /// The address, unless it is one that no host can have.
    pub(super) fn usable(&self, rack: u32, index: u32, held: u64) -> Result<Ipv4Addr, IpamError> {
        let network = self.network_of(held);
        let place = u64::from(index);
        if held == network {
            return Err(self.unusable(rack, (place, held), "the first address", network));
        }
        if held == network + self.subnet_size() - 1 {
            return Err(self.unusable(rack, (place, held), "the broadcast address", network));
        }
        Ok(address(held))
    }

    fn unusable(&self, rack: u32, (place, held): (u64, u64), why: &str, network: u64) -> IpamError {
        let who = match place {
            place if place > self.last_index => "a lease".to_owned(),
            place => format!("the {} of index {place}", self.what),
        };
        let why = format!("{why} of {}", self.subnet(network));
        IpamError::Unusable { who, rack, address: address(held), why, fields: self.fields }
    }

    /// The first address that cannot be given. In the last rack the last machine may lack its address,
    /// where the pool ends with its network: that machine is refused, and the rules are not.
    fn wrong_address(&self) -> Option<IpamError> {
        let (first, last) = (*self.given.start(), *self.given.end());
        self.ranges().find_map(|(rack, start)| {
            let network = self.network_of(start);
            let broadcast = network + self.subnet_size() - 1;
            if broadcast > start + last || (broadcast == start + last && self.is_last(rack)) {
                return None;
            }
            // A network ends within the range.
            let place = (broadcast - start).max(first);
            let held = start + place;
            Some(match held == broadcast {
                true => self.unusable(rack, (place, held), "the broadcast address", network),
                false => self.unusable(rack, (place, held), "outside the network", network),
            })
        })
    }

    fn is_last(&self, rack: u32) -> bool {
        rack > 0 && rack + 1 == self.racks
    }

    /// The first gateway that is none, or has the address of somebody else.
    fn wrong_gateway(&self, all: &[Self]) -> Option<IpamError> {
        let (field, offset) = self.gateway;
        let mut ranges = self.ranges();
        ranges.find_map(|(rack, start)| {
            let network = self.network_of(start);
            let gateway = network + offset;
            let last = network + self.subnet_size() - 1;
            let why = if gateway > last {
                Some(format!("outside the network {}", self.subnet(network)))
            } else if gateway == last {
                Some(format!("the broadcast address of {}", self.subnet(network)))
            } else {
                all.iter().find_map(|layout| layout.holder(gateway))
            };
            let address = Ipv4Addr::from(u32::try_from(gateway).unwrap_or(u32::MAX));
            why.map(|why| IpamError::Gateway { field, offset, rack, address, why })
        })
    }

    /// The holder of the address with this number.
    fn holder(&self, number: u64) -> Option<String> {
        let behind = number.checked_sub(self.base)?;
        let (range, place) = (behind / self.range, behind % self.range);
        let rack = range / self.ranges_per_rack;
        if rack >= u64::from(self.racks) || !self.given.contains(&place) {
            return None;
        }
        Some(match place {
            place if place > self.last_index => format!("which rack {rack} leases"),
            place => format!("which is that of the {} of rack {rack}, index {place}", self.what),
        })
    }
}
