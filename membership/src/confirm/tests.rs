//! The vote check, case by case and as properties.

use model::node::NodeRole;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

mod believed;
mod later;
mod properties;
mod taker;
mod voters;

pub(super) fn name(number: u64) -> NodeName {
    format!("n{number}").parse().unwrap()
}

pub(super) fn epoch(term: u64, node: u64) -> Epoch {
    Epoch { term, node }
}

pub(super) fn at(term: u64, node: u64, index: u64) -> Position {
    Position { epoch: epoch(term, node), index }
}

pub(super) fn expected(member: u64) -> Expected {
    let incarnation = Uuid::from_u128(u128::from(member));
    Expected { member, incarnation, acknowledged: Position::default() }
}

fn found(member: u64, last: Position) -> Found {
    Found::Store { member, incarnation: Uuid::from_u128(u128::from(member)), last }
}

fn role_entry(master: u64, term: u64) -> RoleEntry {
    RoleEntry { master: name(master), epoch: epoch(term, master) }
}

/// A node that answers by both doors: n1 was master in epoch 2.1, everyone is at 2.1/9.
fn node(number: u64, seat: Option<Voting>) -> Asked {
    let says = StoreSays {
        found: found(number, at(2, 1, 9)),
        committed: at(2, 1, 8),
        vote: epoch(2, 1),
        role: Some(role_entry(1, 2)),
        leads: false,
        disk_full: false,
        last_job: None,
    };
    Asked {
        name: name(number),
        role: if seat.is_some() { NodeRole::Candidate } else { NodeRole::Regular },
        member: seat.map(|seat| Member { seat, witness: false, expected: expected(number) }),
        agent: Ok(AgentSays { obeys: epoch(2, 1), master: Some(name(1)) }),
        store: seat.map(|_| Ok(says)),
    }
}

/// Three voters and two other nodes; `taker` wants the role.
pub(super) fn question(attempt: Attempt, taker: u64) -> Question {
    let voter = Some(Voting::Voter);
    Question {
        attempt,
        waivers: Waivers::default(),
        taker: name(taker),
        next_member: 6,
        voters: Vec::new(),
        later: None,
        nodes: [(1, voter), (2, voter), (3, voter), (4, None), (5, None)]
            .map(|(number, seat)| node(number, seat))
            .to_vec(),
    }
}

fn silence() -> Silence {
    Silence::Unreachable { why: "no route".to_owned() }
}

fn kill(node: &mut Asked) {
    node.agent = Err(silence());
    node.store = node.store.take().map(|_| Err(silence()));
}

fn kill_all(question: &mut Question, nodes: &[usize]) {
    for &i in nodes {
        kill(&mut question.nodes[i]);
    }
}

fn says(node: &mut Asked) -> &mut StoreSays {
    node.store.as_mut().unwrap().as_mut().unwrap()
}

/// It was elected after epoch 2.1.
fn lead(node: &mut Asked) {
    let member = node.member.unwrap().expected.member;
    says(node).leads = true;
    says(node).vote = epoch(3, member);
}

fn set_last(node: &mut Asked, last: Position) {
    let member = node.member.unwrap().expected.member;
    says(node).found = found(member, last);
    says(node).vote = epoch(last.epoch.term, last.epoch.node).max(epoch(2, 1));
}

/// The decision in one line, with every reason's text.
fn told(verdict: &Verdict) -> String {
    let join =
        |reasons: &[Reason]| reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match &verdict.decision {
        Decision::Go => "go".to_owned(),
        Decision::GoAfterFetching { from } => format!("go after fetching from {from}"),
        Decision::Override { waived, may_lose } => {
            let lost: Vec<_> = may_lose.iter().map(ToString::to_string).collect();
            format!("override [{}] may lose [{}]", join(waived), lost.join("; "))
        }
        Decision::Refuse { reasons } => format!("refuse: {}", join(reasons)),
    }
}

fn decide(attempt: Attempt, taker: u64, change: impl FnOnce(&mut Question)) -> String {
    let mut question = question(attempt, taker);
    change(&mut question);
    told(&confirm(&question))
}

fn failover(change: impl FnOnce(&mut Question)) -> String {
    decide(Attempt::Failover, 2, change)
}

fn start(change: impl FnOnce(&mut Question)) -> String {
    decide(Attempt::Start, 1, change)
}

#[test]
fn majorities_of_nodes_and_of_voters() {
    assert_eq!(start(|_| ()), "go");
    assert_eq!(failover(|_| ()), "go");
    assert_eq!(failover(|q| kill_all(q, &[0, 4])), "go");
    let two_left = |q: &mut Question| kill_all(q, &[0, 3, 4]);
    assert_eq!(failover(two_left), "refuse: 2 of 5 nodes answered, which is not more than half");
    assert_eq!(
        failover(|q| {
            two_left(q);
            q.waivers.candidates_only = true;
        }),
        "go"
    );
    assert_eq!(
        failover(|q| {
            two_left(q);
            q.nodes[4].role = NodeRole::Offline;
            q.waivers.ignored.insert(name(4));
        }),
        "go"
    );
    let no_voters = |q: &mut Question| kill_all(q, &[0, 2]);
    let refused = "refuse: 1 of 3 voters answered, which is not more than half";
    assert_eq!(failover(no_voters), refused);
    assert_eq!(
        failover(|q| {
            no_voters(q);
            q.waivers.candidates_only = true;
        }),
        refused
    );
    assert_eq!(
        failover(|q| {
            no_voters(q);
            q.waivers.ignored = [name(1), name(3)].into();
        }),
        "refuse: without the nodes to be ignored 1 of 3 voters answered, which is not more than half"
    );
    assert_eq!(
        failover(|q| {
            q.waivers.ignored = [name(2), name(9)].into();
        }),
        "refuse: n2 cannot ignore itself; n9, which is to be ignored, is not a node of this \
         cluster's configuration"
    );
}

#[test]
fn what_others_hold_is_fetched_or_stands_in_the_way() {
    assert_eq!(failover(|q| set_last(&mut q.nodes[2], at(2, 1, 12))), "go after fetching from 3");
    assert_eq!(failover(|q| set_last(&mut q.nodes[1], at(2, 1, 12))), "go");
    // The voters that answer have all that was acknowledged, if they forgot nothing.
    let learner_ahead = |q: &mut Question| {
        q.nodes[2].member.as_mut().unwrap().seat = Voting::Learner;
        set_last(&mut q.nodes[2], at(2, 1, 12));
    };
    let full = |q: &mut Question| {
        set_last(&mut q.nodes[2], at(2, 1, 12));
        says(&mut q.nodes[2]).disk_full = true;
    };
    let knows = |q: &mut Question| says(&mut q.nodes[2]).committed = at(2, 1, 11);
    let newer = "n3 holds entries up to 2.1/12; this node has and can fetch only up to 2.1/9";
    assert_eq!(failover(learner_ahead), "go");
    assert_eq!(failover(full), "go");
    let ahead_and_knows = |q: &mut Question| {
        learner_ahead(q);
        knows(q);
    };
    assert_eq!(failover(ahead_and_knows), format!("refuse: {newer}"));
    assert_eq!(
        failover(|q| {
            full(q);
            knows(q);
        }),
        format!("refuse: {newer}")
    );
    // A leader serves what it has to the end, and would outlive an election.
    assert_eq!(
        failover(|q| {
            lead(&mut q.nodes[0]);
            set_last(&mut q.nodes[0], at(2, 1, 12));
            says(&mut q.nodes[0]).disk_full = true;
        }),
        "go after fetching from 1"
    );
    assert_eq!(
        failover(|q| {
            learner_ahead(q);
            q.waivers.ignored = [name(3)].into();
        }),
        "go"
    );
    // Entries that it knows to be committed are cut by an override alone, which says so.
    let ignored = |q: &mut Question| {
        ahead_and_knows(q);
        q.waivers.ignored = [name(3)].into();
    };
    assert_eq!(failover(ignored), format!("refuse: {newer}"));
    let told = failover(|q| {
        ignored(q);
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    });
    assert!(told.starts_with(&format!("override [{newer}]")), "{told}");
    assert!(told.contains("what n3 holds up to 2.1/12 is cut"), "{told}");
    assert_eq!(
        failover(|q| {
            ahead_and_knows(q);
            q.nodes[2].role = NodeRole::Offline;
        }),
        format!("refuse: {newer}")
    );
    // The old master lives: it hands over, even to who has everything.
    assert_eq!(failover(|q| lead(&mut q.nodes[0])), "go after fetching from 1");
    let obeys = |q: &mut Question| q.nodes[4].agent.as_mut().unwrap().obeys = epoch(3, 3);
    assert_eq!(
        failover(obeys),
        "refuse: n5 obeys epoch 3.3; the newest that any store here knows is 2.1"
    );
}

#[test]
fn a_start_keeps_the_role_where_it_is() {
    assert_eq!(
        decide(Attempt::Start, 2, |_| ()),
        "refuse: the newest role entry names n1 (epoch 2.1), not n2"
    );
    // The entry that moved the role is known to one voter only.
    assert_eq!(
        start(|q| {
            set_last(&mut q.nodes[2], at(3, 3, 11));
            says(&mut q.nodes[2]).role = Some(role_entry(3, 3));
        }),
        "refuse: the newest role entry names n3 (epoch 3.3), not n1"
    );
    assert_eq!(
        start(|q| lead(&mut q.nodes[1])),
        "refuse: n2 leads; only an operator's failover takes the role from it"
    );
    let knows_another = |q: &mut Question, nodes: &[usize]| {
        set_last(&mut q.nodes[2], at(3, 3, 11));
        for &i in nodes {
            q.nodes[i].agent = Ok(AgentSays { obeys: epoch(3, 3), master: Some(name(3)) });
        }
    };
    assert_eq!(start(|q| knows_another(q, &[3, 4])), "go after fetching from 3");
    assert_eq!(
        start(|q| knows_another(q, &[2, 3, 4])),
        "refuse: 3 of 5 nodes know another master, under a later epoch than n1's last one"
    );
    assert_eq!(
        decide(Attempt::Failover, 1, |q| knows_another(q, &[2, 3, 4])),
        "go after fetching from 3"
    );
    assert!(
        start(|q| {
            for node in &mut q.nodes[..3] {
                says(node).role = None;
            }
        })
        .starts_with("refuse: no store that answers has a role entry")
    );
    let entry = role_entry(3, 3);
    assert!(still_designated(Attempt::Start, &name(1), Some(&entry)).is_err());
    assert!(still_designated(Attempt::Start, &name(3), Some(&entry)).is_ok());
    assert!(still_designated(Attempt::Failover, &name(1), Some(&entry)).is_ok());
}

#[test]
fn by_itself_the_role_leaves_nobody_who_leads() {
    let by_itself = |change: fn(&mut Question)| decide(Attempt::Automatic, 2, change);
    assert_eq!(by_itself(|q| kill(&mut q.nodes[0])), "go");
    assert_eq!(
        by_itself(|q| lead(&mut q.nodes[0])),
        "refuse: n1 leads; only an operator's failover takes the role from it"
    );
    // A member that holds more is asked for it, as ever.
    assert_eq!(
        by_itself(|q| {
            kill(&mut q.nodes[0]);
            set_last(&mut q.nodes[2], at(2, 1, 10));
        }),
        "go after fetching from 3"
    );
    assert!(by_itself(|q| kill_all(q, &[0, 2])).starts_with("refuse: 1 of 3 voters answered"));
    assert!(still_designated(Attempt::Automatic, &name(2), Some(&role_entry(1, 2))).is_ok());
}

#[test]
fn answers_that_do_not_count_are_named() {
    for (change, text) in [
        (
            (|n: &mut Asked| set_last(n, at(2, 8, 9))) as fn(&mut Asked),
            "n3 makes no sense: epoch 2.8 is of a member that never was",
        ),
        (
            |n| says(n).committed = at(2, 1, 10),
            "n3 makes no sense: it ends at 2.1/9, before 2.1/10, which it says is committed",
        ),
        (
            |n| says(n).vote = epoch(1, 1),
            "n3 makes no sense: it ends at 2.1/9, and has voted in term 1 at most",
        ),
        (
            |n| set_last(n, at(2_000_000_000, 1, 9)),
            "n3 makes no sense: term 2000000000 is absurdly far ahead of 2",
        ),
        (
            |n| says(n).leads = true,
            "n3 makes no sense: it says that it leads, and is member 3, whose vote is for epoch 2.1",
        ),
        (
            |n| {
                set_last(n, at(2, 4, 9));
                lead(n);
                says(n).vote = epoch(2, 3);
            },
            "n3 makes no sense: it says that it leads in epoch 2.3, and ends at 2.4/9",
        ),
        (|n| says(n).disk_full = true, "n3 has no room on its disk"),
        (
            |n| says(n).found = Found::Nothing,
            "n3 has no store: its disk was replaced or emptied, or it is no candidate any more",
        ),
        (
            |n| says(n).found = Found::Broken { why: "journal/2".to_owned() },
            "n3 has a damaged store: journal/2",
        ),
        (
            |n| n.store = Some(Err(Silence::AnotherCluster { which: "c-9".to_owned() })),
            "n3 belongs to another cluster, c-9",
        ),
        (
            |n| n.store = Some(Err(Silence::Refused { why: "a stranger".to_owned() })),
            "n3 does not answer: a stranger",
        ),
        (kill, "n3 cannot be reached: no route"),
    ] {
        let mut question = question(Attempt::Failover, 2);
        change(&mut question.nodes[2]);
        let verdict = confirm(&question);
        let row = &verdict.rows[2];
        assert_eq!(row.reason.as_ref().map(ToString::to_string).as_deref(), Some(text));
        assert!(!row.remedy().is_empty(), "{text}");
        // It may be that its agent does not list this node yet.
        let is_refused = text.contains("does not answer");
        assert_eq!(row.remedy().contains("told when the master reaches it"), is_refused, "{text}");
        assert!(!row.counts_as_voter, "{text}");
        assert_eq!(told(&verdict), "go", "{text}: the two others are a majority");
        kill(&mut question.nodes[0]);
        let alone = told(&confirm(&question));
        assert_eq!(alone, "refuse: 1 of 3 voters answered, which is not more than half", "{text}");
    }
    // Two speak of the same new member: it was added while the taker was away.
    let added = |q: &mut Question| {
        set_last(&mut q.nodes[2], at(3, 8, 11));
        q.nodes[4].agent.as_mut().unwrap().obeys = epoch(3, 8);
    };
    assert_eq!(failover(added), "go after fetching from 3");
}

#[test]
fn two_nodes_and_a_witness() {
    let two = |q: &mut Question| {
        q.nodes.truncate(2);
        q.nodes[1].member.as_mut().unwrap().seat = Voting::Learner;
    };
    assert_eq!(start(two), "go");
    let alone = |q: &mut Question| {
        two(q);
        kill(&mut q.nodes[1]);
    };
    assert_eq!(start(alone), "refuse: 1 of 2 nodes answered, which is not more than half");
    assert_eq!(
        start(|q| {
            alone(q);
            q.waivers.ignored = [name(2)].into();
        }),
        "go"
    );
    assert_eq!(
        start(|q| {
            alone(q);
            q.nodes[1].role = NodeRole::Offline;
        }),
        "go"
    );
    // A learner is given the role by the voter, or not at all.
    assert_eq!(failover(two), "go after fetching from 1");
    assert_eq!(
        failover(|q| {
            two(q);
            kill(&mut q.nodes[0]);
            q.waivers.ignored = [name(1)].into();
        }),
        "refuse: without the nodes to be ignored 0 of 1 voters answered, which is not more than half"
    );
    let witness = |q: &mut Question| {
        q.nodes.truncate(3);
        q.nodes[2].member.as_mut().unwrap().witness = true;
        kill(&mut q.nodes[0]);
    };
    assert_eq!(failover(witness), "go");
    let never = "refuse: n3 is a witness: it votes and is never master";
    assert_eq!(decide(Attempt::Failover, 3, witness), never);
    // Neither where it does not vote, since it would make them even, nor by an override.
    let told = decide(Attempt::Failover, 3, |q| {
        witness(q);
        q.nodes[2].member.as_mut().unwrap().seat = Voting::Learner;
        (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true);
    });
    assert!(told.starts_with(never), "{told}");
}

#[test]
fn an_override_says_what_it_may_lose() {
    let lost = |q: &mut Question| {
        kill(&mut q.nodes[0]);
        set_last(&mut q.nodes[2], at(2, 1, 12));
        says(&mut q.nodes[2]).disk_full = true;
        q.waivers.no_voting = true;
    };
    assert!(
        failover(lost)
            .ends_with("--no-voting may lose what was acknowledged, so it needs --yes-do-it too")
    );
    let meant = |q: &mut Question| {
        lost(q);
        q.waivers.yes_do_it = true;
    };
    assert_eq!(
        failover(meant),
        "override [1 of 3 voters answered, which is not more than half] may lose [n1 gave no answer \
         that counts: what it may hold after 2.1/9 is cut; what n3 holds up to 2.1/12 is cut; this node ends at \
         2.1/9]"
    );
    let no_store = |q: &mut Question| {
        meant(q);
        says(&mut q.nodes[1]).found = Found::Nothing;
    };
    assert!(failover(no_store).starts_with("refuse: n2 has no store"));
    // A master that is alone with a full disk goes on until it hears of the new one.
    assert!(
        failover(|q| {
            meant(q);
            q.nodes.truncate(2);
            q.nodes[0] = node(1, Some(Voting::Voter));
            lead(&mut q.nodes[0]);
            says(&mut q.nodes[0]).disk_full = true;
        })
        .ends_with(
            "may lose [n1 leads, and held entries up to 2.1/9: what it took after 2.1/9, until \
                    it heard of this, is cut]"
        )
    );
    // With no reason against it, nothing is overridden.
    assert_eq!(failover(|q| (q.waivers.no_voting, q.waivers.yes_do_it) = (true, true)), "go");
}
