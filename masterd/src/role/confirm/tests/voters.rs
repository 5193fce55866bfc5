//! Which sets of voters are asked for, and what a store that never had others is told.

use super::super::*;
use super::{epoch, kill, name, question};

#[test]
fn a_later_master_than_an_older_copy_knows() {
    let mut asked = question(Attempt::Start, 1);
    let says = |term, master| Ok(AgentSays { obeys: epoch(term, 9), master: Some(name(master)) });
    let (first, newest) = (2, epoch(5, 1));
    assert_eq!(obeys_another(&asked, first, newest), None);
    // The copy may have been started more often than that other master was elected.
    for (term, master, is_another) in
        [(3, 2, true), (9, 2, true), (9, 1, false), (2, 2, false), (1, 2, false)]
    {
        asked.nodes[3].agent = says(term, master);
        let found = obeys_another(&asked, first, newest);
        assert_eq!(found, is_another.then(|| (name(4), name(2), epoch(term, 9))));
    }
    // What cannot be true, and who does not say whom it obeys.
    asked.nodes[3].agent = says(u64::MAX, 2);
    asked.nodes[4].agent = Ok(AgentSays { obeys: epoch(9, 9), master: None });
    assert_eq!(obeys_another(&asked, first, newest), None);
}

#[test]
fn while_voters_change_majorities_of_both_sets_are_needed() {
    let set = |ids: &[u64]| ids.iter().copied().collect();
    let mut asked = question(Attempt::Failover, 1);
    kill(&mut asked.nodes[1]);
    asked.voters = vec![set(&[1, 2, 3])];
    assert_eq!(confirm(&asked).decision, Decision::Go);
    // Two of the three that voted answer, and one of the two that are to.
    asked.voters = vec![set(&[1, 2, 3]), set(&[1, 2])];
    let verdict = confirm(&asked);
    assert_eq!(verdict.voters, Count { answered: 1, of: 2 });
    assert!(matches!(verdict.decision, Decision::Refuse { .. }), "{verdict:?}");
    asked.waivers.no_voting = true;
    asked.waivers.yes_do_it = true;
    let verdict = confirm(&asked);
    assert!(matches!(verdict.decision, Decision::Override { .. }), "{verdict:?}");
}

#[test]
fn a_voter_without_a_node_is_one_that_does_not_answer() {
    let mut asked = question(Attempt::Failover, 1);
    kill(&mut asked.nodes[1]);
    asked.voters = vec![[1, 3, 9].into()];
    assert_eq!(confirm(&asked).decision, Decision::Go);
    asked.voters = vec![[1, 9].into()];
    let verdict = confirm(&asked);
    assert_eq!(verdict.voters, Count { answered: 1, of: 2 });
    assert!(matches!(verdict.decision, Decision::Refuse { .. }), "{verdict:?}");
}
