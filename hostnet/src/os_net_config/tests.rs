use super::from_os_net_config;
use crate::from_any_form;

/// The example of Metal3's IPAM study, as its template gives it with the networks of the study.
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
    let own = crate::from_yaml(
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
  bonding_options: mode=4 lacp_rate=fast miimon=100 xmit_hash_policy=layer3+4 updelay=1000 min_links=1 ad_select=2
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
- type: linux_bridge
  name: br3
  members: [{type: interface, name: em5}, {type: vlan, vlan_id: 18, device: br3, use_dhcp: true}]
- type: ovs_bridge
  name: br2
  members: [{type: interface, name: em4, primary: true},
            {type: vlan, vlan_id: 17, addresses: [{ip_netmask: 198.51.100.1/24}]}]
";
    let read = from_os_net_config(text).unwrap();
    read.network.check().unwrap();
    let own = crate::from_yaml(
        "
         links:
          - {name: bond0, kind: bond, mode: 802.3ad, lacp_rate: fast, miimon_ms: 100, primary: em1,
             updelay_ms: 1000, min_links: 1, ad_select: count,
             xmit_hash_policy: layer3+4, members: [em1, em2], mtu: 9000}
          - {name: em1}
          - {name: em2}
          - {name: vlan16, kind: vlan, vlan: 16, parent: bond0, mtu: 1500, search_domains: [example.com],
             addresses: [192.0.2.1/24, '2001:db8::1/64'],
             routes: [{to: 10.1.3.0/24, via: 192.0.2.5, metric: 10, table: 200},
                      {to: default, via: 192.0.2.254, table: 200}]}
          - {name: br1, kind: bridge, dhcp4: true, members: [em3]}
          - {name: em3}
          - {name: br3, kind: bridge, members: [em5]}
          - {name: em5}
          - {name: vlan18, kind: vlan, vlan: 18, parent: br3, dhcp4: true}
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
    // A bond of Open vSwitch is no interface.
    let text = |dhcp| {
        format!(
            "network_config: [{{type: ovs_bridge, name: br0, use_dhcp: {dhcp}, members: [{{type: ovs_bond,
             name: bond1, use_dhcp: true, members: [{{type: interface, name: em1}}]}}]}}]"
        )
    };
    let read = from_os_net_config(&text(true)).unwrap().network;
    read.check().unwrap();
    assert!(read.link("br0").unwrap().dhcp4 && !read.link("bond1").unwrap().dhcp4);
    let error = from_os_net_config(&text(false)).unwrap().network.check().unwrap_err();
    assert_eq!(error.place, "links[0].members[0]");
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
            "{type: linux_bond, name: a, bonding_options: mode=4 num_grat_arp=5}",
            "network_config[0].bonding_options.num_grat_arp: has no counterpart",
        ),
        (
            "{type: linux_bond, name: a, bonding_options: mode=4 downdelay=x}",
            "network_config[0].bonding_options.downdelay: x is none of 0 to 60000",
        ),
        (
            "{type: linux_bond, name: a, bonding_options: fail_over_mac=3}",
            "network_config[0].bonding_options.fail_over_mac: `3` is none of none, active, follow",
        ),
        (
            "{type: interface, name: a, addresses: [{ip_netmask: 10.0.0.255/24}]}",
            "network_config[0].addresses[0].ip_netmask: 10.0.0.255/24 is the broadcast",
        ),
        (
            "{type: interface, name: a, rules: [{rule: iif em1 table 5}]}",
            "network_config[0].rules[0].rule: `iif` has no counterpart",
        ),
        (
            "{type: interface, name: a, numvfs: 5}",
            "network_config[0].numvfs: `numvfs` has no counterpart here",
        ),
        (
            "{type: interface, name: a, ethtool_opts: speed 1000}",
            "network_config[0].ethtool_opts: `ethtool_opts` has no counterpart here",
        ),
        (
            "{type: ib_interface, name: a}",
            "network_config[0].type: `ib_interface` has no counterpart",
        ),
        (
            "{type: interface, name: a, domain: \"a\\nb\"}",
            "network_config[0].domain[0]: `a\\nb` is no domain",
        ),
        (
            "{type: interface, name: a, use_dhcp: true, defroute: false}",
            "network_config[0].defroute",
        ),
    ] {
        let error = from_os_net_config(&format!("network_config: [{entry}]")).expect_err(entry);
        assert!(error.to_string().contains(told), "{entry}: {error}");
    }
}

#[test]
fn the_form_of_a_file_is_told_by_its_keys() {
    let own = crate::from_yaml(
        "links: [{name: br0, kind: ovs_bridge, members: [em1], dhcp4: true}, {name: em1}]",
    );
    let list = r#"[{"type": "ovs_bridge", "name": "br0", "use_dhcp": "true", "mtu": null,
                    "members": [{"type": "interface", "name": "em1"}]}]"#;
    let yaml = "- type: ovs_bridge\n  name: br0\n  use_dhcp: yes\n  members: [{type: interface, name: em1}]\n";
    for text in [
        format!("{{ \"network_config\": {list} }}"),
        format!("{{\n  \"os_net_config\": {{\n \"network_config\": {list} }} }}"),
        format!(
            "{{\"network_config\": {{\"network_config\": {list}, \"fallback_config\": {list}}}}}"
        ),
        format!("---\n# network\nnetwork_config:\n{yaml}"),
        format!("'network_config':\n{yaml}"),
        format!("fallback_config: []\nnetwork_config:\n{yaml}"),
    ] {
        let read = from_any_form(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(read.network, *own.as_ref().unwrap(), "{text}");
        assert_eq!(read.fallback.is_some(), text.contains("fallback"), "{text}");
    }
    for (text, told) in [
        (
            "{os_net_config: {network_config: [{type: interface}]}}",
            "os_net_config.network_config[0].name: is missing",
        ),
        (
            "{network_config: {network_config: [{type: bus}]}}",
            "network_config.network_config[0].type: ",
        ),
        (
            "{network_config: [{type: interface, name: a, use_dhcp: maybe}]}",
            "network_config[0].use_dhcp: `maybe` is neither",
        ),
        (
            "{network_config: [{type: interface, name: a, mtu: big}]}",
            "network_config[0].mtu: `big` is no number",
        ),
        ("network_config: []\nlinks: []", "links: `links` has no counterpart here"),
        ("links: [{name: network_config, mtu: 1}]", "links[0].mtu"),
        ("", "it is empty"),
        ("a text", ""),
    ] {
        let error = from_any_form(text).expect_err(text).to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}
