//! Core: opcodes on networks and claims. Opcodes that Ganeti has take its parameters, and ours beside
//! them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Word;
use crate::network::{IpRange, NicMode, Owner, Prefix, Strategy, Subnet};

/// Parameters of `OP_NETWORK_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkAdd {
    /// Its name.
    pub network_name: Word,
    /// The IPv4 network; one of both families is needed.
    #[serde(default)]
    pub network: Option<Prefix>,
    /// Its router.
    #[serde(default)]
    pub gateway: Option<IpAddr>,
    /// The IPv6 network.
    #[serde(default)]
    pub network6: Option<Prefix>,
    /// Its router.
    #[serde(default)]
    pub gateway6: Option<IpAddr>,
    /// First three bytes of Ethernet addresses of instances.
    #[serde(default)]
    pub mac_prefix: Option<String>,
    /// Addresses never to give out.
    #[serde(default)]
    pub add_reserved_ips: Option<Vec<IpRange>>,
    /// Taken for Ganeti's clients, without effect: addresses of nodes are never given out.
    #[serde(default = "yes")]
    pub conflicts_check: bool,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Addresses to give out, in this order; without it all of the IPv4 network, as in Ganeti, and where
    /// there is none, of the IPv6 network.
    #[serde(default)]
    pub pools: Option<Vec<IpRange>>,
    /// Further subnets, with their routers; pools and reserved addresses may lie in them.
    #[serde(default)]
    pub further: BTreeMap<Prefix, Option<IpAddr>>,
    /// Addresses kept for owners.
    #[serde(default)]
    pub pre_allocated: BTreeMap<Owner, IpAddr>,
    /// What resolves names.
    #[serde(default)]
    pub dns_servers: Vec<IpAddr>,
    /// Largest packet in bytes.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// Its VLAN, 1 to 4,094.
    #[serde(default)]
    pub vlan: Option<u16>,
    /// Which free address is given.
    #[serde(default)]
    pub strategy: Strategy,
}

const fn yes() -> bool {
    true
}

impl NetworkAdd {
    /// The subnets that it names: that of IPv4, that of IPv6, and further ones.
    ///
    /// # Errors
    /// There is none, or an address is of the other family than its field.
    pub fn subnets(&self) -> Result<Vec<Subnet>, String> {
        let mut subnets = Vec::new();
        for (field, is_ipv4, prefix, gateway) in [
            ("network", true, self.network, self.gateway),
            ("network6", false, self.network6, self.gateway6),
        ] {
            let Some(Prefix(prefix)) = prefix else {
                if gateway.is_some() {
                    return Err(format!("a gateway is given, and no {field}"));
                }
                continue;
            };
            let other = gateway.filter(|gateway| gateway.is_ipv4() != is_ipv4);
            if prefix.addr().is_ipv4() != is_ipv4 {
                return Err(format!("{field}: {prefix} is of the other family"));
            }
            if let Some(gateway) = other {
                return Err(format!("the gateway of {field}, {gateway}, is of the other family"));
            }
            subnets.push(Subnet::new(prefix, gateway));
        }
        let further = self.further.iter().map(|(prefix, gateway)| Subnet::new(prefix.0, *gateway));
        subnets.extend(further);
        if subnets.is_empty() {
            return Err(
                "network: it is missing; a network has addresses of one family at least".to_owned()
            );
        }
        Ok(subnets)
    }
}

/// Parameters of `OP_NETWORK_SET_PARAMS`. A parameter that is null stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSetParams {
    /// Its name.
    pub network_name: String,
    /// The router of the IPv4 network; `none` for no router.
    pub gateway: Option<OrNone<IpAddr>>,
    /// The IPv6 network; `none` removes it.
    pub network6: Option<OrNone<Prefix>>,
    /// Its router; `none` for no router.
    pub gateway6: Option<OrNone<IpAddr>>,
    /// First three bytes of Ethernet addresses of instances; `none` for those of the cluster.
    pub mac_prefix: Option<String>,
    /// Further addresses never to give out.
    pub add_reserved_ips: Option<Vec<IpRange>>,
    /// Addresses that are reserved no longer.
    pub remove_reserved_ips: Option<Vec<IpRange>>,
    /// Addresses to give out, in place of those that there are.
    pub pools: Option<Vec<IpRange>>,
    /// Addresses to keep for owners; null ends that.
    pub pre_allocated: BTreeMap<Owner, Option<IpAddr>>,
    /// The name servers, in place of the earlier ones.
    pub dns_servers: Option<Vec<IpAddr>>,
    /// Largest packet in bytes; `none` for the interface's own.
    pub mtu: Option<OrNone<u16>>,
    /// Its VLAN; `none` for none.
    pub vlan: Option<OrNone<u16>>,
    /// Which free address is given.
    pub strategy: Option<Strategy>,
    /// The `serial_no` that the network must have still; null changes it whatever it has.
    pub if_serial_no: Option<u64>,
}

/// A new value, or the word `none` for no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OrNone<T> {
    /// A value.
    Some(T),
    /// No value.
    None(NoneWord),
}

/// The word `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoneWord {
    /// It.
    None,
}

impl<T> OrNone<T> {
    /// The value, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Some(value) => Some(value),
            Self::None(_) => None,
        }
    }
}

impl<T: std::str::FromStr> std::str::FromStr for OrNone<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "none" {
            return Ok(Self::None(NoneWord::None));
        }
        text.parse().map(Self::Some)
    }
}

/// Parameters of `OP_NETWORK_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRemove {
    /// Its name.
    pub network_name: String,
    /// Also where claims are alive: they go with it.
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `OP_NETWORK_CONNECT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConnect {
    /// The node group.
    pub group_name: String,
    /// The network.
    pub network_name: String,
    /// How its nodes reach it.
    pub network_mode: NicMode,
    /// By which bridge or routing table.
    pub network_link: Word,
    /// The VLAN within an Open vSwitch bridge.
    #[serde(default)]
    pub network_vlan: String,
    /// Unused: there are no instances that could conflict.
    #[serde(default = "yes")]
    pub conflicts_check: bool,
}

/// Parameters of `OP_NETWORK_DISCONNECT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkDisconnect {
    /// The node group.
    pub group_name: String,
    /// The network.
    pub network_name: String,
}

/// Parameters of `OP_NETWORK_CLAIM`: all claims are made, or none. A claim that is there already is a
/// success, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkClaim {
    /// The claims; at most [`CLAIMS_MAX`].
    pub claims: Vec<ClaimSpec>,
}

/// Claims of one job: a large hall, and one commit.
pub const CLAIMS_MAX: usize = 10_000;

/// A claim to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// The network.
    pub network: Word,
    /// Who claims.
    pub owner: Owner,
    /// The address that is wanted; null takes one of the pools.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// Parameters of `OP_NETWORK_RELEASE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRelease {
    /// The network.
    pub network_name: Word,
    /// Whose claim ends.
    pub owner: Owner,
}

/// Parameters of `OP_NETWORK_TEMPLATE_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTemplateAdd {
    /// Its name; machines use the one that has the name of their role.
    pub template_name: Word,
    /// The text, at most [`TEXT_BYTES_MAX`](crate::network::template::TEXT_BYTES_MAX).
    pub text: String,
}

/// Parameters of `OP_NETWORK_TEMPLATE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTemplateRemove {
    /// Its name.
    pub template_name: Word,
    /// Which version; null removes all. Refused while a machine has it.
    #[serde(default)]
    pub version: Option<u32>,
}

/// Parameters of `OP_MACHINE_REAPPLY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineReapply {
    /// The machine, which gets the newest version of the network template of its role.
    pub serial: String,
}

impl super::common::Summary for Word {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl super::common::Summary for Vec<ClaimSpec> {
    fn text(&self) -> String {
        match self.as_slice() {
            [one] => format!("{}/{}", one.network, one.owner),
            all => format!("{} claims", all.len()),
        }
    }
}
