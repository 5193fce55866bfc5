//! The table that operators see, case by case.

use model::NodeName;
use queue_format::{Epoch, Position};
use uuid::Uuid;

use super::*;
use membership::amnesia::{Expected, Found};
use membership::confirm::{
    AgentSays, Asked, Member, RoleEntry, Silence, StoreSays, Voting, Waivers, confirm,
};

fn name(number: u64) -> NodeName {
    format!("n{number}.example").parse().unwrap()
}

fn at(index: u64) -> Position {
    Position { epoch: Epoch { term: 2, node: 1 }, index }
}

fn found(member: u64, incarnation: u64, last: Position) -> Found {
    Found::Store { member, incarnation: Uuid::from_u128(incarnation.into()), last }
}

/// n1 was master in epoch 2.1; n1 to n3 vote, n4 is a regular node; everyone answers.
fn question(attempt: Attempt, taker: u64) -> Question {
    let epoch = Epoch { term: 2, node: 1 };
    let node = |number: u64| {
        let is_member = number < 4;
        let incarnation = Uuid::from_u128(number.into());
        let expected = Expected { member: number, incarnation, acknowledged: Position::default() };
        let says = StoreSays {
            found: found(number, number, at(9)),
            committed: at(8),
            vote: epoch,
            role: Some(RoleEntry { master: name(1), epoch }),
            leads: false,
            disk_full: false,
            last_job: None,
        };
        Asked {
            name: name(number),
            role: if is_member { NodeRole::Candidate } else { NodeRole::Regular },
            member: is_member.then_some(Member { seat: Voting::Voter, witness: false, expected }),
            agent: Ok(AgentSays { obeys: epoch, master: Some(name(1)) }),
            store: is_member.then_some(Ok(says)),
        }
    };
    let waivers = Waivers::default();
    let nodes = (1..5).map(node).collect();
    Question {
        attempt,
        waivers,
        taker: name(taker),
        next_member: 5,
        voters: Vec::new(),
        later: None,
        nodes,
    }
}

fn silence(node: &mut Asked, why: &str) {
    let silence = || Silence::Unreachable { why: why.to_owned() };
    node.agent = Err(silence());
    node.store = node.store.take().map(|_| Err(silence()));
}

fn store(question: &mut Question, at: usize) -> &mut StoreSays {
    question.nodes[at].store.as_mut().unwrap().as_mut().unwrap()
}

fn shown(question: &Question) -> String {
    let check = table(question, &confirm(question));
    let text = serde_json::to_string(&check).unwrap();
    assert_eq!(serde_json::from_str::<RoleCheck>(&text).unwrap(), check);
    check.lines().join("\n")
}

#[test]
fn all_well() {
    let question = question(Attempt::Start, 1);
    insta::assert_snapshot!("all_well", shown(&question));
    let rows = serde_json::to_string_pretty(&table(&question, &confirm(&question))).unwrap();
    insta::assert_snapshot!("all_well_json", rows);
}

#[test]
fn no_majority() {
    let mut question = question(Attempt::Failover, 2);
    silence(&mut question.nodes[0], "its masterd at 10.0.0.1:1814: connection refused");
    silence(&mut question.nodes[2], "no answer within 5000 ms");
    insta::assert_snapshot!("no_majority", shown(&question));
    let rows = serde_json::to_string_pretty(&table(&question, &confirm(&question))).unwrap();
    insta::assert_snapshot!("no_majority_json", rows);
    (question.waivers.no_voting, question.waivers.yes_do_it) = (true, true);
    insta::assert_snapshot!("no_majority_overridden", shown(&question));
}

#[test]
fn a_candidate_is_newer() {
    let mut question = question(Attempt::Failover, 2);
    store(&mut question, 2).found = found(3, 3, at(12));
    insta::assert_snapshot!("newer", shown(&question));
    // And cannot be asked to lead, while it knows of more that is committed.
    store(&mut question, 2).disk_full = true;
    store(&mut question, 2).committed = at(12);
    insta::assert_snapshot!("newer_and_full", shown(&question));
}

#[test]
fn a_node_of_another_cluster() {
    let mut question = question(Attempt::Failover, 2);
    let which = "whose authority signed its certificate".to_owned();
    question.nodes[3].agent = Err(Silence::AnotherCluster { which });
    let which = "6f1c1e0e-0000-4000-8000-000000000001".to_owned();
    question.nodes[0].store = Some(Err(Silence::AnotherCluster { which }));
    insta::assert_snapshot!("another_cluster", shown(&question));
}

#[test]
fn a_store_that_was_not_invited() {
    let mut question = question(Attempt::Failover, 2);
    store(&mut question, 2).found = found(3, 99, at(9));
    insta::assert_snapshot!("wrong_incarnation", shown(&question));
}

#[test]
fn not_designated() {
    let mut question = question(Attempt::Start, 2);
    question.nodes[3].role = NodeRole::Offline;
    silence(&mut question.nodes[3], "no answer within 5000 ms");
    insta::assert_snapshot!("not_designated", shown(&question));
}
