//! Harm that the engine would do if it were let: each of these cost somebody data or a cluster before
//! (decision 2, "Rules that the crate keeps").

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::BasicNode;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use queue_format::{Batch, Epoch, Position, StoreOptions};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::{SOON, put};
use crate::message::{self, Kind};
use crate::types::{LogEntry, Membership, Payload, Proposal, Vote, log_id};
use crate::{
    AnswerError, Engine, EngineOptions, EngineStatus, HandOverError, LEASE_MS, MembersChange,
    MembersError, TakeOverError,
};

/// Long enough for several elections, were there any.
const SEVERAL_LEASES: Duration = Duration::from_millis(LEASE_MS * 3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_decided_before_another_was_elected_does_not_ask_for_votes_until_that_one_is_gone() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.engine(1).hand_over(2, SOON).await.unwrap();
    let later = cluster.leads(2).await;
    let three = cluster.engine(3);
    let follows = |status: &EngineStatus| status.elected && status.vote == later;
    assert!(three.wait_for(SOON, follows).await.0);
    // It heard of that one before it asks, and of nobody since.
    let late = three.take_over_since(epoch, SEVERAL_LEASES).await;
    assert!(matches!(late, Err(TakeOverError::Another { epoch }) if epoch == later), "{late:?}");
    drop(three);
    cluster.put(2, later, ("queue/serial", "2")).await.unwrap();
    assert_eq!(cluster.same_files(2).await["queue/serial"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_starts_again_leads_nobody() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.stop(1).await;
    cluster.start(1, None).await;
    // Nobody asks for an election, so there is none.
    let leads = |status: &EngineStatus| status.leads.is_some();
    for member in 1..=3 {
        let wait = cluster.engine(member).wait_for(SEVERAL_LEASES / 3, leads).await;
        assert!(!wait.0, "{:?}", wait.1);
    }
    let batch = Batch(vec![put("queue/serial", "2")]);
    assert!(cluster.engine(1).propose(epoch, batch).await.is_err(), "the epoch is over");
    let later = cluster.engine(1).take_over(SOON).await.unwrap();
    assert!(later.term > epoch.term, "{later}");
    assert_eq!(cluster.same_files(1).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_to_lead_beside_a_leader_does_no_harm() {
    let (cluster, epoch) = Cluster::voters(3).await;
    let two = cluster.engine(2);
    let asked = two.take_over(SEVERAL_LEASES);
    let work = async {
        for number in 0..50 {
            cluster.put(1, epoch, ("queue/serial", &number.to_string())).await.unwrap();
        }
    };
    let (refused, ()) = tokio::join!(asked, work);
    assert!(
        matches!(refused, Err(TakeOverError::Back { epoch: its }) if its == epoch),
        "{refused:?}"
    );
    // Not even a term was used up by it.
    assert_eq!(cluster.engine(3).status().vote, epoch);
    cluster.put(1, epoch, ("queue/serial", "50")).await.unwrap();
    drop(two);
    assert_eq!(cluster.same_files(1).await["queue/serial"], "50");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_ask_one_leads_and_the_other_is_told() {
    let (cluster, _epoch) = Cluster::voters(3).await;
    cluster.caught_up(1, 2).await;
    cluster.caught_up(1, 3).await;
    cluster.stop(1).await;
    let mut asking = JoinSet::new();
    for member in [2, 3] {
        let engine = cluster.engine(member);
        asking.spawn(async move { engine.take_over(SOON).await });
    }
    let outcomes = asking.join_all().await;
    let won: Vec<&Epoch> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    // Both lead where the second was elected after the first; then the first leads no longer.
    let told =
        outcomes.iter().filter(|outcome| matches!(outcome, Err(TakeOverError::Another { .. })));
    assert_eq!(won.len() + told.count(), 2, "{outcomes:?}");
    let last = won.iter().max().expect("one leads");
    cluster.put(last.node, **last, ("queue/serial", "1")).await.unwrap();
    assert_eq!(cluster.same_files(last.node).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_starts_again_keeps_to_its_leader_for_a_lease() {
    for asking in [3, 2] {
        let (cluster, _epoch) = Cluster::voters(3).await;
        cluster.caught_up(1, 2).await;
        cluster.caught_up(1, 3).await;
        cluster.cut(3);
        let silent = |status: &EngineStatus| status.heard_ms > Some(LEASE_MS);
        assert!(cluster.engine(3).wait_for(SOON, silent).await.0);
        cluster.stop(2).await;
        cluster.heal();
        // The leader does not know yet that nobody hears it any more.
        cluster.cut(1);
        let anew = Instant::now();
        cluster.start(2, None).await;
        cluster.engine(asking).take_over(SOON).await.unwrap();
        assert!(anew.elapsed() >= Duration::from_millis(LEASE_MS), "{:?}", anew.elapsed());
        cluster.heal();
        cluster.same_files(asking).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_answered_is_not_elected() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.caught_up(1, 2).await;
    for kind in [Kind::PreVote, Kind::Vote] {
        cluster.lose(kind as u8, usize::MAX);
        cluster.cut(1);
        let alone = cluster.engine(2).take_over(SEVERAL_LEASES).await;
        assert!(matches!(alone, Err(TakeOverError::Deadline { .. })), "{kind:?}: {alone:?}");
        cluster.heal();
    }
    // Its term ends the old leadership when it is heard again.
    let later = cluster.engine(2).take_over(SOON).await.unwrap();
    assert!(later > epoch);
    cluster.put(2, later, ("queue/serial", "1")).await.unwrap();
    assert_eq!(cluster.same_files(2).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_that_was_lost_is_made_again() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.caught_up(1, 2).await;
    // Both others are told: one of them that it is to lead.
    cluster.lose(Kind::Transfer as u8, 2);
    cluster.engine(1).hand_over(2, SOON).await.unwrap();
    assert!(cluster.leads(2).await > epoch);
    assert_eq!(cluster.same_files(2).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lead_that_nobody_takes_is_taken_again() {
    let (cluster, _epoch) = Cluster::voters(3).await;
    cluster.caught_up(1, 2).await;
    cluster.lose(Kind::Transfer as u8, usize::MAX);
    let stuck = cluster.engine(1).hand_over(2, SEVERAL_LEASES).await;
    assert!(matches!(stuck, Err(HandOverError::Stuck { to: 2, .. })), "{stuck:?}");
    // As the error says: opened again, it is a member like any other.
    cluster.heal();
    cluster.stop(1).await;
    cluster.start(1, None).await;
    let later = cluster.engine(1).take_over(SOON).await.unwrap();
    cluster.put(1, later, ("queue/serial", "1")).await.unwrap();
    assert_eq!(cluster.same_files(1).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_committed_is_in_no_file_after_a_start() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    for member in [2, 3] {
        cluster.caught_up(1, member).await;
        cluster.cut(member);
    }
    let engine = cluster.engine(1);
    let before = engine.status().last;
    let mut begun = JoinSet::new();
    let batch = Batch(vec![put("queue/serial", "2"), put("queue/drain", "")]);
    begun.spawn(async move { engine.propose(epoch, batch).await });
    let one = cluster.engine(1);
    assert!(one.wait_for(SOON, |status| status.last > before).await.0);
    drop(one);
    cluster.stop(1).await;
    assert!(begun.join_next().await.unwrap().unwrap().is_err());
    let files = super::files(&cluster.directory(1));
    assert_eq!(files["queue/serial"], "1");
    assert!(!files.contains_key("queue/drain"), "{files:?}");
    cluster.start(1, None).await;
    assert_eq!(cluster.engine(1).reader().read(&super::key("queue/drain")).unwrap(), None);
    // The others have never seen it, and go on without it.
    cluster.heal();
    let later = cluster.engine(2).take_over(SOON).await.unwrap();
    cluster.put(2, later, ("queue/serial", "3")).await.unwrap();
    let files = cluster.same_files(2).await;
    assert_eq!(files["queue/serial"], "3");
    assert!(!files.contains_key("queue/drain"), "{files:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_given_once_and_members_change_one_at_a_time() {
    let (cluster, _epoch) = Cluster::voters(3).await;
    let one = cluster.engine(1);
    let again = MembersChange::AddLearner { member: 2, node: "n9".to_owned() };
    assert!(matches!(one.change_members(again).await, Err(MembersError::Impossible { .. })));
    let votes = MembersChange::RemoveLearner(2);
    assert!(matches!(one.change_members(votes).await, Err(MembersError::Impossible { .. })));
    let not_here = cluster.engine(2).change_members(MembersChange::SetVoters([2].into())).await;
    assert!(not_here.is_err(), "who does not lead changes nobody: {not_here:?}");
    let stranger = MembersChange::SetVoters([1, 2, 3, 9].into());
    assert!(one.change_members(stranger).await.is_err(), "9 is no member");
    assert_eq!(one.status().members.voters, [1, 2, 3].into());
    // Refusals did no harm.
    let (leads, status) = one.wait_for(SOON, |seen| seen.takes_proposals().is_some()).await;
    assert!(leads, "{status:?}");
    drop(one);
    let _files = cluster.same_files(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_voters_that_nobody_ends_is_seen_and_ended_by_the_next_one() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.join(1, 4).await;
    for member in 2..=4 {
        cluster.cut(member);
    }
    let one = cluster.engine(1);
    let mut begun = JoinSet::new();
    let leader = one.clone();
    begun.spawn(async move {
        leader.change_members(MembersChange::SetVoters([1, 2, 3, 4].into())).await
    });
    let changes = |status: &EngineStatus| status.members.changing.is_some();
    assert!(one.wait_for(SOON, changes).await.0);
    // The task that began it is gone before it is committed.
    begun.shutdown().await;
    cluster.heal();
    let (leads, _) = one.wait_for(SOON, |seen| seen.takes_proposals().is_some()).await;
    assert!(leads);
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    let members = one.status().members;
    let sets: [BTreeSet<u64>; 2] = [[1, 2, 3].into(), [1, 2, 3, 4].into()];
    assert_eq!((members.sets(), &members.voters), (&sets[..], &sets[1]));
    let settled = members.unsettled(1).unwrap().clone();
    assert_eq!((&settled, members.unsettled(4)), (&sets[1], Some(&sets[1])));
    one.change_members(MembersChange::SetVoters(settled)).await.unwrap();
    let members = one.status().members;
    assert_eq!((members.sets(), members.unsettled(1)), (&sets[1..], None));
    drop(one);
    let _files = cluster.same_files(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_journal_is_full_of_what_is_not_committed_says_so_and_takes_more_later() {
    let dir = tempfile::tempdir().unwrap();
    let small = StoreOptions { segment_bytes: 16 << 10, ..super::store_options() };
    let options = EngineOptions::new(2, "n2", small);
    let (engine, mut committed) = Engine::open(dir.path(), options, super::alone()).await.unwrap();
    let epoch = Epoch { term: 1, node: 1 };
    let content = "x".repeat(engine.proposal_bytes_max() / 2);
    let entry = |index: u64| {
        let members = BTreeMap::from([(1, BasicNode { addr: "n1".to_owned() })]);
        let members = Membership::new(vec![BTreeSet::from([1])], members).unwrap();
        let batch = Batch(vec![put("queue/serial", &content)]);
        let payload = match index {
            1 => Payload::Membership(members),
            _ => Payload::Normal(Proposal(batch.encode())),
        };
        LogEntry { log_id: log_id(Position { epoch, index }).unwrap(), payload }
    };
    // One by one, as the journal would be full of them for long without an answer.
    let send = async |index: u64, committed: u64| {
        let request = AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: log_id(Position { epoch, index: index - 1 }),
            entries: vec![entry(index)],
            leader_commit: log_id(Position { epoch, index: committed }),
        };
        let asked = engine.answer(1, Kind::Append as u8, message::append(&request));
        tokio::time::timeout(SOON, asked).await.expect("an answer")
    };
    let mut sent = 0;
    let refused = loop {
        match send(sent + 1, 0).await {
            Ok(_taken) => sent += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, AnswerError::NoRoom { .. }), "{refused}");
    assert!(sent > 2 && engine.position() == Position::default());
    // A leader whose entries begin further on hears of the gap.
    let gap = send(sent + 3, 0).await.unwrap();
    let gap = message::read_appended(gap, &Vote::new_committed(1, 1)).unwrap();
    assert!(matches!(gap, AppendEntriesResponse::Conflict), "{gap:?}");
    // With the next question it hears what is committed, which it then has room for.
    let refused = send(sent + 1, sent).await.unwrap_err();
    assert!(matches!(refused, AnswerError::NoRoom { .. }), "{refused}");
    let applied = |status: &EngineStatus| status.applied.index == sent;
    assert!(engine.wait_for(SOON, applied).await.0);
    send(sent + 1, sent + 1).await.unwrap();
    assert!(engine.wait_for(SOON, |seen| seen.applied.index > sent).await.0);
    assert!(committed.recv().await.is_some());
    engine.close().await.unwrap();
}
