//! Core: os-net-config: one list of objects, members inside what they belong to.

use std::collections::{BTreeMap, BTreeSet};

use model::json::Malformed;

use super::document::{Map, Value};
use super::{RenderedFile, file, rules_by_link};
use crate::model::HostNetwork;
use crate::model::address::{Route, Rule};
use crate::model::link::{Bond, Kind, Link, LinkName, Word};
use crate::model::written::wrong;

/// The paths of its files.
const CONFIG: &str = "etc/os-net-config/config.yaml";
const MAPPING: &str = "etc/os-net-config/mapping.yaml";

pub(super) fn render(
    network: &HostNetwork,
    fallback: Option<&HostNetwork>,
) -> Result<Vec<RenderedFile>, Malformed> {
    let mut document = Map::default();
    if let Some(fallback) = fallback {
        document.set("fallback_config", section(fallback)?);
    }
    document.set("network_config", section(network)?);
    let mut mapping = Map::default();
    for link in &network.links {
        if let Kind::Ethernet { permanent_mac: Some(mac) } = link.kind {
            mapping.set(&link.name, mac.to_string());
        }
    }
    let mut files = vec![file(CONFIG, document.yaml())];
    if !mapping.is_empty() {
        files.push(file(MAPPING, Map::default().with("interface_mapping", mapping).yaml()));
    }
    Ok(files)
}

struct Rendering<'n> {
    network: &'n HostNetwork,
    rules: BTreeMap<&'n LinkName, Vec<&'n Rule>>,
}

fn section(network: &HostNetwork) -> Result<Value, Malformed> {
    let inner: BTreeSet<&LinkName> = network
        .links
        .iter()
        .flat_map(|link| link.kind.members().iter())
        .chain(
            network.links.iter().filter(|link| bridge_of(network, link).is_some()).map(|l| &l.name),
        )
        .collect();
    let rendering = Rendering { network, rules: rules_by_link(network) };
    let outer = network.links.iter().filter(|link| !inner.contains(&link.name));
    let objects = outer.map(|link| rendering.object(link, false).map(Value::Map));
    Ok(Value::List(objects.collect::<Result<_, _>>()?))
}

/// The bridge of Open vSwitch that a VLAN is a port of.
fn bridge_of<'n>(network: &'n HostNetwork, link: &Link) -> Option<&'n Link> {
    let Kind::Vlan { parent, .. } = &link.kind else { return None };
    network.link(parent).filter(|parent| matches!(parent.kind, Kind::OvsBridge { .. }))
}

impl Rendering<'_> {
    fn object(&self, link: &Link, is_primary: bool) -> Result<Map, Malformed> {
        let at = self.network.links.iter().position(|one| one.name == link.name).unwrap_or(0);
        let place = format!("links[{at}]");
        let mut object = Map::default();
        match &link.kind {
            Kind::Ethernet { .. } => object.set("type", "interface"),
            Kind::Bond(_) => object.set("type", "linux_bond"),
            Kind::Bridge { .. } => object.set("type", "linux_bridge"),
            Kind::OvsBridge { .. } => object.set("type", "ovs_bridge"),
            Kind::OvsBond { .. } => object.set("type", "ovs_bond"),
            Kind::Vlan { id, .. } if *link.name != *format!("vlan{id}") => {
                let why = format!("os-net-config calls VLAN {id} vlan{id}, not {}", link.name);
                return Err(wrong(&format!("{place}.name"), why));
            }
            Kind::Vlan { .. } => object.set("type", "vlan"),
            Kind::Macvlan { .. } | Kind::Vxlan(_) | Kind::Dummy => {
                let why = format!("os-net-config has no {}", link.kind.word());
                return Err(wrong(&format!("{place}.kind"), why));
            }
        }
        if link.mac.is_some() || !link.up {
            let field = if link.up { "mac" } else { "up" };
            let why = format!("os-net-config cannot say `{field}`");
            return Err(wrong(&format!("{place}.{field}"), why));
        }
        if matches!(link.kind, Kind::Bridge { stp: Some(true), .. }) {
            return Err(wrong(&format!("{place}.stp"), "os-net-config cannot say `stp: true`"));
        }
        self.kind(&mut object, link);
        object.set_flag("primary", is_primary);
        object.set_some("mtu", link.mtu);
        object.set("use_dhcp", link.dhcp4);
        object.set_flag("use_dhcpv6", link.dhcp6);
        let addresses = link.addresses.iter();
        let netmask = |address: String| Map::default().with("ip_netmask", address);
        object.set_list("addresses", addresses.map(|address| netmask(address.to_string())));
        let routes = link.routes.iter().enumerate();
        let routes = routes.map(|(i, one)| route(&format!("{place}.routes[{i}]"), one));
        object.set_list("routes", routes.collect::<Result<Vec<_>, _>>()?);
        let rules = self.rules.get(&link.name).into_iter().flatten();
        object.set_list("rules", rules.map(|rule| Map::default().with("rule", rule.to_string())));
        object.set_list("dns_servers", link.dns.servers.iter().map(ToString::to_string));
        object.set_list("domain", link.dns.search.iter().map(String::as_str));
        let members = self.members(link)?;
        // It wants the list of a bridge or bond even if it is empty.
        if link.kind.members().is_empty() && matches!(link.kind, Kind::Bridge { .. }) {
            object.set("members", Value::List(Vec::new()));
        }
        object.set_list("members", members);
        Ok(object)
    }

    fn members(&self, link: &Link) -> Result<Vec<Map>, Malformed> {
        let named = link.kind.members().iter().filter_map(|name| self.network.link(name));
        let tagged = self.network.links.iter().filter(|one| {
            bridge_of(self.network, one).is_some_and(|bridge| bridge.name == link.name)
        });
        let primary = link.kind.primary();
        let members = named.chain(tagged);
        members.map(|member| self.object(member, primary == Some(&member.name))).collect()
    }

    fn kind(&self, object: &mut Map, link: &Link) {
        match &link.kind {
            Kind::Vlan { id, parent } => {
                object.set("vlan_id", *id);
                if bridge_of(self.network, link).is_none() {
                    object.set("device", parent.as_str());
                }
            }
            Kind::Bond(bond) => {
                object.set("name", link.name.as_str());
                object.set("bonding_options", bonding_options(bond));
            }
            Kind::OvsBond { options, .. } => {
                object.set("name", link.name.as_str());
                object.set_some("ovs_options", options.as_deref());
            }
            Kind::Ethernet { .. }
            | Kind::Bridge { .. }
            | Kind::Macvlan { .. }
            | Kind::Vxlan(_)
            | Kind::Dummy
            | Kind::OvsBridge { .. } => object.set("name", link.name.as_str()),
        }
    }
}

fn bonding_options(bond: &Bond) -> String {
    let mut options = format!("mode={}", bond.mode.word());
    let rate = bond.lacp_rate.map(|rate| format!(" lacp_rate={}", rate.word()));
    let policy = bond.xmit_hash_policy.map(|one| format!(" xmit_hash_policy={}", one.word()));
    let miimon = bond.miimon_ms.map(|ms| format!(" miimon={ms}"));
    let primary = bond.working_primary().map(|name| format!(" primary={name}"));
    options.extend([rate, policy, miimon, primary].into_iter().flatten());
    let tuning = bond.tuning.given();
    options.extend(tuning.map(|(option, text)| format!(" {}={text}", option.names().kernel)));
    options
}

fn route(place: &str, route: &Route) -> Result<Map, Malformed> {
    let Some(via) = route.via else {
        return Err(wrong(&format!("{place}.via"), "os-net-config has no route without next hop"));
    };
    let mut object = Map::default();
    object.set_flag("default", route.is_default());
    if !route.is_default() {
        object.set("ip_netmask", route.to.to_string());
    }
    object.set("next_hop", via.to_string());
    let mut options = Vec::new();
    options.extend(route.metric.map(|metric| format!("metric {metric}")));
    options.extend(route.on_link.then(|| "onlink".to_owned()));
    object.set_some("route_options", Some(options.join(" ")).filter(|text| !text.is_empty()));
    object.set_some("table", route.table);
    Ok(object)
}
