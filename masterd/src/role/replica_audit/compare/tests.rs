//! Two stores with one history, of which one is asked over a real connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::EngineOptions;
use model::node::Member;
use queue_format::digest::Difference;
use queue_format::{Batch, Change, Epoch, Key, StoreOptions};
use rpc::peer::StoreId;
use uuid::Uuid;

use super::*;
use crate::role::local_member::MemberState;
use crate::testing::{AskedHouse, Nobody};

/// Far more than an election of one takes.
const SOON: Duration = Duration::from_secs(60);

/// A store that was elected alone; two of them have the same history as long as they are given
/// the same batches.
struct Alone {
    dir: tempfile::TempDir,
    engine: Arc<Engine>,
    epoch: Epoch,
}

impl Alone {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
        let options = EngineOptions::new(1, "n1.example", store);
        let opened = Engine::open(&dir.path().join("data"), options, Arc::new(Nobody)).await;
        let engine = Arc::new(opened.unwrap().0);
        let epoch = engine.take_over(SOON).await.unwrap();
        Self { dir, engine, epoch }
    }

    async fn put(&self, key: &str, content: &str) {
        let key = Key::parse(key).unwrap();
        let put = Change::Put { key, content: Bytes::copy_from_slice(content.as_bytes()) };
        self.engine.propose(self.epoch, Batch(vec![put])).await.unwrap();
    }
}

struct Scene {
    own: Alone,
    other: Arc<Alone>,
    local: AskedHouse,
}

impl Scene {
    async fn start() -> Self {
        let (own, other) = (Alone::new().await, Arc::new(Alone::new().await));
        assert_eq!(own.engine.position(), other.engine.position());
        let mut local = AskedHouse::start(other.dir.path(), own.epoch).await;
        let incarnation = other.engine.recovered().incarnation;
        let state = MemberState::Standby(Arc::clone(&other.engine));
        local.server.service().set_state(state, StoreId::new(1, incarnation));
        local.asked.member =
            Some(Member { id: 1, incarnation: Some(incarnation), acknowledged: None });
        Self { own, other, local }
    }

    async fn put(&self, key: &str, content: &str) {
        self.own.put(key, content).await;
        self.other.put(key, content).await;
    }

    async fn compare_by<W: Write>(&self, write: &W) -> Vec<Compared> {
        let engine = Arc::clone(&self.own.engine);
        let comparison = Comparison { engine, peers: &self.local.book, write };
        comparison.run(vec![Arc::new(self.local.asked.clone())]).await
    }

    async fn compare(&self) -> Vec<Compared> {
        self.compare_by(self).await
    }

    async fn end(self) {
        self.own.engine.close().await.unwrap();
        self.other.engine.close().await.unwrap();
    }
}

impl Write for Scene {
    async fn write(&self) -> bool {
        self.put("ipam", "the same").await;
        true
    }
}

/// A master that is behind by some entries.
struct Behind<'a>(&'a Scene, AtomicU64);

impl Write for Behind<'_> {
    async fn write(&self) -> bool {
        match self.1.load(Ordering::SeqCst) {
            // It comes by the same entries, and then both go on together.
            0 => self.0.put("ipam", "the same").await,
            left => {
                self.1.store(left - 1, Ordering::SeqCst);
                self.0.own.put("ipam", &left.to_string()).await;
            }
        }
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_edited_by_hand_is_found() {
    let scene = Scene::start().await;
    for n in 1..=12 {
        scene.put(&format!("config/nodes/n{n}"), "{}").await;
    }
    let (node, outcome) = (scene.local.asked.name.clone(), Ok(Differing::default()));
    let same = Compared { node, outcome, is_refused: false };
    assert_eq!(scene.compare().await, [same]);

    // The files must be there before a hand can change them.
    drop(scene.other.engine.freeze().await.unwrap());
    let nodes = scene.other.dir.path().join("data/config/nodes");
    stdx::atomic::write(&nodes.join("n3"), b"{\"by\": \"hand\"}", 0o640).unwrap();
    stdx::atomic::write(&nodes.join("stray"), b"{}", 0o640).unwrap();
    std::fs::remove_file(nodes.join("n5")).unwrap();
    let compared = scene.compare().await;
    let found = compared[0].outcome.clone().unwrap();
    assert_eq!((found.groups.as_slice(), found.total), (&["config".to_owned()][..], 3));
    assert!(!found.cut_short);
    let named = found.judged.iter();
    let named = named.map(|other| (other.key.as_str(), other.difference, other.theirs.is_some()));
    let expected = [
        ("config/nodes/n3", Difference::Content, true),
        ("config/nodes/n5", Difference::OnlyFirst, false),
        ("config/nodes/stray", Difference::OnlySecond, true),
    ];
    assert_eq!(named.collect::<Vec<_>>(), expected);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_moment_is_over_a_later_one_is_compared() {
    let scene = Scene::start().await;
    scene.put("ipam", "{}").await;
    // The member is ahead of the moment, and meets the master later on.
    for left in (1..=3_u64).rev() {
        scene.other.put("ipam", &left.to_string()).await;
    }
    let behind = Behind(&scene, AtomicU64::new(3));
    let compared = scene.compare_by(&behind).await;
    assert_eq!(compared[0].outcome, Ok(Differing::default()));
    assert_eq!(behind.1.load(Ordering::SeqCst), 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_there_is_told_of() {
    let mut scene = Scene::start().await;
    scene.local.asked.member =
        Some(Member { id: 1, incarnation: Some(Uuid::from_u128(9)), acknowledged: None });
    let compared = scene.compare().await;
    assert!(compared[0].outcome.is_err(), "{compared:?}");
    scene.end().await;
}
