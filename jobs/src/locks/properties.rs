//! Random requests, compared with the slow rules, and the theorems checked after each.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::name::{LockName, Mode, Owner};
use super::plan::Wanted;
use super::reference::{Reference, check_sound, kind, world};
use super::waiting::{LockQueue, Woken};

const OWNERS: u64 = 7;

#[derive(Debug, Clone)]
enum Step {
    Request(Owner, Wanted, i32),
    Try(Owner, Wanted, usize),
    Release(Owner, Vec<usize>),
    ReleaseAll(Owner),
    Downgrade(Owner, Vec<usize>),
    Upgrade(Owner, i32),
    Withdraw(Owner),
    SetPriority(Owner, i32),
    Remove(Owner, LockName),
    Add(LockName),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = || (1..=OWNERS).prop_map(Owner);
    let mode = || prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)];
    let name = || proptest::sample::select(world());
    let wanted = |most| proptest::collection::vec((name(), mode()), 1..=most);
    let priority = || 0..3_i32;
    let indexes = || proptest::collection::vec(0..4_usize, 1..3);
    prop_oneof![
        10 => (owner(), wanted(4), priority()).prop_map(|(o, w, p)| Step::Request(o, w, p)),
        8 => (owner(), wanted(1), priority()).prop_map(|(o, w, p)| Step::Request(o, w, p)),
        2 => (owner(), wanted(5), 0..4_usize).prop_map(|(o, w, c)| Step::Try(o, w, c)),
        3 => (owner(), indexes()).prop_map(|(o, i)| Step::Release(o, i)),
        4 => owner().prop_map(Step::ReleaseAll),
        2 => (owner(), indexes()).prop_map(|(o, i)| Step::Downgrade(o, i)),
        3 => (owner(), priority()).prop_map(|(o, p)| Step::Upgrade(o, p)),
        2 => owner().prop_map(Step::Withdraw),
        3 => (owner(), priority()).prop_map(|(o, p)| Step::SetPriority(o, p)),
        1 => (owner(), name()).prop_map(|(o, n)| Step::Remove(o, n)),
        2 => name().prop_map(Step::Add),
    ]
}

fn owners() -> Vec<Owner> {
    (1..=OWNERS).map(Owner).collect()
}

/// The locks at some places of what `owner` holds; one that it need not hold if it holds nothing.
fn some_held(queue: &LockQueue, owner: Owner, indexes: &[usize]) -> Vec<LockName> {
    let held = queue.holdings(owner);
    let pick = |index: &usize| held.get(index % held.len().max(1)).map(|lock| lock.0.clone());
    indexes.iter().map(|index| pick(index).unwrap_or_else(LockName::big)).collect()
}

/// Does one step in both worlds; returns who was removed from the waiting by failing.
fn apply(queue: &mut LockQueue, reference: &mut Reference, step: &Step) -> Vec<Owner> {
    let mut failed = Vec::new();
    match step {
        Step::Request(owner, wanted, priority) => {
            let got = queue.request(*owner, wanted.clone(), *priority);
            let expected = reference.request(*owner, wanted, *priority);
            assert_eq!(got.map_err(|refused| kind(&refused)), expected);
        }
        Step::Try(owner, wanted, count) => {
            let got = queue.try_request(*owner, wanted.clone(), *count, 0);
            let expected = reference.try_request(*owner, wanted, *count);
            assert_eq!(got.map(|taken| taken.len()).map_err(|refused| kind(&refused)), expected);
        }
        Step::Release(owner, indexes) => {
            let names = some_held(queue, *owner, indexes);
            let got = queue.release(*owner, &names).map_err(|refused| kind(&refused));
            assert_eq!(got, reference.release(*owner, &names));
        }
        Step::Downgrade(owner, indexes) => {
            let names = some_held(queue, *owner, indexes);
            let got = queue.downgrade(*owner, &names).map_err(|refused| kind(&refused));
            assert_eq!(got, reference.downgrade(*owner, &names));
        }
        Step::Upgrade(owner, priority) => {
            let Some((name, _)) = queue.holdings(*owner).pop() else { return failed };
            let wanted = vec![(name, Mode::Exclusive)];
            let got = queue.request(*owner, wanted.clone(), *priority);
            let expected = reference.request(*owner, &wanted, *priority);
            assert_eq!(got.map_err(|refused| kind(&refused)), expected);
        }
        Step::ReleaseAll(owner) => {
            queue.release_all(*owner);
            reference.release_all(*owner);
        }
        Step::Withdraw(owner) => assert_eq!(queue.withdraw(*owner), reference.withdraw(*owner)),
        Step::SetPriority(owner, priority) => {
            let got = queue.set_priority(*owner, *priority);
            assert_eq!(got, reference.set_priority(*owner, *priority));
        }
        Step::Remove(owner, name) => {
            let got = queue.remove(*owner, name).map_err(|refused| kind(&refused));
            let expected = reference.remove(*owner, name);
            assert_eq!(got, expected.as_ref().map(|_| ()).map_err(|refused| *refused));
            failed = expected.unwrap_or_default();
        }
        Step::Add(name) => {
            queue.add(name);
            reference.add(name);
        }
    }
    failed
}

fn frontiers(queue: &LockQueue) -> BTreeMap<Owner, LockName> {
    let waiting = queue.waiting.values();
    waiting.map(|waiter| (waiter.rank.owner, waiter.frontier.clone())).collect()
}

/// An owner whose wait ended between two moments is told so, once.
fn check_woken(
    before: &BTreeMap<Owner, LockName>,
    step: &Step,
    woken: &[Woken],
    after: &BTreeMap<Owner, LockName>,
    failed: &[Owner],
) {
    let gave_up = match step {
        Step::ReleaseAll(owner) | Step::Withdraw(owner) => Some(*owner),
        _ => None,
    };
    for owner in before.keys().filter(|owner| Some(**owner) != gave_up) {
        let told: Vec<_> = woken.iter().filter(|woken| woken.owner == *owner).collect();
        assert_eq!(told.len(), usize::from(!after.contains_key(owner)), "{owner} {told:?}");
        let removed = told.iter().any(|woken| woken.removed.is_some());
        assert_eq!(removed, failed.contains(owner));
    }
    // Only owners that waited before are told.
    assert!(woken.iter().all(|woken| before.contains_key(&woken.owner)), "{woken:?}");
}

fn check_snapshot(queue: &LockQueue) {
    let snapshot = queue.snapshot();
    assert!(snapshot.is_sorted_by(|a, b| a.name < b.name));
    let held: usize = owners().iter().map(|owner| queue.holdings(*owner).len()).sum();
    assert_eq!(snapshot.iter().map(|lock| lock.owners.len()).sum::<usize>(), held);
    for lock in &snapshot {
        assert!(!lock.owners.is_empty() || !lock.pending.is_empty());
        assert!(lock.owners.iter().all(|owner| queue.held(*owner, &lock.name) == lock.mode));
        let mut pending = lock.pending.iter().flat_map(|(_, owners)| owners);
        assert!(pending.all(|owner| queue.waits(*owner)));
    }
}

fn run(steps: &[Step]) {
    let mut queue = LockQueue::new();
    let mut reference = Reference::default();
    for step in steps {
        let before = frontiers(&queue);
        let failed = apply(&mut queue, &mut reference, step);
        for owner in owners() {
            assert_eq!(queue.holdings(owner), reference.holdings(owner), "{owner} after {step:?}");
        }
        let after = frontiers(&queue);
        assert_eq!(after, reference.frontiers(), "after {step:?}");
        check_woken(&before, step, &queue.take_woken(), &after, &failed);
        check_sound(&queue, &owners());
        check_snapshot(&queue);
        assert!(!after.is_empty() || queue.lines.is_empty(), "a trace is left");
    }
    drain(&mut queue);
}

/// If everybody who runs ends, everybody is served.
fn drain(queue: &mut LockQueue) {
    for _ in 0..=2 * OWNERS {
        for owner in owners() {
            if !queue.waits(owner) {
                queue.release_all(owner);
            }
        }
    }
    assert!(queue.waiting.is_empty(), "somebody waits for ever");
    assert!(queue.lines.is_empty() && queue.snapshot().is_empty(), "a trace is left");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn queue_follows_the_rules(steps in proptest::collection::vec(step(), 1..80)) {
        run(&steps);
    }

    #[test]
    fn later_requests_do_not_pass_an_earlier_one(
        steps in proptest::collection::vec(step(), 1..60),
        wanted in proptest::collection::vec(
            (proptest::sample::select(world()), prop_oneof![Just(Mode::Shared), Just(Mode::Exclusive)]),
            1..4,
        ),
    ) {
        let mut queue = LockQueue::new();
        let mut reference = Reference::default();
        for step in &steps {
            apply(&mut queue, &mut reference, step);
        }
        // A newcomer of the lowest priority gets nothing that anybody who waits has reached.
        let newcomer = Owner(OWNERS + 1);
        let answer = queue.request(newcomer, wanted.clone(), i32::MAX);
        if answer == Ok(super::waiting::Admission::Granted) {
            for waiter in queue.waiting.values() {
                for (lock, mode) in &waiter.walk[..=waiter.at] {
                    let clash = wanted.iter().any(|(name, theirs)| {
                        let same_level = lock.level == name.level;
                        let within = if lock.is_set() { *name <= waiter.frontier && !name.is_set() } else { lock == name };
                        same_level && within && theirs.max(mode) == &Mode::Exclusive
                    });
                    prop_assert!(!clash, "{newcomer} has {wanted:?} before {waiter:?}");
                }
            }
        }
    }
}
