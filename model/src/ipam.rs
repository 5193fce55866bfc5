//! Core: addresses by formula, from a machine's rack and index (sabakan's specification, "IP address
//! management"). It also has the range of each rack that DHCP may lease from.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::name::BOOT_ROLE;
use crate::range::{OutOfRange, ranges};

mod check;
mod ipv6;

/// The document `ipam`: the rules by which machines get addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IpamConfig {
    /// Most machines of a rack, without its boot machine; 1 to 65,531.
    pub max_nodes_in_rack: u32,
    /// Network of the machines' addresses.
    pub node_ipv4_pool: Ipv4Net,
    /// Added to the pool's first address; 0.0.0.0 where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ipv4_offset: Option<Ipv4Addr>,
    /// Size of one range, in bits; 3 to 16.
    pub node_ipv4_range_size: u8,
    /// Prefix length that machines use within a range; 8 to 29.
    pub node_ipv4_range_mask: u8,
    /// Addresses of each machine, 1 to 64; each lies in a range of its own.
    pub node_ip_per_node: u32,
    /// Index of the boot machine, 1 to 65,531; the others follow it.
    pub node_index_offset: u32,
    /// Place of the gateway in a range, 1 to 65,534; 1 where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_gateway_offset: Option<u32>,
    /// Network of the management controllers' addresses.
    pub bmc_ipv4_pool: Ipv4Net,
    /// Added to the pool's first address. The document's own examples need 0.0.1.0 here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc_ipv4_offset: Option<Ipv4Addr>,
    /// Size of one range of controllers, in bits; 2 to 16.
    pub bmc_ipv4_range_size: u8,
    /// Prefix length that controllers use; 8 to 30.
    pub bmc_ipv4_range_mask: u8,
    /// Place of the controllers' gateway, 1 to 65,534; 1 where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc_ipv4_gateway_offset: Option<u32>,
    /// Pool of IPv6 addresses of machines. Each range of IPv4 addresses has a network of 64 bits, in the
    /// same order; the index of a machine is its address there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ipv6_pool: Option<Ipv6Net>,
    /// The same for controllers: one network for each rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc_ipv6_pool: Option<Ipv6Net>,
}

// A range of 16 bits has 65,536 addresses: its first, an index for each machine, one lease, its last.
ranges! {
    IpamConfig {
        max_nodes_in_rack "max-nodes-in-rack": 1 to 65_531,
        node_ipv4_range_size "node-ipv4-range-size": 3 to 16,
        node_ipv4_range_mask "node-ipv4-range-mask": 8 to 29,
        node_ip_per_node "node-ip-per-node": 1 to 64,
        node_index_offset "node-index-offset": 1 to 65_531,
        node_gateway_offset "node-gateway-offset": 1 to 65_534,
        bmc_ipv4_range_size "bmc-ipv4-range-size": 2 to 16,
        bmc_ipv4_range_mask "bmc-ipv4-range-mask": 8 to 30,
        bmc_ipv4_gateway_offset "bmc-ipv4-gateway-offset": 1 to 65_534,
    }
}

/// Rules that cannot work, or a question beyond them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IpamError {
    /// A number is outside its range.
    #[error(transparent)]
    Number(#[from] OutOfRange),
    /// A number does not fit the other ones.
    #[error("{field} is {value}; it must be {wanted}")]
    OutOfRange {
        /// The field's name in the document.
        field: &'static str,
        /// What was given.
        value: u64,
        /// What is possible.
        wanted: String,
    },
    /// A pool is written with an address that is not its first.
    #[error("{field} {value} has host bits set; write {trimmed}")]
    HostBits {
        /// The field's name in the document.
        field: &'static str,
        /// What was given.
        value: Ipv4Net,
        /// What was meant.
        trimmed: Ipv4Net,
    },
    /// Both pools share addresses.
    #[error("node-ipv4-pool {node} and bmc-ipv4-pool {bmc} overlap")]
    Overlap {
        /// Pool of the machines.
        node: Ipv4Net,
        /// Pool of the controllers.
        bmc: Ipv4Net,
    },
    /// A pool without room for any rack.
    #[error(
        "{field} {pool} is too small: it has {room} addresses behind its offset, and each rack takes \
         {per_rack} ({formula}); make the pool larger or the ranges smaller"
    )]
    Pool {
        /// The pool's field.
        field: &'static str,
        pool: Ipv4Net,
        /// Addresses that can be given out.
        room: u64,
        /// Addresses of each rack.
        per_rack: u64,
        /// The fields that make that number.
        formula: &'static str,
    },
    /// A rack beyond the pool.
    #[error(
        "rack {rack} is beyond {field} {pool}, which has room for {racks}; use a lower rack \
         number or a larger pool"
    )]
    Rack {
        rack: u32,
        /// The pool's field.
        field: &'static str,
        pool: Ipv4Net,
        /// The racks that fit.
        racks: String,
    },
    /// A pool in a network that hosts cannot use.
    #[error("{field} {pool} meets {network}, {why}; use another network")]
    Special {
        /// The pool's field.
        field: &'static str,
        pool: Ipv4Net,
        /// The network that it meets.
        network: Ipv4Net,
        /// The use of that network.
        why: &'static str,
    },
    /// An address that no host can have.
    #[error("{who} of rack {rack} would get {address}, {why}; change {fields}")]
    Unusable {
        /// The host that would get it.
        who: String,
        rack: u32,
        address: Ipv4Addr,
        /// The fault of the address.
        why: String,
        /// The fields that lead to it.
        fields: &'static str,
    },
    /// A gateway that cannot be one.
    #[error("{field} {offset} puts the gateway of rack {rack} at {address}, {why}")]
    Gateway {
        field: &'static str,
        offset: u64,
        /// The first rack that has it.
        rack: u32,
        address: Ipv4Addr,
        /// The fault of the address.
        why: String,
    },
    /// A pool of IPv6 addresses cannot work.
    #[error("{field} {pool} {why}")]
    Ipv6Pool {
        field: &'static str,
        /// Its value.
        pool: Ipv6Net,
        /// The fault and its remedy.
        why: String,
    },
    /// An index beyond the rack.
    #[error("index {index} is none of {first} to {last}")]
    Index {
        index: u32,
        /// The boot machine's.
        first: u32,
        last: u32,
    },
    /// The rack has a boot machine already.
    #[error("the boot machine of rack {rack} is already registered")]
    BootTaken { rack: u32 },
    /// The rack has no free index.
    #[error("rack {rack} is full: it has {max} machines")]
    RackFull {
        rack: u32,
        /// How many it may have.
        max: u32,
    },
}

/// Addresses of one range that DHCP may lease, with what a client must know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRange {
    /// The network of the range, with the mask that clients get.
    pub subnet: Ipv4Net,
    /// First address to lease.
    pub first: Ipv4Addr,
    /// Last address to lease.
    pub last: Ipv4Addr,
    /// The router.
    pub gateway: Ipv4Addr,
}

impl IpamConfig {
    /// The pools of which machines and controllers get addresses, each by its field.
    pub fn pools(&self) -> Vec<(&'static str, IpNet)> {
        let pools = [
            ("node-ipv4-pool", Some(IpNet::V4(self.node_ipv4_pool))),
            ("bmc-ipv4-pool", Some(IpNet::V4(self.bmc_ipv4_pool))),
            ("node-ipv6-pool", self.node_ipv6_pool.map(IpNet::V6)),
            ("bmc-ipv6-pool", self.bmc_ipv6_pool.map(IpNet::V6)),
        ];
        pools.into_iter().filter_map(|(field, pool)| Some((field, pool?))).collect()
    }

    /// The highest index that a machine can get.
    pub fn last_index(&self) -> u32 {
        self.node_index_offset.saturating_add(self.max_nodes_in_rack)
    }

    /// Index for a new machine of `role` in `rack`, where `taken` indices are in use: the first
    /// one for the boot machine, the lowest free one for others.
    ///
    /// # Errors
    /// The rack has its boot machine, or no free index.
    pub fn assign_index(
        &self,
        rack: u32,
        role: &str,
        taken: &BTreeSet<u32>,
    ) -> Result<u32, IpamError> {
        if role == BOOT_ROLE {
            let index = self.node_index_offset;
            return if taken.contains(&index) {
                Err(IpamError::BootTaken { rack })
            } else {
                Ok(index)
            };
        }
        let mut free = self.node_index_offset + 1;
        for &index in taken.range(free..).take_while(|&&index| index <= self.last_index()) {
            if index > free {
                break;
            }
            free = index + 1;
        }
        let full = IpamError::RackFull { rack, max: self.max_nodes_in_rack };
        (free <= self.last_index()).then_some(free).ok_or(full)
    }

    /// Addresses of the operating system of the machine `index` in `rack`, one an interface.
    ///
    /// # Errors
    /// A rack beyond the pool, or an index that no machine can have.
    pub fn node_addresses(&self, rack: u32, index: u32) -> Result<Vec<Ipv4Addr>, IpamError> {
        self.check_index(index)?;
        let base = self.node_base(rack)?;
        let range = size(self.node_ipv4_range_size);
        (0..u64::from(self.node_ip_per_node))
            .map(|i| base + u64::from(index) + i * range)
            .map(|number| self.nodes().usable(rack, index, number))
            .collect()
    }

    /// Address of the management controller of the machine `index` in `rack`.
    ///
    /// # Errors
    /// A rack beyond the pool, or an index that no machine can have.
    pub fn bmc_address(&self, rack: u32, index: u32) -> Result<Ipv4Addr, IpamError> {
        self.check_index(index)?;
        self.controllers().usable(rack, index, self.bmc_base(rack)? + u64::from(index))
    }

    /// The lease ranges of `rack`, one an interface, in their order: what lies behind the last
    /// index, up to the address before the last.
    ///
    /// # Errors
    /// A rack beyond the pool.
    pub fn lease_ranges(&self, rack: u32) -> Result<Vec<LeaseRange>, IpamError> {
        let base = self.node_base(rack)?;
        let range = size(self.node_ipv4_range_size);
        let gateway_offset = u64::from(self.node_gateway_offset.unwrap_or(1));
        Ok((0..u64::from(self.node_ip_per_node))
            .map(|i| {
                let start = base + i * range;
                let subnet = Ipv4Net::new_assert(address(start), self.node_ipv4_range_mask).trunc();
                LeaseRange {
                    subnet,
                    first: address(start + u64::from(self.last_index()) + 1),
                    last: address(start + range - 2),
                    gateway: address(number(subnet.network()) + gateway_offset),
                }
            })
            .collect())
    }

    /// How many racks have room in both pools.
    pub fn racks(&self) -> u32 {
        self.nodes().racks.min(self.controllers().racks).min(self.racks_ipv6())
    }

    fn check_index(&self, index: u32) -> Result<(), IpamError> {
        let (first, last) = (self.node_index_offset, self.last_index());
        if (first..=last).contains(&index) {
            Ok(())
        } else {
            Err(IpamError::Index { index, first, last })
        }
    }

    fn node_base(&self, rack: u32) -> Result<u64, IpamError> {
        self.node_share().base(rack)
    }

    fn bmc_base(&self, rack: u32) -> Result<u64, IpamError> {
        self.bmc_share().base(rack)
    }

    fn node_share(&self) -> Share {
        Share {
            field: "node-ipv4-pool",
            pool: self.node_ipv4_pool,
            offset: self.node_ipv4_offset,
            per_rack: size(self.node_ipv4_range_size) * u64::from(self.node_ip_per_node),
            formula: "node-ip-per-node times 2 to the power of node-ipv4-range-size",
        }
    }

    fn bmc_share(&self) -> Share {
        Share {
            field: "bmc-ipv4-pool",
            pool: self.bmc_ipv4_pool,
            offset: self.bmc_ipv4_offset,
            per_rack: size(self.bmc_ipv4_range_size),
            formula: "2 to the power of bmc-ipv4-range-size",
        }
    }
}

/// A pool as racks share it.
struct Share {
    field: &'static str,
    pool: Ipv4Net,
    offset: Option<Ipv4Addr>,
    per_rack: u64,
    formula: &'static str,
}

impl Share {
    /// Addresses of the pool behind its offset.
    fn room(&self) -> u64 {
        size(32 - self.pool.prefix_len()).saturating_sub(self.offset.map_or(0, number))
    }

    /// First address of a rack's share.
    fn base(self, rack: u32) -> Result<u64, IpamError> {
        let Self { field, pool, per_rack, formula, .. } = self;
        let offset = self.offset.map_or(0, number);
        let room = self.room();
        match (room / per_rack).checked_sub(1) {
            None => Err(IpamError::Pool { field, pool, room, per_rack, formula }),
            Some(last) if u64::from(rack) > last => {
                let racks = if last == 0 {
                    "rack 0 alone".to_owned()
                } else {
                    format!("racks 0 to {last}")
                };
                Err(IpamError::Rack { rack, field, pool, racks })
            }
            Some(_) => Ok(number(pool.network()) + offset + per_rack * u64::from(rack)),
        }
    }
}

fn size(bits: u8) -> u64 {
    1 << bits
}

fn number(address: Ipv4Addr) -> u64 {
    u64::from(u32::from(address))
}

fn address(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(u32::try_from(number).expect("`base` keeps every address within its pool"))
}

#[cfg(test)]
mod tests;
