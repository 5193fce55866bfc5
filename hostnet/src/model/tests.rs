use proptest::prelude::*;

use super::HostNetwork;
use crate::from_os_net_config;

/// A host with one link of each kind.
pub(crate) const EVERY_KIND: &str = r#"
links:
  - {name: em0, permanent_mac: "52:54:00:00:00:01", mtu: 9000, dns_servers: [192.0.2.53, "2001:db8::53"],
     search_domains: [example.com], addresses: [192.0.2.10/24, "2001:db8::10/64"],
     routes: [{to: default, via: 192.0.2.1}, {to: "::/0", via: "2001:db8::1", metric: 100},
              {to: 10.0.0.0/8, via: 192.0.2.254, table: 100}]}
  - {name: em1, permanent_mac: "52:54:00:00:00:02"}
  - {name: em2, permanent_mac: "52:54:00:00:00:03"}
  - {name: em3}
  - {name: bond0, kind: bond, mode: 802.3ad, miimon_ms: 100, lacp_rate: fast,
     xmit_hash_policy: layer3+4, members: [em1, em2], mac: "02:00:00:00:00:01"}
  - {name: vlan100, kind: vlan, vlan: 100, parent: bond0, addresses: [198.51.100.10/24]}
  - {name: br0, kind: bridge, members: [em3], stp: false, dhcp4: true}
rules:
  - {from: 192.0.2.0/24, table: 100, priority: 1000}
"#;

fn read(text: &str) -> Result<HostNetwork, String> {
    let network = HostNetwork::from_yaml(text).map_err(|error| error.to_string())?;
    network.check().map_err(|error| error.to_string())?;
    Ok(network)
}

/// Links, and what is told of them.
const WRONG: &[(&str, &str)] = &[
    (
        "{name: a, kind: vlan, vlan: 4095, parent: b}, {name: b}",
        "links[0].vlan: 4095 is none of 1 to 4094",
    ),
    (
        "{name: b}, {name: a, kind: vlan, vlan: 0, parent: b}",
        "links[1].vlan: 0 is none of 1 to 4094",
    ),
    (
        "{name: b}, {name: a, kind: vlan, vlan: 70000, parent: b}",
        "links[1].vlan: 70000 is none of 1 to 4094",
    ),
    ("{name: b}, {name: a, kind: vlan, vlan: ten, parent: b}", "links[1].vlan: "),
    ("{name: b}, {name: a, kind: vlan, parent: b}", "links[1].vlan: a link of kind vlan needs it"),
    ("{name: b}, {name: a, vlan: 5}", "links[1].vlan: a link of kind ethernet has no such option"),
    (
        "{name: b}, {name: x, kind: vlan, vlan: 5, parent: b}, {name: y, kind: vlan, vlan: 5, parent: b}",
        "links[2].vlan: b has VLAN 5 already, as x",
    ),
    ("{name: a}, {name: a}", "links[1].name: a is there twice"),
    ("{name: abcdefghijklmnop}", "links[0].name: `abcdefghijklmnop` has 16 bytes"),
    ("{name: 'a b'}", "links[0].name: `a b` has a character that no name has"),
    ("{name: ''}", "links[0].name: `` is no name"),
    (
        "{name: a}, {name: x, kind: bond, mode: 802.3ad, members: [a]}, {name: y, kind: bridge, members: [a]}",
        "links[2].members[0]: a is a member of x already",
    ),
    (
        "{name: x, kind: bridge, members: [a, a]}, {name: a}",
        "links[0].members[1]: a is a member of x already",
    ),
    ("{name: x, kind: bridge, members: [a]}", "links[0].members[0]: there is no link a"),
    ("{name: x, kind: vlan, vlan: 5, parent: a}", "links[0].parent: there is no link a"),
    (
        "{name: x, kind: bridge, members: [y]}, {name: y, kind: vlan, vlan: 5, parent: x}",
        "links[0]: x → y → x is a cycle",
    ),
    ("{name: x, kind: vlan, vlan: 5, parent: x}", "links[0]: x → x is a cycle"),
    (
        "{name: x, kind: bond, mode: fast}",
        "links[0].mode: `fast` is none of balance-rr, active-backup",
    ),
    ("{name: x, kind: bond}", "links[0].mode: a link of kind bond needs it"),
    ("{name: x, kind: tunnel}", "links[0].kind: `tunnel` is none of ethernet"),
    ("{name: x, colour: red}", "links[0]"),
    (
        "{name: x, addresses: [192.0.2.0/24]}",
        "links[0].addresses[0]: 192.0.2.0/24 is the address of the network itself",
    ),
    (
        "{name: x, addresses: [192.0.2.255/24]}",
        "links[0].addresses[0]: 192.0.2.255/24 is the broadcast address",
    ),
    (
        "{name: x, addresses: ['2001:db8::/64']}",
        "links[0].addresses[0]: 2001:db8::/64 is the anycast address",
    ),
    ("{name: x, addresses: [192.0.2.1]}", "links[0].addresses[0]: 192.0.2.1 lacks its prefix"),
    ("{name: x, addresses: [192.0.2.1/33]}", "the prefix of 192.0.2.1/33 is none of 0 to 32"),
    ("{name: x, addresses: [010.0.0.1/8]}", "links[0].addresses[0]: `010.0.0.1` is no IP address"),
    ("{name: x, addresses: ['::ffff:10.0.0.1/104']}", "is an IPv4 address written as IPv6"),
    ("{name: x, addresses: [224.0.0.1/24]}", "224.0.0.1/24 is no address of an interface"),
    (
        "{name: x, addresses: [192.0.2.1/24]}, {name: y, addresses: [192.0.2.1/32]}",
        "links[1].addresses[0]: x has 192.0.2.1 already",
    ),
    (
        "{name: x, addresses: [192.0.2.1/24], routes: [{to: default, via: 198.51.100.1}]}",
        "links[0].routes[0].via: 198.51.100.1 is in no prefix of x",
    ),
    (
        "{name: x, addresses: [192.0.2.1/24], routes: [{to: default, via: 192.0.2.1}]}",
        "links[0].routes[0].via: 192.0.2.1/24 is the address of x itself",
    ),
    (
        "{name: x, addresses: [192.0.2.1/24], routes: [{to: '2001:db8::/32', via: 192.0.2.2}]}",
        "links[0].routes[0].via: 192.0.2.2 is of another family than 2001:db8::/32",
    ),
    (
        "{name: x, routes: [{to: default}]}",
        "links[0].routes[0].to: default without `via` has no family",
    ),
    (
        "{name: x, routes: [{to: 10.0.0.1/8}]}",
        "links[0].routes[0].to: 10.0.0.1/8 has bits behind its prefix",
    ),
    ("{name: x, up: false, routes: [{to: 10.0.0.0/8}]}", "links[0].routes[0]: x is down"),
    (
        "{name: x, routes: [{to: 10.0.0.0/8}]}, {name: y, routes: [{to: 10.0.0.0/8}]}",
        "links[1].routes[0]: there is another route",
    ),
    ("{name: x, mtu: 10}", "links[0].mtu: 10 is none of 68 to 65535"),
    (
        "{name: x, mac: 'ff:ff:ff:ff:ff:ff'}",
        "links[0].mac: ff:ff:ff:ff:ff:ff is the broadcast address",
    ),
    ("{name: x, search_domains: [\"a\\nb\"]}", "links[0].search_domains[0]"),
    ("{name: v, kind: vxlan, vni: 16777216}", "links[0].vni: 16777216 is none of 0 to 16777215"),
    (
        "{name: v, kind: vxlan, vni: 5, local: 10.0.0.1, remote: '2001:db8::1'}",
        "links[0].remote: 2001:db8::1 is of another family than 10.0.0.1",
    ),
    (
        "{name: a, addresses: [192.0.2.1/24]}, {name: b, kind: bridge, members: [a]}",
        "links[1].members[0]: a has addresses; those belong on b",
    ),
    (
        "{name: a}, {name: b, kind: ovs_bond, members: [a]}",
        "links[1]: a bond of Open vSwitch is a member",
    ),
];

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (links, told) in WRONG {
        let error = read(&format!("links: [{links}]")).expect_err(links);
        assert!(error.contains(*told), "{links}: {error}");
    }
    let error = read("{links: [{name: a}], absent: [a]}").unwrap_err();
    assert_eq!(error, "absent[0]: a is among the links too");
    for (rule, told) in [
        ("{table: 5}", "rules[0]: a rule has `from`, `to` or both"),
        ("{table: 0, from: 10.0.0.0/8}", "rules[0].table: 0 is none of 1 to"),
        (
            "{table: 5, from: 10.0.0.0/8, to: '2001:db8::/32'}",
            "rules[0].to: 2001:db8::/32 is of another family",
        ),
    ] {
        let error = read(&format!("rules: [{rule}]")).expect_err(rule);
        assert!(error.contains(told), "{rule}: {error}");
    }
}

#[test]
fn a_network_survives_the_way_through_a_file() {
    let network = read(EVERY_KIND).unwrap();
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<HostNetwork>(&text).unwrap(), network);
    assert_eq!(HostNetwork::from_yaml(&text).unwrap(), network);
    let again =
        "{name: x, kind: ovs_bridge, members: [y]}, {name: y, kind: ovs_bond, members: [a, b],
        primary: a, ovs_options: bond_mode=balance-slb}, {name: a}, {name: b, up: false}, {name: c},
        {name: m, kind: macvlan, parent: c}, {name: d, kind: dummy},
        {name: v, kind: vxlan, vni: 7, parent: c, local: 10.0.0.1, remote: 10.0.0.2, port: 8472}";
    let network = read(&format!("{{links: [{again}], absent: [old]}}")).unwrap();
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<HostNetwork>(&text).unwrap(), network);
}

#[test]
fn a_replaced_configuration_takes_its_virtual_links_along() {
    let earlier = read(EVERY_KIND).unwrap();
    let network = read("links: [{name: em0}, {name: br0, kind: bridge}]").unwrap();
    let absent = network.replacing(&earlier).absent;
    assert_eq!(absent.iter().map(|name| &**name).collect::<Vec<_>>(), ["bond0", "vlan100"]);
}

/// The example of document 4 as its template gives it with the networks of the same document.
pub(crate) const DOCUMENT_4: &str = "
network_config:
  -
    type: ovs_bridge
    name: br-ctlplane
    addresses:
      -
        ip_netmask: 192.168.0.10/24
    routes:
      -
        default: true
        next_hop: 192.168.0.1
    dns_servers: ['8.8.8.8', '8.8.4.4']
    members:
      -
        type: ovs_bond
        name: bond1
        members:
          -
            type: interface
            name: em1
          -
            type: interface
            name: em2
  -
    type: interface
    name: em0
    addresses:
      -
        ip_netmask: 192.168.1.10/24
";

#[test]
fn the_example_of_the_study_is_read_as_it_stands() {
    let read = from_os_net_config(DOCUMENT_4).unwrap();
    read.network.check().unwrap();
    assert_eq!(read.fallback, None);
    let own = HostNetwork::from_yaml(
        "links:
          - {name: br-ctlplane, kind: ovs_bridge, members: [bond1], addresses: [192.168.0.10/24],
             routes: [{to: default, via: 192.168.0.1}], dns_servers: [8.8.8.8, 8.8.4.4]}
          - {name: bond1, kind: ovs_bond, members: [em1, em2]}
          - {name: em1}
          - {name: em2}
          - {name: em0, addresses: [192.168.1.10/24]}",
    );
    assert_eq!(read.network, own.unwrap());
    // The study prints an address of another network beside that gateway.
    let slip = DOCUMENT_4.replace("192.168.0.10/24", "192.0.0.10/24");
    let error = from_os_net_config(&slip).unwrap().network.check().unwrap_err();
    assert_eq!(error.place, "links[0].routes[0].via");
    assert!(error.why.contains("192.168.0.1 is in no prefix of br-ctlplane"), "{}", error.why);
}

#[test]
fn options_of_os_net_config_have_their_counterparts() {
    let text = "
fallback_config:
- {type: interface, name: em9, use_dhcp: true}
network_config:
- {type: route_table, name: custom, table_id: 200}
- type: linux_bond
  name: bond0
  bonding_options: mode=4 lacp_rate=fast miimon=100 xmit_hash_policy=layer3+4
  mtu: 9000
  members: [{type: interface, name: em1, primary: true}, {type: interface, name: em2}]
- type: vlan
  vlan_id: 16
  device: bond0
  mtu: 1500
  addresses: [{ip_netmask: 192.0.2.1/24}, {ip_netmask: '2001:DB8:0::1/64'}]
  routes:
  - {ip_netmask: 10.1.3.0/24, next_hop: 192.0.2.5, route_options: metric 10, table: 200}
  - {default: true, next_hop: 192.0.2.254, table: custom}
  rules: [{rule: from 192.0.2.0/24 table custom, comment: why}, {rule: add to 10.0.0.0/8 lookup 200 pref 5}]
  domain: example.com
- type: linux_bridge
  name: br1
  use_dhcp: true
  members: [{type: interface, name: em3}]
- type: ovs_bridge
  name: br2
  members: [{type: interface, name: em4, primary: true},
            {type: vlan, vlan_id: 17, addresses: [{ip_netmask: 198.51.100.1/24}]}]
";
    let read = from_os_net_config(text).unwrap();
    read.network.check().unwrap();
    let own = HostNetwork::from_yaml(
        "
         links:
          - {name: bond0, kind: bond, mode: 802.3ad, lacp_rate: fast, miimon_ms: 100, primary: em1,
             xmit_hash_policy: layer3+4, members: [em1, em2], mtu: 9000}
          - {name: em1}
          - {name: em2}
          - {name: vlan16, kind: vlan, vlan: 16, parent: bond0, mtu: 1500, search_domains: [example.com],
             addresses: [192.0.2.1/24, '2001:db8::1/64'],
             routes: [{to: 10.1.3.0/24, via: 192.0.2.5, metric: 10, table: 200},
                      {to: default, via: 192.0.2.254, table: 200}]}
          - {name: br1, kind: bridge, dhcp4: true, members: [em3]}
          - {name: em3}
          - {name: br2, kind: ovs_bridge, members: [em4], primary: em4}
          - {name: em4}
          - {name: vlan17, kind: vlan, vlan: 17, parent: br2, addresses: [198.51.100.1/24]}
         rules: [{from: 192.0.2.0/24, table: 200}, {to: 10.0.0.0/8, table: 200, priority: 5}]",
    );
    assert_eq!(read.network, own.unwrap());
    assert_eq!(read.fallback.unwrap().links.len(), 1);
}

#[test]
fn what_os_net_config_has_alone_is_refused_by_name() {
    for (entry, told) in [
        (
            "{type: vlan, vlan_id: 4095, device: a}",
            "network_config[0].vlan_id: 4095 is none of 1 to 4094",
        ),
        ("{type: vlan, vlan_id: 5}", "network_config[0].device: a VLAN outside a bridge"),
        ("{type: interface}", "network_config[0].name: is missing"),
        (
            "{type: interface, name: a, members: [{type: interface, name: b}], vlan_id: 5}",
            "network_config[0].vlan_id: an object of this type",
        ),
        (
            "{type: linux_bond, name: a, bonding_options: mode=4 downdelay=5}",
            "network_config[0].bonding_options: `downdelay` has no counterpart",
        ),
        (
            "{type: interface, name: a, addresses: [{ip_netmask: 10.0.0.255/24}]}",
            "network_config[0].addresses[0].ip_netmask: 10.0.0.255/24 is the broadcast",
        ),
        (
            "{type: interface, name: a, rules: [{rule: iif em1 table 5}]}",
            "network_config[0].rules[0].rule: `iif` has no counterpart",
        ),
        ("{type: interface, name: a, numvfs: 5}", "network_config[0]"),
        (
            "{type: interface, name: a, use_dhcp: true, defroute: false}",
            "network_config[0].defroute",
        ),
    ] {
        let error = from_os_net_config(&format!("network_config: [{entry}]")).expect_err(entry);
        assert!(error.to_string().contains(told), "{entry}: {error}");
    }
}

proptest! {
    /// Whatever bytes come, they are read or refused.
    #[test]
    fn nothing_that_is_read_panics(text in "[ -~\n]{0,200}") {
        drop(HostNetwork::from_yaml(&text));
        drop(from_os_net_config(&text));
        drop(crate::from_mapping(&text));
    }
}
