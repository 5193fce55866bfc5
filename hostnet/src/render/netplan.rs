//! Core: netplan, version 2: one map for each kind of link.

use model::json::Malformed;

use super::document::{Map, Value};
use super::{DHCP_METRIC, RenderedFile, only_kinds, rules_by_link};
use crate::model::HostNetwork;
use crate::model::address::{Route, Rule};
use crate::model::link::{Bond, BondOption, Kind, Link, LinkName, Vxlan, Word};
use crate::model::written::wrong;

pub(super) fn render(network: &HostNetwork) -> Result<Vec<RenderedFile>, Malformed> {
    only_kinds("netplan", network, |kind| !matches!(kind, Kind::Macvlan { .. }))?;
    let rules = rules_by_link(network);
    let mut document = Map::default().with("version", 2_u8);
    for group in ["ethernets", "bonds", "bridges", "vlans", "tunnels", "dummy-devices"] {
        let mut links = Map::default();
        for (at, link) in
            network.links.iter().enumerate().filter(|(_, link)| group_of(link) == group)
        {
            let rules = rules.get(&link.name).map(Vec::as_slice).unwrap_or_default();
            links.set(&link.name, object(&format!("links[{at}]"), link, rules)?);
        }
        if !links.is_empty() {
            document.set(group, links);
        }
    }
    let content = Map::default().with("network", document).yaml();
    // Others must not read it: netplan warns of it, as keys of wireless networks stand in such files.
    Ok(vec![RenderedFile { path: "etc/netplan/50-gantry.yaml".into(), mode: 0o600, content }])
}

fn group_of(link: &Link) -> &'static str {
    match link.kind {
        Kind::Ethernet { .. } | Kind::Macvlan { .. } => "ethernets",
        Kind::Bond(_) | Kind::OvsBond { .. } => "bonds",
        Kind::Bridge { .. } | Kind::OvsBridge { .. } => "bridges",
        Kind::Vlan { .. } => "vlans",
        Kind::Vxlan(_) => "tunnels",
        Kind::Dummy => "dummy-devices",
    }
}

fn object(place: &str, link: &Link, rules: &[&Rule]) -> Result<Map, Malformed> {
    let mut object = Map::default();
    kind(place, &mut object, link)?;
    object.set_some("macaddress", link.mac.map(|mac| mac.to_string()));
    object.set_some("mtu", link.mtu);
    object.set_some("activation-mode", Some("off").filter(|_| !link.up));
    for (family, has_dhcp) in [("dhcp4", link.dhcp4), ("dhcp6", link.dhcp6)] {
        if has_dhcp {
            object.set(family, true);
            let metric = Map::default().with("route-metric", DHCP_METRIC);
            object.set(&format!("{family}-overrides"), metric);
        }
    }
    object.set_list("addresses", link.addresses.iter().map(ToString::to_string));
    let mut dns = Map::default();
    dns.set_list("addresses", link.dns.servers.iter().map(ToString::to_string));
    dns.set_list("search", link.dns.search.iter().map(String::as_str));
    if !dns.is_empty() {
        object.set("nameservers", dns);
    }
    object.set_list("routes", link.routes.iter().map(route));
    object.set_list("routing-policy", rules.iter().copied().map(rule));
    Ok(object)
}

fn kind(place: &str, object: &mut Map, link: &Link) -> Result<(), Malformed> {
    match &link.kind {
        Kind::Ethernet { permanent_mac: Some(mac) } => {
            object.set("match", Map::default().with("macaddress", mac.to_string()));
            object.set("set-name", link.name.as_str());
        }
        Kind::Ethernet { permanent_mac: None } | Kind::Macvlan { .. } | Kind::Dummy => {}
        Kind::Bond(bond) => {
            object.set("interfaces", names(&bond.members));
            object.set("parameters", bond_parameters(bond));
        }
        Kind::Vlan { id, parent } => {
            object.set("id", *id);
            object.set("link", parent.as_str());
        }
        Kind::Bridge { members, stp } => {
            object.set("interfaces", names(members));
            if let Some(stp) = stp {
                object.set("parameters", Map::default().with("stp", *stp));
            }
        }
        Kind::Vxlan(vxlan) => tunnel(object, vxlan),
        Kind::OvsBridge { members, .. } => {
            object.set("interfaces", names(members));
            object.set("openvswitch", Map::default());
        }
        Kind::OvsBond { members, options, .. } => {
            object.set("interfaces", names(members));
            let options = options.as_deref().unwrap_or_default();
            ovs_bond(&format!("{place}.ovs_options"), object, options)?;
        }
    }
    Ok(())
}

fn names(members: &[LinkName]) -> Value {
    Value::List(members.iter().map(|name| Value::from(name.as_str())).collect())
}

fn bond_parameters(bond: &Bond) -> Map {
    let mut parameters = Map::default().with("mode", bond.mode.word());
    parameters.set_some("mii-monitor-interval", bond.miimon_ms);
    parameters.set_some("lacp-rate", bond.lacp_rate.map(Word::word));
    parameters.set_some("transmit-hash-policy", bond.xmit_hash_policy.map(Word::word));
    for (option, text) in bond.tuning.given() {
        let value = if option == BondOption::ArpIpTargets {
            Value::List(text.split(',').map(Value::from).collect())
        } else {
            Value::number_or_text(text)
        };
        parameters.set(option.names().netplan, value);
    }
    parameters.set_some("primary", bond.working_primary().map(LinkName::as_str));
    parameters
}

fn tunnel(object: &mut Map, vxlan: &Vxlan) {
    object.set("mode", "vxlan");
    object.set("id", vxlan.vni);
    object.set_some("link", vxlan.parent.as_ref().map(LinkName::as_str));
    object.set_some("local", vxlan.local.map(|address| address.to_string()));
    object.set_some("remote", vxlan.remote.map(|address| address.to_string()));
    object.set("port", vxlan.port);
}

fn ovs_bond(place: &str, object: &mut Map, options: &str) -> Result<(), Malformed> {
    let (mut parameters, mut ovs) = (Map::default(), Map::default());
    for option in options.split_whitespace() {
        match option.split_once('=') {
            Some(("bond_mode", mode)) => parameters.set("mode", mode),
            Some(("lacp", lacp)) => ovs.set("lacp", lacp),
            Some(_) | None => return Err(wrong(place, format!("netplan has no `{option}`"))),
        }
    }
    if !parameters.is_empty() {
        object.set("parameters", parameters);
    }
    object.set("openvswitch", ovs);
    Ok(())
}

fn route(route: &Route) -> Map {
    let mut object = Map::default();
    let is_default = route.is_default() && route.via.is_some();
    object.set("to", if is_default { "default".to_owned() } else { route.to.to_string() });
    match route.via {
        Some(via) => object.set("via", via.to_string()),
        None => object.set("scope", "link"),
    }
    object.set_some("metric", route.metric);
    object.set_some("table", route.table);
    object.set_flag("on-link", route.on_link);
    object
}

fn rule(rule: &Rule) -> Map {
    let mut object = Map::default();
    object.set_some("from", rule.from.map(|net| net.to_string()));
    object.set_some("to", rule.to.map(|net| net.to_string()));
    object.set("table", rule.table);
    object.set_some("priority", rule.priority);
    object
}
