//! Core: interfaces, routes, rules and name servers, as nmstate writes them.

use serde::Deserialize;

use crate::yaml::{flag, number, some_flag};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) interfaces: Vec<Interface>,
    #[serde(default)]
    pub(super) routes: Config<Vec<Route>>,
    #[serde(default, rename = "route-rules")]
    pub(super) rules: Config<Vec<Rule>>,
    #[serde(default, rename = "dns-resolver")]
    pub(super) dns: Config<Dns>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config<T: Default> {
    #[serde(default)]
    pub(super) config: T,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Dns {
    pub(super) server: Vec<String>,
    pub(super) search: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    pub(super) destination: String,
    pub(super) next_hop_interface: String,
    pub(super) next_hop_address: Option<String>,
    #[serde(default, deserialize_with = "number")]
    pub(super) metric: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    pub(super) table_id: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Rule {
    pub(super) ip_from: Option<String>,
    pub(super) ip_to: Option<String>,
    pub(super) route_table: Option<i64>,
    pub(super) priority: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Interface {
    pub(super) name: String,
    /// One without a type is there without being asked for.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) state: InterfaceState,
    pub(super) identifier: Option<Identifier>,
    pub(super) mac_address: Option<String>,
    #[serde(default, deserialize_with = "number")]
    pub(super) mtu: Option<i64>,
    pub(super) ipv4: Option<Family>,
    pub(super) ipv6: Option<Family>,

    // Settings of some types only.
    pub(super) link_aggregation: Option<Aggregation>,
    pub(super) bridge: Option<Bridge>,
    pub(super) vlan: Option<Vlan>,
    pub(super) mac_vlan: Option<MacVlan>,
    pub(super) vxlan: Option<Vxlan>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum InterfaceState {
    #[default]
    Up,
    Down,
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Identifier {
    Name,
    MacAddress,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Family {
    #[serde(deserialize_with = "flag")]
    pub(super) enabled: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) dhcp: bool,
    #[serde(deserialize_with = "some_flag")]
    pub(super) autoconf: Option<bool>,
    pub(super) auto_route_metric: Option<u32>,
    #[serde(deserialize_with = "some_flag")]
    pub(super) auto_dns: Option<bool>,
    #[serde(deserialize_with = "some_flag")]
    pub(super) auto_gateway: Option<bool>,
    #[serde(deserialize_with = "some_flag")]
    pub(super) auto_routes: Option<bool>,
    pub(super) address: Vec<FamilyAddress>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FamilyAddress {
    pub(super) ip: String,
    pub(super) prefix_length: u8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aggregation {
    pub(super) mode: String,
    #[serde(default, alias = "slaves")]
    pub(super) port: Vec<String>,
    #[serde(default)]
    pub(super) options: std::collections::BTreeMap<String, Scalar>,
}

/// A value of an option, as text or bare.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "this is neither a number nor a text")]
pub(super) enum Scalar {
    Number(i64),
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bridge {
    #[serde(default)]
    pub(super) port: Vec<Port>,
    #[serde(default)]
    pub(super) options: BridgeOptions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BridgeOptions {
    pub(super) stp: Option<Stp>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stp {
    pub(super) enabled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) link_aggregation: Option<OvsAggregation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OvsAggregation {
    pub(super) mode: String,
    #[serde(default)]
    pub(super) port: Vec<OvsMember>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OvsMember {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Vlan {
    pub(super) base_iface: String,
    #[serde(default, deserialize_with = "number")]
    pub(super) id: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MacVlan {
    pub(super) base_iface: String,
    pub(super) mode: String,
    pub(super) promiscuous: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Vxlan {
    #[serde(default, deserialize_with = "number")]
    pub(super) id: Option<i64>,
    pub(super) base_iface: Option<String>,
    pub(super) local: Option<String>,
    pub(super) remote: Option<String>,
    #[serde(default, deserialize_with = "number")]
    pub(super) destination_port: Option<i64>,
}
