//! Core: networks and their pools (Metal3's IPAM study), and which address a claim gets.
//!
//! A network has subnets; a subnet has pools, which are used up in their order. A claim holds one address
//! of each family of which the network has pools. Addresses that hosts cannot have, or that others have,
//! are never given out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, Uuid, Word};

pub mod allocate;
pub mod check;
pub mod claim;
pub mod range;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;

pub use claim::{Claim, ClaimKey, ClaimState, Owner};
pub use range::{IpRange, Prefix};
pub use template::{NetworkTemplate, TemplateKey};

/// Most subnets of a network.
pub const SUBNETS_MAX: usize = 16;
/// Most pools, and most reserved ranges, of a subnet: single addresses that follow each other are one.
pub const RANGES_MAX: usize = 4_096;
/// Most DNS servers: resolvers read three.
pub const DNS_SERVERS_MAX: usize = 8;

/// The document `networks/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: Word,
    /// Its identity through all changes.
    pub uuid: Uuid,
    /// Counts its changes, from 1.
    pub serial_no: u64,
    /// When it was made.
    pub ctime: Timestamp,
    /// When it was changed last.
    pub mtime: Timestamp,
    /// Free words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The addresses.
    pub subnets: Vec<Subnet>,
    /// What resolves names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<IpAddr>,
    /// Largest packet in bytes, 576 to 65,535; IPv6 needs 1,280.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Its VLAN, 1 to 4,094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// First three bytes of Ethernet addresses of instances in it (Ganeti's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_prefix: Option<String>,
    /// Which free address is given.
    #[serde(default)]
    pub strategy: Strategy,
    /// The node groups that it is connected to, by UUID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Connection>,
}

/// How nodes of a group reach a network (Ganeti's NIC parameters).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    pub mode: NicMode,
    /// The bridge or routing table.
    pub link: Word,
    /// The VLAN within an Open vSwitch bridge; empty for none.
    #[serde(default)]
    pub vlan: String,
}

/// How a network card of an instance is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NicMode {
    /// To a bridge of the kernel.
    Bridged,
    Routed,
    /// To a bridge of Open vSwitch.
    Openvswitch,
}

/// Addresses with one prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subnet {
    /// The network's address and the length of its prefix.
    pub prefix: IpNet,
    /// The router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Addresses to give out; those of the first pool first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<IpRange>,
    /// Addresses never to give out, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<IpRange>,
    /// Addresses that are kept for owners, whether or not pools hold them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pre_allocated: BTreeMap<IpAddr, Owner>,
}

/// Which free address is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The lowest of the first pool that has one.
    #[default]
    Sequential,
    /// An address that cannot be foretold from the owner's name.
    Random,
    /// An address that depends on the owner's name alone, as long as it is free: an owner that comes
    /// back has its address again.
    Sticky,
}

impl Network {
    /// Whether an address is kept for an owner.
    pub fn keeps_for(&self, owner: &Owner) -> bool {
        self.subnets.iter().any(|subnet| subnet.pre_allocated.values().any(|its| its == owner))
    }

    /// The subnet that an address lies in.
    pub fn subnet_of(&self, address: IpAddr) -> Option<&Subnet> {
        self.subnets.iter().find(|subnet| subnet.prefix.contains(&address))
    }

    /// The first subnet of IPv4 (`true`) or IPv6.
    pub fn subnet(&self, is_ipv4: bool) -> Option<&Subnet> {
        self.subnets.iter().find(|subnet| subnet.is_ipv4() == is_ipv4)
    }
}

impl Subnet {
    /// A subnet without pools.
    pub const fn new(prefix: IpNet, gateway: Option<IpAddr>) -> Self {
        Self {
            prefix,
            gateway,
            pools: Vec::new(),
            reserved: Vec::new(),
            pre_allocated: BTreeMap::new(),
        }
    }

    /// Whether it is one of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.prefix.addr().is_ipv4()
    }

    /// All its addresses.
    pub fn all(&self) -> IpRange {
        IpRange::new(self.prefix.network(), self.prefix.broadcast()).expect("a network is a range")
    }

    /// The addresses that hosts may have: without that of the network, which in IPv6 is any router's
    /// (RFC 4291 section 2.6.1), and without the broadcast address. A /31 and a /127 have two hosts
    /// (RFC 3021, RFC 6164), a /32 and a /128 have one.
    pub fn hosts(&self) -> IpRange {
        let all = self.all();
        let spare = self.prefix.max_prefix_len() - self.prefix.prefix_len();
        if spare < 2 {
            return all;
        }
        let first = range::next(all.first()).unwrap_or(all.first());
        let last = match self.is_ipv4() {
            true => range::previous(all.last()).unwrap_or(all.last()),
            false => all.last(),
        };
        IpRange::new(first, last).expect("four addresses have two within")
    }
}
