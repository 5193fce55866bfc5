//! A lease of each client, from its first question to its release.

use crate::capture::Message;
use crate::client::{Client, Kind, Lease};
use crate::lan::{AGENT, RANGE, ROUTER, leases, rack, wait_for_lease, wait_for_no_lease};

/// Seconds of a lease.
const LEASE_SECONDS: u64 = 3_600;

/// A lease of rack 0, as its rules have it.
pub(crate) fn assert_by_rule(lease: &Lease) {
    let [a, b, c, last] = lease.address.octets();
    assert_eq!([a, b, c], [10, 69, 0], "{lease:?}");
    assert!(RANGE.contains(&last), "{lease:?}");
    assert_eq!((lease.prefix, lease.router), (26, ROUTER), "{lease:?}");
    // The client, and whoever looks here, take their time.
    assert!((LEASE_SECONDS / 2..=LEASE_SECONDS).contains(&lease.seconds), "{lease:?}");
}

/// It gets a lease, renews it, has it back after a power cut, and releases it.
fn lives(kind: Kind) {
    let Some(mut rack) = rack(1, kind.programs()) else { return };
    let mut client = Client::new(&mut rack, kind, 1);
    client.start(&[]);
    let first = client.lease();
    assert_by_rule(&first);
    wait_for_lease(&rack, &client.mac, first.address);
    renews(&client, &first);

    // A client without notes on its disk begins anew, and the agent remembers.
    let has_notes = matches!(kind, Kind::Dhclient | Kind::Dhcpcd);
    client.kill();
    let passed = client.capture.messages().len();
    client.start(&[]);
    is_back(&client, passed, has_notes, &first);
    if kind == Kind::Networkd {
        let passed = client.capture.messages().len();
        client.pull_cable();
        is_back(&client, passed, true, &first);
    }

    let passed = client.capture.messages().len();
    client.release();
    client.capture.wait_for("a release", passed, |message| {
        message.kind == "Release" && message.to == AGENT.to_string()
    });
    wait_for_no_lease(&rack, &client.mac);
    // Nobody else came, so it gets what it had.
    if kind == Kind::Udhcpc {
        client.kill();
    }
    client.start(&[]);
    assert_eq!(client.lease().address, first.address);
    wait_for_lease(&rack, &client.mac, first.address);
    assert_eq!(leases(&rack).len(), 1, "{:?}", leases(&rack));
}

/// It asks the agent itself, gets an answer, and keeps its address.
pub(crate) fn renews(client: &Client, first: &Lease) {
    let (agent, passed) = (AGENT.to_string(), client.capture.messages().len());
    client.renew();
    let asks = |message: &Message| message.is_renewal_at(&agent);
    let asked = client.capture.wait_for("a renewal", passed, asks);
    client.capture.wait_for("its answer", asked, |message| message.kind == "ACK");
    assert_eq!(client.lease().address, first.address);
}

/// It has its address again; it has asked for that without DISCOVER, or with one.
fn is_back(client: &Client, passed: usize, reboots: bool, first: &Lease) {
    client.capture.wait_for("an answer", passed, |message| message.kind == "ACK");
    let back = client.lease();
    assert_by_rule(&back);
    assert_eq!(back.address, first.address);
    let seen = client.capture.messages().split_off(passed);
    let has = |kind: &str| seen.iter().any(|message| message.kind == kind);
    let rebooted = seen.iter().any(Message::is_init_reboot);
    assert_eq!((rebooted, has("Discover"), has("NACK")), (reboots, !reboots, false), "{seen:#?}");
}

#[test]
fn a_lease_of_udhcpc() {
    lives(Kind::Udhcpc);
}

#[test]
fn a_lease_of_dhclient() {
    lives(Kind::Dhclient);
}

#[test]
fn a_lease_of_dhcpcd() {
    lives(Kind::Dhcpcd);
}

#[test]
fn a_lease_of_systemd_networkd() {
    lives(Kind::Networkd);
}
