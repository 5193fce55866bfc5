//! A lone voter, and the storage below it, by upstream's own suite.

mod cluster;
mod overriding;
mod several;
mod traps;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::StorageError;
use openraft::storage::RaftStateMachine as _;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::alias::SnapshotMetaOf;
use queue_format::{
    Batch, Callbacks, Change, Epoch, Key, Position, ReplicatedStore, Store, StoreOptions,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use crate::log::{Log, Memory, report_durable};
use crate::state::StateMachine;
use crate::types::{StoredMembership, TypeConfig, log_id};
use crate::{Committed, Engine, EngineOptions, Link, OpenError, Peers, ProposeError};

/// Far more than a lone voter needs to elect itself.
const SOON: Duration = Duration::from_secs(60);

fn store_options() -> StoreOptions {
    StoreOptions { segment_bytes: 64 << 10, ..StoreOptions::default() }
}

fn options() -> EngineOptions {
    EngineOptions::new(1, "n1", store_options())
}

#[derive(Debug)]
struct Nobody;

impl Peers for Nobody {
    fn link(&self, member: u64, _node: &str) -> Box<dyn Link> {
        unreachable!("a lone voter asks member {member}")
    }
}

/// The way to others of who has none.
fn alone() -> Arc<dyn Peers> {
    Arc::new(Nobody)
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn put(name: &str, content: &str) -> Change {
    Change::Put { key: key(name), content: Bytes::copy_from_slice(content.as_bytes()) }
}

fn files(dir: &Path) -> BTreeMap<String, String> {
    let at_rest = queue_format::store::AtRest::read(dir).unwrap().unwrap();
    let member = at_rest.member.unwrap();
    let store = ReplicatedStore::open(dir, store_options(), member).unwrap();
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let all = store.reader().scan("").unwrap().map(Result::unwrap);
    all.map(|(key, content)| (key.to_string(), text(content))).collect()
}

/// A member whose entries the suite does not write.
const NOBODY: u64 = u64::MAX;

struct Build;

impl StoreBuilder<TypeConfig, Log, StateMachine, (TempDir, mpsc::Receiver<Committed>)> for Build {
    async fn build(
        &self,
    ) -> Result<((TempDir, mpsc::Receiver<Committed>), Log, StateMachine), StorageError<TypeConfig>>
    {
        let dir = tempfile::tempdir().unwrap();
        let store = ReplicatedStore::open(dir.path(), store_options(), 1).unwrap();
        let memory = Memory::recover(&store.log()).unwrap();
        let (tell, durable) = watch::channel(0);
        let callbacks = Callbacks::new(move |tags, _| report_durable(tags, &tell));
        let recorder = Arc::new(store.start(callbacks).unwrap());
        let log = Log::new((NOBODY, crate::Kept::default()), recorder.clone(), memory, durable);
        let (tell, committed) = mpsc::channel(10);
        let at = (Position::default(), StoredMembership::default());
        let state = StateMachine::new(recorder, log.clone(), at, tell);
        Ok(((dir, committed), log, state))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_passes_upstreams_suite() {
    Suite::test_all(Build).await.unwrap();
}

/// As it is while a leader's copy takes the place of a store that somebody begins to read.
#[test]
fn who_begins_to_read_while_the_store_is_replaced_is_not_told_that_nothing_changed() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // One at a time, so that the copy waits for as long as the test wants.
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (guard, log, mut state) = Build.build().await.unwrap();
        let meta = SnapshotMetaOf::<TypeConfig> {
            last_log_id: log_id(Position { epoch: Epoch { term: 1, node: 1 }, index: 1 }),
            last_membership: StoredMembership::default(),
        };
        let (end, busy) = std::sync::mpsc::channel::<()>();
        let image = state.arriving(&meta).await.unwrap().finish().await.unwrap();
        let waits = stdx::apart(move || busy.recv());
        let notes = state.notes();
        let noting = {
            let mut install = std::pin::pin!(state.install_snapshot(&meta, image));
            assert!(futures_util::poll!(&mut install).is_pending());
            let noting = notes.begin();
            drop(end);
            install.await.unwrap();
            noting
        };
        assert!(waits.await.unwrap().is_err());
        assert_eq!(noting.changed(), None);
        drop((log, state, guard));
    });
}

async fn open(dir: &Path) -> (Engine, mpsc::Receiver<Committed>) {
    Engine::open(dir, options(), alone()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_voter_leads_when_asked_and_never_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut epochs = Vec::new();
    let mut last = Position::default();
    for round in 0..3 {
        let (engine, mut committed) = open(dir.path()).await;
        assert_eq!(engine.leads(), None);
        assert_eq!(engine.recovered().position.index, last.index);
        let batch = Batch(vec![put("queue/serial", &round.to_string())]);
        let refused = engine.propose(Epoch::default(), batch.clone()).await.unwrap_err();
        assert!(matches!(refused, ProposeError::Refused), "{refused}");
        epochs.push(engine.take_over(SOON).await.unwrap());
        assert_eq!(engine.status().members.voters, [1].into());
        let position = engine.propose(epochs[round], batch.clone()).await.unwrap();
        assert!(position > last && position.epoch == epochs[round]);
        last = position;
        assert_eq!(committed.recv().await, Some(Committed { position, batch }));
        let read = engine.reader().read(&key("queue/serial")).unwrap();
        assert_eq!(read, Some(Bytes::from(round.to_string())));
        assert_eq!(engine.position(), position);
        engine.close().await.unwrap();
        assert_eq!(files(dir.path())["queue/serial"], round.to_string());
    }
    assert!(epochs.is_sorted_by(|one, other| one.term < other.term), "{epochs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_find_what_earlier_proposals_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut committed) = open(dir.path()).await;
    let listen = async move {
        while committed.recv().await.is_some() {}
        std::future::pending::<()>().await;
    };
    let engine = Arc::new(engine);
    let epoch = engine.take_over(SOON).await.unwrap();
    let work = async {
        for id in 0..50 {
            let name = format!("queue/job-{id}");
            let write = engine.propose(epoch, Batch(vec![put(&name, "done")]));
            let other = format!("machines/SN{id}");
            let aside = engine.propose(epoch, Batch(vec![put(&other, "{}")]));
            let (one, two) = tokio::join!(write, aside);
            assert!(one.is_ok() && two.is_ok());
            let to = key(&format!("queue/archive/0/job-{id}"));
            let rename = Change::Move { from: key(&name), to };
            engine.propose(epoch, Batch(vec![rename])).await.unwrap();
        }
        engine.close().await.unwrap();
    };
    tokio::select! { () = work => {}, () = listen => panic!("the stream ended") }
    drop(engine);
    let files = files(dir.path());
    assert_eq!(files.len(), 100);
    assert!((0..50).all(|id| files[&format!("queue/archive/0/job-{id}")] == "done"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposals_go_round_the_ring_and_are_purged_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut committed) = open(dir.path()).await;
    let engine = Arc::new(engine);
    let epoch = engine.take_over(SOON).await.unwrap();
    let clients: Vec<_> = (0..16)
        .map(|client| {
            let engine = engine.clone();
            let work = async move {
                for n in 0..100 {
                    let name = format!("queue/job-{client}-{n}");
                    let batch = Batch(vec![put(&name, &"x".repeat(500))]);
                    engine.propose(epoch, batch).await.unwrap();
                }
            };
            #[expect(clippy::disallowed_methods, reason = "a test joins its own tasks")]
            tokio::spawn(work)
        })
        .collect();
    let mut last = Position::default();
    for _ in 0..1600 {
        let next = committed.recv().await.unwrap().position;
        assert!(next > last);
        last = next;
    }
    for client in clients {
        client.await.unwrap();
    }
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(files(dir.path()).len(), 1600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_a_single_master_becomes_that_of_a_lone_voter_and_not_back() {
    let dir = tempfile::tempdir().unwrap();
    let epoch = Epoch { term: 5, node: 9 };
    let store = Store::open(dir.path(), store_options()).unwrap();
    let committer = store.start(epoch, Callbacks::<u8>::new(|_, _| {})).unwrap();
    for n in 0..10 {
        committer.submit(vec![put("queue/serial", &n.to_string())], n).unwrap();
    }
    committer.close().unwrap();
    let single = committer.position();

    let (engine, mut committed) = open(dir.path()).await;
    assert_eq!(engine.position(), single);
    let taken = engine.take_over(SOON).await.unwrap();
    assert!(taken > epoch, "{taken}");
    let batch = Batch(vec![put("queue/serial", "10")]);
    let position = engine.propose(taken, batch).await.unwrap();
    assert!(position.index > single.index && committed.recv().await.is_some());
    engine.close().await.unwrap();
    assert_eq!(files(dir.path())["queue/serial"], "10");
    let refused = Store::open(dir.path(), store_options()).unwrap_err();
    assert!(matches!(refused, queue_format::OpenError::Replicated { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_can_never_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _committed) = open(dir.path()).await;
    let epoch = engine.take_over(SOON).await.unwrap();
    let batch = Batch(vec![put("ipam", &"x".repeat(60 << 10))]);
    let refused = engine.propose(epoch, batch).await.unwrap_err();
    assert!(matches!(refused, ProposeError::TooLarge { .. }));
    engine.close().await.unwrap();
}

/// Otherwise its own next election would come to the end of all terms, or the others' would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_claims_an_absurd_vote_is_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _committed) = open(dir.path()).await;
    engine.take_over(SOON).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    let path = dir.path().join("store.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let (vote, absurd) = (r#"{\"epoch\":{\"term\":"#, r#"{\"epoch\":{\"term\":2000000000"#);
    assert_eq!(text.matches(vote).count(), 1, "{text}");
    // A program that writes such a vote writes the right checksum, too; none is right as well.
    let (text, _sum) = text.rsplit_once(",\"crc32c\"").unwrap();
    let text = format!("{}}}", text.replace(vote, absurd));
    stdx::atomic::write(&path, text.as_bytes(), 0o600).unwrap();
    let refused = Engine::open(dir.path(), options(), alone()).await.unwrap_err();
    let OpenError::Remembered(why) = &refused else { panic!("{refused}") };
    assert!(why.to_string().contains("absurdly far ahead of the last entry's, 1"), "{why}");
}
