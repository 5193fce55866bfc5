//! Several members: replication, failover, being cut off, hand-over, catching up.

use std::sync::Arc;
use std::time::Duration;

use queue_format::{Change, Epoch, StoreOptions};
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::{SOON, key, put, store_options};
use crate::message::Kind;
use crate::{
    End, HandOverError, Kept, LEASE_MS, MembersChange, MembersError, ProposeError, Proposer,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_gets_every_file() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.join(1, 4).await;
    for id in 0..50 {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), "done")).await.unwrap();
    }
    let rename = Change::Move { from: key("queue/job-7"), to: key("queue/archive/0/job-7") };
    cluster.engine(1).propose(epoch, queue_format::Batch(vec![rename])).await.unwrap();
    let status = cluster.engine(1).status();
    assert_eq!(status.members.voters, [1, 2, 3].into());
    assert_eq!(status.members.learners().collect::<Vec<_>>(), [4]);
    assert!(status.heard_ms.is_some() && status.followers.len() == 3, "{status:?}");
    let files = cluster.same_files(1).await;
    assert_eq!(files.len(), 50);
    assert_eq!(files["queue/archive/0/job-7"], "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_takes_over_when_asked_and_has_all_that_was_acknowledged() {
    let (cluster, epoch) = Cluster::voters(3).await;
    for id in 0..20 {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), "done")).await.unwrap();
    }
    // A member that lacks something that the third one has would not be elected.
    cluster.caught_up(1, 2).await;
    cluster.stop(1).await;
    assert_eq!(cluster.engine(2).leads(), None);
    let later = cluster.engine(2).take_over(SOON).await.unwrap();
    assert!(later > epoch);
    cluster.put(2, later, ("queue/serial", "20")).await.unwrap();
    cluster.start(1, None).await;
    cluster.caught_up(2, 1).await;
    // The epoch that is over cannot write, not even where it began.
    let refused = cluster.put(1, epoch, ("queue/serial", "0")).await.unwrap_err();
    assert!(matches!(refused, ProposeError::Refused), "{refused}");
    let files = cluster.same_files(2).await;
    assert_eq!((files.len(), files["queue/serial"].as_str()), (21, "20"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_just_started_anew_takes_the_lead_too() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.caught_up(1, 2).await;
    cluster.stop(2).await;
    cluster.start(2, None).await;
    cluster.engine(1).hand_over(2, SOON).await.unwrap();
    assert!(cluster.leads(2).await > epoch);
    assert_eq!(cluster.same_files(2).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_refuses_and_what_it_had_begun_is_cut_off_too() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.caught_up(1, 2).await;
    cluster.cut(1);
    let engine = cluster.engine(1);
    let mut begun = JoinSet::new();
    let (leader, batch) = (engine.clone(), queue_format::Batch(vec![put("queue/serial", "2")]));
    begun.spawn(async move { leader.propose(epoch, batch).await });
    let silent = Duration::from_millis(LEASE_MS * 20);
    let (told, status) = engine.wait_for(silent, |status| status.heard_ms > Some(LEASE_MS)).await;
    assert!(told && status.leads == Some(epoch), "{status:?}");
    let later = cluster.engine(2).take_over(SOON).await.unwrap();
    cluster.put(2, later, ("queue/serial", "3")).await.unwrap();
    cluster.heal();
    let outcome = begun.join_next().await.unwrap().unwrap();
    assert!(matches!(outcome, Err(ProposeError::Unknown { .. })), "{outcome:?}");
    cluster.caught_up(2, 1).await;
    assert_eq!(engine.leads(), None);
    drop(engine);
    assert_eq!(cluster.same_files(2).await["queue/serial"], "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_is_committed_when_the_majority_comes_back() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.cut(2);
    cluster.cut(3);
    let engine = cluster.engine(1);
    let proposer = Arc::new(Proposer::new(engine.clone(), epoch));
    let mut running = JoinSet::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(10);
    let run = proposer.clone();
    running.spawn(async move {
        let on_committed = move |tags: Vec<u32>, _, _| {
            tags.into_iter().for_each(|tag| tell.try_send(tag).unwrap());
        };
        run.run(Box::new(on_committed)).await
    });
    proposer.submit(vec![put("queue/serial", "1")], 1).unwrap();
    let silent = Duration::from_millis(LEASE_MS * 20);
    let lost = |status: &crate::EngineStatus| status.heard_ms > Some(LEASE_MS);
    assert!(engine.wait_for(silent, lost).await.0);
    // Refused by the engine by now, and offered again.
    proposer.submit(vec![put("queue/serial", "2")], 2).unwrap();
    assert!(told.try_recv().is_err());
    cluster.heal();
    assert_eq!((told.recv().await, told.recv().await), (Some(1), Some(2)));
    proposer.close();
    assert_eq!(running.join_next().await.unwrap().unwrap(), End::Closed);
    drop((engine, proposer));
    assert_eq!(cluster.same_files(1).await["queue/serial"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_moved_may_be_more_than_an_entry_holds() {
    let (cluster, epoch) = Cluster::voters(3).await;
    let engine = cluster.engine(1);
    let content = "x".repeat(engine.proposal_bytes_max() / 3);
    let ids = 0..10;
    for id in ids.clone() {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), &content)).await.unwrap();
    }
    let proposer = Arc::new(Proposer::new(engine.clone(), epoch));
    let mut running = JoinSet::new();
    let (tell, mut told) = tokio::sync::mpsc::channel(10);
    let run = proposer.clone();
    running.spawn(async move {
        let on_committed = move |tags: Vec<u32>, at, _| tell.try_send((tags, at)).unwrap();
        run.run(Box::new(on_committed)).await
    });
    let archive = |id| Change::Move {
        from: key(&format!("queue/job-{id}")),
        to: key(&format!("queue/archive/0/job-{id}")),
    };
    let mut changes = vec![put("queue/serial", "1")];
    changes.extend(ids.clone().map(archive));
    proposer.submit(changes, 7).unwrap();
    let (tags, at) = told.recv().await.unwrap();
    assert_eq!((tags, at), (vec![7], engine.position()), "it comes back once, with the last");
    proposer.close();
    assert_eq!(running.join_next().await.unwrap().unwrap(), End::Closed);
    drop((engine, proposer));
    let files = cluster.same_files(1).await;
    assert_eq!(files["queue/serial"], "1");
    assert!(ids.into_iter().all(|id| files[&format!("queue/archive/0/job-{id}")] == content));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposer_ends_with_its_reign() {
    let (cluster, epoch) = Cluster::voters(3).await;
    let proposer = Arc::new(Proposer::new(cluster.engine(1), epoch));
    let mut running = JoinSet::new();
    let run = proposer.clone();
    running.spawn(async move { run.run(Box::new(|_: Vec<()>, _, _| {})).await });
    cluster.engine(1).hand_over(2, SOON).await.unwrap();
    proposer.submit(vec![put("queue/serial", "1")], ()).unwrap();
    assert_eq!(running.join_next().await.unwrap().unwrap(), End::Deposed);
    assert!(proposer.submit(vec![put("queue/serial", "1")], ()).is_err());
    drop(proposer);
    assert!(!cluster.same_files(2).await.contains_key("queue/serial"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_has_ended_leads_no_longer() {
    let (cluster, epoch) = Cluster::begin(Kept::default()).await;
    let one = cluster.engine(1);
    assert_eq!(one.leads_otherwise(None).await, Some(epoch));
    let waits = one.leads_otherwise(Some(epoch));
    let (told, ()) = tokio::join!(tokio::time::timeout(SOON, waits), cluster.stop(1));
    assert_eq!(told, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over_to_who_can_lead_only() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.join(1, 4).await;
    cluster.caught_up(1, 4).await;
    let one = cluster.engine(1);
    assert!(matches!(one.hand_over(4, SOON).await, Err(HandOverError::NoVoter { to: 4 })));
    assert!(matches!(one.hand_over(1, SOON).await, Err(HandOverError::NoVoter { to: 1 })));
    let not = cluster.engine(2).hand_over(3, SOON).await;
    assert!(matches!(not, Err(HandOverError::NotLeading)), "{not:?}");
    cluster.cut(3);
    let silent = |status: &crate::EngineStatus| status.followers[&3].heard_ms > Some(LEASE_MS);
    assert!(one.wait_for(SOON, silent).await.0);
    let briefly = Duration::from_millis(1);
    assert!(matches!(one.hand_over(3, briefly).await, Err(HandOverError::Silent { to: 3 })));
    let could = one.could_lead(3, briefly).await;
    assert!(matches!(could, Err(HandOverError::Silent { to: 3 })), "{could:?}");
    // Refusals did no harm.
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    cluster.heal();
    // It answers again before long.
    one.could_lead(3, SOON).await.unwrap();
    one.hand_over(2, SOON).await.unwrap();
    let (two, later) = (cluster.engine(2), cluster.leads(2).await);
    cluster.put(2, later, ("queue/serial", "2")).await.unwrap();
    drop((one, two));
    assert_eq!(cluster.same_files(2).await["queue/serial"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_members_the_other_one_leads_after_a_change_of_voters() {
    let (cluster, _epoch) = Cluster::begin(Kept::default()).await;
    cluster.join(1, 2).await;
    let one = cluster.engine(1);
    let alone = MembersChange::SetVoters([2].into());
    assert!(matches!(one.change_members(alone).await, Err(MembersError::Impossible { .. })));
    cluster.caught_up(1, 2).await;
    let heard = |status: &crate::EngineStatus| status.followers[&2].heard_ms.is_some();
    assert!(one.wait_for(SOON, heard).await.0);
    // It follows, and comes to vote for that.
    one.hand_over(2, SOON).await.unwrap();
    let (two, later) = (cluster.engine(2), cluster.leads(2).await);
    assert_eq!(two.status().members.voters, [1, 2].into());
    two.change_members(MembersChange::SetVoters([2].into())).await.unwrap();
    // Without the other one it goes on.
    cluster.cut(1);
    cluster.put(2, later, ("queue/serial", "1")).await.unwrap();
    cluster.heal();
    drop((one, two));
    assert_eq!(cluster.same_files(2).await["queue/serial"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_far_behind_gets_a_snapshot() {
    let (cluster, epoch) = Cluster::begin(Kept { entries: 20, ..Kept::default() }).await;
    for id in 0..200 {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), &"x".repeat(30_000))).await.unwrap();
    }
    let gone = Change::Delete { key: key("queue/job-0") };
    cluster.engine(1).propose(epoch, queue_format::Batch(vec![gone])).await.unwrap();
    cluster.join(1, 2).await;
    cluster.caught_up(1, 2).await;
    assert!(cluster.asked(Kind::SnapshotPart as u8) > 4);
    // A member that was away for long also loses what was deleted meanwhile.
    cluster.stop(2).await;
    for id in 100..200 {
        let gone = Change::Delete { key: key(&format!("queue/job-{id}")) };
        cluster.engine(1).propose(epoch, queue_format::Batch(vec![gone])).await.unwrap();
    }
    // The leader does not keep for ever what somebody lacks who is away.
    let few = |status: &crate::EngineStatus| status.log_kept <= 60;
    let (bounded, status) = cluster.engine(1).wait_for(SOON, few).await;
    assert!(bounded, "{status:?}");
    let before = cluster.asked(Kind::SnapshotEnd as u8);
    cluster.start(2, None).await;
    cluster.caught_up(1, 2).await;
    assert!(cluster.asked(Kind::SnapshotEnd as u8) > before);
    cluster.put(1, epoch, ("queue/serial", "1")).await.unwrap();
    assert_eq!(cluster.same_files(1).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_entries_do_not_stay_in_memory_for_who_is_away() {
    let (cluster, epoch) = Cluster::begin(Kept::default()).await;
    for member in [2, 3] {
        cluster.join(1, member).await;
    }
    cluster.set_voters(1, 1..=3).await;
    cluster.stop(3).await;
    for id in 0..200 {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), &"x".repeat(5_000))).await.unwrap();
    }
    cluster.caught_up(1, 2).await;
    let most = Kept::default().within(&store_options()).bytes;
    assert!((5 * 5_000..100 * 5_000).contains(&most), "room for some of them, and not for all");
    let little = |status: &crate::EngineStatus| status.log_kept_bytes <= 2 * most;
    for member in [1, 2] {
        let (bounded, status) = cluster.engine(member).wait_for(SOON, little).await;
        assert!(bounded, "{status:?}");
        assert!(status.log_kept > 1, "some stay: {status:?}");
    }
    cluster.start(3, None).await;
    cluster.caught_up(1, 3).await;
    assert!(cluster.asked(Kind::SnapshotEnd as u8) > 0);
    assert_eq!(cluster.same_files(1).await.len(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lacks_more_than_its_journal_holds_follows_a_new_leader() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.cut(3);
    let journal = store_options().segment_bytes * 4;
    let content = "x".repeat(8_000);
    for id in 0..4 * journal / 8_000 {
        cluster.put(1, epoch, (&format!("queue/job-{id}"), &content)).await.unwrap();
    }
    cluster.caught_up(1, 2).await;
    // It has some of that by the leader of before, who ends meanwhile.
    let lacks = cluster.engine(3).last();
    cluster.heal();
    let (some, status) = cluster.engine(3).wait_for(SOON, |seen| seen.last > lacks).await;
    assert!(some, "{status:?}");
    cluster.cut(1);
    let later = cluster.engine(2).take_over(SOON).await.unwrap();
    cluster.put(2, later, ("queue/serial", "1")).await.unwrap();
    cluster.heal();
    let _all = cluster.same_files(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_smaller_journal_refuses_an_entry_and_takes_it_as_a_snapshot() {
    let (cluster, epoch) = Cluster::begin(Kept::default()).await;
    cluster.join(1, 2).await;
    let small = StoreOptions { segment_bytes: 16 << 10, ..super::store_options() };
    cluster.start_with(3, None, small).await;
    let add = MembersChange::AddLearner { member: 3, node: "n3".to_owned() };
    cluster.engine(1).change_members(add).await.unwrap();
    cluster.set_voters(1, 1..=3).await;
    let limit = cluster.engine(3).proposal_bytes_max();
    cluster.put(1, epoch, ("queue/job-1", &"x".repeat(limit - 1_000))).await.unwrap();
    cluster.caught_up(1, 3).await;
    let before = cluster.asked(Kind::Append as u8);
    cluster.put(1, epoch, ("queue/job-2", &"x".repeat(limit + 1_000))).await.unwrap();
    cluster.caught_up(1, 2).await;
    while cluster.asked(Kind::Append as u8) < before + 9 {
        tokio::task::yield_now().await;
    }
    assert!(cluster.engine(3).status().stopped.is_none(), "it follows still");
    assert_eq!(cluster.engine(3).newest(&key("queue/job-2")).unwrap(), None);
    // As a job goes on, the log moves on.
    let mut number = 0;
    while cluster.asked(Kind::SnapshotEnd as u8) == 0 {
        number += 1;
        cluster.put(1, epoch, ("queue/serial", &number.to_string())).await.unwrap();
    }
    assert_eq!(cluster.same_files(1).await["queue/job-2"].len(), limit + 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_goes_on_in_its_epoch_when_it_begins_to_replicate() {
    use queue_format::{Callbacks, Store};
    let (cluster, _) = Cluster::begin(Kept::default()).await;
    let epoch = Epoch { term: 7, node: 5 };
    let store = Store::open(&cluster.directory(5), super::store_options()).unwrap();
    let committer = store.start(epoch, Callbacks::<()>::new(|_, _| {})).unwrap();
    committer.submit(vec![put("queue/serial", "1")], ()).unwrap();
    committer.close().unwrap();
    cluster.start(5, Some(epoch)).await;
    let five = cluster.engine(5);
    let (leads, status) = five.wait_for(SOON, |status| status.takes_proposals().is_some()).await;
    assert!(leads && status.leads == Some(epoch), "{status:?}");
    cluster.put(5, epoch, ("queue/serial", "2")).await.unwrap();
    cluster.join(5, 6).await;
    cluster.put(5, epoch, ("queue/serial", "3")).await.unwrap();
    drop(five);
    cluster.caught_up(5, 6).await;
    cluster.stop(6).await;
    cluster.cut(6);
    // A start is another matter: the one who led follows, until it is elected.
    cluster.stop(5).await;
    cluster.start(5, None).await;
    assert_eq!(cluster.engine(5).leads(), None);
    let later = cluster.engine(5).take_over(SOON).await.unwrap();
    assert!(later > epoch);
    cluster.stop(1).await;
    cluster.stop(5).await;
    // The store is that member's alone.
    let other = crate::EngineOptions::new(6, "n6", super::store_options());
    let refused = crate::Engine::open(&cluster.directory(5), other, super::alone()).await;
    let found =
        queue_format::OpenError::OtherMember { path: cluster.directory(5), found: 5, asked: 6 };
    let told = refused.err().map(|error| std::error::Error::source(&error).unwrap().to_string());
    assert_eq!(told, Some(found.to_string()));
    // And nobody goes on in an epoch that was shared with others.
    let mut options = crate::EngineOptions::new(5, "n5", super::store_options());
    options.goes_on = Some(epoch);
    let refused = crate::Engine::open(&cluster.directory(5), options, super::alone()).await;
    assert!(matches!(refused, Err(crate::OpenError::GoesOn { .. })));
}
