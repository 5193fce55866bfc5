use super::{Format, RenderedFile, render};
use crate::model::HostNetwork;
use crate::model::link::Kind;
use crate::os_net_config::tests::DOCUMENT_4;
use crate::tests::EVERY_KIND;
use crate::{from_mapping, from_os_net_config, from_yaml};

/// Features that EVERY_KIND lacks, except Open vSwitch.
const TUNNELS: &str = "
links:
  - {name: em0, addresses: [192.0.2.10/24], routes: [{to: default, via: 192.0.2.1, on_link: true}]}
  - {name: vx7, kind: vxlan, vni: 7, parent: em0, local: 192.0.2.10, remote: 192.0.2.11}
  - {name: mv0, kind: macvlan, parent: em0, mode: private, up: false}
  - {name: dummy0, kind: dummy, addresses: [192.0.2.99/32]}
  - {name: bond1, kind: bond, mode: active-backup, members: [em1], primary: em1}
  - {name: em1}
";

/// Bonds that watch their members in both ways.
const WATCHED: &str = "
links:
  - {name: bond0, kind: bond, mode: 802.3ad, miimon_ms: 100, updelay_ms: 200, downdelay_ms: 300, min_links: 1,
     ad_select: bandwidth, members: [em0]}
  - {name: bond1, kind: bond, mode: active-backup, arp_interval_ms: 500, arp_ip_targets: [192.0.2.1, 192.0.2.2],
     fail_over_mac: active, members: [em1]}
  - {name: em0, permanent_mac: '52:54:00:00:00:01'}
  - {name: em1, permanent_mac: '52:54:00:00:00:02'}
";

/// A network that every format can express.
const PLAIN: &str = "
links:
  - {name: em0, permanent_mac: '52:54:00:00:00:01', dns_servers: [192.0.2.53], dhcp6: true,
     addresses: [192.0.2.10/24, 203.0.113.10/24], routes: [{to: default, via: 203.0.113.1}]}
  - {name: em1, permanent_mac: '52:54:00:00:00:02'}
  - {name: em2, permanent_mac: '52:54:00:00:00:03'}
  - {name: bond0, kind: bond, mode: 802.3ad, miimon_ms: 100, members: [em1, em2], mtu: 9000}
  - {name: vlan100, kind: vlan, vlan: 100, parent: bond0, addresses: ['2001:db8::10/64'],
     routes: [{to: '2001:db8:1::/48', via: '2001:db8::1'}]}
";

fn own(text: &str) -> HostNetwork {
    from_yaml(text).unwrap()
}

/// Networks that readers of these formats have to read back.
pub(crate) fn networks() -> Vec<HostNetwork> {
    let study = from_os_net_config(DOCUMENT_4).unwrap().network;
    vec![own(EVERY_KIND), own(PLAIN), own(TUNNELS), own(WATCHED), study]
}

/// All files as one text.
fn text(files: &[RenderedFile]) -> String {
    let one = |file: &RenderedFile| format!("# /{} {:o}\n{}", file.path, file.mode, file.content);
    files.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_format_has_its_own_look() {
    let study = from_os_net_config(DOCUMENT_4).unwrap().network;
    for format in Format::ALL.iter().copied() {
        assert_eq!(Format::from_word(format.word()), Some(format));
        let networks = [
            ("every_kind", own(EVERY_KIND)),
            ("plain", own(PLAIN)),
            ("tunnels", own(TUNNELS)),
            ("watched", own(WATCHED)),
            ("study", study.clone()),
        ];
        for (name, network) in networks {
            let rendered = match render(format, &network, None) {
                Ok(files) => text(&files),
                Err(error) => format!("refused: {error}\n"),
            };
            insta::assert_snapshot!(format!("{}-{name}", format.word()), rendered);
        }
    }
}

#[test]
fn what_os_net_config_gets_is_read_back_alike() {
    let study = from_os_net_config(DOCUMENT_4).unwrap().network;
    let text = "
links:
  - {name: bond0, kind: bond, mode: active-backup, members: [em1, em2], primary: em2, miimon_ms: 100, mtu: 9000}
  - {name: em1}
  - {name: em2}
  - {name: vlan100, kind: vlan, vlan: 100, parent: bond0, dns_servers: ['2001:db8::53'], search_domains: [example.com],
     addresses: [198.51.100.10/24], routes: [{to: default, via: 198.51.100.1, metric: 5, table: 7},
     {to: 203.0.113.0/24, via: 10.0.0.1, on_link: true}]}
  - {name: br0, kind: bridge, members: [em3], dhcp4: true, dhcp6: true}
  - {name: em3}
  - {name: br1, kind: ovs_bridge, members: [em4], primary: em4}
  - {name: em4}
  - {name: vlan7, kind: vlan, vlan: 7, parent: br1, addresses: [203.0.113.10/24]}
rules: [{from: 198.51.100.0/24, table: 7, priority: 100}]
";
    let mut watched = own(WATCHED);
    for link in &mut watched.links {
        if let Kind::Ethernet { permanent_mac } = &mut link.kind {
            // Its mapping has them, in another file.
            *permanent_mac = None;
        }
    }
    for network in [study.clone(), own(text), watched] {
        let files = render(Format::OsNetConfig, &network, Some(&study)).unwrap();
        let read = from_os_net_config(&files[0].content).unwrap();
        assert!(read.network.means(&network), "{}", files[0].content);
        assert_eq!(read.fallback.as_ref(), Some(&study));
    }
}

#[test]
fn routes_by_dhcp_have_one_metric_in_every_format_that_knows_of_it() {
    let network = own("links: [{name: em0, dhcp4: true, dhcp6: true}, {name: em1}]");
    for (format, says) in [
        (Format::Netplan, "route-metric: 100\n"),
        (Format::Networkd, "RouteMetric=100\n"),
        (Format::NetworkManager, "route-metric=100\n"),
        (Format::Nmstate, "auto-route-metric: 100\n"),
    ] {
        let text = text(&render(format, &network, None).unwrap());
        assert_eq!(text.matches(says).count(), 2, "one for each family: {text}");
    }
}

#[test]
fn cards_are_mapped_by_their_addresses() {
    let mapping = "interface_mapping: {em0: '00:c8:7c:e6:f0:2e', em1: '00:c8:7c:e6:f0:2f', em2: '00:c8:7c:e6:f0:30'}";
    let cards = from_mapping(mapping).unwrap();
    let study = from_os_net_config(DOCUMENT_4).unwrap().network.with_cards(&cards);
    let files = render(Format::OsNetConfig, &study, None).unwrap();
    let [_, written] = &*files else { panic!("{files:?}") };
    assert_eq!(written.path, "etc/os-net-config/mapping.yaml");
    assert_eq!(from_mapping(&written.content).unwrap(), cards);
}

#[test]
fn a_card_by_its_number_is_one_that_somebody_named() {
    let text = "network_config: [{type: linux_bridge, name: br0, members: [{type: interface, name: nic1}]}]";
    let network = from_os_net_config(text).unwrap().network;
    let cards = from_mapping("interface_mapping: {nic1: '52:54:00:00:00:01'}").unwrap();
    for format in Format::ALL.iter().copied().filter(|one| *one != Format::NetworkData) {
        let rendered = render(format, &network, None);
        if format == Format::OsNetConfig {
            assert!(text_of(rendered).contains("name: nic1"));
        } else {
            let error = rendered.unwrap_err().to_string();
            assert!(error.starts_with("links[1].name: nic1 is os-net-config's word"), "{error}");
            assert!(error.contains("--interface nic1=ADDRESS"), "{error}");
        }
        let named = render(format, &network.clone().with_cards(&cards), None);
        assert!(text_of(named).contains("52:54:00:00:00:01"), "{format:?}");
    }
    // Names that only begin so are names.
    for name in ["nic", "nic1a", "nics0", "mynic1"] {
        render(Format::Netplan, &own(&format!("links: [{{name: {name}}}]")), None).unwrap();
    }
}

fn text_of(rendered: Result<Vec<RenderedFile>, model::json::Malformed>) -> String {
    text(&rendered.unwrap())
}

#[test]
fn what_a_format_cannot_say_is_refused_by_place() {
    let tunnels = own(TUNNELS);
    for (format, told) in [
        (Format::OsNetConfig, "links[1].kind: os-net-config has no vxlan"),
        (Format::Netplan, "links[2].kind: netplan has no macvlan"),
        (Format::NetworkData, "links[1].kind: network_data.json has no vxlan"),
        (Format::Nmstate, "links[0].routes[0].on_link: nmstate has no next hop outside the prefix"),
    ] {
        assert_eq!(render(format, &tunnels, None).unwrap_err().to_string(), told);
    }
    let wrong = own("links: [{name: a}, {name: a}]");
    for format in Format::ALL.iter().copied() {
        assert!(render(format, &wrong, None).is_err(), "{format:?}");
        assert!(render(format, &own("links: []"), Some(&wrong)).is_err(), "{format:?}");
    }
}
