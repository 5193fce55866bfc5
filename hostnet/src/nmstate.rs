//! Core: reads files of nmstate, as far as our type can say the same.
//!
//! As in our own form, a link has exactly the addresses that the file lists. Unlike here, nmstate leaves
//! the addresses of an interface without `ipv4` and `ipv6` alone.

mod interface;
mod kind;

#[cfg(test)]
mod tests;

use model::json::Malformed;

use crate::model::HostNetwork;
use crate::model::address::{self, Address, ip, network};
use crate::model::link::{Kind, Link, LinkName};
use crate::model::written::{number, read_dns, read_mac, read_rule, wrong};
use crate::render::DHCP_METRIC;
use crate::yaml;
use interface::{Family, File, Identifier, Interface, InterfaceState, Route, Rule};

/// The keys of such a file.
pub(crate) const KEYS: &[&str] =
    &["interfaces", "routes", "route-rules", "dns-resolver", "hostname"];

/// Reads such a file.
///
/// # Errors
/// What of it is wrong, or has no counterpart here, with its place.
pub(crate) fn read(text: &str) -> Result<HostNetwork, Malformed> {
    let File { interfaces, routes, rules, dns } = yaml::read_foreign(text)?;
    let mut read = HostNetwork::default();
    let mut internal = Vec::new();
    for (at, interface) in interfaces.into_iter().enumerate() {
        let place = format!("interfaces[{at}]");
        if interface.state == InterfaceState::Absent {
            read.absent.push(absent(&place, &interface)?);
        } else if interface.kind.as_deref() == Some("ovs-interface") {
            internal.push((place, interface));
        } else {
            let name = name(&format!("{place}.name"), &interface.name)?;
            link(&place, interface, name, &mut read.links)?;
        }
    }
    for (place, interface) in internal {
        add_internal(&place, interface, &mut read)?;
    }
    for (at, route) in routes.config.into_iter().enumerate() {
        add_route(&format!("routes.config[{at}]"), route, &mut read)?;
    }
    for (at, rule) in rules.config.into_iter().enumerate() {
        let Rule { ip_from, ip_to, route_table, priority } = rule;
        let place = format!("route-rules.config[{at}]");
        let table = route_table.ok_or_else(|| wrong(&place, "a rule names its `route-table`"))?;
        let between = (ip_from.as_deref(), ip_to.as_deref());
        read.rules.push(read_rule(&place, between, table, priority)?);
    }
    let place = "dns-resolver.config";
    let dns = read_dns(
        (&format!("{place}.server"), &dns.config.server),
        (&format!("{place}.search"), dns.config.search),
    )?;
    if dns != address::Dns::default() {
        let link = outward(&mut read).ok_or_else(|| wrong(place, "no link leads to a server"))?;
        link.dns = dns;
    }
    if read == HostNetwork::default() {
        return Err(wrong("", "it has no interfaces"));
    }
    Ok(read)
}

fn name(place: &str, text: &str) -> Result<LinkName, Malformed> {
    LinkName::new(text).map_err(|why| wrong(place, why))
}

fn absent(place: &str, interface: &Interface) -> Result<LinkName, Malformed> {
    if interface.kind.as_deref() == Some("ethernet") {
        return Err(wrong(
            &format!("{place}.state"),
            "a card is never absent here; it may be `down`",
        ));
    }
    name(&format!("{place}.name"), &interface.name)
}

/// Reads an interface, with the bonds of Open vSwitch that it holds.
fn link(
    place: &str,
    mut interface: Interface,
    name: LinkName,
    links: &mut Vec<Link>,
) -> Result<(), Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let (kind, held) = kind::kind(place, &mut interface)?;
    kind::nothing_is_left(place, &interface)?;
    let mut link = Link::new(name, kind);
    let mac = interface.mac_address.take();
    let mac = mac.map(|text| read_mac(&at("mac-address"), &text)).transpose()?;
    let by_mac = interface.identifier == Some(Identifier::MacAddress);
    match (&mut link.kind, by_mac) {
        (Kind::Ethernet { permanent_mac }, true) if mac.is_some() => *permanent_mac = mac,
        (_, true) => {
            let why = "`mac-address` finds a card that has one in this file";
            return Err(wrong(&at("identifier"), why));
        }
        (_, false) => link.mac = mac,
    }
    link.mtu = interface.mtu.map(|mtu| number(&at("mtu"), mtu, 68..=65_535)).transpose()?;
    link.up = interface.state == InterfaceState::Up;
    families(place, interface.ipv4, interface.ipv6, &mut link)?;
    links.push(link);
    links.extend(held);
    Ok(())
}

fn families(
    place: &str,
    ipv4: Option<Family>,
    ipv6: Option<Family>,
    link: &mut Link,
) -> Result<(), Malformed> {
    link.dhcp4 = family(&format!("{place}.ipv4"), ipv4.unwrap_or_default(), true, link)?;
    link.dhcp6 = family(&format!("{place}.ipv6"), ipv6.unwrap_or_default(), false, link)?;
    Ok(())
}

/// Reads addresses, and whether the link asks for one.
fn family(place: &str, family: Family, is_v4: bool, link: &mut Link) -> Result<bool, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let has_dhcp = family.enabled && family.dhcp;
    if !family.enabled && (family.dhcp || !family.address.is_empty()) {
        return Err(wrong(&at("enabled"), "it is not, but has addresses"));
    }
    if family.autoconf.is_some_and(|flag| flag != has_dhcp) {
        let why = "advertisements of routers are taken where `dhcp` is, and only there";
        return Err(wrong(&at("autoconf"), why));
    }
    for (field, flag) in [
        ("auto-dns", family.auto_dns),
        ("auto-gateway", family.auto_gateway),
        ("auto-routes", family.auto_routes),
    ] {
        if has_dhcp && flag == Some(false) {
            return Err(wrong(&at(field), "`false` has no counterpart here"));
        }
    }
    if let Some(metric) = family.auto_route_metric.filter(|metric| *metric != DHCP_METRIC) {
        let why = format!("routes by DHCP have the metric {DHCP_METRIC} here, not {metric}");
        return Err(wrong(&at("auto-route-metric"), why));
    }
    for (i, one) in family.address.iter().enumerate() {
        let place = at(&format!("address[{i}].ip"));
        let address = Address::new(&format!("{}/{}", one.ip, one.prefix_length));
        let address = address.map_err(|why| wrong(&place, why))?;
        if address.ip().is_ipv4() != is_v4 {
            return Err(wrong(&place, format!("{address} is of the other family")));
        }
        link.addresses.push(address);
    }
    Ok(has_dhcp)
}

/// The port of a bridge of Open vSwitch that holds its addresses has its name here.
fn add_internal(
    place: &str,
    interface: Interface,
    read: &mut HostNetwork,
) -> Result<(), Malformed> {
    kind::nothing_is_left(place, &interface)?;
    let is_bridge = |link: &&mut Link| {
        link.name.as_str() == interface.name && matches!(link.kind, Kind::OvsBridge { .. })
    };
    let bridge = read.links.iter_mut().find(is_bridge);
    let bridge = bridge.ok_or_else(|| {
        let why = "an interface of Open vSwitch has the name of its bridge here";
        wrong(&format!("{place}.name"), why)
    })?;
    if interface.mac_address.is_some() || interface.mtu.is_some() {
        return Err(wrong(place, "address and MTU stand at its bridge"));
    }
    families(place, interface.ipv4, interface.ipv6, bridge)
}

fn add_route(place: &str, route: Route, read: &mut HostNetwork) -> Result<(), Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let via = route.next_hop_address.as_deref().map(ip).transpose();
    let via = via.map_err(|why| wrong(&at("next-hop-address"), why))?;
    let to = network(&route.destination).map_err(|why| wrong(&at("destination"), why))?;
    let value = |field: &str, value: Option<i64>, from| {
        value.map(|value| number(&at(field), value, from..=0xFFFF_FFFF)).transpose()
    };
    let metric = value("metric", route.metric, 0)?;
    let table = value("table-id", route.table_id, 1)?;
    let name = &route.next_hop_interface;
    let link = read.links.iter_mut().find(|link| link.name.as_str() == *name);
    let link = link.ok_or_else(|| {
        let why = format!("there is no interface {}", name.escape_debug());
        wrong(&at("next-hop-interface"), why)
    })?;
    link.routes.push(address::Route { to, via, metric, table, on_link: false });
    Ok(())
}

/// The link that name servers are asked through: it has the default route, or asks for one.
fn outward(read: &mut HostNetwork) -> Option<&mut Link> {
    let leads = |link: &Link| link.routes.iter().any(address::Route::is_default);
    let asks = |link: &Link| link.dhcp4 || link.dhcp6;
    let first = |is: &dyn Fn(&Link) -> bool| read.links.iter().position(is);
    let at = first(&leads).or_else(|| first(&asks));
    let at = at.or_else(|| first(&|link| !link.addresses.is_empty()));
    read.links.get_mut(at?)
}
