//! One member that becomes the only one, whatever the others hold.

use queue_format::{Batch, Epoch, Position};

use super::cluster::Cluster;
use super::{SOON, key, put, store_options};
use crate::{EngineOptions, MembersChange, OfflineStore, OverrideError};

fn resting(cluster: &Cluster, member: u64) -> OfflineStore {
    let options = EngineOptions::new(member, &format!("n{member}"), store_options());
    OfflineStore::open(&cluster.directory(member), options).unwrap()
}

fn serial(to: &str) -> Batch {
    Batch(vec![put("queue/serial", to)])
}

/// Overrides with `member`, whose engine has ended, and has it lead.
async fn overridden(cluster: &Cluster, member: u64, term: u64) -> Epoch {
    let epoch = Epoch { term, node: member };
    let at_rest = resting(cluster, member);
    let last = at_rest.last();
    let end = at_rest.override_members(epoch, &serial("1000")).unwrap();
    assert!(end > last && end.epoch < epoch);
    cluster.start(member, None).await;
    let engine = cluster.engine(member);
    let alone = |status: &crate::EngineStatus| status.members.voters == [member].into();
    assert!(engine.wait_for(SOON, alone).await.0);
    assert_eq!(engine.leads(), None, "it waits until it is asked");
    assert_eq!(engine.take_over(SOON).await.unwrap(), epoch);
    assert!(engine.position().index > end.index);
    epoch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_goes_on_alone_with_all_that_it_holds() {
    let (cluster, epoch) = Cluster::voters(3).await;
    cluster.put(1, epoch, ("queue/job-1", "one")).await.unwrap();
    cluster.caught_up(1, 3).await;
    // The others go on without it.
    cluster.cut(3);
    let lost = cluster.put(1, epoch, ("queue/job-2", "two")).await.unwrap();
    cluster.stop(3).await;

    let epoch = overridden(&cluster, 3, 1_000_000).await;
    let reader = cluster.engine(3).reader();
    let read = |name: &str| reader.read(&key(name)).unwrap();
    assert_eq!(read("queue/job-1").as_deref(), Some(&b"one"[..]));
    assert_eq!(read("queue/serial").as_deref(), Some(&b"1000"[..]));
    assert_eq!(read("queue/job-2"), None);
    let next = cluster.put(3, epoch, ("queue/job-1001", "next")).await.unwrap();
    assert!(next > lost && next.epoch == epoch);

    // A member that comes back under another id gets what there is.
    cluster.heal();
    for member in [1, 2] {
        cluster.stop(member).await;
    }
    cluster.join(3, 10_001).await;
    cluster.join(3, 10_002).await;
    cluster.set_voters(3, [3, 10_001, 10_002]).await;
    let files = cluster.same_files(3).await;
    assert_eq!(files["queue/job-1001"], "next");
    assert!(!files.contains_key("queue/job-2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_goes_on_alone_and_so_does_who_did_before() {
    let (cluster, epoch) = Cluster::begin(crate::Kept::default()).await;
    cluster.join(1, 2).await;
    cluster.put(1, epoch, ("queue/job-1", "one")).await.unwrap();
    cluster.caught_up(1, 2).await;
    for member in [1, 2] {
        cluster.stop(member).await;
    }
    let first = overridden(&cluster, 2, 1_000_000).await;
    cluster.put(2, first, ("queue/job-1001", "next")).await.unwrap();
    cluster.stop(2).await;
    // Once more, above that.
    let refused = resting(&cluster, 2).override_members(first, &serial("0")).unwrap_err();
    assert!(matches!(refused, OverrideError::NotAbove { .. }), "{refused}");
    let other = Epoch { term: 9_000_000, node: 1 };
    let refused = resting(&cluster, 2).override_members(other, &serial("0")).unwrap_err();
    assert!(matches!(refused, OverrideError::OtherMember { member: 2, .. }), "{refused}");
    let second = overridden(&cluster, 2, 2_000_000).await;
    assert!(second > first);
    let added = MembersChange::AddLearner { member: 2, node: "n2".to_owned() };
    assert!(cluster.engine(2).change_members(added).await.is_err(), "an id is never used twice");
    let files = cluster.same_files(2).await;
    assert_eq!(files["queue/job-1"], "one");
    assert_eq!(files["queue/job-1001"], "next");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_knows_to_be_committed_is_seen_and_kept() {
    let (cluster, epoch) = Cluster::voters(3).await;
    let before = cluster.put(1, epoch, ("queue/job-1", "one")).await.unwrap();
    cluster.caught_up(1, 2).await;
    cluster.caught_up(1, 3).await;
    // It is appended on the leader alone.
    for member in [2, 3] {
        cluster.cut(member);
    }
    let engine = cluster.engine(1);
    let batch = Batch(vec![put("queue/job-2", "two"), put("queue/serial", "2")]);
    #[expect(clippy::disallowed_methods, reason = "ends with the engine")]
    let proposed = tokio::spawn(async move { engine.propose(epoch, batch).await });
    let (appended, status) = cluster.engine(1).wait_for(SOON, |status| status.last > before).await;
    assert!(appended, "{status:?}");
    let last = status.last;
    cluster.stop(1).await;
    assert!(proposed.await.unwrap().is_err(), "it was not acknowledged");

    let found = resting(&cluster, 1);
    assert_eq!(found.last(), last);
    assert_eq!(found.vote(), epoch);
    assert_eq!(found.newest(&key("queue/serial")).unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(found.newest(&key("queue/job-1")).unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(found.newest(&key("queue/job-9")).unwrap(), None);
    let jobs = found.all_newest("queue/job-").unwrap();
    assert_eq!(
        jobs.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["queue/job-1", "queue/job-2"]
    );
    let uncommitted = found.into_uncommitted();
    assert_eq!(uncommitted.len(), 2, "{uncommitted:?}");
    let epoch = overridden(&cluster, 1, 1_000_000).await;
    let kept = cluster.engine(1).reader().read(&key("queue/job-2")).unwrap();
    assert_eq!(kept.as_deref(), Some(&b"two"[..]));
    assert!(cluster.engine(1).position() > Position { epoch: Epoch::default(), ..last });
    assert_eq!(cluster.engine(1).leads(), Some(epoch));
    for member in 1..=3 {
        cluster.stop(member).await;
    }
}
