//! Core: the kinds of links, and what each of them has.

mod kind;
mod name;
mod tuning;
mod words;

use std::net::IpAddr;

use crate::MacAddress;

use super::address::{Address, Dns, Route};
pub use name::LinkName;
pub use tuning::{BondOption, BondOptionNames, Tuning};
pub use words::Word;
pub use words::{AdSelect, BondMode, FailOverMac, HashPolicy, LacpRate, MacvlanMode};

/// An interface and what lies on it.
///
/// A field that is `None` leaves the host's value alone. Lists are complete: an address that is not
/// listed is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub name: LinkName,
    pub kind: Kind,
    /// The address that it is given. A card keeps its permanent one besides.
    pub mac: Option<MacAddress>,
    /// The largest packet, in bytes.
    pub mtu: Option<u32>,
    pub up: bool,
    /// Whether it asks for an IPv4 address by DHCP. The distribution's client asks.
    pub dhcp4: bool,
    /// Whether it asks for an IPv6 address by DHCP.
    pub dhcp6: bool,
    /// Its static addresses.
    pub addresses: Vec<Address>,
    /// The static routes through it.
    pub routes: Vec<Route>,
    /// The name servers that are asked through it.
    pub dns: Dns,
}

/// The kind of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A card, or any other device that is there without being asked for.
    Ethernet {
        /// The address by which the card is found. The current address would not do: members of a
        /// bond share theirs.
        permanent_mac: Option<MacAddress>,
    },
    /// Several links as one.
    Bond(Bond),
    /// A VLAN of another link.
    Vlan {
        /// 1 to 4094.
        id: u16,
        /// The link that carries it.
        parent: LinkName,
    },
    /// A Linux bridge.
    Bridge {
        /// Its ports.
        members: Vec<LinkName>,
        /// Whether it speaks the spanning tree protocol.
        stp: Option<bool>,
    },
    /// Another address of a link.
    Macvlan {
        parent: LinkName,
        /// Who hears whom.
        mode: MacvlanMode,
    },
    /// A tunnel over UDP.
    Vxlan(Vxlan),
    /// A link that leads nowhere.
    Dummy,
    /// A bridge of Open vSwitch, which only files can ask for.
    OvsBridge {
        /// Its ports.
        members: Vec<LinkName>,
        /// The port whose address it takes.
        primary: Option<LinkName>,
    },
    /// A bond of Open vSwitch, which is always a port of one of its bridges.
    OvsBond {
        members: Vec<LinkName>,
        /// The link that is used first.
        primary: Option<LinkName>,
        /// Further options, as `ovs_options` of os-net-config has them.
        options: Option<String>,
    },
}

/// Several links as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bond {
    pub members: Vec<LinkName>,
    /// How they share the work.
    pub mode: BondMode,
    /// How often members are looked at, in milliseconds.
    pub miimon_ms: Option<u32>,
    /// How often partners of 802.3ad speak.
    pub lacp_rate: Option<LacpRate>,
    /// The fields of a packet that choose its member.
    pub xmit_hash_policy: Option<HashPolicy>,
    /// The member that is used first, with `active-backup`.
    pub primary: Option<LinkName>,
    /// How it watches its members, beyond `miimon_ms`.
    pub tuning: Tuning,
}

/// A tunnel over UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    /// The identifier of the network, 0 to 16777215.
    pub vni: u32,
    /// The link below it.
    pub parent: Option<LinkName>,
    /// The address that it sends from.
    pub local: Option<IpAddr>,
    /// The other end, or a multicast group.
    pub remote: Option<IpAddr>,
    /// The UDP port.
    pub port: u16,
}

/// The port that IANA gave to VXLAN; Linux has another one for want of it.
pub const VXLAN_PORT: u16 = 4789;

impl Link {
    /// A link of that kind: up, with nothing on it.
    pub fn new(name: LinkName, kind: Kind) -> Self {
        Self {
            name,
            kind,
            mac: None,
            mtu: None,
            up: true,
            dhcp4: false,
            dhcp6: false,
            addresses: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
        }
    }
}

impl Bond {
    /// The member that is used first; other modes have none.
    pub fn working_primary(&self) -> Option<&LinkName> {
        self.primary.as_ref().filter(|_| self.mode == BondMode::ActiveBackup)
    }
}
