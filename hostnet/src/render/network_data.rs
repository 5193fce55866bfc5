//! Core: `network_data.json` of OpenStack: links, networks on them, services.

use std::net::IpAddr;

use ipnet::IpNet;
use model::MacAddress;
use model::json::Malformed;

use super::document::{Map, Value};
use super::{RenderedFile, file, only_kinds};
use crate::model::HostNetwork;
use crate::model::address::{Address, Route};
use crate::model::link::{Kind, Link, Word};
use crate::model::written::wrong;

const PATH: &str = "openstack/latest/network_data.json";

pub(super) fn render(network: &HostNetwork) -> Result<Vec<RenderedFile>, Malformed> {
    only_kinds("network_data.json", network, |kind| {
        matches!(kind, Kind::Ethernet { .. } | Kind::Bond(_) | Kind::Vlan { .. })
    })?;
    if !network.rules.is_empty() {
        return Err(wrong("rules", "network_data.json has no rules"));
    }
    let (mut links, mut networks, mut servers) = (Vec::new(), Vec::new(), Vec::new());
    for (at, link) in network.links.iter().enumerate() {
        let place = format!("links[{at}]");
        links.push(object(&place, network, link)?);
        networks.extend(networks_on(&place, link)?);
        for server in &link.dns.servers {
            if !servers.contains(server) {
                servers.push(*server);
            }
        }
    }
    let service =
        |server: IpAddr| Map::default().with("type", "dns").with("address", server.to_string());
    let document = Map::default()
        .with("links", list(links))
        .with("networks", list(networks))
        .with("services", list(servers.into_iter().map(service).collect()));
    Ok(vec![file(PATH, document.json())])
}

fn list(maps: Vec<Map>) -> Value {
    Value::List(maps.into_iter().map(Value::Map).collect())
}

fn object(place: &str, network: &HostNetwork, link: &Link) -> Result<Map, Malformed> {
    if !link.up {
        return Err(wrong(&format!("{place}.up"), "network_data.json has no link that is down"));
    }
    let mac = mac(network, link).ok_or_else(|| {
        let why = format!("network_data.json wants the address of the card {}", link.name);
        wrong(&format!("{place}.permanent_mac"), why)
    })?;
    let mut object = Map::default().with("id", link.name.as_str());
    match &link.kind {
        Kind::Bond(bond) => {
            object.set("type", "bond");
            object.set("ethernet_mac_address", mac.to_string());
            let members = bond.members.iter().map(|name| Value::from(name.as_str()));
            object.set("bond_links", Value::List(members.collect()));
            object.set("bond_mode", bond.mode.word());
            object.set_some("bond_miimon", bond.miimon_ms);
            object.set_some("bond_xmit_hash_policy", bond.xmit_hash_policy.map(Word::word));
            object.set_some("bond_lacp_rate", bond.lacp_rate.map(Word::word));
            for (option, text) in bond.tuning.given() {
                object.set(&format!("bond_{}", option.names().kernel), Value::number_or_text(text));
            }
        }
        Kind::Vlan { id, parent } => {
            object.set("type", "vlan");
            object.set("vlan_id", *id);
            object.set("vlan_link", parent.as_str());
            object.set("vlan_mac_address", mac.to_string());
        }
        Kind::Ethernet { .. }
        | Kind::Bridge { .. }
        | Kind::Macvlan { .. }
        | Kind::Vxlan(_)
        | Kind::Dummy
        | Kind::OvsBridge { .. }
        | Kind::OvsBond { .. } => {
            object.set("type", "phy");
            object.set("ethernet_mac_address", mac.to_string());
        }
    }
    object.set_some("mtu", link.mtu);
    Ok(object)
}

/// The address of a link: its own, or that of what it lies on.
fn mac(network: &HostNetwork, link: &Link) -> Option<MacAddress> {
    let mut link = link;
    // A configuration that was checked has no cycle.
    loop {
        if let Kind::Ethernet { permanent_mac } = link.kind {
            return permanent_mac;
        }
        if link.mac.is_some() {
            return link.mac;
        }
        let below = link.kind.primary().or(link.kind.parent());
        link = network.link(below.or(link.kind.members().first())?)?;
    }
}

fn networks_on(place: &str, link: &Link) -> Result<Vec<Map>, Malformed> {
    let mut networks = Vec::new();
    let mut routes: Vec<(usize, &Route)> = link.routes.iter().enumerate().collect();
    for address in &link.addresses {
        let is_v4 = address.ip().is_ipv4();
        // A route belongs to the network of its next hop, or to the first one of its family.
        let (own, others) = routes.into_iter().partition(|(_, route)| is_of(route, *address, link));
        routes = others;
        let mut object = named(link, networks.len(), if is_v4 { "ipv4" } else { "ipv6" });
        object.set("ip_address", address.ip().to_string());
        object.set("netmask", address.net().netmask().to_string());
        object.set_list("routes", route_list(place, own)?);
        networks.push(object);
    }
    for (has_dhcp, kind) in [(link.dhcp4, "ipv4_dhcp"), (link.dhcp6, "ipv6_dhcp")] {
        if has_dhcp {
            networks.push(named(link, networks.len(), kind));
        }
    }
    match routes.first() {
        Some((at, _)) => {
            let why = "network_data.json has routes only beside an address of their family";
            Err(wrong(&format!("{place}.routes[{at}]"), why))
        }
        None => Ok(networks),
    }
}

fn is_of(route: &Route, address: Address, link: &Link) -> bool {
    let holds = |address: &Address| route.via.is_some_and(|via| address.net().contains(&via));
    let is_first = link.addresses.iter().find(|one| one.ip().is_ipv4() == address.ip().is_ipv4());
    match link.addresses.iter().find(|one| holds(one)) {
        Some(near) => *near == address,
        None => route.to.addr().is_ipv4() == address.ip().is_ipv4() && is_first == Some(&address),
    }
}

fn named(link: &Link, at: usize, kind: &str) -> Map {
    Map::default()
        .with("id", format!("{}-{at}", link.name))
        .with("type", kind)
        .with("link", link.name.as_str())
}

fn route_list(place: &str, routes: Vec<(usize, &Route)>) -> Result<Vec<Map>, Malformed> {
    let routes = routes.into_iter().map(|(at, route)| {
        let place = format!("{place}.routes[{at}]");
        let Some(via) = route.via else {
            return Err(wrong(&place, "network_data.json has no route without next hop"));
        };
        if route.metric.is_some() || route.table.is_some() || route.on_link {
            let why = "network_data.json has no metric, table or on_link";
            return Err(wrong(&place, why));
        }
        Ok(Map::default()
            .with("network", route.to.addr().to_string())
            .with("netmask", IpNet::netmask(&route.to).to_string())
            .with("gateway", via.to_string()))
    });
    routes.collect()
}
