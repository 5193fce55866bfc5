//! Core: IPv6 addresses beside the IPv4 ones, by the same scheme. Each range of IPv4 addresses has a
//! network of 64 bits, and in it a machine has its index.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use super::{IpamConfig, IpamError};

/// Length of a network's prefix (RFC 4291 section 2.5.1).
const NETWORK_BITS: u8 = 64;

/// Networks that no pool may meet.
const SPECIAL: [(Ipv6Addr, u8, &str); 3] = [
    (Ipv6Addr::UNSPECIFIED, 8, "which is reserved"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 9, "whose addresses are of one link or obsolete"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "which is for multicast"),
];

impl IpamConfig {
    /// The IPv6 addresses of a machine, one for each of its interfaces; none without a pool.
    ///
    /// # Errors
    /// No machine has this index, or the pool has no room for the rack.
    pub fn node_ipv6(&self, rack: u32, index: u32) -> Result<Vec<Ipv6Addr>, IpamError> {
        self.check_index(index)?;
        let Some(pool) = self.nodes_ipv6() else { return Ok(Vec::new()) };
        (0..self.node_ip_per_node).map(|i| pool.address(rack, i, index)).collect()
    }

    /// The IPv6 address of a machine's controller; none without a pool.
    ///
    /// # Errors
    /// As [`Self::node_ipv6`].
    pub fn bmc_ipv6(&self, rack: u32, index: u32) -> Result<Option<Ipv6Addr>, IpamError> {
        self.check_index(index)?;
        self.controllers_ipv6().map(|pool| pool.address(rack, 0, index)).transpose()
    }

    /// The faults of the pools of IPv6 addresses.
    pub(super) fn wrong_ipv6(&self) -> Vec<IpamError> {
        let pools = self.pools_ipv6();
        let mut faults: Vec<_> = pools.iter().filter_map(Pool::fault).collect();
        if let [node, bmc] = pools.as_slice()
            && (node.net.contains(&bmc.net) || bmc.net.contains(&node.net))
        {
            faults.push(bmc.wrong(format!("overlaps node-ipv6-pool {}", node.net)));
        }
        faults
    }

    /// Racks for which the pools of IPv6 addresses have room.
    pub(super) fn racks_ipv6(&self) -> u32 {
        self.pools_ipv6().iter().map(Pool::racks).min().unwrap_or(u32::MAX)
    }

    fn pools_ipv6(&self) -> Vec<Pool> {
        self.nodes_ipv6().into_iter().chain(self.controllers_ipv6()).collect()
    }

    fn nodes_ipv6(&self) -> Option<Pool> {
        let per_rack = self.node_ip_per_node;
        self.node_ipv6_pool.map(|net| Pool { field: "node-ipv6-pool", net, per_rack })
    }

    fn controllers_ipv6(&self) -> Option<Pool> {
        self.bmc_ipv6_pool.map(|net| Pool { field: "bmc-ipv6-pool", net, per_rack: 1 })
    }
}

/// A pool, and how many networks of it each rack takes.
struct Pool {
    field: &'static str,
    net: Ipv6Net,
    per_rack: u32,
}

impl Pool {
    fn fault(&self) -> Option<IpamError> {
        let meets = |(first, length, why): (Ipv6Addr, u8, &str)| {
            let network = Ipv6Net::new_assert(first, length);
            let meets = self.net.contains(&network) || network.contains(&self.net);
            meets.then(|| self.wrong(format!("meets {network}, {why}; use another network")))
        };
        if self.net.trunc() != self.net {
            return Some(self.wrong(format!("has host bits set; write {}", self.net.trunc())));
        }
        if self.net.prefix_len() > NETWORK_BITS || self.racks() == 0 {
            let wanted = format!(
                "is too small: each rack takes {} networks of {NETWORK_BITS} bits; use a shorter prefix",
                self.per_rack
            );
            return Some(self.wrong(wanted));
        }
        SPECIAL.into_iter().find_map(meets)
    }

    fn wrong(&self, why: String) -> IpamError {
        IpamError::Ipv6Pool { field: self.field, pool: self.net, why }
    }

    fn networks(&self) -> u64 {
        let bits = NETWORK_BITS.saturating_sub(self.net.prefix_len());
        1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX)
    }

    fn racks(&self) -> u32 {
        u32::try_from(self.networks() / u64::from(self.per_rack.max(1))).unwrap_or(u32::MAX)
    }

    fn address(&self, rack: u32, range: u32, index: u32) -> Result<Ipv6Addr, IpamError> {
        if rack >= self.racks() {
            let last = self.racks().saturating_sub(1);
            return Err(self.wrong(format!("has room for racks 0 to {last}, not for rack {rack}")));
        }
        let network = u128::from(rack) * u128::from(self.per_rack) + u128::from(range);
        let first = u128::from(self.net.network());
        Ok((first + (network << NETWORK_BITS) + u128::from(index)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn with(node: &str, bmc: &str) -> IpamConfig {
        let pool = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        IpamConfig { node_ipv6_pool: pool(node), bmc_ipv6_pool: pool(bmc), ..sample() }
    }

    #[test]
    fn each_interface_has_a_network_and_each_machine_its_index() {
        let rules = with("fd00:69::/48", "fd00:72::/56");
        assert_eq!(rules.faults(), []);
        let told = |rack, index| {
            let all = rules.node_ipv6(rack, index).unwrap();
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            (all.join(" "), rules.bmc_ipv6(rack, index).unwrap().unwrap().to_string())
        };
        let zero = ("fd00:69::4 fd00:69:0:1::4 fd00:69:0:2::4", "fd00:72::4");
        assert_eq!(told(0, 4), (zero.0.to_owned(), zero.1.to_owned()));
        let two = ("fd00:69:0:6::3 fd00:69:0:7::3 fd00:69:0:8::3", "fd00:72:0:2::3");
        assert_eq!(told(2, 3), (two.0.to_owned(), two.1.to_owned()));
        assert!(rules.node_ipv6(0, 2).is_err() && rules.bmc_ipv6(256, 4).is_err());
        let none = sample();
        assert_eq!((none.node_ipv6(0, 4), none.bmc_ipv6(0, 4)), (Ok(Vec::new()), Ok(None)));
    }

    #[test]
    fn pools_that_cannot_work_are_refused() {
        for (node, bmc, why) in [
            ("fd00:69::1/48", "", "has host bits set; write fd00:69::/48"),
            ("fd00:69::/63", "", "is too small: each rack takes 3 networks"),
            ("fd00:69::/65", "", "is too small"),
            ("", "fe80::/16", "of one link"),
            ("ff05::/32", "", "multicast"),
            ("::/3", "", "reserved"),
            ("fd00::/16", "fd00:72::/48", "overlaps node-ipv6-pool fd00::/16"),
        ] {
            let faults = with(node, bmc).faults();
            let [fault] = faults.as_slice() else { panic!("{node} {bmc}: {faults:?}") };
            assert!(fault.to_string().contains(why), "{fault}");
        }
        assert_eq!(with("fd00:69::/62", "").racks(), 1);
    }
}
