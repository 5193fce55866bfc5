//! Two stores with one history, of which one is asked over a real connection.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::EngineOptions;
use model::Timestamp;
use model::node::Member;
use queue_format::digest::Difference;
use queue_format::{Batch, Change, Epoch, Key, StoreOptions};
use rpc::calls::{AllowList, Caller};
use rpc::identity::{Authority, NodeIdentity};
use rpc::peer::{PeerLimits, PeerServer, StoreId};
use rpc::tls::AllowedCallers;
use stdx::Clock;
use uuid::Uuid;

use super::*;
use crate::house::{Errand, House, Seat};
use crate::testing::{Nobody, node};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const CLUSTER: Uuid = Uuid::from_u128(7);
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
    peers: PeerBook,
    asked: Node,
    _server: PeerServer<House>,
    _errands: tokio::sync::mpsc::Receiver<Errand>,
}

impl Scene {
    async fn start() -> Self {
        let (own, other) = (Alone::new().await, Arc::new(Alone::new().await));
        assert_eq!(own.engine.position(), other.engine.position());
        let now = Timestamp::from_micros(Clock::system().now_micros());
        let authority = Authority::create(&"c1".parse().unwrap(), now).unwrap();
        let identity = |name: &str| -> Arc<NodeIdentity> {
            Arc::new(authority.issue(&name.parse().unwrap(), &[LOCALHOST], now).unwrap())
        };
        let (asks, answers) = (identity("n1.example"), identity("n2.example"));
        let caller = Caller { name: asks.name().clone(), fingerprint: asks.fingerprint() };
        let list = AllowList { epoch: own.epoch, callers: vec![caller] };
        let book = PeerBook::new(Arc::clone(&answers), CLUSTER);
        let me = (answers.name().clone(), CLUSTER);
        let (house, errands) = House::new(me, book, other.dir.path().to_owned());
        let incarnation = other.engine.recovered().incarnation;
        let seat = Seat::Standby(Arc::clone(&other.engine));
        house.sit(seat, StoreId::new(1, incarnation));
        let listener = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let (allowed, limits) = (AllowedCallers::new(list), PeerLimits::default());
        let server = PeerServer::start(listener, &answers, allowed, house, limits).unwrap();
        let mut asked = node("n2.example", NodeRole::Candidate);
        asked.primary_ip = LOCALHOST;
        asked.peer_port = server.address().port();
        asked.fingerprint = answers.fingerprint();
        asked.member = Some(Member { id: 1, incarnation: Some(incarnation), acknowledged: None });
        let peers = PeerBook::new(asks, CLUSTER);
        Self { own, other, peers, asked, _server: server, _errands: errands }
    }

    async fn put(&self, key: &str, content: &str) {
        self.own.put(key, content).await;
        self.other.put(key, content).await;
    }

    async fn compare_by<W: Write>(&self, write: &W) -> Vec<Compared> {
        let engine = Arc::clone(&self.own.engine);
        let comparison = Comparison { engine, peers: &self.peers, write };
        comparison.run(vec![Arc::new(self.asked.clone())]).await
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
    let same = Compared { node: scene.asked.name.clone(), outcome: Ok(Differing::default()) };
    assert_eq!(scene.compare().await, [same]);

    // The files must be there before a hand can change them.
    drop(scene.other.engine.freeze().await.unwrap());
    let nodes = scene.other.dir.path().join("data/config/nodes");
    stdx::atomic::write(&nodes.join("n3"), b"{\"by\": \"hand\"}", 0o640).unwrap();
    stdx::atomic::write(&nodes.join("stray"), b"{}", 0o640).unwrap();
    std::fs::remove_file(nodes.join("n5")).unwrap();
    let compared = scene.compare().await;
    let expected = Differing {
        groups: vec!["config".to_owned()],
        named: vec![
            ("config/nodes/n3".to_owned(), Difference::Content),
            ("config/nodes/n5".to_owned(), Difference::OnlyFirst),
            ("config/nodes/stray".to_owned(), Difference::OnlySecond),
        ],
        total: 3,
        cut_short: false,
    };
    assert_eq!(compared[0].outcome, Ok(expected));
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
    scene.asked.member =
        Some(Member { id: 1, incarnation: Some(Uuid::from_u128(9)), acknowledged: None });
    let compared = scene.compare().await;
    assert!(compared[0].outcome.is_err(), "{compared:?}");
    scene.end().await;
}
