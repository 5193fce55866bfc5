//! Two agents of one rack, one of which dies.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::Value;
use tests::run::wait_for;

use crate::client::{Client, Kind};
use crate::lan::{PATIENCE, leases, rack};
use crate::lives::assert_by_rule;

/// Clients that start together: more than either agent has addresses for.
const CLIENTS: u8 = 20;
/// Clients that come when one agent is dead: fewer than the other has addresses left.
const LATER: u8 = 4;

/// Their addresses, each of which only one of them has.
fn addresses<'c>(clients: impl Iterator<Item = &'c Client>) -> BTreeSet<Ipv4Addr> {
    let (mut all, mut count) = (BTreeSet::new(), 0);
    for client in clients {
        let lease = client.lease();
        assert_by_rule(&lease);
        all.insert(lease.address);
        count += 1;
    }
    assert_eq!(all.len(), count, "an address was given twice: {all:?}");
    all
}

#[test]
fn no_address_is_given_twice_and_one_agent_goes_on_alone() {
    let Some(mut rack) = rack(2, &["udhcpc"]) else { return };
    let mut clients: Vec<Client> =
        (0..CLIENTS).map(|number| Client::new(&mut rack, Kind::Udhcpc, number)).collect();
    for client in &mut clients {
        client.start(&[]);
    }
    let first = addresses(clients.iter());

    let known = wait_for("all leases in `gnt lease list`", PATIENCE, || {
        let known = leases(&rack);
        (known.len() == usize::from(CLIENTS)).then_some(known)
    });
    let of = |node: u8| {
        let name = format!("n{node}.example");
        known.iter().filter(|lease: &&Value| lease["agent"] == name.as_str()).count()
    };
    assert_eq!(of(1) + of(2), usize::from(CLIENTS), "{known:?}");
    // The busier one: so the other has addresses left.
    let dead = if of(1) >= of(2) { 1 } else { 2 };
    rack.stage.kill(&format!("noded{dead}"));

    let mut later: Vec<Client> = (CLIENTS..CLIENTS + LATER)
        .map(|number| Client::new(&mut rack, Kind::Udhcpc, number))
        .collect();
    for client in &mut later {
        client.start(&[]);
    }
    let second = addresses(later.iter());
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");

    // It starts again, knows what it has given, and gives nothing of that to others.
    rack.start_agent(dead, &[]).unwrap();
    for client in &clients {
        let (held, passed) = (client.lease().address, client.capture.messages().len());
        client.renew();
        client.capture.wait_for("an answer to a renewal", passed, |message| message.kind == "ACK");
        assert_eq!(client.lease().address, held);
    }
    let all = addresses(clients.iter().chain(&later));
    assert_eq!(all.len(), usize::from(CLIENTS + LATER));
}
