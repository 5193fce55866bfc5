//! The holders of locks: the conflict matrix, by example and in full.

use super::*;

const A: Owner = Owner(1);
const B: Owner = Owner(2);
const S: Mode = Mode::Shared;
const X: Mode = Mode::Exclusive;

fn node(name: &str) -> LockName {
    LockName::member(Level::Node, name)
}

/// `free`: whether B can have `wanted` while A has `held`; `at`: where not.
fn check(held: (&LockName, Mode), wanted: (&LockName, Mode), at: Option<&LockName>) {
    let mut table = Table::default();
    table.grant(A, held.0, held.1);
    let found = table.in_the_way(B, wanted.0, wanted.1);
    assert_eq!(found.as_ref(), at, "{} {} against {} {}", wanted.0, wanted.1, held.0, held.1);
    assert_eq!(table.in_the_way(A, wanted.0, wanted.1), None, "an owner is never in its own way");
    let blockers: Vec<_> = match at {
        Some(at) => table.blockers(B, at, wanted.1).collect(),
        None => table.blockers(B, wanted.0, wanted.1).collect(),
    };
    assert_eq!(blockers, at.map(|_| (A, held.1)).into_iter().collect::<Vec<_>>());
}

#[test]
fn conflict_matrix() {
    let set = LockName::set(Level::Node);
    let (n1, n2) = (node("n1"), node("n2"));
    let other = LockName::member(Level::Instance, "n1");
    let other_set = LockName::set(Level::Instance);
    for (held, wanted, conflict) in [(S, S, false), (S, X, true), (X, S, true), (X, X, true)] {
        let at = |name| conflict.then_some(name);
        check((&n1, held), (&n1, wanted), at(&n1));
        check((&set, held), (&set, wanted), at(&set));
        check((&set, held), (&n1, wanted), at(&n1));
        check((&n1, held), (&set, wanted), at(&n1));
        check((&n1, held), (&n2, wanted), None);
        check((&n1, held), (&other, wanted), None);
        check((&set, held), (&other, wanted), None);
        check((&set, held), (&other_set, wanted), None);
    }
}

#[test]
fn set_covers_names_never_heard_of() {
    let mut table = Table::default();
    table.grant(A, &LockName::set(Level::Node), S);
    assert_eq!(table.in_the_way(B, &node("new"), S), None);
    assert_eq!(table.in_the_way(B, &node("new"), X), Some(node("new")));
    assert_eq!(table.release(A, &LockName::set(Level::Node)), Some(S));
    assert_eq!(table.in_the_way(B, &node("new"), X), None);
}

#[test]
fn set_is_stopped_at_the_first_member_in_the_way() {
    let mut table = Table::default();
    let set = LockName::set(Level::Node);
    table.grant(A, &node("n2"), S);
    table.grant(A, &node("n3"), X);
    table.grant(B, &node("n1"), S);
    assert_eq!(table.in_the_way(Owner(3), &set, S), Some(node("n3")));
    assert_eq!(table.in_the_way(Owner(3), &set, X), Some(node("n1")));
    assert_eq!(table.in_the_way(B, &set, X), Some(node("n2")), "its own member does not count");
    assert_eq!(table.in_the_way(A, &set, S), None);
}

#[test]
fn shared_owners_leave_one_by_one() {
    let mut table = Table::default();
    let owners: Vec<Owner> = (1..=5).map(Owner).collect();
    for owner in &owners {
        table.grant(*owner, &node("n1"), S);
    }
    for owner in &owners[..4] {
        assert_eq!(table.in_the_way(Owner(5), &node("n1"), X), Some(node("n1")));
        assert_eq!(table.release(*owner, &node("n1")), Some(S));
        assert_eq!(table.release(*owner, &node("n1")), None);
    }
    assert_eq!(table.in_the_way(Owner(5), &node("n1"), X), None);
    table.grant(Owner(5), &node("n1"), X);
    assert_eq!(table.owners(&node("n1")).collect::<Vec<_>>(), [(Owner(5), X)]);
}

#[test]
fn nothing_is_left_of_what_is_released() {
    let mut table = Table::default();
    table.grant(A, &node("n1"), S);
    table.grant(A, &node("n1"), X);
    table.grant(A, &LockName::set(Level::Machine), X);
    assert_eq!(table.highest(A), Some(&LockName::set(Level::Machine)));
    assert_eq!(table.names().count(), 2);
    assert_eq!(table.release_all(A).len(), 2);
    assert_eq!(table.names().count(), 0);
    assert_eq!(table.highest(A), None);
    assert_eq!(table.of(A).count(), 0);
}
