//! Kinds of links that not every kernel has.

use std::process::Command;

use super::namespace::{Fixture, LONG, in_namespace, ip, own};
use super::state;

const BONDED: &str = "
links:
  - {name: card0}
  - {name: card1}
  - {name: bond0, kind: bond, mode: active-backup, miimon_ms: 100, members: [card0, card1], primary: card1, mtu: 1400}
  - {name: vlan7, kind: vlan, vlan: 7, parent: bond0, addresses: [192.0.2.10/24], routes: [{to: default, via: 192.0.2.1}]}
  - {name: br0, kind: bridge, members: [vlan8]}
  - {name: vlan8, kind: vlan, vlan: 8, parent: bond0}
  - {name: dummy0, kind: dummy, addresses: [198.51.100.1/32, '2001:db8::1/128']}
";

/// Other modes, members, numbers and parents.
const OTHERS: &[&str] = &[
    "
links:
  - {name: card0}
  - {name: card1}
  - {name: bond0, kind: bond, mode: 802.3ad, lacp_rate: fast, xmit_hash_policy: layer3+4, miimon_ms: 50, members: [card1, card0],
     updelay_ms: 100, downdelay_ms: 50, min_links: 1, ad_select: count}
  - {name: vlan7, kind: vlan, vlan: 9, parent: bond0, addresses: [192.0.2.11/24]}
absent: [br0, vlan8, dummy0]
",
    "
links:
  - {name: card0, addresses: [192.0.2.12/24], routes: [{to: default, via: 192.0.2.1}]}
  - {name: card1}
  - {name: bond0, kind: bond, mode: active-backup, members: [card1], fail_over_mac: active,
     arp_interval_ms: 200, arp_ip_targets: [192.0.2.1, 192.0.2.2]}
  - {name: vlan7, kind: vlan, vlan: 7, parent: card0}
  - {name: dummy0, kind: dummy}
absent: [br0, vlan8]
",
    "
links: [{name: card0}, {name: card1, mtu: 1300}]
absent: [bond0, vlan7, br0, vlan8, dummy0]
",
];

#[test]
fn bonds_vlans_and_dummies_are_applied_and_rolled_back() {
    in_namespace(|| async {
        for (kind, options) in [("bond", ""), ("vlan", "link card0"), ("dummy", "")] {
            let id: &[&str] = if kind == "vlan" { &["id", "5"] } else { &[] };
            let mut probe = Command::new("ip");
            probe.args(["link", "add"]).args(options.split_whitespace());
            let out = probe.args(["name", "probe", "type", kind]).args(id).output().unwrap();
            if !out.status.success() {
                println!("skipped: this kernel has no {kind}");
                return;
            }
            ip("link del probe");
        }
        // The module makes one of its own.
        drop(Command::new("ip").args(["link", "del", "bond0"]).output());
        let fixture = Fixture::new();
        let mut host = fixture.open();
        let bare = state(&host).await;
        for other in OTHERS {
            for (from, to) in [(BONDED, *other), (*other, BONDED)] {
                for text in [from, to] {
                    // This removes what the last configuration made and this one does not name.
                    let desired = own(text).replacing(&own(if text == from { to } else { from }));
                    host.change(&desired, LONG)
                        .await
                        .unwrap_or_else(|error| panic!("{error:?}\n{text}"));
                    host.commit().unwrap();
                    let again = host.planned(&desired).await.unwrap();
                    assert!(again.is_empty(), "the second application of the same: {again}");
                }
                let old = state(&host).await;
                for stop in 0.. {
                    let mut left = stop;
                    let mut goes_on = |_: &_| {
                        left -= 1;
                        left >= 0
                    };
                    host.interrupted(&own(from), &mut goes_on).await.unwrap();
                    drop(host);
                    host = fixture.open();
                    host.recover().await.unwrap_or_else(|error| panic!("{error:?}\n{stop} {from}"));
                    assert_eq!(state(&host).await, old, "stopped after {stop} steps");
                    if left >= 0 {
                        break;
                    }
                }
            }
        }
        let away = own("absent: [bond0, vlan7, br0, vlan8, dummy0]");
        let cards = own("links: [{name: card0, up: false}, {name: card1, up: false, mtu: 1500}]");
        let all = crate::model::HostNetwork { absent: away.absent, ..cards };
        host.change(&all, LONG).await.unwrap();
        assert_eq!(state(&host).await, bare);
        println!("bonds, VLANs and dummies were tested");
    });
}
