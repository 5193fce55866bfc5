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

/// Settings, addresses and routes of a link.
fn add_settings(link: &mut String, has_mtu: bool, d: &mut Decisions<'_>) {
    if d.below(3) == 0 && has_mtu {
        link.push_str(&format!(", mtu: {}", d.one_of(&["1400", "1500", "9000"])));
    }
    if d.below(6) == 0 {
        link.push_str(", up: false");
    }
    let nets: BTreeSet<u8> = (0..d.below(3)).map(|_| d.below(4)).collect();
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

/// A network of four cards and up to six virtual links, which may be wrong.
pub(super) fn network(bytes: &[u8]) -> Option<HostNetwork> {
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
        let kind =
            if name == "bo0" && d.below(2) == 0 { "kind: bond, mode: balance-rr" } else { kind };
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
    for (name, kind) in [("vl0", "vlan, vlan"), ("vx0", "vxlan, vni"), ("mv0", "macvlan")] {
        if d.below(2) == 0 {
            let parent = d.one_of(&["e0", "e3", "br0", "bo0"]);
            let number =
                if kind == "macvlan" { String::new() } else { format!(": {}", 1 + d.below(2)) };
            links.push(format!("name: {name}, kind: {kind}{number}, parent: {parent}"));
        }
    }
    // A bond gives its members its own MTU.
    let bonded = links.iter().find(|link| link.starts_with("name: bo0")).cloned();
    let bonded = bonded.and_then(|link| Some(link.split_once("members")?.1.to_owned()));
    let bonded = bonded.unwrap_or_default();
    for link in &mut links {
        let has_mtu = !bonded.contains(link.get(6..8).unwrap_or_default());
        add_settings(link, has_mtu, &mut d);
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
