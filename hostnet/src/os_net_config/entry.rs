//! Core: one object of a file of os-net-config, with the options of all types.

use serde::Deserialize;

use crate::yaml::{flag, number, some_flag};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) addresses: Vec<Netmask>,
    #[serde(default)]
    pub(super) routes: Vec<Route>,
    #[serde(default)]
    pub(super) rules: Vec<Rule>,
    #[serde(default)]
    pub(super) dns_servers: Vec<String>,
    #[serde(default)]
    pub(super) domain: Domains,
    #[serde(default)]
    pub(super) members: Vec<Self>,
    #[serde(default, deserialize_with = "number")]
    pub(super) mtu: Option<i64>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) use_dhcp: bool,
    #[serde(default, deserialize_with = "flag")]
    pub(super) use_dhcpv6: bool,
    #[serde(default, deserialize_with = "some_flag")]
    pub(super) defroute: Option<bool>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) primary: bool,
    #[serde(default, deserialize_with = "number")]
    pub(super) vlan_id: Option<i64>,
    pub(super) device: Option<String>,
    pub(super) bonding_options: Option<String>,
    pub(super) ovs_options: Option<String>,
    pub(super) table_id: Option<i64>,
    // The program that brings the interface up; here it is always this agent.
    #[serde(default, rename = "onboot", deserialize_with = "some_flag")]
    _onboot: Option<bool>,
    #[serde(default, rename = "hotplug", deserialize_with = "some_flag")]
    _hotplug: Option<bool>,
    #[serde(default, rename = "nm_controlled", deserialize_with = "some_flag")]
    _nm_controlled: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Interface,
    Vlan,
    LinuxBond,
    LinuxBridge,
    OvsBridge,
    OvsBond,
    RouteTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Netmask {
    pub(super) ip_netmask: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    #[serde(alias = "nexthop")]
    pub(super) next_hop: String,
    #[serde(alias = "destination")]
    pub(super) ip_netmask: Option<String>,
    #[serde(default, deserialize_with = "flag")]
    pub(super) default: bool,
    pub(super) metric: Option<i64>,
    pub(super) table: Option<Table>,
    pub(super) route_options: Option<String>,
}

/// A table by its number or by the name of a `route_table`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Table {
    Number(i64),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) rule: String,
    #[serde(rename = "comment")]
    _comment: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Domains {
    One(String),
    Many(Vec<String>),
}

impl Default for Domains {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Domains {
    pub(super) fn into_list(self) -> Vec<String> {
        match self {
            Self::One(domain) => vec![domain],
            Self::Many(domains) => domains,
        }
    }
}
