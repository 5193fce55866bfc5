//! Leaderships of which the taker was told once.

use super::super::*;
use super::{at, decide, epoch, failover, kill_all, name, question, says, set_last, start};

#[test]
fn a_reign_that_was_told_of_is_waited_for() {
    let later = |term| Some(Later { node: name(3), epoch: epoch(term, 3) });
    let missing = "n1 was told by n3 what was committed in epoch 9.3; the newest that any store here \
                   knows is 2.1";
    let told = |q: &mut Question| q.later = later(9);
    assert_eq!(start(told), format!("refuse: {missing}"));
    assert!(failover(told).starts_with("refuse: n2 was told by n3"));
    // A leadership that somebody has is not missing, and neither is an older one.
    assert_eq!(start(|q| q.later = later(1)), "go");
    let fetched = start(|q| {
        told(q);
        set_last(&mut q.nodes[2], at(9, 3, 20));
        says(&mut q.nodes[2]).role = None;
    });
    assert_eq!(fetched, "go after fetching from 3");
    // Nothing but an override goes past it, also where a majority of the voters answers.
    let all = |q: &mut Question| {
        told(q);
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    };
    assert!(failover(all).starts_with("override [n2 was told by n3"));
    let waived = |q: &mut Question| {
        told(q);
        kill_all(q, &[1, 2]);
        q.waivers = Waivers { no_voting: true, yes_do_it: true, ..Waivers::default() };
        q.waivers.ignored.insert(name(3));
    };
    let overrides = decide(Attempt::Failover, 1, waived);
    assert!(overrides.starts_with("override [") && overrides.contains(missing), "{overrides}");
}

#[test]
fn what_is_told_of_later_leaderships_is_remembered() {
    let told = |change: fn(&mut Question)| {
        let mut question = question(Attempt::Start, 1);
        change(&mut question);
        later_leadership(&question).map(|later| (later.node, later.epoch))
    };
    fn goes_on(q: &mut Question, node: usize, term: u64) {
        let at = at(term, 3, 20);
        set_last(&mut q.nodes[node], at);
        says(&mut q.nodes[node]).committed = at;
    }
    assert_eq!(told(|_| ()), None);
    assert_eq!(told(|q| goes_on(q, 2, 9)), Some((name(3), epoch(9, 3))));
    // Ignored or not; from the newest.
    let ignored = |q: &mut Question| {
        goes_on(q, 2, 9);
        goes_on(q, 1, 8);
        q.waivers.ignored.insert(name(3));
    };
    assert_eq!(told(ignored), Some((name(3), epoch(9, 3))));
    // Entries that nobody knows to be committed may be cut; a leadership that is known already is known.
    let not_committed = |q: &mut Question| {
        set_last(&mut q.nodes[2], at(9, 3, 20));
    };
    assert_eq!(told(not_committed), None);
    let known = |q: &mut Question| {
        goes_on(q, 2, 9);
        q.later = Some(Later { node: name(2), epoch: epoch(9, 3) });
    };
    assert_eq!(told(known), None);
    assert_eq!(told(|q| goes_on(q, 0, 9)), None);
}
