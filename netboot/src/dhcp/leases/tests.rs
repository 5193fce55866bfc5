use super::*;

mod agents;
use crate::dhcp::config::tests::sample;

const MINUTE: i64 = 60 * 1_000_000;
const HOUR: i64 = 60 * MINUTE;

fn client(number: u8) -> Identity {
    Identity::Ethernet(model::MacAddress::new([0x52, 0x54, 0, 0, 0, number]))
}

fn at(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, last)
}

/// Leases where client 1 holds .32 until minute 10.
fn one_bound() -> Leases {
    let mut leases = Leases::default();
    assert_eq!(leases.offer(&sample(), &client(1), None, 0), Some(at(32)));
    leases.bind(&client(1), at(32), 0, 10 * MINUTE);
    leases
}

#[test]
fn offers_go_from_the_lowest_and_stay() {
    let mut leases = Leases::default();
    let range = sample();
    assert_eq!(leases.offer(&range, &client(1), None, 0), Some(at(32)));
    assert_eq!(leases.offer(&range, &client(2), None, 0), Some(at(33)));
    assert_eq!(leases.offer(&range, &client(1), Some(at(50)), 0), Some(at(32)));
    assert_eq!(leases.offer(&range, &client(3), Some(at(50)), 0), Some(at(50)));
    assert_eq!(leases.offer(&range, &client(4), Some(at(33)), 0), Some(at(34)));
    assert_eq!(leases.offer(&range, &client(5), Some(at(3)), 0), Some(at(35)));
    assert_eq!(leases.records().count(), 0);
}

#[test]
fn a_held_offer_runs_out() {
    let mut leases = Leases::default();
    let range = sample();
    leases.offer(&range, &client(1), None, 0);
    let after = OFFER_HOLD_US;
    assert_eq!(leases.standing(&range, &client(1), at(32), after - 1), Standing::Offered);
    assert_eq!(leases.standing(&range, &client(1), at(32), after), Standing::Lapsed);
    assert_eq!(leases.offer(&range, &client(2), None, after), Some(at(32)));
    assert_eq!(leases.standing(&range, &client(1), at(32), after), Standing::Taken);
}

#[test]
fn standings() {
    let mut leases = one_bound();
    let range = sample();
    let standing = |leases: &Leases, number, last, now| {
        leases.standing(&range, &client(number), at(last), now)
    };
    assert_eq!(standing(&leases, 1, 32, MINUTE), Standing::Bound);
    assert_eq!(standing(&leases, 1, 33, MINUTE), Standing::Elsewhere);
    assert_eq!(standing(&leases, 1, 3, MINUTE), Standing::Foreign);
    assert_eq!(standing(&leases, 2, 32, MINUTE), Standing::Taken);
    assert_eq!(standing(&leases, 2, 33, MINUTE), Standing::Stranger);
    assert_eq!(standing(&leases, 1, 32, 10 * MINUTE), Standing::Lapsed);
    assert_eq!(standing(&leases, 1, 33, 10 * MINUTE), Standing::Elsewhere);
    assert_eq!(standing(&leases, 2, 32, 10 * MINUTE), Standing::Stranger);
    let mut fixed = range.clone();
    fixed.excluded.insert(at(32));
    assert_eq!(leases.standing(&fixed, &client(1), at(32), MINUTE), Standing::Revoked);
    assert_eq!(leases.standing(&fixed, &client(2), at(32), MINUTE), Standing::Foreign);
    assert_ne!(leases.offer(&fixed, &client(1), None, MINUTE), Some(at(32)));
}

#[test]
fn an_ended_lease_is_remembered_until_the_address_is_needed() {
    let mut leases = one_bound();
    let range = sample();
    let later = 20 * MINUTE;
    // Others get addresses that nobody has had.
    assert_eq!(leases.offer(&range, &client(2), None, later), Some(at(33)));
    assert_eq!(leases.offer(&range, &client(1), None, later), Some(at(32)));
    let later = 40 * MINUTE;
    leases.bind(&client(1), at(32), 0, later);
    for number in 3..33 {
        assert!(leases.offer(&range, &client(number), None, later).is_some());
    }
    // All 31 are held now but .32, the memory.
    assert_eq!(leases.offer(&range, &client(99), None, later), Some(at(32)));
    assert_eq!(leases.offer(&range, &client(1), None, later), None);
}

#[test]
fn the_one_unused_for_longest_goes_first() {
    let mut range = sample();
    range.last = at(34);
    let mut leases = Leases::default();
    for (number, minutes) in [(1, 30), (2, 10), (3, 20)] {
        let address = leases.offer(&range, &client(number), None, 0).unwrap();
        leases.bind(&client(number), address, 0, minutes * MINUTE);
    }
    assert_eq!(leases.offer(&range, &client(4), None, 5 * MINUTE), None);
    let later = 60 * MINUTE;
    for expected in [33, 34, 32] {
        let number = 100 + expected;
        assert_eq!(leases.offer(&range, &client(number), None, later), Some(at(expected)));
    }
}

#[test]
fn release_ends_at_once_and_is_remembered() {
    let mut leases = one_bound();
    assert_eq!(leases.release(&client(2), at(32), MINUTE), None);
    assert_eq!(leases.release(&client(1), at(33), MINUTE), None);
    let record = leases.release(&client(1), at(32), MINUTE).unwrap();
    assert_eq!(record.state, LeaseState::Released { at_us: MINUTE });
    assert_eq!(leases.release(&client(1), at(32), MINUTE), None);
    // Also when the clock goes back.
    assert_eq!(leases.standing(&sample(), &client(1), at(32), 0), Standing::Lapsed);
    assert_eq!(leases.offer(&sample(), &client(1), None, MINUTE), Some(at(32)));
}

#[test]
fn a_declined_address_rests() {
    let mut leases = one_bound();
    let range = sample();
    assert_eq!(leases.decline(&client(2), at(32), MINUTE), None);
    assert_eq!(leases.decline(&client(1), at(33), MINUTE), None);
    let record = leases.decline(&client(1), at(32), MINUTE).unwrap();
    let until_us = MINUTE + QUARANTINE_US;
    assert_eq!(record.state, LeaseState::Declined { until_us });
    for number in [1, 2] {
        let standing = leases.standing(&range, &client(number), at(32), until_us - 1);
        assert_eq!(standing, Standing::Quarantined);
    }
    assert_eq!(leases.offer(&range, &client(1), Some(at(32)), until_us - 1), Some(at(33)));
    // It is free again, and addresses that nobody had come first.
    assert_eq!(leases.offer(&range, &client(2), None, until_us), Some(at(34)));
    assert_eq!(leases.offer(&range, &client(3), Some(at(32)), until_us), Some(at(32)));
}

#[test]
fn a_client_that_declines_again_and_again_is_never_offered_what_it_declined() {
    let mut leases = Leases::default();
    let mut declined = Vec::new();
    for _ in 0..6 {
        let address = leases.offer(&sample(), &client(1), None, 0).unwrap();
        assert!(!declined.contains(&address), "{address} after {declined:?}");
        leases.bind(&client(1), address, 0, HOUR);
        leases.decline(&client(1), address, 0).unwrap();
        declined.push(address);
    }
    let quarantined =
        |a: &&Ipv4Addr| leases.standing(&sample(), &client(2), **a, 0) == Standing::Quarantined;
    assert_eq!(declined.iter().filter(quarantined).count(), DECLINES_MAX);
}

#[test]
fn another_servers_client_is_forgotten_but_its_lease_stays() {
    let mut leases = one_bound();
    leases.offer(&sample(), &client(2), None, 0);
    leases.withdraw(&client(1));
    leases.withdraw(&client(2));
    assert_eq!(leases.standing(&sample(), &client(1), at(32), 0), Standing::Bound);
    assert_eq!(leases.standing(&sample(), &client(2), at(33), 0), Standing::Stranger);
}

#[test]
fn offers_are_limited() {
    let range = ServedRange {
        prefix_len: 16,
        first: Ipv4Addr::new(10, 69, 1, 0),
        last: Ipv4Addr::new(10, 69, 20, 0),
        ..sample()
    };
    let number = |n: usize| Identity::ClientId(n.to_be_bytes().to_vec());
    let mut leases = Leases::default();
    for n in 0..OFFERS_MAX {
        assert!(leases.offer(&range, &number(n), None, 0).is_some());
    }
    assert_eq!(leases.offer(&range, &number(OFFERS_MAX), None, 0), None);
    assert!(leases.offer(&range, &number(7), None, 0).is_some());
    assert!(leases.offer(&range, &number(OFFERS_MAX), None, OFFER_HOLD_US).is_some());
}

#[test]
fn a_restart_keeps_what_is_durable() {
    let mut leases = one_bound();
    leases.offer(&sample(), &client(2), None, 0);
    let restored = Leases::restore(leases.records());
    assert_eq!(restored.standing(&sample(), &client(1), at(32), 0), Standing::Bound);
    assert_eq!(restored.standing(&sample(), &client(2), at(33), 0), Standing::Stranger);
}

#[test]
fn records_as_text() {
    let record = one_bound().records().next().unwrap();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(
        text,
        r#"{"address":"10.69.0.32","client":"52:54:00:00:00:01","state":"bound","until_us":600000000,"since_us":0}"#
    );
    assert_eq!(serde_json::from_str::<LeaseRecord>(&text).unwrap(), record);
    // As agents wrote it down that gave leases of an hour alone.
    let old = text.replace(r#","since_us":0"#, "");
    let old: LeaseRecord = serde_json::from_str(&old).unwrap();
    assert_eq!(Leases::restore([old]).records().next().unwrap().since_us, Some(-50 * MINUTE));
}

#[test]
fn a_client_takes_no_more_than_two_addresses_from_the_others() {
    let range = sample();
    let mut leases = Leases::default();
    let mut quarantined = 0;
    for _ in 0..5 {
        let address = leases.offer(&range, &client(1), None, 0).unwrap();
        leases.bind(&client(1), address, 0, HOUR);
        let record = leases.decline(&client(1), address, 0).unwrap();
        quarantined += usize::from(matches!(record.state, LeaseState::Declined { .. }));
    }
    assert_eq!(quarantined, DECLINES_MAX);
}

#[test]
fn what_was_given_while_the_clock_was_ahead_ends_a_lease_from_now() {
    let mut leases = Leases::default();
    leases.bind(&client(1), at(32), 13 * HOUR, 14 * HOUR);
    leases.bind(&client(2), at(33), 0, MINUTE);
    leases.shorten(HOUR, 0);
    let ends: Vec<_> = leases.records().map(|record| record.bound_until_us()).collect();
    assert_eq!(ends, [Some(HOUR), Some(MINUTE)]);
    assert!(leases.records().all(|record| record.since_us == Some(0)));
}

#[test]
fn what_another_agent_may_have_leased_is_left_alone_until_its_time() {
    let range = ServedRange { later: [(at(32), HOUR)].into(), ..sample() };
    let mut leases = Leases::default();
    leases.bind(&client(1), at(32), -2, -1);
    assert_eq!(leases.standing(&range, &client(1), at(32), 0), Standing::Foreign);
    assert_eq!(leases.offer(&range, &client(1), Some(at(32)), 0), Some(at(33)));
    assert_eq!(leases.standing(&range, &client(2), at(32), 0), Standing::Foreign);
}
