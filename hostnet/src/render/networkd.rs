//! Core: units of systemd-networkd: one that makes a link, one that names a card, one for what lies
//! on each.

use std::collections::BTreeMap;

use model::json::Malformed;

use super::keyfile::KeyFile;
use super::{DHCP_METRIC, RenderedFile, file, only_kinds, rules_by_link};
use crate::model::HostNetwork;
use crate::model::address::{Route, Rule};
use crate::model::link::{Kind, Link, LinkName, Word};

pub(super) fn render(network: &HostNetwork) -> Result<Vec<RenderedFile>, Malformed> {
    only_kinds("systemd-networkd", network, |kind| {
        !matches!(kind, Kind::OvsBridge { .. } | Kind::OvsBond { .. })
    })?;
    let rules = rules_by_link(network);
    let controllers = network.controllers();
    let mut files = Vec::new();
    for link in &network.links {
        let path = |suffix: &str| format!("etc/systemd/network/10-gantry-{}.{suffix}", link.name);
        files.extend(card(link).map(|unit| file(path("link"), unit.text())));
        files.extend(device(link).map(|unit| file(path("netdev"), unit.text())));
        let rules = rules.get(&link.name).map(Vec::as_slice).unwrap_or_default();
        let mut unit = on_link(network, link, &controllers);
        dhcp(&mut unit, link);
        link.routes.iter().for_each(|one| route(&mut unit, one));
        rules.iter().for_each(|one| rule(&mut unit, one));
        files.push(file(path("network"), unit.text()));
    }
    Ok(files)
}

/// The unit that gives a card its name.
fn card(link: &Link) -> Option<KeyFile> {
    let Kind::Ethernet { permanent_mac: Some(mac) } = link.kind else { return None };
    let mut unit = KeyFile::default();
    unit.section("Match");
    unit.set("PermanentMACAddress", mac);
    unit.section("Link");
    unit.set("Name", &link.name);
    Some(unit)
}

/// The unit that makes a virtual link.
fn device(link: &Link) -> Option<KeyFile> {
    let kind = match &link.kind {
        Kind::Ethernet { .. } | Kind::OvsBridge { .. } | Kind::OvsBond { .. } => return None,
        Kind::Bond(_) => "bond",
        Kind::Vlan { .. } => "vlan",
        Kind::Bridge { .. } => "bridge",
        Kind::Macvlan { .. } => "macvlan",
        Kind::Vxlan(_) => "vxlan",
        Kind::Dummy => "dummy",
    };
    let mut unit = KeyFile::default();
    unit.section("NetDev");
    unit.set("Name", &link.name);
    unit.set("Kind", kind);
    unit.set_some("MTUBytes", link.mtu);
    unit.set_some("MACAddress", link.mac);
    match &link.kind {
        Kind::Bond(bond) => {
            unit.section("Bond");
            unit.set("Mode", bond.mode.word());
            unit.set_some("MIIMonitorSec", bond.miimon_ms.map(|ms| format!("{ms}ms")));
            unit.set_some("LACPTransmitRate", bond.lacp_rate.map(Word::word));
            unit.set_some("TransmitHashPolicy", bond.xmit_hash_policy.map(Word::word));
            for (option, text) in bond.tuning.given() {
                let unit_of_time = if option.is_ms() { "ms" } else { "" };
                unit.set(option.names().networkd, text.replace(',', " ") + unit_of_time);
            }
        }
        Kind::Vlan { id, .. } => {
            unit.section("VLAN");
            unit.set("Id", id);
        }
        Kind::Bridge { stp: Some(stp), .. } => {
            unit.section("Bridge");
            unit.set("STP", yes(*stp));
        }
        Kind::Macvlan { mode, .. } => {
            unit.section("MACVLAN");
            unit.set("Mode", mode.word());
        }
        Kind::Vxlan(vxlan) => {
            unit.section("VXLAN");
            unit.set("VNI", vxlan.vni);
            unit.set_some("Local", vxlan.local);
            let is_group = vxlan.remote.is_some_and(|remote| remote.is_multicast());
            unit.set_some(if is_group { "Group" } else { "Remote" }, vxlan.remote);
            unit.set("DestinationPort", vxlan.port);
            unit.set_some("Independent", Some("yes").filter(|_| vxlan.parent.is_none()));
        }
        Kind::Ethernet { .. }
        | Kind::Bridge { stp: None, .. }
        | Kind::Dummy
        | Kind::OvsBridge { .. }
        | Kind::OvsBond { .. } => {}
    }
    Some(unit)
}

/// The unit of what lies on a link, up to its routes.
fn on_link(
    network: &HostNetwork,
    link: &Link,
    controllers: &BTreeMap<&LinkName, &Link>,
) -> KeyFile {
    let mut unit = KeyFile::default();
    unit.section("Match");
    unit.set("Name", &link.name);
    unit.section("Link");
    unit.set_some("MTUBytes", link.mtu);
    unit.set_some("MACAddress", link.mac);
    unit.set_some("ActivationPolicy", Some("down").filter(|_| !link.up));
    unit.section("Network");
    let dhcp = match (link.dhcp4, link.dhcp6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, true) => "ipv6",
        (false, false) => "no",
    };
    unit.set("DHCP", dhcp);
    for address in &link.addresses {
        unit.set("Address", address);
    }
    for server in &link.dns.servers {
        unit.set("DNS", server);
    }
    unit.set_some("Domains", Some(link.dns.search.join(" ")).filter(|list| !list.is_empty()));
    match controllers.get(&link.name) {
        Some(Link { name, kind: Kind::Bond(bond), .. }) => {
            unit.set("Bond", name);
            let is_primary = bond.working_primary() == Some(&link.name);
            unit.set_some("PrimarySlave", Some("yes").filter(|_| is_primary));
        }
        Some(controller) => unit.set("Bridge", &controller.name),
        None => {}
    }
    for above in network.links.iter().filter(|above| above.kind.parent() == Some(&link.name)) {
        let key = match above.kind {
            Kind::Vlan { .. } => "VLAN",
            Kind::Macvlan { .. } => "MACVLAN",
            Kind::Vxlan(_) => "VXLAN",
            Kind::Ethernet { .. }
            | Kind::Bond(_)
            | Kind::Bridge { .. }
            | Kind::Dummy
            | Kind::OvsBridge { .. }
            | Kind::OvsBond { .. } => continue,
        };
        unit.set(key, &above.name);
    }
    unit
}

/// Routes of IPv6 come from advertisements, with DHCP or without.
fn dhcp(unit: &mut KeyFile, link: &Link) {
    if link.dhcp4 || link.dhcp6 {
        for section in ["DHCPv4", "IPv6AcceptRA"] {
            unit.section(section);
            unit.set("RouteMetric", DHCP_METRIC);
        }
    }
}

fn route(unit: &mut KeyFile, route: &Route) {
    unit.section("Route");
    unit.set("Destination", route.to);
    unit.set_some("Gateway", route.via);
    unit.set_some(
        "Scope",
        Some("link").filter(|_| route.via.is_none() && route.to.addr().is_ipv4()),
    );
    unit.set_some("Metric", route.metric);
    unit.set_some("Table", route.table);
    unit.set_some("GatewayOnLink", Some("yes").filter(|_| route.on_link));
}

fn rule(unit: &mut KeyFile, rule: &Rule) {
    unit.section("RoutingPolicyRule");
    unit.set_some("From", rule.from);
    unit.set_some("To", rule.to);
    unit.set("Table", rule.table);
    unit.set_some("Priority", rule.priority);
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}
