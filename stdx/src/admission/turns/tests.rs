use std::net::Ipv4Addr;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

/// Somebody who waits for a turn.
struct Waiting(std::pin::Pin<Box<dyn Future<Output = Turn<u8>>>>);

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

const LIMITS: TurnLimits = TurnLimits { total: 6, of_user: 3, of_address: 4 };

fn holder(user: u8, address: u8) -> TurnHolder<u8> {
    TurnHolder { user, address: Some(Ipv4Addr::from([192, 0, 2, address]).into()) }
}

/// The turn of somebody who begins to wait now, if there is one at once.
fn asks(turns: &Turns<u8>, user: u8, address: u8, cost: usize) -> Result<Turn<u8>, Waiting> {
    let (turns, holder) = (turns.clone(), holder(user, address));
    polled(Waiting(Box::pin(async move { turns.acquire(&holder, cost).await })))
}

fn polled(mut waiting: Waiting) -> Result<Turn<u8>, Waiting> {
    match waiting.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Ok(turn),
        Poll::Pending => Err(waiting),
    }
}

/// So many turns of one user at one address.
fn held(turns: &Turns<u8>, user: u8, address: u8, count: usize) -> Vec<Turn<u8>> {
    (0..count).map(|_| asks(turns, user, address, 1).expect("a place")).collect()
}

#[test]
fn a_user_and_an_address_have_their_share_and_others_the_rest() {
    let turns = Turns::new(LIMITS);
    let _first = held(&turns, 1, 1, 3);
    assert!(asks(&turns, 1, 2, 1).is_err(), "the user has its share, from wherever it comes");
    let _second = held(&turns, 2, 1, 1);
    assert!(asks(&turns, 3, 1, 1).is_err(), "the address has its share, for whomever it asks");
    let _others = held(&turns, 3, 3, 2);
    assert!(asks(&turns, 4, 4, 1).is_err(), "there are no more");
    assert!(turns.try_acquire(&holder(4, 4), 1).is_none());
}

#[test]
fn the_next_place_goes_to_whoever_holds_fewest() {
    let turns = Turns::new(TurnLimits::undivided(4));
    let mut crowd = held(&turns, 1, 1, 4);
    let waiting: Vec<Waiting> = (0..10).map(|_| asks(&turns, 1, 1, 1).unwrap_err()).collect();
    let other = asks(&turns, 2, 2, 1).unwrap_err();
    crowd.pop();
    let _other = polled(other).expect("it passes the crowd");
    let none = waiting.into_iter().find_map(|waiting| polled(waiting).ok());
    assert!(none.is_none(), "the crowd holds three, and the other one the fourth");
}

#[test]
fn of_those_who_hold_nothing_whoever_was_served_longest_ago_is_next() {
    let turns = Turns::new(TurnLimits::undivided(1));
    let mut held = Some(asks(&turns, 1, 1, 1).unwrap());
    let mut crowd: VecDeque<Waiting> = (0..3).map(|_| asks(&turns, 1, 1, 1).unwrap_err()).collect();
    let mut other = vec![asks(&turns, 2, 2, 1).unwrap_err()];
    drop(held.take());
    // The crowd came first, and is served once before the other one.
    held = Some(polled(crowd.pop_front().unwrap()).expect("the first of all"));
    drop(held.take());
    let _held = polled(other.pop().unwrap()).expect("the other one is next");
}

#[test]
fn a_large_turn_is_not_passed_by_small_ones_and_no_larger_than_its_share() {
    let turns = Turns::new(LIMITS);
    let (one, mut two) = (held(&turns, 1, 1, 3), held(&turns, 2, 2, 2));
    // It would take everything there is, and gets its share of that.
    let large = asks(&turns, 3, 3, 100).unwrap_err();
    let small = asks(&turns, 2, 2, 1).unwrap_err();
    two.pop();
    let small = polled(small).expect_err("the large one was there before");
    drop(one);
    let large = polled(large).expect("three places are free");
    assert_eq!(large.cost, 3);
    assert!(polled(small).is_ok());
}

#[test]
fn whoever_gives_up_keeps_nobody_waiting() {
    let turns = Turns::new(TurnLimits::undivided(1));
    let held = asks(&turns, 1, 1, 1).unwrap();
    let gone = asks(&turns, 2, 2, 1).unwrap_err();
    let waiting = asks(&turns, 2, 2, 1).unwrap_err();
    drop(gone);
    drop(held);
    let held = polled(waiting).expect("the other one is gone");
    // A turn that was given and not taken is no loss either.
    let unseen = asks(&turns, 3, 3, 1).unwrap_err();
    drop(held);
    drop(unseen);
    assert!(asks(&turns, 4, 4, 1).is_ok());
    assert!(turns.0.lock().lines.is_empty());
}

proptest! {
    /// Whatever comes and goes, no limit is broken, the counts are those of the turns, and nobody waits who
    /// could be served.
    #[test]
    fn shares_hold(steps in prop::collection::vec((0..4u8, 0..4u8, 0..3u8, 1..4usize), 0..200)) {
        let turns = Turns::new(LIMITS);
        let (mut held, mut waiting): (Vec<Turn<u8>>, Vec<Waiting>) = Default::default();
        for (what, user, address, cost) in steps {
            let at = usize::from(user);
            match what {
                0 if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                1 if !waiting.is_empty() => drop(waiting.swap_remove(at % waiting.len())),
                _ => match asks(&turns, user, address, cost) {
                    Ok(turn) => held.push(turn),
                    Err(asking) => waiting.push(asking),
                },
            }
            for one in std::mem::take(&mut waiting) {
                match polled(one) {
                    Ok(turn) => held.push(turn),
                    Err(asking) => waiting.push(asking),
                }
            }
            let mut table = turns.0.lock();
            let sum = |of: &dyn Fn(&TurnHolder<u8>) -> bool| {
                held.iter().filter(|turn| of(&turn.holder)).map(|turn| turn.cost).sum::<usize>()
            };
            prop_assert_eq!(table.used, sum(&|_| true));
            prop_assert!(table.used <= LIMITS.total);
            for (user, count) in &table.of_user {
                prop_assert!(*count == sum(&|of| of.user == *user) && *count <= LIMITS.of_user);
            }
            for (address, count) in &table.of_address {
                prop_assert!(*count == sum(&|of| of.address == Some(*address)));
                prop_assert!(*count <= LIMITS.of_address);
            }
            prop_assert!(table.serve().is_empty());
        }
    }
}
