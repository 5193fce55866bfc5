use crate::{Format, from_any_form, from_yaml, render};

#[test]
fn a_file_of_netplan_says_what_our_own_form_says() {
    let text = "
network:
  version: 2
  renderer: networkd
  ethernets:
    lan:
      match: {macaddress: '52:54:00:00:00:01'}
      set-name: em0
      dhcp4: no
      dhcp6: true
      dhcp6-overrides: {route-metric: 100}
      optional: true
      addresses: [192.0.2.10/24]
      gateway4: 192.0.2.1
      nameservers: {addresses: [192.0.2.53], search: [example.com]}
      routes:
      - {to: 10.0.0.0/8, via: 192.0.2.254, metric: 5, table: 100}
      - {to: 198.51.100.0/24, scope: link}
      - {to: default, via: 203.0.113.1, on-link: true, table: 101}
      routing-policy: [{from: 192.0.2.0/24, table: 100, priority: 7}]
    em1:
    em2: {}
  bonds:
    bond0:
      interfaces: [em1, em2]
      parameters: {mode: 802.3ad, mii-monitor-interval: 100ms, up-delay: 1s, min-links: 1, lacp-rate: fast}
  bridges:
    br0: {interfaces: [vlan5], parameters: {stp: false}, mtu: 1500, activation-mode: 'off'}
  vlans:
    vlan5: {id: 5, link: bond0}
    vlan6: {id: 6, link: lan, macaddress: '02:00:00:00:00:01'}
";
    let own = "
links:
  - {name: em0, permanent_mac: '52:54:00:00:00:01', dhcp6: true, addresses: [192.0.2.10/24],
     dns_servers: [192.0.2.53], search_domains: [example.com], routes: [{to: default, via: 192.0.2.1},
     {to: 10.0.0.0/8, via: 192.0.2.254, metric: 5, table: 100}, {to: 198.51.100.0/24},
     {to: default, via: 203.0.113.1, on_link: true, table: 101}]}
  - {name: em1}
  - {name: em2}
  - {name: bond0, kind: bond, mode: 802.3ad, miimon_ms: 100, updelay_ms: 1000, min_links: 1, lacp_rate: fast,
     members: [em1, em2]}
  - {name: br0, kind: bridge, members: [vlan5], stp: false, mtu: 1500, up: false}
  - {name: vlan5, kind: vlan, vlan: 5, parent: bond0}
  - {name: vlan6, kind: vlan, vlan: 6, parent: em0, mac: '02:00:00:00:00:01'}
rules: [{from: 192.0.2.0/24, table: 100, priority: 7}]
";
    let read = from_any_form(text).unwrap().network;
    assert!(read.means(&from_yaml(own).unwrap()), "{read:#?}");
    read.check().unwrap();
}

/// Files, and what is told of them.
const REFUSED: &[(&str, &str)] = &[
    ("version: 1", "network.version: version 1 has no counterpart here"),
    ("version: 2", "network: it has no devices"),
    ("wifis: {w: {}}", "network.wifis: `wifis` has no counterpart here"),
    (
        "ethernets: {a: {wakeonlan: true}}",
        "network.ethernets.a.wakeonlan: `wakeonlan` has no counterpart here",
    ),
    (
        "ethernets: {a: {match: {name: 'en*'}}}",
        "network.ethernets.a.match.name: `en*`: a card is found",
    ),
    ("ethernets: {a: {set-name: b}}", "network.ethernets.a.match: `set-name` needs"),
    ("ethernets: {a: {link: b}}", "network.ethernets.a.link: has no counterpart"),
    (
        "ethernets: {a: {addresses: [192.0.2.1]}}",
        "network.ethernets.a.addresses[0]: 192.0.2.1 lacks its prefix",
    ),
    (
        "ethernets: {a: {addresses: [{192.0.2.1/24: {label: x}}]}}",
        "network.ethernets.a.addresses[0]: ",
    ),
    ("ethernets: {a: {dhcp4: maybe}}", "network.ethernets.a.dhcp4: `maybe` is neither"),
    (
        "ethernets: {a: {dhcp4: true, dhcp4-overrides: {route-metric: 5}}}",
        "dhcp4-overrides.route-metric: routes by DHCP",
    ),
    (
        "ethernets: {a: {dhcp4: true, dhcp4-overrides: {use-dns: no}}}",
        "dhcp4-overrides.use-dns: `use-dns` has no",
    ),
    (
        "ethernets: {a: {routes: [{to: default, via: 192.0.2.1, type: blackhole}]}}",
        "network.ethernets.a.routes[0].type: `type`",
    ),
    (
        "ethernets: {a: {routes: [{to: default, scope: link}]}}",
        "network.ethernets.a.routes[0].to: default without",
    ),
    ("ethernets: {a: {activation-mode: manual}}", "network.ethernets.a.activation-mode: `manual`"),
    (
        "ethernets: {a: {nameservers: {search: ['a b']}}}",
        "network.ethernets.a.nameservers.search[0]: `a b` is no domain",
    ),
    ("bonds: {a: {interfaces: [b]}}", "network.bonds.a.interfaces[0]: there is no device b"),
    ("bonds: {a: {parameters: {mode: x}}}", "network.bonds.a.parameters.mode: `x` is none of"),
    (
        "bonds: {a: {parameters: {arp-validate: all}}}",
        "network.bonds.a.parameters.arp-validate: `arp-validate`",
    ),
    (
        "bonds: {a: {parameters: {up-delay: soon}}}",
        "network.bonds.a.parameters.up-delay: soon is none of",
    ),
    (
        "bridges: {a: {parameters: {priority: 5}}}",
        "network.bridges.a.parameters.priority: `priority`",
    ),
    ("vlans: {a: {link: b}}", "network.vlans.a.id: is missing"),
    ("tunnels: {a: {mode: sit}}", "network.tunnels.a.mode: of the tunnels, vxlan alone"),
    ("ethernets: {a: {}}\n  bonds: {a: {}}", "network.bonds.a: a is there twice"),
];

#[test]
fn what_netplan_has_alone_is_refused_by_name() {
    for (text, told) in REFUSED {
        let text = format!("network:\n  {text}\n");
        let error = from_any_form(&text).expect_err(&text).to_string();
        assert!(error.contains(*told), "{text}: {error}");
    }
}

#[test]
fn what_netplan_gets_is_read_back_alike() {
    for network in crate::render::tests::networks() {
        let Ok(files) = render(Format::Netplan, &network, None) else { continue };
        let read = from_any_form(&files[0].content)
            .unwrap_or_else(|why| panic!("{why}\n{}", files[0].content));
        assert!(read.network.means(&network), "{}\n{:#?}", files[0].content, read.network);
    }
}
