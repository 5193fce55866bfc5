//! The policy: cases, and where any pool ends.

use proptest::prelude::*;

use super::*;

fn node(id: u64, role: NodeRole, seat: Option<Voting>) -> PoolNode {
    PoolNode {
        id,
        role,
        master_capable: true,
        witness: false,
        rack: None,
        reachable: true,
        late: false,
        seat,
    }
}

const CURRENT: Option<Voting> = Some(Voting::Learner { current: true });

fn pool(nodes: Vec<PoolNode>, size: usize) -> Pool {
    Pool { nodes, master: 1, size }
}

fn at(pool: &mut Pool, id: u64) -> &mut PoolNode {
    pool.nodes.iter_mut().find(|node| node.id == id).unwrap()
}

/// Applies a step; a learner catches up at once if it answers.
fn apply(pool: &mut Pool, step: Step) {
    match step {
        Step::Promote(id) => at(pool, id).role = NodeRole::Candidate,
        Step::Demote(id) => at(pool, id).role = NodeRole::Regular,
        Step::Admit(id) | Step::MakeLearner(id) => {
            let node = at(pool, id);
            node.seat = Some(Voting::Learner { current: node.reachable });
        }
        Step::MakeVoter(id) => at(pool, id).seat = Some(Voting::Voter),
        Step::Dismiss(id) => at(pool, id).seat = None,
    }
}

fn steps(pool: &mut Pool) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = next_step(pool) {
        apply(pool, step);
        steps.push(step);
        assert!(steps.len() < 100, "no end: {steps:?}");
    }
    steps
}

/// The other way round, one who answers would be missing when the rest is asked.
#[test]
fn who_does_not_answer_gives_its_vote_back_first() {
    use NodeRole::{Candidate, Regular};
    use Step::{Dismiss, MakeLearner};
    let voter = |id, role| node(id, role, Some(Voting::Voter));
    for (silent, demoted) in [(2, 3), (3, 2)] {
        let mut pool = pool(vec![voter(1, Candidate), voter(2, Candidate), voter(3, Candidate)], 2);
        at(&mut pool, silent).reachable = false;
        at(&mut pool, demoted).role = Regular;
        let wanted = [MakeLearner(silent), MakeLearner(demoted), Dismiss(demoted)];
        assert_eq!(steps(&mut pool), wanted);
    }
}

#[test]
fn a_cluster_grows_to_three_voters_and_back_to_one() {
    use NodeRole::{Candidate, Regular};
    use Step::{Admit, Demote, Dismiss, MakeLearner, MakeVoter, Promote};
    let mut pool = pool(
        vec![
            node(1, Candidate, Some(Voting::Voter)),
            node(2, Regular, None),
            node(3, Regular, None),
        ],
        2,
    );
    assert_eq!(steps(&mut pool), [Promote(2), Admit(2)]);
    pool.size = 3;
    assert_eq!(steps(&mut pool), [Promote(3), Admit(3), MakeVoter(2), MakeVoter(3)]);
    pool.size = 2;
    assert_eq!(steps(&mut pool), [Demote(3), MakeLearner(3), MakeLearner(2), Dismiss(3)]);
    pool.size = 0;
    assert_eq!(steps(&mut pool), [Demote(2), Dismiss(2)]);
}

#[test]
fn a_voter_that_goes_offline_is_replaced_before_it_leaves() {
    use Step::{Admit, Dismiss, MakeLearner, MakeVoter, Promote};
    let mut nodes: Vec<_> =
        (1..=3).map(|id| node(id, NodeRole::Candidate, Some(Voting::Voter))).collect();
    nodes.push(node(4, NodeRole::Regular, None));
    nodes[2].role = NodeRole::Offline;
    nodes[2].reachable = false;
    let mut pool = pool(nodes, 3);
    let expected = [Promote(4), Admit(4), MakeVoter(4), MakeLearner(3), Dismiss(3)];
    assert_eq!(steps(&mut pool), expected);
}

#[test]
fn a_witness_makes_two_three() {
    use Step::{Admit, MakeLearner, MakeVoter, Promote};
    let mut witness = node(5, NodeRole::Regular, None);
    witness.witness = true;
    let mut pool = pool(
        vec![
            node(1, NodeRole::Candidate, Some(Voting::Voter)),
            node(2, NodeRole::Candidate, CURRENT),
            witness,
            node(6, NodeRole::Regular, None),
        ],
        2,
    );
    assert_eq!(steps(&mut pool), [Admit(5), MakeVoter(2), MakeVoter(5)]);
    // Three candidates need it no more; it goes on following.
    pool.size = 3;
    assert_eq!(steps(&mut pool), [Promote(6), Admit(6), MakeVoter(6), MakeLearner(5)]);
}

#[test]
fn who_is_promoted_and_demoted_can_be_foretold() {
    let mut nodes: Vec<_> = (2..=6).map(|id| node(id, NodeRole::Regular, None)).collect();
    nodes.push(node(1, NodeRole::Candidate, Some(Voting::Voter)));
    for node in &mut nodes {
        node.rack = Some(u32::from(node.id > 4));
    }
    let mut pool = pool(nodes, 2);
    assert_eq!(next_step(&pool), Some(Step::Promote(5)));
    at(&mut pool, 5).reachable = false;
    assert_eq!(next_step(&pool), Some(Step::Promote(6)));
    at(&mut pool, 6).master_capable = false;
    assert_eq!(next_step(&pool), Some(Step::Promote(2)));
    for id in 2..=4 {
        at(&mut pool, id).role = NodeRole::Drained;
    }
    assert_eq!(next_step(&pool), None);
    for id in 2..=4 {
        at(&mut pool, id).role = NodeRole::Candidate;
    }
    assert_eq!(next_step(&pool), Some(Step::Demote(4)));
    at(&mut pool, 3).reachable = false;
    assert_eq!(next_step(&pool), Some(Step::Demote(3)));
}

/// A node that was just promoted may have no copy yet: a working voter that goes for it leaves too few.
#[test]
fn a_working_voter_goes_only_for_who_has_its_copy() {
    let voter = |id| node(id, NodeRole::Candidate, Some(Voting::Voter));
    let late = |seat| {
        let nodes = vec![voter(1), voter(3), voter(4), node(2, NodeRole::Candidate, seat)];
        next_step(&pool(nodes, 3))
    };
    assert_eq!(late(None), Some(Step::Demote(2)), "it has none, and nobody brings it one");
    assert_eq!(late(Some(Voting::Learner { current: false })), None, "it is getting one");
    assert_eq!(late(CURRENT), Some(Step::Demote(4)));
    let mut silent =
        pool(vec![voter(1), voter(3), voter(4), node(2, NodeRole::Candidate, None)], 3);
    at(&mut silent, 4).reachable = false;
    assert_eq!(next_step(&silent), Some(Step::Demote(4)));
}

/// One of three voters lost its store and comes back as another member. Were the other made a learner
/// for that long, what is acknowledged meanwhile would be on the master's disk alone.
#[test]
fn a_voter_stays_while_the_third_gets_its_copy() {
    let next = |seat, reachable: [bool; 2]| {
        let voter = |id| node(id, NodeRole::Candidate, Some(Voting::Voter));
        let mut pool = pool(vec![voter(1), voter(2), node(3, NodeRole::Candidate, seat)], 3);
        for (id, reachable) in (2..).zip(reachable) {
            at(&mut pool, id).reachable = reachable;
        }
        next_step(&pool)
    };
    let coming = Some(Voting::Learner { current: false });
    assert_eq!(next(None, [true, true]), Some(Step::Admit(3)));
    // It could not be invited a moment ago, and will be.
    assert_eq!(next(None, [true, false]), None);
    assert_eq!(next(coming, [true, true]), None);
    assert_eq!(next(CURRENT, [true, true]), Some(Step::MakeVoter(3)));
    // Nobody is waited for who does not come, and no vote is kept that nobody gives.
    assert_eq!(next(coming, [true, false]), Some(Step::MakeLearner(2)));
    assert_eq!(next(coming, [false, true]), Some(Step::MakeLearner(2)));
}

/// Two voters stop where either one does, so that is for a while only, and for candidates only.
#[test]
fn nobody_is_waited_for_without_end() {
    use NodeRole::{Candidate, Regular};
    let voter = |id, role| node(id, role, Some(Voting::Voter));
    let coming = Some(Voting::Learner { current: false });
    let begin = |roles: [NodeRole; 2]| {
        let [second, fourth] = roles;
        let mut nodes = vec![voter(1, Candidate), voter(2, second), node(3, Candidate, coming)];
        nodes.push(voter(4, fourth));
        pool(nodes, 3)
    };
    let gone = begin([Candidate, Regular]);
    assert_eq!(next_step(&gone), Some(Step::MakeLearner(4)));
    let mut late = begin([Candidate, Regular]);
    at(&mut late, 4).seat = None;
    assert_eq!(next_step(&late), None);
    at(&mut late, 3).late = true;
    assert_eq!(next_step(&late), Some(Step::MakeLearner(2)));
    // A surplus candidate is not kept by its own copy.
    let mut nodes = vec![voter(1, Candidate), voter(2, Candidate), voter(3, Candidate)];
    nodes.push(node(4, Candidate, coming));
    assert_eq!(next_step(&pool(nodes, 2)), Some(Step::Demote(4)));
}

prop_compose! {
    fn any_node()(
        role in 0_u8..5, master_capable in proptest::bool::weighted(0.8),
        witness in proptest::bool::weighted(0.2), rack in proptest::option::of(0_u32..3),
        reachable in proptest::bool::weighted(0.8), late in proptest::bool::weighted(0.2),
        seat in 0_u8..5,
    ) -> PoolNode {
        use NodeRole::{Candidate, Drained, Offline, Regular};
        let role = [Candidate, Candidate, Regular, Drained, Offline][usize::from(role)];
        let seats = [None, None, Some(Voting::Voter), CURRENT, Some(Voting::Learner { current: false })];
        let seat = seats[usize::from(seat)];
        PoolNode { id: 0, role, master_capable, witness, rack, reachable, late, seat }
    }
}

prop_compose! {
    fn any_pool()(nodes in proptest::collection::vec(any_node(), 0..7), size in 0_usize..6) -> Pool {
        let mut nodes = nodes;
        for (id, node) in (2_u64..).zip(&mut nodes) {
            node.id = id;
        }
        nodes.push(node(1, NodeRole::Candidate, Some(Voting::Voter)));
        pool(nodes, size)
    }
}

fn electable(pool: &Pool) -> usize {
    let is_electable = |n: &&PoolNode| n.belongs() && (n.can_vote() || n.is_coming());
    pool.nodes.iter().filter(is_electable).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_pool_comes_to_rest_step_by_step(start in any_pool()) {
        let mut pool = start;
        let voting = |pool: &Pool| pool.nodes.iter().filter(|node| node.votes()).count();
        let mut taken = 0;
        loop {
            let Some(step) = next_step(&pool) else {
                // A node that is waited for comes.
                let Some(awaited) = pool.nodes.iter_mut().find(|node| node.is_coming()) else { break };
                match awaited.reachable {
                    true => awaited.seat = CURRENT,
                    false => awaited.late = true,
                }
                continue;
            };
            taken += 1;
            prop_assert!(taken < 100, "no end");
            let before = pool.clone();
            apply(&mut pool, step);
            prop_assert_ne!(&pool, &before, "a step that changes nothing: {:?}", step);
            let master = at(&mut pool, 1).clone();
            prop_assert!(master.votes() && master.role == NodeRole::Candidate, "{:?}", step);
            prop_assert!(voting(&pool).abs_diff(voting(&before)) <= 1, "one change at a time");
            if let Step::Promote(id) | Step::Admit(id) | Step::MakeVoter(id) = step {
                prop_assert!(at(&mut pool, id).reachable, "{:?}", step);
            }
        }
        let candidates = pool.nodes.iter().filter(|node| node.is_candidate()).count();
        prop_assert!(candidates <= pool.size.max(1));
        let left = pool.nodes.iter().filter(|node| node.may_be_promoted()).count();
        prop_assert!(candidates >= pool.size || left == 0);
        let seated_and_gone =
            pool.nodes.iter().any(|n| !n.belongs() && n.seat.is_some());
        prop_assert!(!seated_and_gone);
        prop_assert!(voting(&pool) == 1 || voting(&pool) >= VOTERS_MIN);
    }

    /// A pool that bears the loss of one goes on doing so, as long as there are enough to do it with.
    #[test]
    fn three_voters_stay_three_where_three_can_be_had(start in any_pool()) {
        let mut pool = start;
        let voting = |pool: &Pool| pool.nodes.iter().filter(|node| node.votes()).count();
        while let Some(step) = next_step(&pool) {
            let (was, enough) = (voting(&pool), electable(&pool) >= VOTERS_MIN);
            // A vote that nobody gives, or that is not to be given, is no loss.
            let counts = |node: &PoolNode| node.reachable && node.belongs();
            let goes = matches!(step, Step::MakeLearner(id) if !counts(at(&mut pool, id)));
            apply(&mut pool, step);
            if was >= VOTERS_MIN && enough && !goes && voting(&pool) < VOTERS_MIN {
                // Only where even the wanted voters are too few: candidates without a witness.
                let wanted = voters(&pool, |n| n.can_vote() || n.is_coming());
                prop_assert!(wanted.len() < VOTERS_MIN, "{:?}", step);
            }
        }
    }
}
