//! Core: keyfiles of NetworkManager: one connection for each link.

use model::json::Malformed;

use super::keyfile::KeyFile;
use super::{DHCP_METRIC, RenderedFile, only_kinds, rules_by_link};
use crate::model::HostNetwork;
use crate::model::address::Rule;
use crate::model::link::{Kind, Link, MacvlanMode, Vxlan, Word};

/// The priority of the first rule that has none; NetworkManager wants one.
const PRIORITY: u32 = 30_000;

pub(super) fn render(network: &HostNetwork) -> Result<Vec<RenderedFile>, Malformed> {
    only_kinds("a keyfile here", network, |kind| {
        !matches!(kind, Kind::OvsBridge { .. } | Kind::OvsBond { .. })
    })?;
    let rules = rules_by_link(network);
    let controllers = network.controllers();
    let files = network.links.iter().map(|link| {
        let rules = rules.get(&link.name).map(Vec::as_slice).unwrap_or_default();
        RenderedFile {
            path: format!("etc/NetworkManager/system-connections/{}.nmconnection", link.name),
            // NetworkManager ignores files that others may read.
            mode: 0o600,
            content: connection(link, controllers.get(&link.name).copied(), rules).text(),
        }
    });
    Ok(files.collect())
}

fn connection(link: &Link, controller: Option<&Link>, rules: &[&Rule]) -> KeyFile {
    let mut file = KeyFile::default();
    file.section("connection");
    file.set("id", &link.name);
    file.set("type", link.kind.word());
    if !matches!(link.kind, Kind::Ethernet { permanent_mac: Some(_) }) {
        file.set("interface-name", &link.name);
    }
    file.set_some("autoconnect", Some("false").filter(|_| !link.up));
    if let Some(controller) = controller {
        file.set("master", &controller.name);
        file.set("slave-type", controller.kind.word());
    }
    file.section("ethernet");
    if let Kind::Ethernet { permanent_mac } = link.kind {
        file.set_some("mac-address", permanent_mac);
    }
    file.set_some("cloned-mac-address", link.mac);
    file.set_some("mtu", link.mtu);
    kind(&mut file, &link.kind);
    if controller.is_none() {
        family(&mut file, link, true, rules);
        family(&mut file, link, false, rules);
    }
    file
}

fn kind(file: &mut KeyFile, kind: &Kind) {
    match kind {
        Kind::Bond(bond) => {
            file.section("bond");
            file.set("mode", bond.mode.word());
            file.set_some("miimon", bond.miimon_ms);
            file.set_some("lacp_rate", bond.lacp_rate.map(Word::word));
            file.set_some("xmit_hash_policy", bond.xmit_hash_policy.map(Word::word));
            bond.tuning.given().for_each(|(option, text)| file.set(option.names().kernel, text));
            file.set_some("primary", bond.working_primary());
        }
        Kind::Vlan { id, parent } => {
            file.section("vlan");
            file.set("id", id);
            file.set("parent", parent);
        }
        Kind::Bridge { stp, .. } => {
            file.section("bridge");
            file.set_some("stp", *stp);
        }
        Kind::Macvlan { parent, mode } => {
            file.section("macvlan");
            file.set("parent", parent);
            file.set("mode", mode_number(*mode));
        }
        Kind::Vxlan(Vxlan { vni, parent, local, remote, port }) => {
            file.section("vxlan");
            file.set("id", vni);
            file.set_some("parent", parent.as_ref());
            file.set_some("local", *local);
            file.set_some("remote", *remote);
            file.set("destination-port", port);
        }
        Kind::Ethernet { .. } | Kind::Dummy | Kind::OvsBridge { .. } | Kind::OvsBond { .. } => {}
    }
}

/// NetworkManager counts the modes in its own way.
fn mode_number(mode: MacvlanMode) -> u8 {
    match mode {
        MacvlanMode::Vepa => 1,
        MacvlanMode::Bridge => 2,
        MacvlanMode::Private => 3,
        MacvlanMode::Passthru => 4,
    }
}

fn family(file: &mut KeyFile, link: &Link, is_v4: bool, rules: &[&Rule]) {
    file.section(if is_v4 { "ipv4" } else { "ipv6" });
    let addresses: Vec<_> =
        link.addresses.iter().filter(|address| address.ip().is_ipv4() == is_v4).collect();
    let has_dhcp = if is_v4 { link.dhcp4 } else { link.dhcp6 };
    let method = match (has_dhcp, addresses.is_empty(), is_v4) {
        (true, ..) => "auto",
        (false, false, _) => "manual",
        (false, true, true) => "disabled",
        // The kernel makes its address of the link itself.
        (false, true, false) => "ignore",
    };
    file.set("method", method);
    file.set_some("route-metric", Some(DHCP_METRIC).filter(|_| has_dhcp));
    for (at, address) in addresses.iter().enumerate() {
        file.set(&format!("address{}", at + 1), address);
    }
    let routes = link.routes.iter().filter(|route| route.to.addr().is_ipv4() == is_v4);
    for (at, route) in routes.enumerate() {
        let key = format!("route{}", at + 1);
        let hop = match (route.via, route.metric) {
            (Some(via), _) => format!(",{via}"),
            (None, Some(_)) if is_v4 => ",0.0.0.0".to_owned(),
            (None, Some(_)) => ",::".to_owned(),
            (None, None) => String::new(),
        };
        let metric = route.metric.map(|metric| format!(",{metric}")).unwrap_or_default();
        file.set(&key, format!("{}{hop}{metric}", route.to));
        let table = route.table.map(|table| format!("table={table}"));
        let on_link = Some("onlink=true".to_owned()).filter(|_| route.on_link);
        let options: Vec<String> = table.into_iter().chain(on_link).collect();
        if !options.is_empty() {
            file.set(&format!("{key}_options"), options.join(","));
        }
    }
    let servers = link.dns.servers.iter().filter(|server| server.is_ipv4() == is_v4);
    let servers: String = servers.map(|server| format!("{server};")).collect();
    let search: String = link.dns.search.iter().map(|domain| format!("{domain};")).collect();
    file.set_some("dns", Some(servers).filter(|list| !list.is_empty()));
    let takes_search = method != "disabled" && method != "ignore";
    file.set_some("dns-search", Some(search).filter(|list| takes_search && !list.is_empty()));
    let rules = rules.iter().filter(|rule| rule.is_ipv4() == is_v4);
    for (at, rule) in (1_u32..).zip(rules) {
        let priority = rule.priority.unwrap_or(PRIORITY + at);
        let bare = Rule { priority: None, ..(*rule).clone() };
        file.set(&format!("routing-rule{at}"), format!("priority {priority} {bare}"));
    }
}
