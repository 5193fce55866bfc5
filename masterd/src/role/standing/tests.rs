use std::collections::BTreeMap;

use model::node::Member;
use queue_format::{Epoch, Position};

use super::*;
use crate::testing::{NOW, config, node};

/// Member 10 + X is that of node nX; 11 leads.
fn member(number: u64, role: NodeRole) -> Node {
    let mut node = node(&format!("n{number}.example"), role);
    node.member = Some(Member { id: number + 10, incarnation: None, acknowledged: None });
    node
}

fn status(voters: &[u64], followers: &[(u64, Option<u64>, u64)]) -> EngineStatus {
    let epoch = Epoch { term: 3, node: 11 };
    let last = Position { epoch, index: 50 };
    let follower = |(id, heard_ms, behind): &(u64, Option<u64>, u64)| {
        (*id, Follower { heard_ms: *heard_ms, behind: *behind, knows_members: true })
    };
    let ids = std::iter::once(11).chain(followers.iter().map(|(id, ..)| *id));
    EngineStatus {
        leads: Some(epoch),
        vote: epoch,
        elected: true,
        last,
        applied: last,
        heard_ms: Some(100),
        members: Members {
            voters: voters.iter().copied().collect(),
            nodes: ids.map(|id| (id, format!("n{}.example", id - 10))).collect(),
            changing: None,
        },
        followers: followers.iter().map(follower).collect(),
        log_kept: 0,
        log_kept_bytes: 0,
        stopped: None,
    }
}

fn seen(nodes: &[Node], status: Option<&EngineStatus>) -> BTreeMap<String, CandidateStatus> {
    let mut all = vec![member(1, NodeRole::Candidate)];
    all.extend(nodes.iter().cloned());
    let found = candidates(&config(&all), status, &HashMap::new(), NOW);
    found.into_iter().map(|one| (one.node.clone(), one)).collect()
}

#[test]
fn each_candidate_has_its_state() {
    let mut witness = member(4, NodeRole::Regular);
    witness.master_capable = false;
    let nodes = [
        member(2, NodeRole::Candidate),
        member(3, NodeRole::Candidate),
        witness,
        node("n5.example", NodeRole::Candidate),
        node("n6.example", NodeRole::Regular),
        member(7, NodeRole::Offline),
    ];
    let followers = [(12, Some(80), 0), (13, Some(5_001), 40), (14, None, 50)];
    let found = seen(&nodes, Some(&status(&[11, 12, 14], &followers)));
    let states: Vec<_> = found.values().map(|one| (one.node.as_str(), one.state)).collect();
    use CandidateState::{Learner, NotYet, Voter, Witness};
    let expected = [
        ("n1.example", Voter),
        ("n2.example", Voter),
        ("n3.example", Learner),
        ("n4.example", Witness),
        ("n5.example", NotYet),
    ];
    assert_eq!(states, expected, "who is no candidate and no member is none of them");
    assert!(found["n1.example"].master && !found["n2.example"].unreachable);
    let silent = &found["n3.example"];
    assert_eq!((silent.behind, silent.unreachable), (Some(40), true));
    assert_eq!(silent.since, Some(before(NOW, 5_001)));
    assert_eq!((found["n4.example"].unreachable, found["n4.example"].since), (true, None));
}

#[test]
fn a_master_that_is_alone_has_candidates_without_a_copy() {
    let found = seen(&[node("n2.example", NodeRole::Candidate)], None);
    assert_eq!(found["n1.example"].state, CandidateState::Voter);
    assert_eq!(found["n2.example"].state, CandidateState::NotYet);
    assert_eq!(lone_quorum("n1.example", Ok(())).refusing, None);
}

#[test]
fn voters_that_are_heard_count() {
    let mut status = status(&[11, 12, 13], &[(12, Some(1_500), 0), (13, None, 0)]);
    let seen = quorum(&status, 11, Ok(()));
    assert_eq!((seen.heard, seen.needed, seen.majority), (Some(2), 2, Some(true)));
    assert_eq!(seen.voters, ["n1.example", "n2.example", "n3.example"]);
    assert_eq!(seen.refusing, None);
    // As soon as the lease has ended, who answered before that counts no more.
    status.heard_ms = Some(1_500);
    let seen = quorum(&status, 11, Err(Refusal::CutOff));
    assert_eq!((seen.heard, seen.majority), (Some(1), Some(false)));
    assert!(seen.refusing.unwrap().contains("majority"));
}

#[test]
fn what_waits_for_its_turn_is_not_refused() {
    let status = status(&[11], &[]);
    assert_eq!(quorum(&status, 11, Err(Refusal::Busy)).refusing, None);
    assert!(quorum(&status, 11, Err(Refusal::Stopped)).refusing.is_some());
}

#[test]
fn a_standby_says_whom_it_follows_and_why_it_is_not_the_master() {
    let mut follows = EngineStatus { leads: None, ..status(&[11, 12, 13], &[(12, None, 0)]) };
    let told = |status: &EngineStatus, master, starting| {
        let told = standby(status, "n2.example", master, starting);
        (told.leader, told.why)
    };
    let n1 = Some("n1.example".to_owned());
    let is = (n1.clone(), "the master is n1.example".to_owned());
    assert_eq!(told(&follows, Some("n1.example"), false), is);
    let (leader, why) = told(&follows, Some("n3.example"), false);
    assert_eq!((leader, why.contains("not taken the role from n3.example")), (n1, true));
    follows.heard_ms = Some(HEARD_WITHIN_MS + 1);
    let (leader, why) = told(&follows, Some("n1.example"), false);
    assert_eq!((leader, why.contains("is not heard")), (None, true));
    assert!(told(&follows, Some("n2.example"), true).1.contains("not confirmed yet"));
    follows.stopped = Some("the disk".to_owned());
    assert!(told(&follows, None, true).1.contains("stopped"));
}

#[test]
fn a_standby_knows_who_the_members_are() {
    let follows =
        EngineStatus { leads: None, ..status(&[11, 12], &[(12, None, 0), (13, None, 0)]) };
    let witness = BTreeSet::from(["n2.example".to_owned()]);
    let (quorum, candidates) = followed(&follows, Some("n1.example"), &witness);
    assert_eq!((quorum.heard, quorum.majority, quorum.needed), (None, None, 2));
    let states: Vec<_> = candidates.iter().map(|one| (one.state, one.master)).collect();
    use CandidateState::{Learner, Voter, Witness};
    assert_eq!(states, [(Voter, true), (Witness, false), (Learner, false)]);
    assert_eq!(candidates[0].heard_ms, Some(100));
}

#[test]
fn a_master_listens_where_its_node_says() {
    let one = member(1, NodeRole::Candidate);
    let told = |listens: &str| not_listening(&one, listens.parse().ok());
    for there in ["0.0.0.0:1817", "[::]:1817", "10.0.0.1:1817"] {
        assert_eq!(told(there), None, "{there}");
    }
    for elsewhere in ["0.0.0.0:1818", "10.0.0.9:1817"] {
        let told = told(elsewhere).unwrap();
        assert!(told.contains(elsewhere) && told.contains("10.0.0.1:1817"), "{told}");
    }
    assert!(told("none").unwrap().contains("has no `--peers`"));
}
