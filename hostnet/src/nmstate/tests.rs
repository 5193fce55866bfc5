use crate::{Format, from_any_form, from_yaml, render};

#[test]
fn a_file_of_nmstate_says_what_our_own_form_says() {
    let text = "
dns-resolver:
  config: {search: [example.com], server: [192.0.2.53]}
route-rules:
  config: [{ip-to: 192.0.2.0/24, ip-from: 198.51.100.0/24, priority: 100, route-table: 200}]
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, metric: 150, table-id: 254}
interfaces:
- name: eth0
  type: ethernet
  state: up
  identifier: mac-address
  mac-address: 52:54:00:00:00:01
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.251, prefix-length: 24}]}
  ipv6: {enabled: true, dhcp: true, autoconf: true, auto-dns: true}
- {name: eth1, state: down}
- name: bond0
  type: bond
  link-aggregation: {mode: active-backup, port: [eth2], options: {miimon: '140', primary: eth2, fail_over_mac: active}}
- {name: eth2, type: ethernet}
- {name: bond0.5, type: vlan, vlan: {base-iface: bond0, id: 5}, mtu: 1400}
- {name: br0, type: linux-bridge, bridge: {options: {stp: {enabled: true}}, port: [{name: bond0.5}]}}
- {name: br9, type: linux-bridge, state: absent}
- {name: veth1, type: veth, state: absent}
- {name: ovs0, type: ovs-bridge, bridge: {port: [{name: ovs0}, {name: eth3}]}}
- {name: ovs0, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 10.0.0.1, prefix-length: 24}]}}
- {name: eth3, type: ethernet}
";
    let own = "
links:
  - {name: eth0, permanent_mac: '52:54:00:00:00:01', addresses: [192.0.2.251/24], dhcp6: true, dns_servers: [192.0.2.53],
     search_domains: [example.com], routes: [{to: default, via: 192.0.2.1, metric: 150, table: 254}]}
  - {name: eth1, up: false}
  - {name: bond0, kind: bond, mode: active-backup, members: [eth2], miimon_ms: 140, primary: eth2, fail_over_mac: active}
  - {name: eth2}
  - {name: bond0.5, kind: vlan, vlan: 5, parent: bond0, mtu: 1400}
  - {name: br0, kind: bridge, members: [bond0.5], stp: true}
  - {name: ovs0, kind: ovs_bridge, members: [eth3], addresses: [10.0.0.1/24]}
  - {name: eth3}
absent: [br9, veth1]
rules: [{from: 198.51.100.0/24, to: 192.0.2.0/24, table: 200, priority: 100}]
";
    let read = from_any_form(text).unwrap().network;
    assert!(read.means(&from_yaml(own).unwrap()), "{read:#?}");
    read.check().unwrap();
}

/// Files, and what is told of them.
const REFUSED: &[(&str, &str)] = &[
    ("interfaces: []", "it has no interfaces"),
    ("interfaces: [{name: a, type: veth}]", "interfaces[0].type: `veth` has no counterpart here"),
    (
        "interfaces: [{name: a, type: ethernet, state: absent}]",
        "interfaces[0].state: a card is never absent",
    ),
    ("interfaces: [{name: a, state: ignore}]", "interfaces[0].state: `ignore` has no counterpart"),
    (
        "interfaces: [{name: a, lldp: {enabled: true}}]",
        "interfaces[0].lldp: `lldp` has no counterpart here",
    ),
    ("interfaces: [{name: a, type: bond}]", "interfaces[0].link-aggregation: is missing"),
    (
        "interfaces: [{name: a, vlan: {base-iface: b, id: 5}}]",
        "interfaces[0].vlan: an interface of this type has none",
    ),
    (
        "interfaces: [{name: a, identifier: mac-address}]",
        "interfaces[0].identifier: `mac-address` finds",
    ),
    (
        "interfaces: [{name: a, ipv4: {address: [{ip: 10.0.0.1, prefix-length: 24}]}}]",
        "interfaces[0].ipv4.enabled: it is not",
    ),
    (
        "interfaces: [{name: a, ipv6: {enabled: true, autoconf: true}}]",
        "interfaces[0].ipv6.autoconf: advertisements",
    ),
    (
        "interfaces: [{name: a, ipv4: {enabled: true, dhcp: true, auto-dns: false}}]",
        "interfaces[0].ipv4.auto-dns: `false`",
    ),
    (
        "interfaces: [{name: a, ipv4: {enabled: true, dhcp: true, auto-route-metric: 5}}]",
        "interfaces[0].ipv4.auto-route-metric",
    ),
    (
        "interfaces: [{name: a, ipv4: {enabled: true, address: [{ip: '::1', prefix-length: 64}]}}]",
        "interfaces[0].ipv4.address[0].ip",
    ),
    (
        "interfaces: [{name: a, type: bond, link-aggregation: {mode: 802.3ad, options: {resend_igmp: 1}}}]",
        "interfaces[0].link-aggregation.options.resend_igmp: has no counterpart here",
    ),
    (
        "interfaces: [{name: a, type: ovs-interface}]",
        "interfaces[0].name: an interface of Open vSwitch has the name",
    ),
    (
        "routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: a}]}",
        "next-hop-interface: there is no interface a",
    ),
    (
        "routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: a, state: absent}]}",
        "routes.config[0].state: `state`",
    ),
    (
        "route-rules: {config: [{ip-to: 10.0.0.0/8}]}",
        "route-rules.config[0]: a rule names its `route-table`",
    ),
    (
        "dns-resolver: {config: {server: [192.0.2.1]}}",
        "dns-resolver.config: no link leads to a server",
    ),
    (
        "interfaces: [{name: a}]\nhostname: {config: b}",
        "hostname: `hostname` has no counterpart here",
    ),
];

#[test]
fn what_nmstate_has_alone_is_refused_by_name() {
    for (text, told) in REFUSED {
        let error = from_any_form(text).expect_err(text).to_string();
        assert!(error.contains(*told), "{text}: {error}");
    }
}

#[test]
fn what_nmstate_gets_is_read_back_alike() {
    for mut network in crate::render::tests::networks() {
        let Ok(files) = render(Format::Nmstate, &network, None) else { continue };
        let read = from_any_form(&files[0].content);
        let read = read.unwrap_or_else(|why| panic!("{why}\n{}", files[0].content));
        // nmstate says the mode of each bond of Open vSwitch, and has no word for its other options.
        for link in &mut network.links {
            if let crate::model::link::Kind::OvsBond { options, .. } = &mut link.kind {
                *options =
                    Some(options.take().unwrap_or_else(|| "bond_mode=active-backup".to_owned()));
            }
        }
        assert!(
            read.network.means(&network),
            "{}\n{:#?}\n{network:#?}",
            files[0].content,
            read.network
        );
    }
}
