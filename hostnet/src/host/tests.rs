mod kinds;
mod namespace;
mod routes;
mod trouble;

use std::process::Command;
use std::time::Duration;

use namespace::{Fixture, LONG, in_namespace, ip, own};

use super::{Host, HostError};
use crate::model::HostNetwork;

/// All that this kernel has.
const FULL: &str = "
links:
  - {name: card0, mtu: 1400, mac: '02:00:00:00:00:77', addresses: [192.0.2.10/24, '2001:db8::10/64'],
     routes: [{to: default, via: 192.0.2.1}, {to: '::/0', via: '2001:db8::1'}, {to: 203.0.113.0/24, via: 198.51.100.1, on_link: true, metric: 7},
              {to: 10.0.0.0/8, via: 192.0.2.254, table: 100}]}
  - {name: card1}
  - {name: br0, kind: bridge, members: [card1], stp: true, addresses: [198.51.100.10/24]}
  - {name: mv0, kind: macvlan, parent: card0, mode: private, addresses: [10.9.0.1/32]}
  - {name: vx0, kind: vxlan, vni: 7, parent: card0, local: 192.0.2.10, remote: 192.0.2.11, mtu: 1300}
rules:
  - {from: 192.0.2.0/24, table: 100, priority: 1000}
  - {to: '2001:db8:1::/48', table: 70000}
";
/// Another state of the same links.
const OTHER: &str = "
links:
  - {name: card0, mtu: 1500, addresses: [192.0.2.11/24, '2001:db8::10/48'],
     routes: [{to: default, via: 192.0.2.1}, {to: '2001:db8:9::/48', via: '2001:db8::1', metric: 9}]}
  - {name: card1, up: false}
  - {name: br0, kind: bridge, members: [card1], stp: false, addresses: [198.51.100.10/24, 198.51.100.11/24]}
  - {name: mv0, kind: macvlan, parent: card0, mode: bridge}
rules:
  - {from: 192.0.2.0/24, table: 101, priority: 1000}
absent: [vx0]
";

/// The network in the form that the tests compare: the kernel gives new numbers to links that are made
/// again.
async fn state(host: &Host) -> HostNetwork {
    let mut network = host.read().await.unwrap().network;
    network.links.sort_by(|a, b| a.name.cmp(&b.name));
    for link in &mut network.links {
        link.addresses.sort();
        link.routes.sort();
        // Made links that were given no address get another one each time.
        link.mac = link.mac.filter(|_| link.name.starts_with("card"));
    }
    network.rules.sort();
    network
}

#[test]
fn what_is_asked_for_is_what_is_there() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        for text in [FULL, OTHER, FULL] {
            let desired = own(text);
            let plan = host.change(&desired, LONG).await.unwrap();
            assert!(!plan.is_empty());
            assert!(host.commit().unwrap());
            assert!(host.planned(&desired).await.unwrap().is_empty());
        }
        let shown = ip("-o addr") + &ip("route show table all") + &ip("-6 route show table all");
        for told in [
            "192.0.2.10/24",
            "198.51.100.10/24",
            "2001:db8::10/64",
            "10.9.0.1/32",
            "default via 192.0.2.1 dev card0 proto static",
            "10.0.0.0/8 via 192.0.2.254 dev card0 table 100",
            "default via 2001:db8::1 dev card0",
            "203.0.113.0/24 via 198.51.100.1 dev card0 proto static metric 7 onlink",
        ] {
            assert!(shown.contains(told), "{told}: {shown}");
        }
        let links = ip("-d link show");
        for told in [
            "02:00:00:00:00:77",
            "mtu 1400",
            "macvlan mode private",
            "vxlan id 7 remote 192.0.2.11 local 192.0.2.10 dev card0",
            "stp_state 1",
            "master br0",
        ] {
            assert!(links.contains(told), "{told}: {links}");
        }
        assert!(
            ip("rule").contains("1000:\tfrom 192.0.2.0/24 lookup 100 proto static"),
            "{}",
            ip("rule")
        );
        assert!(ip("-6 rule").contains("to 2001:db8:1::/48 lookup 70000"), "{}", ip("-6 rule"));
    });
}

#[test]
fn a_second_application_sends_nothing() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        // A bridge with a spanning tree tells of its ports for half a minute.
        let full = FULL.replace("stp: true", "stp: false");
        host.change(&own(&full), LONG).await.unwrap();
        host.commit().unwrap();
        let mut monitor = Command::new("ip")
            .args(["monitor", "link", "address", "route", "rule"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines =
            std::io::BufRead::lines(std::io::BufReader::new(monitor.stdout.take().unwrap()));
        let lines = std::cell::RefCell::new(lines);
        let next = || lines.borrow_mut().next().unwrap().unwrap();
        // It listens once it tells of a change.
        let mark = |table: u32| {
            loop {
                ip(&format!("rule add from 10.99.0.0/16 table {table}"));
                if next().contains(&format!("lookup {table}")) {
                    return;
                }
            }
        };
        let changes_until = |table: u32| {
            ip(&format!("rule add from 10.99.0.0/16 table {table}"));
            let is_other = |line: &String| !line.contains(&format!("lookup {table}"));
            let changes = std::iter::from_fn(|| Some(next())).take_while(is_other);
            // More than one mark may have been necessary.
            changes.filter(|line| !line.contains("10.99.0.0/16")).collect::<Vec<_>>()
        };
        // The same, in another order and spelling.
        let again = full.replace("2001:db8::10/64", "2001:0DB8:0::0010/64").replace(
            "[192.0.2.10/24, '2001:0DB8:0::0010/64']",
            "['2001:0DB8:0::0010/64', 192.0.2.10/24]",
        );
        assert_ne!(again, full);
        // The first links that come up settle for a while; what an application sends, each one sends.
        for round in 0_u32.. {
            mark(4001 + 2 * round);
            let plan = host.change(&own(&again), LONG).await.unwrap();
            assert!(plan.is_empty(), "{plan}");
            assert_eq!(host.pending().unwrap(), None);
            let changes = changes_until(4002 + 2 * round);
            if changes.is_empty() {
                break;
            }
            assert!(round < 20, "{changes:?}");
        }
        monitor.kill().unwrap();
        monitor.wait().unwrap();
    });
}

#[test]
fn a_change_reads_the_kernel_before_and_after() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        let mut last = 0;
        let mut readings = |host: &Host| {
            let all = host.kernel.readings.load(std::sync::atomic::Ordering::Relaxed);
            all - std::mem::replace(&mut last, all)
        };
        host.change(&own(FULL), LONG).await.unwrap();
        assert_eq!(readings(&host), 2, "one before the change, one behind it");
        host.planned(&own(OTHER)).await.unwrap();
        assert_eq!(readings(&host), 1);
        assert!(host.roll_back().await.unwrap());
        assert_eq!(readings(&host), 2);
    });
}

#[test]
fn without_a_commit_the_host_goes_back() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        host.change(&own(FULL), LONG).await.unwrap();
        host.commit().unwrap();
        let before = state(&host).await;
        // On request.
        host.change(&own(OTHER), LONG).await.unwrap();
        assert_ne!(state(&host).await, before);
        assert!(host.roll_back().await.unwrap());
        assert_eq!(state(&host).await, before);
        assert!(!host.roll_back().await.unwrap(), "there is nothing left to roll back");
        // At the deadline, and another change waits until then.
        host.change(&own(OTHER), Duration::from_secs(5)).await.unwrap();
        let error = host.change(&own(FULL), LONG).await.unwrap_err();
        assert!(matches!(error, HostError::Pending { deadline_micros: 6_000_000 }), "{error}");
        assert!(!host.roll_back_if_due().await.unwrap());
        fixture.clock.set(6_000_000);
        assert!(host.roll_back_if_due().await.unwrap());
        assert_eq!(state(&host).await, before);
        // A deadline that nobody looked at is no obstacle for the next change.
        host.change(&own(OTHER), Duration::from_secs(5)).await.unwrap();
        fixture.clock.set(12_000_000);
        assert!(host.change(&own(FULL), LONG).await.unwrap().is_empty());
        assert_eq!(state(&host).await, before);
        // At the next start.
        host.change(&own(OTHER), LONG).await.unwrap();
        drop(host);
        let mut host = fixture.open();
        assert!(host.recover().await.unwrap());
        assert_eq!(state(&host).await, before);
    });
}

#[test]
fn what_the_kernel_lacks_is_refused_before_anything_is_touched() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        let before = state(&host).await;
        let mut lacking = 0;
        for (kind, options) in [
            ("bond", ", mode: active-backup"),
            ("vlan", ", vlan: 5, parent: card0"),
            ("dummy", ""),
            ("bridge", ""),
        ] {
            let desired =
                format!("links: [{{name: card0, mtu: 1300}}, {{name: x0, kind: {kind}{options}}}]");
            let has = Command::new("ip")
                .args(["link", "add", "x1", "type", kind])
                .args(if kind == "vlan" { &["id", "6"][..] } else { &[] })
                .output()
                .unwrap();
            let is_lacking = String::from_utf8_lossy(&has.stderr).contains("Unknown device type");
            match host.planned(&own(&desired)).await {
                Err(HostError::Lacking { kind: told, link }) => {
                    assert_eq!((told, &*link, is_lacking), (kind, "x0", true));
                    let error = host.change(&own(&desired), LONG).await.unwrap_err();
                    assert_eq!(
                        error.to_string(),
                        format!("the kernel of this host has no {kind}, which x0 is")
                    );
                    assert_eq!(state(&host).await, before);
                    assert_eq!(host.pending().unwrap(), None);
                    lacking += 1;
                }
                other => assert!(other.is_ok() && !is_lacking, "{kind}: {other:?}"),
            }
            drop(Command::new("ip").args(["link", "del", "x1"]).output());
        }
        if lacking == 0 {
            println!("skipped: this kernel has every kind of links");
        }
    });
}

#[test]
fn programs_of_the_host_keep_their_own_addresses() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        let held = || ip("-br address show dev lo");
        let before = held();
        assert!(before.contains("127.0.0.1/8") && before.contains("::1/128"), "{before}");
        for addresses in ["10.1.1.1/32", "10.1.1.1/32, 127.0.0.1/8", "'2001:db8::7/128'"] {
            let text = format!("links: [{{name: lo, addresses: [{addresses}]}}]");
            host.change(&own(&text), LONG).await.unwrap();
            let after = held();
            assert!(after.contains("127.0.0.1/8") && after.contains("::1/128"), "{after}");
            assert!(host.planned(&own(&text)).await.unwrap().is_empty());
            assert!(host.roll_back().await.unwrap());
            assert_eq!(held(), before);
        }
    });
}

#[test]
fn others_are_left_alone_and_locked_out() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        ip("link add tap0 type veth peer name tap1");
        ip("link add br0 type bridge");
        ip("link set tap0 master br0");
        ip("addr add 203.0.113.1/24 dev tap1");
        ip("link set tap1 up");
        ip("rule add from 10.1.0.0/16 table 5");
        let mut host = fixture.open();
        let foreign = || ip("-o -4 addr show dev tap1") + &ip("rule");
        let before = foreign();
        let desired = own(
            "links: [{name: br0, kind: bridge, members: [card1], addresses: [192.0.2.10/24]}, {name: card1}]",
        );
        host.change(&desired, LONG).await.unwrap();
        assert!(ip("-o link show master br0").contains("tap0"));
        assert!(ip("-o link show master br0").contains("card1"));
        host.roll_back().await.unwrap();
        assert_eq!(foreign(), before);
        assert!(!ip("-o link show master br0").contains("card1"));
        let other = Host::open(&fixture.tasks, fixture.directory.path(), fixture.clock.clone());
        assert!(matches!(other, Err(HostError::Held { .. })), "two at once: {other:?}");
        // A checkpoint that is damaged is set aside, and stops nothing.
        stdx::atomic::write(&fixture.directory.path().join("checkpoint"), b"{", 0o600).unwrap();
        assert!(!host.recover().await.unwrap());
        assert!(fixture.directory.path().join("checkpoint.unreadable").exists());
        assert_eq!(host.pending().unwrap(), None);
        host.change(&desired, LONG).await.unwrap();
    });
}
