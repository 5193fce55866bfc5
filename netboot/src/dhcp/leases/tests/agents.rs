//! Tests of whose word counts where agents differ, and of when an address goes to another client.

use super::super::news::{Learned, LeaseClash, Teller};
use super::*;
use crate::dhcp::config::OtherPart;

const LEASE: i64 = HOUR;
const SECOND: i64 = 1_000_000;

fn record(number: u8, state: LeaseState, since_us: i64) -> LeaseRecord {
    LeaseRecord { address: at(32), client: client(number), state, since_us: Some(since_us) }
}

/// A lease of client `number` that was given `minutes` ago, at the minute 100.
fn bound(number: u8, minutes: i64) -> LeaseRecord {
    let since_us = NOW - minutes * MINUTE;
    record(number, LeaseState::Bound { until_us: since_us + LEASE }, since_us)
}

fn released(number: u8, minutes: i64) -> LeaseRecord {
    let at_us = NOW - minutes * MINUTE;
    record(number, LeaseState::Released { at_us }, at_us)
}

fn declined(number: u8, minutes: i64) -> LeaseRecord {
    let since_us = NOW - minutes * MINUTE;
    record(number, LeaseState::Declined { until_us: since_us + QUARANTINE_US }, since_us)
}

const NOW: i64 = 100 * MINUTE;

/// T: taken, -: not taken, K: kept with an alarm, Y: yielded with an alarm.
fn letter(known: LeaseRecord, told: &LeaseRecord, teller: Teller) -> char {
    let mut leases = Leases::restore([known.clone()]);
    let learned = leases.learn(told.clone(), teller, LEASE, NOW);
    let left = leases.records().next().unwrap();
    assert_eq!(left, *learned.taken().unwrap_or(&known));
    match learned {
        Learned::Taken(_) => 'T',
        Learned::Known => '-',
        Learned::Kept(clash) => {
            assert_eq!(clash, LeaseClash { told: told.clone(), client: known.client });
            'K'
        }
        Learned::Yielded(_) => 'Y',
    }
}

/// The columns: the one that tells gives the address; this agent does; a third one does.
#[test]
fn whose_word_counts() {
    let tellers = [Teller::Giver, Teller::NotGiver, Teller::Bystander];
    for (known, told, expected) in [
        // The same client: the longer lease, and its end by the word of its giver.
        (bound(1, 9), bound(1, 9), "---"),
        (bound(1, 9), bound(1, 5), "TTT"),
        (bound(1, 5), bound(1, 9), "---"),
        (bound(1, 9), released(1, 5), "TTT"),
        (bound(1, 5), released(1, 9), "T--"),
        (bound(1, 9), declined(1, 5), "TTT"),
        (bound(1, 5), declined(1, 9), "T--"),
        (released(1, 9), bound(1, 5), "TTT"),
        (released(1, 5), bound(1, 9), "T--"),
        (declined(1, 5), bound(1, 9), "T--"),
        // Another client.
        (bound(1, 9), bound(2, 5), "TKT"),
        (bound(1, 5), bound(2, 9), "Y--"),
        (bound(1, 9), released(2, 5), "T-T"),
        (bound(1, 5), released(2, 9), "T--"),
        (bound(1, 90), bound(2, 5), "TTT"),
        (bound(1, 90), bound(2, 95), "T--"),
        (released(1, 9), bound(2, 5), "TTT"),
        (released(1, 5), bound(2, 9), "T--"),
        (declined(1, 9), bound(2, 5), "TTT"),
        (declined(1, 9), released(2, 5), "T-T"),
        (bound(1, 9), declined(2, 5), "T-T"),
    ] {
        let got: String =
            tellers.iter().map(|teller| letter(known.clone(), &told, *teller)).collect();
        assert_eq!(got, expected, "{known:?} {told:?}");
    }
}

#[test]
fn a_difference_of_clocks_frees_no_address() {
    let later = |seconds: i64, teller| {
        let known = bound(1, 9);
        let since_us = known.since_us.unwrap() + seconds * SECOND;
        let told = record(1, LeaseState::Released { at_us: since_us }, since_us);
        letter(known, &told, teller)
    };
    assert_eq!((later(60, Teller::NotGiver), later(61, Teller::NotGiver)), ('-', 'T'));
    assert_eq!(later(1, Teller::Giver), 'T');
}

#[test]
fn a_clock_that_was_ahead_has_not_the_last_word() {
    let year = 365 * 24 * HOUR;
    let ahead = record(1, LeaseState::Released { at_us: year }, year);
    assert_eq!(letter(ahead.clone(), &bound(1, 0), Teller::Giver), 'T');
    let mut leases = Leases::restore([released(1, 5)]);
    let told = record(2, LeaseState::Bound { until_us: year + HOUR }, year);
    let soon = NOW + CLOCKS_DIFFER_US;
    let capped = record(2, LeaseState::Bound { until_us: NOW + LEASE }, soon);
    assert_eq!(leases.learn(told, Teller::Giver, LEASE, NOW), Learned::Taken(capped));
    let mut leases = Leases::restore([ahead]);
    leases.shorten(LEASE, NOW);
    assert_eq!(leases.records().next(), Some(released(1, 0)));
}

#[test]
fn an_offer_gives_way_to_a_lease_alone() {
    for (told, taken) in [(bound(2, 9), true), (bound(2, 90), false), (released(2, 1), false)] {
        let mut leases = Leases::default();
        leases.offer(&sample(), &client(1), None, NOW);
        let learned = leases.learn(told.clone(), Teller::NotGiver, LEASE, NOW);
        assert_eq!(learned.taken().is_some(), taken, "{told:?}");
        let standing = leases.standing(&sample(), &client(1), at(32), NOW);
        assert_eq!(standing, if taken { Standing::Taken } else { Standing::Offered });
    }
}

/// A range of one address, which this agent gives and n2 and n3 renew.
fn shared(relays_only: bool) -> ServedRange {
    let peers = ["n2", "n3"].map(|name| name.parse().unwrap()).into();
    ServedRange { last: at(32), peers, relays_only, ..sample() }
}

#[test]
fn an_address_goes_to_another_client_when_all_know_that_it_is_free() {
    let offered = |known: LeaseRecord, heard: &[i64], relays_only| {
        let mut leases = Leases::restore([known]);
        leases.begin(NOW - 25 * HOUR);
        for (name, minutes) in ["n2", "n3"].iter().zip(heard) {
            leases.hear(name.parse().unwrap(), NOW - minutes * MINUTE);
        }
        let range = shared(relays_only);
        let offered = leases.offer(&range, &client(9), None, NOW);
        // A host that is asked for its address keeps it from others.
        offered.map(|address| leases.is_offered_again(address))
    };
    for (known, heard, on_the_link, by_relay) in [
        // Two were heard a minute after its end, or one was not.
        (bound(1, 90), &[29, 29][..], Some(true), Some(true)),
        (bound(1, 90), &[29, 30], Some(true), None),
        (bound(1, 90), &[29], Some(true), None),
        (bound(1, 90 + 24 * 60), &[29], Some(true), Some(true)),
        // It was given back: nobody renews it.
        (released(1, 1), &[], Some(true), Some(true)),
        (bound(1, 9), &[0, 0], None, None),
    ] {
        assert_eq!(offered(known.clone(), heard, false), on_the_link, "{known:?} {heard:?}");
        assert_eq!(offered(known.clone(), heard, true), by_relay, "{known:?} {heard:?}");
    }
    // A lease that an agent took over, or has had from the beginning, is asked for until all others told
    // what they know.
    for (from_minute, heard, asked) in [
        (1, &[][..], true),
        (1, &[0], true),
        (1, &[0, 0], false),
        (50, &[49, 50], false),
        (50, &[50, 51], true),
    ] {
        let mut leases = Leases::default();
        for (name, minutes) in ["n2", "n3"].iter().zip(heard) {
            leases.hear(name.parse().unwrap(), NOW - minutes * MINUTE);
        }
        let range = ServedRange { later: [(at(32), from_minute * MINUTE)].into(), ..shared(false) };
        assert_eq!(leases.offer(&range, &client(9), None, NOW), Some(at(32)));
        assert_eq!(leases.is_offered_again(at(32)), asked, "{from_minute} {heard:?}");
    }
}

#[test]
fn an_offer_that_nobody_took_hides_no_earlier_lease() {
    let mut leases = Leases::restore([bound(1, 90)]);
    let (on_the_link, relayed) = (shared(false), shared(true));
    assert_eq!(leases.offer(&on_the_link, &client(2), None, NOW), Some(at(32)));
    leases.withdraw(&client(2));
    let ended = NOW + OFFER_HOLD_US;
    for now in [NOW, ended] {
        assert_eq!(
            leases.offer(&relayed, &client(3), None, now),
            None,
            "two agents were not heard"
        );
    }
    assert_eq!(leases.offer(&on_the_link, &client(3), None, NOW), Some(at(32)));
    assert!(leases.is_offered_again(at(32)));
    assert_eq!(leases.offer(&relayed, &client(4), None, ended), None);
}

#[test]
fn an_address_of_another_agent_is_renewed_and_never_offered() {
    let other = OtherPart { agent: Some("n2".parse().unwrap()), from_us: 0 };
    let others: BTreeMap<_, _> = [(at(32), other)].into();
    let range = ServedRange { others, ..sample() };
    for (known, standing) in [
        (bound(1, 9), Standing::Lent),
        (bound(1, 90), Standing::Foreign),
        (released(1, 9), Standing::Foreign),
    ] {
        let mut leases = Leases::restore([known]);
        assert_eq!(leases.standing(&range, &client(1), at(32), NOW), standing);
        assert_eq!(leases.home_of(&range, &client(1), NOW).map(ToString::to_string), n2());
        assert_eq!(leases.offer(&range, &client(1), Some(at(32)), NOW), Some(at(33)));
    }
}

fn n2() -> Option<String> {
    Some("n2".to_owned())
}
