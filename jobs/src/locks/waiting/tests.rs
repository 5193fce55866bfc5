//! Examples of who waits for what; `properties` has the theorems.

use super::*;
use crate::locks::name::Level;

const A: Owner = Owner(1);
const B: Owner = Owner(2);
const C: Owner = Owner(3);
const D: Owner = Owner(4);
const S: Mode = Mode::Shared;
const X: Mode = Mode::Exclusive;

fn node(name: &str) -> LockName {
    LockName::member(Level::Node, name)
}

fn nodes() -> LockName {
    LockName::set(Level::Node)
}

/// A queue, and a short way to ask it.
#[derive(Default)]
struct Desk(LockQueue);

impl Desk {
    fn ask(&mut self, owner: Owner, wanted: &[(LockName, Mode)]) -> Result<Admission, Refused> {
        self.0.request(owner, wanted.to_vec(), 0)
    }

    fn has(&mut self, owner: Owner, wanted: &[(LockName, Mode)]) {
        assert_eq!(self.ask(owner, wanted), Ok(Admission::Granted));
    }

    fn waits(&mut self, owner: Owner, wanted: &[(LockName, Mode)]) {
        assert_eq!(self.ask(owner, wanted), Ok(Admission::Waiting));
    }

    fn end(&mut self, owner: Owner) -> Vec<u64> {
        self.0.release_all(owner);
        self.granted()
    }

    fn granted(&mut self) -> Vec<u64> {
        let woken = self.0.take_woken();
        assert!(woken.iter().all(|woken| woken.removed.is_none()));
        woken.into_iter().map(|woken| woken.owner.0).collect()
    }
}

#[test]
fn waiters_are_served_in_turn() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(node("n1"), X)]);
    desk.waits(C, &[(node("n1"), S)]);
    desk.waits(D, &[(node("n1"), S)]);
    assert_eq!(desk.end(A), [2]);
    assert_eq!(desk.end(B), [3, 4], "shared requests are served together");
}

#[test]
fn priority_comes_before_arrival() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(node("n1"), X)]);
    assert_eq!(desk.0.request(C, vec![(node("n1"), X)], -1), Ok(Admission::Waiting));
    assert_eq!(desk.end(A), [3]);
    desk.waits(D, &[(node("n1"), X)]);
    assert!(desk.0.set_priority(D, -20));
    assert!(!desk.0.set_priority(C, -20), "it waits for nothing");
    assert_eq!(desk.end(C), [4]);
}

#[test]
fn exclusive_waiter_is_not_starved_by_shared_ones() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), S)]);
    desk.waits(B, &[(nodes(), X)]);
    for job in 10..1_000 {
        desk.waits(Owner(job), &[(node("n1"), S)]);
        desk.has(Owner(job + 1_000), &[(node("n2"), S)]);
    }
    assert_eq!(desk.end(A), Vec::<u64>::new(), "n2 was free for others: its turn had not come");
    for job in 10..999 {
        assert_eq!(desk.end(Owner(job + 1_000)), Vec::<u64>::new());
        desk.waits(Owner(job + 2_000), &[(node("n2"), S)]);
    }
    assert_eq!(desk.end(Owner(1_999)), [2], "but those who came after its turn wait");
}

#[test]
fn waiting_for_a_lock_keeps_no_later_one_from_its_holders() {
    // B waits for n1 and will want n2. A, who holds n1, must have n2 before B, or both wait for ever.
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(node("n1"), X), (node("n2"), X)]);
    desk.has(A, &[(node("n2"), X)]);
    assert_eq!(desk.end(A), [2]);
}

/// The example in `docs/locking.md`.
#[test]
fn documented_example() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(node("n1"), X), (node("n2"), X)]);
    desk.waits(C, &[(node("n1"), S)]);
    desk.has(D, &[(node("n3"), X)]);
    desk.has(A, &[(node("n2"), X)]);
    assert_eq!(desk.end(A), [2]);
    assert_eq!(desk.end(B), [3]);
}

#[test]
fn requests_are_whole_or_nothing() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n2"), X)]);
    desk.waits(B, &[(node("n1"), X), (node("n2"), X), (node("n3"), X)]);
    assert!(desk.0.holdings(B).is_empty());
    desk.has(C, &[(node("n3"), X)]);
    desk.waits(D, &[(node("n1"), S)]);
    assert_eq!(desk.end(A), Vec::<u64>::new(), "n3 is taken now");
    assert_eq!(desk.end(C), [2]);
    assert_eq!(desk.0.holdings(B).len(), 3);
    assert_eq!(desk.end(B), [4]);
}

#[test]
fn order_is_enforced() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n2"), S)]);
    for (name, mode) in [(node("n1"), S), (nodes(), S), (LockName::big(), S)] {
        let refused = desk.ask(A, &[(name.clone(), mode)]);
        let highest = node("n2");
        assert_eq!(refused, Err(Refused::Order { owner: A, asked: name, highest }));
    }
    desk.has(A, &[(node("n2"), S)]);
    desk.has(A, &[(node("n3"), X), (LockName::config(), S)]);
    let refused = desk.ask(A, &[(node("n3"), S), (node("n2"), X)]);
    assert!(
        matches!(refused, Err(Refused::Order { .. })),
        "upgrading a lock that is not the highest"
    );
}

#[test]
fn set_covers_its_members() {
    let mut desk = Desk::default();
    desk.has(A, &[(nodes(), X), (LockName::set(Level::Machine), S)]);
    desk.waits(B, &[(node("n1"), S)]);
    desk.has(A, &[(node("n1"), X)]);
    let asked = LockName::member(Level::Machine, "m1");
    assert_eq!(desk.ask(A, &[(asked.clone(), X)]), Err(Refused::OwnSet { owner: A, asked }));
    let both = desk
        .ask(C, &[(LockName::set(Level::Switch), S), (LockName::member(Level::Switch, "s"), X)]);
    assert!(matches!(both, Err(Refused::OwnSet { .. })));
    // Of the set, only n1 is kept.
    desk.waits(C, &[(node("n2"), X)]);
    assert_eq!(desk.0.release(A, &[nodes()]), Ok(()));
    assert_eq!(desk.granted(), [3]);
    assert_eq!(desk.end(A), [2]);
}

#[test]
fn upgrade_goes_before_others_and_never_races() {
    let mut desk = Desk::default();
    for owner in [A, B] {
        desk.has(owner, &[(node("n1"), S)]);
    }
    assert_eq!(desk.0.request(C, vec![(node("n1"), X)], -20), Ok(Admission::Waiting));
    desk.waits(A, &[(node("n1"), X)]);
    let race = Refused::UpgradeRace { owner: B, asked: node("n1"), other: A };
    assert_eq!(desk.ask(B, &[(node("n1"), X)]), Err(race));
    desk.waits(D, &[(node("n1"), S)]);
    assert_eq!(desk.end(B), [1]);
    assert_eq!(desk.0.downgrade(A, &[node("n1")]), Ok(()));
    assert_eq!(desk.granted(), Vec::<u64>::new(), "C is first");
    assert_eq!(desk.end(A), [3]);
    assert_eq!(desk.end(C), [4]);
}

#[test]
fn an_upgrade_that_pushes_back_who_was_in_the_way_is_answered_at_once() {
    let machines = LockName::set(super::super::name::Level::Machine);
    let mut desk = Desk::default();
    desk.has(A, &[(machines.clone(), S)]);
    // It has passed all nodes.
    desk.waits(B, &[(nodes(), S), (machines, X)]);
    desk.has(C, &[(node("n1"), S)]);
    // At n2 B is ahead, until the upgrade of n1 sends it back there.
    desk.has(C, &[(node("n1"), X), (node("n2"), X)]);
    assert_eq!(desk.granted(), Vec::<u64>::new(), "who is answered is not woken as well");
    assert_eq!(desk.end(A), Vec::<u64>::new());
    assert_eq!(desk.end(C), [2]);
}

#[test]
fn set_is_upgraded_at_once_or_not_at_all() {
    let mut desk = Desk::default();
    desk.has(A, &[(nodes(), S)]);
    desk.has(B, &[(node("n1"), S)]);
    let refused = Refused::SetUpgrade { owner: A, asked: nodes(), at: node("n1") };
    assert_eq!(desk.ask(A, &[(nodes(), X)]), Err(refused));
    assert_eq!(desk.end(B), Vec::<u64>::new());
    desk.waits(C, &[(node("n2"), X)]);
    desk.has(A, &[(nodes(), X)]);
    assert_eq!(desk.end(A), [3]);
}

#[test]
fn downgrade_lets_shared_waiters_in() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(node("n1"), S)]);
    desk.waits(C, &[(nodes(), S)]);
    assert_eq!(desk.0.downgrade(A, &[node("n1")]), Ok(()));
    assert_eq!(desk.granted(), [2, 3]);
    let refused = Refused::NotHeld { owner: A, name: node("n2") };
    assert_eq!(desk.0.downgrade(A, &[node("n1"), node("n2")]), Err(refused));
}

#[test]
fn removal_fails_waiters_and_later_requests() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(LockName::big(), S), (node("n1"), S)]);
    desk.waits(C, &[(nodes(), X)]);
    assert_eq!(desk.0.remove(B, &node("n1")), Err(Refused::NotHeld { owner: B, name: node("n1") }));
    assert_eq!(desk.0.remove(A, &node("n1")), Ok(()));
    assert_eq!(desk.0.take_woken(), [Woken { owner: B, removed: Some(node("n1")) }]);
    let removed = Err(Refused::Removed { owner: D, asked: node("n1") });
    assert_eq!(desk.ask(D, &[(node("n1"), S)]), removed);
    assert_eq!(desk.end(A), [3], "who wants the set does not care");
    assert_eq!(desk.ask(D, &[(node("n1"), S)]), removed, "nor does the release bring it back");
    assert_eq!(desk.end(C), Vec::<u64>::new());
    desk.0.add(&node("n1"));
    desk.has(D, &[(node("n1"), S)]);
}

#[test]
fn only_the_newest_removals_are_remembered() {
    let mut removed = RemovedNames::default();
    for number in 0..=plan::REMOVED_MAX {
        removed.insert(node(&number.to_string()));
    }
    let table = Table::default();
    let ask = |name: &str| plan::plan(&table, &removed, A, vec![(node(name), S)]);
    assert!(ask("0").is_ok());
    assert!(ask("1").is_err());
}

#[test]
fn opportunistic_request_takes_what_is_free() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n2"), X)]);
    desk.waits(B, &[(node("n2"), X), (node("n3"), X)]);
    desk.waits(C, &[(nodes(), X)]);
    let wanted: Wanted = ["n1", "n2", "n3", "n4"].map(|name| (node(name), X)).to_vec();
    // C has its turn at n1; n3 and n4 are beyond where anybody got.
    let refused = Refused::TooFew { owner: D, count: 3, wanted: 4, free: 2 };
    assert_eq!(desk.0.try_request(D, wanted.clone(), 3, 0), Err(refused));
    assert!(desk.0.is_idle(D));
    assert_eq!(desk.0.try_request(D, wanted, 2, 0), Ok(vec![node("n3"), node("n4")]));
    assert_eq!(desk.end(A), Vec::<u64>::new());
    assert_eq!(desk.end(D), [2]);
}

#[test]
fn withdrawn_request_lets_others_pass() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), S)]);
    desk.waits(B, &[(node("n1"), X)]);
    desk.waits(C, &[(node("n1"), S)]);
    assert_eq!(desk.ask(B, &[]), Err(Refused::Twice { owner: B }));
    assert!(desk.0.withdraw(B));
    assert!(!desk.0.withdraw(B));
    assert_eq!(desk.granted(), [3]);
    assert!(desk.0.lines.is_empty());
}

#[test]
fn explanation_names_the_lock_its_owner_and_the_jobs_ahead() {
    let mut desk = Desk::default();
    desk.has(A, &[(node("n1"), X)]);
    desk.waits(B, &[(nodes(), X)]);
    desk.waits(C, &[(node("n1"), S)]);
    desk.waits(D, &[(LockName::big(), S), (node("n1"), X)]);
    let wait = desk.0.explain(D).expect("it waits");
    assert_eq!(wait.lock, node("n1"));
    assert_eq!(wait.holders, [(A, X)]);
    assert_eq!(wait.ahead, [B, C]);
    assert_eq!(
        wait.to_string(),
        "node/n1 (exclusive), held by job/1 (exclusive), behind job/2, job/3",
    );
    let wait = desk.0.explain(B).expect("it waits");
    assert_eq!(
        wait.to_string(),
        "node/[lockset] (exclusive), where node/n1 is held by job/1 (exclusive)",
    );
    assert_eq!(desk.0.explain(A), None);
    let pending = &desk.0.snapshot()[2];
    assert_eq!(pending.name, node("n1"));
    assert_eq!(pending.pending, [(S, vec![C]), (X, vec![D])]);
}

#[test]
fn limits_are_refusals() {
    let mut desk = Desk::default();
    let wanted: Wanted =
        (0..=plan::LOCKS_PER_REQUEST_MAX).map(|number| (node(&number.to_string()), S)).collect();
    let refused = desk.ask(A, &wanted);
    assert_eq!(refused, Err(Refused::TooMany { owner: A, wanted: wanted.len() }));
    desk.has(A, &[(node("n1"), X)]);
    let most = u64::try_from(WAITING_MAX).unwrap();
    for job in 10..10 + most {
        desk.waits(Owner(job), &[(node("n1"), X)]);
    }
    assert_eq!(desk.ask(B, &[(node("n1"), X)]), Err(Refused::Full { owner: B }));
    desk.has(B, &[(node("n2"), X)]);
}

/// A wake looks at the head of a queue and at the next, however long the queue is.
#[test]
fn wake_looks_at_the_head_only() {
    let mut desk = Desk::default();
    desk.has(Owner(1), &[(node("n1"), X)]);
    for job in 2..=5_000 {
        desk.waits(Owner(job), &[(node("n1"), X)]);
    }
    let before = desk.0.examined;
    for job in 1..5_000 {
        assert_eq!(desk.end(Owner(job)), [job + 1]);
    }
    assert!(desk.0.examined - before <= 2 * 5_000, "{} looks", desk.0.examined - before);
}
