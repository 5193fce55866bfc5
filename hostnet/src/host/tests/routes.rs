//! Routes that others added: clients of DHCP, daemons of routing, people.

use super::namespace::{Fixture, LONG, in_namespace, ip, own};
use crate::host::HostError;

/// The routes that a host has from elsewhere.
const OTHERS: &[&str] = &[
    "default via 192.0.2.1 dev card0 proto dhcp src 192.0.2.10 metric 100",
    "203.0.113.0/24 via 192.0.2.2 dev card0 proto bird metric 32 mtu 1300",
    "198.51.100.0/24 dev card0 table 100 proto boot scope link src 192.0.2.10",
    "10.0.0.0/8 proto bird nexthop via 192.0.2.2 dev card0 weight 1 nexthop via 10.9.0.2 dev card1 weight 2",
    "10.1.0.0/16 via 192.0.2.3 dev card0 mtu 1280",
];
const OTHERS_V6: &[&str] = &[
    "default via 2001:db8::1 dev card0 proto bird metric 512 pref high",
    "2001:db8:5::/48 proto bird metric 64 nexthop via 2001:db8::2 dev card0 nexthop via fe80::2 dev card1",
];
/// Takes all of them away.
const CUT_OFF: &[&str] = &[
    "links: [{name: card0, addresses: [10.70.0.4/26]}, {name: card1}]",
    "links: [{name: card0, up: false}, {name: card1, up: false}]",
    "links: [{name: card0}, {name: br0, kind: bridge, members: [card0], addresses: [192.0.2.10/24]}]",
];

fn with_routes() {
    for (card, addresses) in [
        ("card0", ["192.0.2.10/24", "2001:db8::10/64"]),
        ("card1", ["10.9.0.1/24", "2001:db8:9::1/64"]),
    ] {
        ip(&format!("link set {card} up"));
        addresses.iter().for_each(|one| drop(ip(&format!("address add {one} dev {card}"))));
    }
    OTHERS.iter().for_each(|route| drop(ip(&format!("route add {route}"))));
    OTHERS_V6.iter().for_each(|route| drop(ip(&format!("-6 route add {route}"))));
}

/// All routes but the kernel's own.
fn routes() -> Vec<String> {
    let all = ip("-4 -o route show table all") + &ip("-6 -o route show table all");
    let is_kernels = |line: &&str| line.contains("proto kernel") || line.contains("table local");
    let mut lines: Vec<_> = all.lines().filter(|line| !is_kernels(line)).collect();
    lines.sort_unstable();
    // A veth has no carrier for a moment after it comes up.
    lines.into_iter().map(|line| line.replace("linkdown", "").trim().to_owned()).collect()
}

#[test]
fn routes_of_others_come_back_as_they_were() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        with_routes();
        let mut host = fixture.open();
        let before = routes();
        assert_eq!(before.len(), OTHERS.len() + OTHERS_V6.len(), "{before:#?}");
        for text in CUT_OFF {
            host.change(&own(text), LONG).await.unwrap();
            assert_ne!(routes(), before, "{text}");
            assert!(host.roll_back().await.unwrap());
            assert_eq!(routes(), before, "{text}");
        }
        // The same after a crash between any two steps.
        for stop in 0.. {
            let mut left = stop;
            let mut goes_on = |_: &_| {
                left -= 1;
                left >= 0
            };
            host.interrupted(&own(CUT_OFF[0]), &mut goes_on).await.unwrap();
            drop(host);
            host = fixture.open();
            assert!(host.recover().await.unwrap());
            assert_eq!(routes(), before, "stopped after {stop} steps");
            if left >= 0 {
                break;
            }
        }
    });
}

#[test]
fn routes_of_others_survive_a_change_that_does_not_forbid_them() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        with_routes();
        let mut host = fixture.open();
        let of_others = || -> Vec<_> {
            routes()
                .into_iter()
                .filter(|line| line.contains("bird") || line.contains("dhcp"))
                .collect()
        };
        let before = of_others();
        assert_eq!(before.len(), 5, "{before:#?}");
        // With the last address of IPv4 the kernel forgets all routes of IPv4.
        let other = own("links: [{name: card0, addresses: [192.0.2.11/24, 2001:db8::10/64]}]");
        let plan = host.change(&other, LONG).await.unwrap();
        assert_eq!(plan.lost, ["default via 192.0.2.1 dev card0 src 192.0.2.10 proto dhcp"]);
        let after = of_others();
        let is_left = |line: &&String| !line.contains("src 192.0.2.10");
        assert_eq!(
            after.iter().collect::<Vec<_>>(),
            before.iter().filter(is_left).collect::<Vec<_>>()
        );
        assert!(host.roll_back().await.unwrap());
        assert_eq!(of_others(), before);
        // The plan names the routes that are lost for good.
        let plan = host.planned(&own(CUT_OFF[0])).await.unwrap().to_string();
        assert!(plan.contains("lose route default via 192.0.2.1 dev card0 src"), "{plan}");
        assert!(plan.contains("lose route 203.0.113.0/24"), "{plan}");
        let refused = host.change(&own("links: [{name: card7}]"), LONG).await;
        assert!(matches!(refused, Err(HostError::Misfit(_))), "{refused:?}");
        assert_eq!(of_others(), before);
    });
}
