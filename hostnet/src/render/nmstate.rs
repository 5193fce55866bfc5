//! Core: nmstate: interfaces, and routes, rules and name servers beside them.

use model::json::Malformed;

use super::document::{Map, Value};
use super::{DHCP_METRIC, RenderedFile, file};
use crate::model::HostNetwork;
use crate::model::address::{Route, Rule};
use crate::model::link::{Bond, Kind, Link, LinkName, Word};
use crate::model::written::wrong;

pub(super) fn render(network: &HostNetwork) -> Result<Vec<RenderedFile>, Malformed> {
    let (mut interfaces, mut routes) = (Vec::new(), Vec::new());
    let (mut servers, mut search) = (Vec::new(), Vec::new());
    for (at, link) in network.links.iter().enumerate() {
        // A bond of Open vSwitch is told inside its bridge.
        if !matches!(link.kind, Kind::OvsBond { .. }) {
            interfaces.extend(objects(network, link));
        }
        for (i, one) in link.routes.iter().enumerate() {
            routes.push(route(&format!("links[{at}].routes[{i}]"), link, one)?);
        }
        servers.extend(link.dns.servers.iter().map(ToString::to_string));
        search.extend(link.dns.search.iter().map(String::as_str));
    }
    for name in &network.absent {
        interfaces.push(Map::default().with("name", name.as_str()).with("state", "absent"));
    }
    let mut document = Map::default();
    let mut dns = Map::default();
    dns.set_list("server", servers);
    dns.set_list("search", search);
    if !dns.is_empty() {
        document.set("dns-resolver", Map::default().with("config", dns));
    }
    let mut config = |key: &str, list: Vec<Map>| {
        if !list.is_empty() {
            let list = Value::List(list.into_iter().map(Value::Map).collect());
            document.set(key, Map::default().with("config", list));
        }
    };
    config("route-rules", network.rules.iter().map(rule).collect());
    config("routes", routes);
    document.set_list("interfaces", interfaces);
    Ok(vec![file("etc/nmstate/50-gantry.yml", document.yaml())])
}

/// The interface, and for a bridge of Open vSwitch the port that holds its addresses.
fn objects(network: &HostNetwork, link: &Link) -> Vec<Map> {
    let mut object = Map::default().with("name", link.name.as_str());
    let is_ovs = matches!(link.kind, Kind::OvsBridge { .. });
    object.set("type", type_of(&link.kind));
    object.set("state", if link.up { "up" } else { "down" });
    if let Kind::Ethernet { permanent_mac: Some(mac) } = link.kind {
        object.set("identifier", "mac-address");
        object.set("mac-address", mac.to_string());
    } else {
        object.set_some("mac-address", link.mac.map(|mac| mac.to_string()));
    }
    object.set_some("mtu", link.mtu);
    if !is_ovs {
        object.set("ipv4", family(link, true));
        object.set("ipv6", family(link, false));
    }
    kind(network, &mut object, link);
    let mut objects = vec![object];
    if is_ovs {
        let internal = Map::default()
            .with("name", link.name.as_str())
            .with("type", "ovs-interface")
            .with("state", "up")
            .with("ipv4", family(link, true))
            .with("ipv6", family(link, false));
        objects.push(internal);
    }
    objects
}

fn type_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Ethernet { .. } => "ethernet",
        Kind::Bond(_) | Kind::OvsBond { .. } => "bond",
        Kind::Vlan { .. } => "vlan",
        Kind::Bridge { .. } => "linux-bridge",
        Kind::Macvlan { .. } => "mac-vlan",
        Kind::Vxlan(_) => "vxlan",
        Kind::Dummy => "dummy",
        Kind::OvsBridge { .. } => "ovs-bridge",
    }
}

fn family(link: &Link, is_v4: bool) -> Map {
    let own = link.addresses.iter().filter(|address| address.ip().is_ipv4() == is_v4);
    let addresses: Vec<Map> = own
        .map(|address| {
            Map::default()
                .with("ip", address.ip().to_string())
                .with("prefix-length", address.net().prefix_len())
        })
        .collect();
    let has_dhcp = if is_v4 { link.dhcp4 } else { link.dhcp6 };
    let mut object = Map::default().with("enabled", has_dhcp || !addresses.is_empty());
    object.set("dhcp", has_dhcp);
    if !is_v4 {
        object.set("autoconf", has_dhcp);
    }
    object.set_some("auto-route-metric", Some(DHCP_METRIC).filter(|_| has_dhcp));
    object.set_list("address", addresses);
    object
}

fn kind(network: &HostNetwork, object: &mut Map, link: &Link) {
    match &link.kind {
        Kind::Ethernet { .. } | Kind::Dummy | Kind::OvsBond { .. } => {}
        Kind::Bond(bond) => object.set("link-aggregation", aggregation(bond)),
        Kind::Vlan { id, parent } => {
            object.set("vlan", Map::default().with("base-iface", parent.as_str()).with("id", *id));
        }
        Kind::Bridge { members, stp } => {
            let mut bridge = Map::default();
            if let Some(stp) = stp {
                let stp = Map::default().with("enabled", *stp);
                bridge.set("options", Map::default().with("stp", stp));
            }
            let ports = members.iter().map(|name| Map::default().with("name", name.as_str()));
            bridge.set("port", Value::List(ports.map(Value::Map).collect()));
            object.set("bridge", bridge);
        }
        Kind::Macvlan { parent, mode } => {
            let macvlan = Map::default().with("base-iface", parent.as_str());
            let macvlan = macvlan.with("mode", mode.word()).with("promiscuous", true);
            object.set("mac-vlan", macvlan);
        }
        Kind::Vxlan(vxlan) => {
            let mut tunnel = Map::default().with("id", vxlan.vni);
            tunnel.set_some("base-iface", vxlan.parent.as_ref().map(LinkName::as_str));
            tunnel.set_some("local", vxlan.local.map(|address| address.to_string()));
            tunnel.set_some("remote", vxlan.remote.map(|address| address.to_string()));
            tunnel.set("destination-port", vxlan.port);
            object.set("vxlan", tunnel);
        }
        Kind::OvsBridge { members, .. } => {
            let mut ports: Vec<Value> =
                members.iter().map(|name| ovs_port(network, name).into()).collect();
            ports.push(Map::default().with("name", link.name.as_str()).into());
            object.set("bridge", Map::default().with("port", Value::List(ports)));
        }
    }
}

fn aggregation(bond: &Bond) -> Map {
    let mut options = Map::default();
    options.set_some("miimon", bond.miimon_ms);
    options.set_some("lacp_rate", bond.lacp_rate.map(Word::word));
    options.set_some("xmit_hash_policy", bond.xmit_hash_policy.map(Word::word));
    for (option, text) in bond.tuning.given() {
        options.set(option.names().kernel, Value::number_or_text(text));
    }
    options.set_some("primary", bond.working_primary().map(LinkName::as_str));
    let mut aggregation = Map::default().with("mode", bond.mode.word());
    if !options.is_empty() {
        aggregation.set("options", options);
    }
    let ports = bond.members.iter().map(|name| Value::from(name.as_str()));
    aggregation.with("port", Value::List(ports.collect()))
}

fn ovs_port(network: &HostNetwork, name: &LinkName) -> Map {
    let port = Map::default().with("name", name.as_str());
    let Some(Link { kind: Kind::OvsBond { members, options, .. }, .. }) = network.link(name) else {
        return port;
    };
    let options = options.as_deref().unwrap_or_default();
    let mode = options.split_whitespace().find_map(|one| one.strip_prefix("bond_mode="));
    let ports = members.iter().map(|name| Map::default().with("name", name.as_str()).into());
    let aggregation = Map::default()
        .with("mode", mode.unwrap_or("active-backup"))
        .with("port", Value::List(ports.collect()));
    port.with("link-aggregation", aggregation)
}

fn route(place: &str, link: &Link, route: &Route) -> Result<Map, Malformed> {
    if route.on_link {
        return Err(wrong(
            &format!("{place}.on_link"),
            "nmstate has no next hop outside the prefix",
        ));
    }
    let mut object = Map::default().with("destination", route.to.to_string());
    object.set("next-hop-interface", link.name.as_str());
    object.set_some("next-hop-address", route.via.map(|via| via.to_string()));
    object.set_some("metric", route.metric);
    object.set_some("table-id", route.table);
    Ok(object)
}

fn rule(rule: &Rule) -> Map {
    let mut object = Map::default();
    object.set_some("ip-from", rule.from.map(|net| net.to_string()));
    object.set_some("ip-to", rule.to.map(|net| net.to_string()));
    object.set("route-table", rule.table);
    object.set_some("priority", rule.priority);
    object
}
