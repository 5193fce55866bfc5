//! Which sets of voters are asked for, and what a store that never had others is told.

use super::super::*;
use super::{at, epoch, expected, kill, name, node, question, says, set_last};

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
    // Claims that cannot be true, and an agent that does not say whom it obeys.
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

/// Two nodes: the first one votes, and the second one wants the role.
fn of_two(change: impl FnOnce(&mut Question)) -> Verdict {
    let mut asked = question(Attempt::Failover, 2);
    asked.nodes.truncate(2);
    asked.nodes[1].member.as_mut().unwrap().seat = Voting::Learner;
    change(&mut asked);
    confirm(&asked)
}

fn told(verdict: &Verdict) -> String {
    match &verdict.decision {
        Decision::Refuse { reasons } => {
            reasons.iter().map(|reason| format!("{reason}; ")).collect()
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn who_only_follows_does_not_take_the_role_from_a_voter_that_forgot() {
    let holds = |q: &mut Question, committed| {
        set_last(&mut q.nodes[1], at(2, 1, 12));
        says(&mut q.nodes[1]).committed = committed;
    };
    // Entries of which nobody was told are cut, as ever.
    let fetched = Decision::GoAfterFetching { from: 1 };
    assert_eq!(of_two(|q| holds(q, at(2, 1, 9))).decision, fetched);
    let forgot = |q: &mut Question| holds(q, at(2, 1, 12));
    let refused = told(&of_two(forgot));
    assert!(refused.starts_with("n2 holds entries up to 2.1/12, and no voter that"), "{refused}");
    // It goes on alone, though a majority answers.
    let alone = of_two(|q| {
        forgot(q);
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    });
    assert!(matches!(alone.decision, Decision::Override { .. }), "{alone:?}");
    // If no voter answers, that is the reason.
    let silent = told(&of_two(|q| {
        forgot(q);
        kill(&mut q.nodes[0]);
    }));
    assert!(silent.contains("0 of 1 voters") && !silent.contains("no voter that"), "{silent}");
}

#[test]
fn who_does_not_know_that_it_led_has_an_older_store() {
    let forgot = |q: &mut Question| {
        set_last(&mut q.nodes[1], at(3, 1, 12));
        says(&mut q.nodes[1]).vote = epoch(3, 1);
        says(&mut q.nodes[1]).committed = at(2, 1, 9);
    };
    let reason = of_two(forgot).rows[0].reason.clone().unwrap().to_string();
    assert!(
        reason.contains("entries that it made in epoch 3.1, and it has voted in term 2 at most"),
        "{reason}"
    );
    assert!(told(&of_two(forgot)).contains("0 of 1 voters"));
    // Neither does it start as a master.
    let start = of_two(|q| {
        forgot(q);
        (q.attempt, q.taker) = (Attempt::Start, name(1));
    });
    assert!(told(&start).contains("n1 went back in time"), "{start:?}");
    // A member that knows of the vote, and not of the entry, lost only entries of which nobody was told.
    let lost = of_two(|q| {
        forgot(q);
        says(&mut q.nodes[0]).vote = epoch(3, 1);
    });
    assert_eq!(lost.decision, Decision::GoAfterFetching { from: 1 });
}

#[test]
fn a_majority_that_merely_answered_first_is_not_overridden() {
    let asked = |committed, voters| {
        let mut asked = question(Attempt::Failover, 2);
        set_last(&mut asked.nodes[2], at(2, 1, 12));
        says(&mut asked.nodes[2]).committed = committed;
        says(&mut asked.nodes[2]).disk_full = true;
        set_last(&mut asked.nodes[1], at(2, 1, voters));
        (asked.waivers.no_voting, asked.waivers.yes_do_it) = (true, true);
        asked
    };
    let overrides = |asked: &Question| {
        let verdict = confirm(asked);
        assert!(verdict.voters.is_majority());
        matches!(verdict.decision, Decision::Override { .. })
    };
    let before = asked(at(2, 1, 12), 9);
    assert!(overrides(&before));
    // Asked again, they have what it knew then; or they do not.
    assert!(!overrides(&asked(at(2, 1, 15), 13).knowing_what_it_knew(&before)));
    assert!(overrides(&asked(at(2, 1, 15), 11).knowing_what_it_knew(&before)));
    // A leader has it, ignored or not.
    let mut led = before;
    says(&mut led.nodes[0]).leads = true;
    says(&mut led.nodes[0]).vote = epoch(2, 1);
    assert!(!overrides(&led));
    led.nodes[2].member.as_mut().unwrap().seat = Voting::Learner;
    led.nodes[3] = node(4, Some(Voting::Voter));
    led.waivers.ignored = [name(1)].into();
    assert!(!overrides(&led));
    says(&mut led.nodes[0]).leads = false;
    assert!(overrides(&led));
}

#[test]
fn who_votes_not_and_knows_more_than_all_voters_is_told_so() {
    let mut asked = question(Attempt::Failover, 3);
    asked.nodes[2].member.as_mut().unwrap().seat = Voting::Learner;
    set_last(&mut asked.nodes[2], at(2, 1, 12));
    says(&mut asked.nodes[2]).committed = at(2, 1, 12);
    assert!(told(&confirm(&asked)).contains("no voter that answers has more than 2.1/9"));
    (asked.waivers.no_voting, asked.waivers.yes_do_it) = (true, true);
    assert!(matches!(confirm(&asked).decision, Decision::Override { .. }));
}

#[test]
fn who_votes_alone_since_an_override_does_not_start_past_a_master_of_before() {
    let asked = |attempt, change: &dyn Fn(&mut Question)| {
        let mut asked = question(attempt, 1);
        asked.voters = vec![[1].into()];
        // As the override left it: it has to follow anew, as another member.
        for other in [1, 2] {
            let member = asked.nodes[other].member.as_mut().unwrap();
            (member.seat, member.expected) = (Voting::Learner, expected(10_000));
        }
        says(&mut asked.nodes[0]).vote = epoch(1_000_002, 1);
        asked.nodes[1].store = node(2, Some(Voting::Voter)).store;
        says(&mut asked.nodes[1]).leads = true;
        says(&mut asked.nodes[1]).vote = epoch(3, 2);
        change(&mut asked);
        confirm(&asked)
    };
    let refused = told(&asked(Attempt::Start, &|_| ()));
    assert!(refused.starts_with("n2 is master apart, in epoch 3.2"), "{refused}");
    let invited = told(&asked(Attempt::Start, &|q| q.nodes[1].member = None));
    assert_eq!(invited, refused);
    // An operator says which one goes on.
    assert_eq!(asked(Attempt::Failover, &|_| ()).decision, Decision::Go);
    let follows = |q: &mut Question| says(&mut q.nodes[1]).leads = false;
    assert_eq!(asked(Attempt::Start, &follows).decision, Decision::Go);
    // If others vote here, a majority says who is master.
    let confirmed = |q: &mut Question| {
        q.voters = vec![[1, 3].into()];
        q.nodes[2] = node(3, Some(Voting::Voter));
    };
    assert_eq!(asked(Attempt::Start, &confirmed).decision, Decision::Go);
}
