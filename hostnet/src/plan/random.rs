//! Networks at random, for tests.

use std::collections::BTreeSet;

use crate::from_yaml;
use crate::model::HostNetwork;

/// Decisions that bytes stand for.
struct Decisions<'b>(std::slice::Iter<'b, u8>);

impl Decisions<'_> {
    fn below(&mut self, limit: u8) -> u8 {
        self.0.next().copied().unwrap_or(0) % limit
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::from(self.below(u8::try_from(texts.len()).unwrap()))]
    }
}

/// Settings, addresses and routes of a link; a member has no addresses.
fn add_settings(link: &mut String, mtus: &[&str], is_member: bool, d: &mut Decisions<'_>) {
    if !mtus.is_empty() && d.below(3) == 0 {
        link.push_str(&format!(", mtu: {}", d.one_of(mtus)));
    }
    if d.below(6) == 0 {
        link.push_str(", up: false");
    }
    let addresses = if is_member { 0 } else { d.below(3) };
    let nets: BTreeSet<u8> = (0..addresses).map(|_| d.below(4)).collect();
    let net = |net: &u8| {
        let host = link.len() % 5 + 2;
        [format!("10.{net}.0.{host}/24"), format!("'2001:db8:{net}::{host}/64'")]
    };
    let addresses: Vec<String> = nets.iter().flat_map(net).collect();
    let mut routes = Vec::new();
    for net in &nets {
        match d.below(4) {
            0 => routes.push(format!("{{to: 192.168.{}.0/24, via: 10.{net}.0.1}}", d.below(9))),
            1 => routes.push(format!(
                "{{to: '2001:db8:f::/48', via: '2001:db8:{net}::1', metric: {}}}",
                d.below(9)
            )),
            2 => routes.push(format!("{{to: 192.168.{}.0/24, table: 7}}", d.below(9))),
            _ => {}
        }
    }
    link.push_str(&format!(
        ", addresses: [{}], routes: [{}]",
        addresses.join(", "),
        routes.join(", ")
    ));
}

/// The name in the text of a link.
fn name_of(link: &str) -> &str {
    let name = link.strip_prefix("name: ").unwrap_or_default();
    name.split(',').next().unwrap_or_default()
}

fn add_links_with_parents(links: &mut Vec<String>, d: &mut Decisions<'_>) {
    for (name, kind) in [("vl0", "vlan, vlan"), ("vx0", "vxlan, vni"), ("mv0", "macvlan")] {
        if d.below(2) == 0 {
            let parents = ["e0", "e3", "br0", "bo0"];
            let is_there = |name: &&str| links.iter().any(|link| name_of(link) == *name);
            let parents: Vec<&str> = parents.into_iter().filter(is_there).collect();
            if parents.is_empty() {
                continue;
            }
            let parent = d.one_of(&parents);
            let number =
                if kind == "macvlan" { String::new() } else { format!(": {}", 1 + d.below(2)) };
            links.push(format!("name: {name}, kind: {kind}{number}, parent: {parent}"));
        }
    }
}

/// A network of four cards and up to six virtual links, which may be wrong.
pub(crate) fn network(bytes: &[u8]) -> Option<HostNetwork> {
    let mut d = Decisions(bytes.iter());
    let mut links = Vec::new();
    let mut free = vec!["e0", "e1", "e2", "e3"];
    for (name, kind) in [
        ("bo0", "kind: bond, mode: active-backup"),
        ("br0", "kind: bridge"),
        ("br1", "kind: bridge, stp: true"),
    ] {
        if d.below(2) == 0 {
            continue;
        }
        let mut members = Vec::new();
        for _ in 0..d.below(3) {
            if !free.is_empty() {
                members.push(free.remove(usize::from(d.below(4)) % free.len()));
            }
        }
        if name != "bo0"
            && d.below(3) == 0
            && links.iter().any(|link: &String| link.starts_with("name: bo0"))
            && !free.contains(&"bo0")
        {
            members.push("bo0");
        }
        let watched = "kind: bond, mode: balance-rr, miimon_ms: 100, updelay_ms: 200, min_links: 1";
        let by_arp =
            "kind: bond, mode: balance-rr, arp_interval_ms: 100, arp_ip_targets: [10.0.0.1]";
        let kind = match (name, d.below(4)) {
            ("bo0", 0) => watched,
            ("bo0", 1) => by_arp,
            _ => kind,
        };
        let primary = members.first().filter(|_| kind.ends_with("backup"));
        let primary = primary.map(|name| format!(", primary: {name}")).unwrap_or_default();
        let kind = format!("{kind}{primary}");
        links.push(format!("name: {name}, {kind}, members: [{}]", members.join(", ")));
    }
    for name in ["e0", "e1", "e2", "e3"] {
        if !free.contains(&name) || d.below(3) > 0 {
            links.push(format!("name: {name}"));
        }
    }
    add_links_with_parents(&mut links, &mut d);
    let members = |link: &String| Some(link.split_once("members")?.1.to_owned());
    let bonded = links.iter().find(|link| name_of(link) == "bo0").and_then(members);
    let bonded = bonded.unwrap_or_default();
    let members: String = links.iter().filter_map(members).collect();
    for link in &mut links {
        let name = name_of(link).to_owned();
        let mtus: &[&str] = match name.as_str() {
            // A bond gives its members its own one.
            name if bonded.contains(name) => &[],
            "vx0" => &["1300"],
            "bo0" | "e0" | "e1" | "e2" | "e3" => &["1400", "1500", "9000"],
            _ => &["1400", "1400", "9000"],
        };
        add_settings(link, mtus, members.contains(&name), &mut d);
    }
    let links: Vec<String> = links.into_iter().map(|link| format!("{{{link}}}")).collect();
    let rules = d.one_of(&[
        "",
        "{from: 10.0.0.0/8, table: 7}",
        "{from: 10.0.0.0/8, table: 7, priority: 5}, {from: 10.0.0.0/8, table: 7}",
    ]);
    let text = format!("{{links: [{}], rules: [{rules}]}}", links.join(", "));
    let network = from_yaml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    network.check().is_ok().then_some(network)
}
