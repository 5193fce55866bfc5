use proptest::prelude::*;

use crate::model::HostNetwork;
use crate::model::link::LinkName;
use crate::{from_os_net_config, from_yaml};

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
    let network = from_yaml(text).map_err(|error| error.to_string())?;
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
    ("{name: a}, {name: lo, up: false}", "links[1].up: programs of the host"),
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
    (
        "{name: x, kind: bond, mode: 802.3ad, updelay_ms: 200}",
        "links[0].updelay_ms: it needs `miimon_ms`",
    ),
    (
        "{name: x, kind: bond, mode: 802.3ad, miimon_ms: 100, downdelay_ms: 250}",
        "links[0].downdelay_ms: 250 is no multiple of `miimon_ms`, which is 100",
    ),
    (
        "{name: x, kind: bond, mode: 802.3ad, arp_interval_ms: 100, arp_ip_targets: [192.0.2.1]}",
        "links[0].arp_interval_ms: a bond of mode 802.3ad has `miimon_ms` alone",
    ),
    (
        "{name: x, kind: bond, mode: active-backup, miimon_ms: 100, arp_interval_ms: 100, arp_ip_targets: [192.0.2.1]}",
        "links[0].arp_interval_ms: a bond has it or `miimon_ms`, not both",
    ),
    (
        "{name: x, kind: bond, mode: active-backup, arp_interval_ms: 100}",
        "links[0].arp_interval_ms: it needs `arp_ip_targets`",
    ),
    (
        "{name: x, kind: bond, mode: active-backup, arp_ip_targets: [192.0.2.1]}",
        "links[0].arp_interval_ms: `arp_ip_targets` without it are never asked",
    ),
    (
        "{name: x, kind: bond, mode: active-backup, arp_ip_targets: ['2001:db8::1']}",
        "links[0].arp_ip_targets: `2001:db8::1` is no IPv4 address",
    ),
    (
        "{name: x, kind: bond, mode: 802.3ad, ad_select: best}",
        "links[0].ad_select: `best` is none of stable, bandwidth, count",
    ),
    (
        "{name: x, kind: bridge, min_links: 1}",
        "links[0].min_links: a link of kind bridge has no such option",
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
    ("{name: x, addresses: [010.0.0.1/8]}", "without leading zeros"),
    (
        "{name: x, addresses: [10.0.0.1/8], routes: [{to: 010.0.0.0/8, via: 10.0.0.2}]}",
        "links[0].routes[0].to: `010.0.0.0/8` is no network: `010.0.0.0` is no IP address; write it without leading zeros",
    ),
    (
        "{name: x, routes: [{to: '::ffff:10.0.0.0/104'}]}",
        "links[0].routes[0].to: `::ffff:10.0.0.0/104` is no network: ::ffff:10.0.0.0 is an IPv4 address written as IPv6",
    ),
    ("{name: x, routes: [{to: 10.0.0.0/33}]}", "links[0].routes[0].to: the prefix of 10.0.0.0/33"),
    (
        "{name: x, mtu: 1279, addresses: ['2001:db8::1/64']}",
        "links[0].mtu: 1279 is below the 1280 that IPv6 needs",
    ),
    (
        "{name: a}, {name: b}, {name: x, kind: vlan, vlan: 5, parent: a}, {name: y, kind: vlan, vlan: 5, parent: b}",
        "links[3].vlan: VLAN 5 is on a already",
    ),
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
    ("{name: x, mtu: 10}", "links[0].mtu: 10 is none of 68 to 65536"),
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

/// Cards with these MTUs, if any, and what lies on them.
const WRONG_MTUS: &[(&str, &str)] = &[
    (
        "{name: a, mtu: 9000}, {name: b, mtu: 9000}, {name: x, kind: bond, mode: 802.3ad, members: [a, b]},
         {name: v, kind: vlan, vlan: 5, parent: x, mtu: 9000}",
        "links[0].mtu: a is a member of x, which gives it its own MTU (1500, as it says none); give x `mtu: 9000`, or a none",
    ),
    (
        "{name: a, mtu: 9000}, {name: x, kind: bond, mode: 802.3ad, members: [a], mtu: 1400}",
        "links[0].mtu: a is a member of x, which gives it its own MTU (1400); give x `mtu: 9000`, or a none",
    ),
    (
        "{name: a}, {name: x, kind: bond, mode: 802.3ad, members: [a]}, {name: v, kind: vlan, vlan: 5, parent: x, mtu: 9000}",
        "links[2].parent: x has no `mtu`, and so one of 1500, below the 9000 of v; give x `mtu: 9000`, or v less",
    ),
    (
        "{name: a, mtu: 1500}, {name: v, kind: vlan, vlan: 5, parent: a, mtu: 9000}",
        "links[1].parent: a has an MTU of 1500, below the 9000 of v",
    ),
    (
        "{name: v, kind: vlan, vlan: 5, parent: a, mtu: 9000}, {name: a}",
        "links[0].parent: a has no `mtu`, and so one of 1500, below the 9000 of v",
    ),
    (
        "{name: a, mtu: 1400}, {name: v, kind: vlan, vlan: 5, parent: a}, {name: w, kind: vlan, vlan: 6, parent: v, mtu: 1500}",
        "links[2].parent: v has no `mtu`, and so one of 1400, below the 1500 of w",
    ),
    (
        "{name: a, mtu: 1400}, {name: m, kind: macvlan, parent: a, mtu: 1500}",
        "links[1].parent: a has an MTU of 1400, below the 1500 of m",
    ),
    (
        "{name: a, mtu: 1500}, {name: t, kind: vxlan, vni: 5, parent: a, remote: 192.0.2.1, mtu: 1500}",
        "links[1].parent: a has an MTU of 1500, below the 1500 of t and the 50 bytes of its tunnel; give a `mtu: 1550`",
    ),
    (
        "{name: a}, {name: t, kind: vxlan, vni: 5, parent: a, remote: '2001:db8::1', mtu: 1450}",
        "links[1].parent: a has no `mtu`, and so one of 1500, below the 1450 of t and the 70 bytes",
    ),
    (
        "{name: a, mtu: 1500}, {name: b, kind: bridge, members: [a], mtu: 9000}",
        "links[1].mtu: a has an MTU of 1500, below the 9000 of b",
    ),
    (
        "{name: a}, {name: b, kind: bridge, members: [a], mtu: 9000}",
        "links[1].mtu: a has no `mtu`, and so one of 1500, below the 9000 of b",
    ),
    (
        "{name: a, mtu: 9000}, {name: c, mtu: 1400}, {name: b, kind: bridge, members: [a, c]}, {name: v, kind: vlan, vlan: 5, parent: b, mtu: 9000}",
        "links[3].parent: b has no `mtu`, and so one of 1400, below the 9000 of v",
    ),
    (
        "{name: a}, {name: x, kind: ovs_bond, members: [a]}, {name: o, kind: ovs_bridge, members: [x], mtu: 9000}",
        "links[2].mtu: x has no `mtu`, and so one of 1500, below the 9000 of o",
    ),
    (
        "{name: a, mtu: 1200}, {name: v, kind: vlan, vlan: 5, parent: a, addresses: ['2001:db8::1/64']}",
        "links[1].mtu: 1200 is below the 1280 that IPv6 needs",
    ),
];

/// MTUs that go together.
const RIGHT_MTUS: &[&str] = &[
    "{name: a}, {name: x, kind: bond, mode: 802.3ad, members: [a], mtu: 9000}, {name: v, kind: vlan, vlan: 5, parent: x, mtu: 9000}",
    "{name: a, mtu: 9000}, {name: x, kind: bond, mode: 802.3ad, members: [a], mtu: 9000}",
    "{name: a, mtu: 1500}, {name: x, kind: bond, mode: 802.3ad, members: [a]}",
    "{name: a, mtu: 9000}, {name: v, kind: vlan, vlan: 5, parent: a}, {name: w, kind: vlan, vlan: 6, parent: v, mtu: 9000}",
    "{name: a, mtu: 9000}, {name: b, kind: bridge, members: [a]}, {name: v, kind: vlan, vlan: 5, parent: b, mtu: 9000}",
    "{name: a, mtu: 9000}, {name: b, kind: bridge, members: [a], mtu: 1500}",
    "{name: a, mtu: 9000}, {name: t, kind: vxlan, vni: 5, parent: a, mtu: 8950}",
    "{name: t, kind: vxlan, vni: 5, mtu: 9000}",
];

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (links, told) in WRONG.iter().chain(WRONG_MTUS) {
        let error = read(&format!("links: [{links}]")).expect_err(links);
        assert!(error.contains(*told), "{links}: {error}");
    }
    for links in RIGHT_MTUS {
        read(&format!("links: [{links}]")).unwrap_or_else(|error| panic!("{links}: {error}"));
    }
    let error = read("{links: [{name: a}], absent: [a]}").unwrap_err();
    assert_eq!(error, "absent[0]: a is among the links too");
    for (rule, told) in [
        ("{table: 5}", "rules[0]: a rule has `from`, `to` or both"),
        ("{table: 0, from: 10.0.0.0/8}", "rules[0].table: 0 is none of 1 to"),
        (
            "{table: 5, from: 10.0.0.0/8}, {table: 5, from: 10.0.0.0/8}",
            "rules[1]: `from 10.0.0.0/8 table 5` is there twice",
        ),
        ("{table: 5, from: 010.0.0.0/8}", "rules[0].from: `010.0.0.0/8` is no network"),
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
fn a_file_that_says_nothing_is_no_network() {
    for text in [
        "",
        " \n\t\n",
        "# em0\n",
        "---\n",
        "---\n...\n",
        "null",
        "~",
        "{}",
        "links:\n",
        "rules: []",
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains("it is empty"), "{text:?}: {why}");
    }
    for text in ["links: []", "absent: [br0]", "rules: [{from: 10.0.0.0/8, table: 5}]"] {
        read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
}

#[test]
fn a_network_survives_the_way_through_a_file() {
    let network = read(EVERY_KIND).unwrap();
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<HostNetwork>(&text).unwrap(), network);
    assert_eq!(from_yaml(&text).unwrap(), network);
    let again =
        "{name: x, kind: ovs_bridge, members: [y]}, {name: y, kind: ovs_bond, members: [a, b],
        primary: a, ovs_options: bond_mode=balance-slb}, {name: a}, {name: b, up: false}, {name: c},
        {name: m, kind: macvlan, parent: c}, {name: d, kind: dummy},
        {name: v, kind: vxlan, vni: 7, parent: c, local: 10.0.0.1, remote: 10.0.0.2, port: 8472},
        {name: l, kind: bond, mode: 802.3ad, miimon_ms: 100, updelay_ms: 200, downdelay_ms: 0, min_links: 1,
         ad_select: bandwidth}, {name: p, kind: bond, mode: active-backup, fail_over_mac: active,
         arp_interval_ms: 500, arp_ip_targets: [192.0.2.1, 192.0.2.2]}";
    let network = read(&format!("{{links: [{again}], absent: [old]}}")).unwrap();
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<HostNetwork>(&text).unwrap(), network);
}

#[test]
fn what_another_configuration_does_not_name_lasts() {
    let own = |text| from_yaml(text).unwrap();
    let earlier = own(
        "links: [{name: eth0, addresses: [192.0.2.4/24]}, {name: em1, permanent_mac: '52:54:00:00:00:01'}, {name: eth2, mtu: 1400},
        {name: br0, kind: bridge, stp: true, mtu: 9000}, {name: br1, kind: bridge}]",
    );
    let actual = own(
        "links: [{name: eth0}, {name: eth1, permanent_mac: '52:54:00:00:00:01'}, {name: eth2}]",
    );
    let later =
        own("links: [{name: eth2, addresses: [198.51.100.4/24]}, {name: br0, kind: bridge}]");
    let later = later.replacing(&earlier);
    assert_eq!(later.absent, [LinkName::new("br1").unwrap()]);
    let lasts = later.clone().carried_out(&earlier, &actual);
    assert_eq!(lasts.absent, []);
    assert!(lasts.means(&own(
        "links: [{name: eth0, addresses: [192.0.2.4/24]}, {name: em1, permanent_mac: '52:54:00:00:00:01'},
        {name: eth2, mtu: 1400, addresses: [198.51.100.4/24]}, {name: br0, kind: bridge, stp: true, mtu: 9000}]",
    )), "{lasts:?}");
    // A card that has another name now, and one that is absent.
    let later = own("links: [{name: eth1, mtu: 1300}]\nabsent: [eth2]");
    let lasts = later.replacing(&earlier).carried_out(&earlier, &actual);
    let names: Vec<_> = lasts.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["eth1", "eth0"]);
}

#[test]
fn a_replaced_configuration_takes_its_virtual_links_along() {
    let earlier = read(EVERY_KIND).unwrap();
    let network = read("links: [{name: em0}, {name: br0, kind: bridge}]").unwrap();
    let absent = network.replacing(&earlier).absent;
    assert_eq!(absent.iter().map(|name| &**name).collect::<Vec<_>>(), ["bond0", "vlan100"]);
}

proptest! {
    /// Whatever bytes come, they are read or refused.
    #[test]
    fn nothing_that_is_read_panics(text in "[ -~\n]{0,200}") {
        drop(from_yaml(&text));
        drop(from_os_net_config(&text));
        drop(crate::from_mapping(&text));
    }
}
