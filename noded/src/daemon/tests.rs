use std::net::{IpAddr, Ipv4Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use model::instance::launch::SightsKnown;
use model::rack::Observation;
use model::{Code, Coded as _};
use rpc::calls::{
    AllowList, Caller, Exchange, Exchanged, Facts, Leave, MasterView, MasterViewed, RackPush,
    RackWithdraw, SetAllowList, TestDelay, Version,
};
use rpc::client::Refusal;
use rpc::identity::Authority;
use rpc::{Client, FailureKind, Meta, NodeTarget, RpcError};

use super::*;
use netboot::testing::{SMALL, epoch, membership, name, now, rack};

mod lease_sync;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn caller(identity: &NodeIdentity) -> Caller {
    Caller { name: identity.name().clone(), fingerprint: identity.fingerprint() }
}

fn meta(term: u64) -> Meta {
    Meta { epoch: epoch(term), job: None }
}

/// A master `n1` and the root directory of a node `n2`.
struct Scene {
    dir: tempfile::TempDir,
    authority: Authority,
    master: Arc<NodeIdentity>,
    client: Client,
    pin: model::enrol::Fingerprint,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create(&name("c1"), now()).unwrap();
        let master = Arc::new(authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap());
        let node = authority.issue(&name("n2"), &[LOCALHOST], now()).unwrap();
        let allow = AllowList { epoch: epoch(1), callers: vec![caller(&master)] };
        let membership = Membership { allow, ..membership("n2") };
        node.store(&Layout::new(dir.path()), &membership).unwrap();
        let client = Client::new(Arc::clone(&master), Tasks::new());
        Self { dir, authority, master, client, pin: node.fingerprint() }
    }

    fn settings(&self) -> Settings {
        let local = SocketAddr::new(LOCALHOST, 0);
        Settings {
            layout: Layout::new(self.dir.path()),
            rpc: local,
            boot: local,
            boot_alias: None,
            keys: None,
            metrics: stdx::metrics::Endpoint::Nowhere,
            versions: rpc::wire::Versions::OURS,
            leasing: Leasing {
                port: 1,
                relays_only: Vec::new(),
                boot: local,
                counters: Arc::default(),
            },
            powercycle: crate::powercycle::of_machine(false, &Layout::new("/none")),
            segment_bytes: SMALL,
            blob_bytes_max: 1 << 30,
            ipxe: "/nowhere".into(),
            clock: Clock::system(),
        }
    }

    async fn start(&self) -> Daemon {
        Daemon::start(self.settings()).await.unwrap()
    }

    fn target(&self, daemon: &Daemon) -> NodeTarget {
        NodeTarget {
            name: name("n2"),
            address: daemon.rpc_address(),
            fingerprint: Some(self.pin),
            renewing: None,
            offline: false,
        }
    }

    async fn push(&self, daemon: &Daemon, version: u64) {
        let document = rack(3, version);
        let push = RackPush { base: None, document };
        self.client.call(&self.target(daemon), push, meta(1)).await.unwrap();
    }

    async fn exchange(
        &self,
        daemon: &Daemon,
        (incarnation, acknowledged): (Option<Uuid>, u64),
        wait_ms: u32,
    ) -> Result<Exchanged, RpcError> {
        let call = Exchange { incarnation, acknowledged, wait_ms, sights: None };
        self.client.call(&self.target(daemon), call, meta(1)).await
    }

    /// The next answer that has events. Faults of a rack are news, too, and may come before.
    async fn events(&self, daemon: &Daemon, known: (Option<Uuid>, u64)) -> Exchanged {
        loop {
            let exchanged = self.exchange(daemon, known, 20_000).await.unwrap();
            if !exchanged.events.is_empty() {
                break exchanged;
            }
        }
    }
}

async fn fetch(daemon: &Daemon, path: &str) -> String {
    let mut stream = TcpStream::connect(daemon.boot_address()).await.unwrap();
    let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_certificate_is_renewed_while_it_serves() {
    use rpc::calls::{RenewBegin, RenewFinish, Verify};
    let scene = Scene::new();
    let daemon = scene.start().await;
    let old = scene.target(&daemon);
    let offer = scene.client.call(&old, RenewBegin {}, meta(1)).await.unwrap();
    assert_eq!(offer.fingerprint, scene.pin);
    let certificate =
        scene.authority.sign(&offer.request, &name("n2"), &[LOCALHOST], now()).unwrap();
    let wait = Exchange { incarnation: None, acknowledged: 0, wait_ms: 400, sights: None };
    let (waited, finished) = tokio::join!(
        // Under way at an open connection.
        scene.client.call(&old, wait, meta(1)),
        scene.client.call(&old, RenewFinish { certificate: certificate.clone() }, meta(1)),
    );
    waited.unwrap();
    finished.unwrap();
    // Another caller has no connection yet.
    let fresh = Client::new(Arc::clone(&scene.master), Tasks::new());
    let refused = fresh.call(&old, Version {}, meta(1)).await;
    assert!(
        matches!(&refused, Err(RpcError::Refused { refusal: Refusal::Certificate { .. }, .. })),
        "{refused:?}"
    );
    let (identity, _membership) = NodeIdentity::load(&Layout::new(scene.dir.path())).unwrap();
    let new = identity.fingerprint();
    let both = NodeTarget { renewing: Some(new), ..old.clone() };
    let held = fresh.call(&both, Verify {}, meta(1)).await.unwrap();
    assert!(held.fingerprint == new && new != scene.pin);
    let only = NodeTarget { fingerprint: Some(new), ..old };
    fresh.call(&only, RenewFinish { certificate }, meta(1)).await.unwrap();
    let offer = fresh.call(&only, RenewBegin {}, meta(1)).await.unwrap();
    assert_eq!(offer.fingerprint, new);
    daemon.stop().await.unwrap();
    let again = scene.start().await;
    let only = NodeTarget { address: again.rpc_address(), ..only };
    fresh.call(&only, Version {}, meta(1)).await.unwrap();
    again.stop().await.unwrap();
}

#[tokio::test]
async fn a_rack_is_served_after_a_restart_with_no_master() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let script = "/api/v1/boot/ipxe/S1";
    assert!(fetch(&daemon, script).await.starts_with("HTTP/1.1 404"));
    scene.push(&daemon, 7).await;
    assert!(fetch(&daemon, script).await.starts_with("HTTP/1.1 200"));
    daemon.stop().await.unwrap();
    let daemon = scene.start().await;
    assert!(fetch(&daemon, script).await.starts_with("HTTP/1.1 200"));
    let exchanged = scene.events(&daemon, (None, 0)).await;
    assert_eq!(exchanged.racks.len(), 1);
    assert_eq!((exchanged.racks[0].rack, exchanged.racks[0].version.position), (3, 7));
    // The events since then are there: the later fetch overtook the earlier.
    let [event] = exchanged.events.as_slice() else { panic!("{exchanged:?}") };
    assert_eq!(event.number, 2);
    scene.client.call(&scene.target(&daemon), RackWithdraw { rack: 3 }, meta(1)).await.unwrap();
    assert!(fetch(&daemon, script).await.starts_with("HTTP/1.1 404"));
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_is_handed_out_until_it_is_acknowledged() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    scene.push(&daemon, 1).await;
    fetch(&daemon, "/api/v1/boot/ipxe/S1").await;
    let first = scene.events(&daemon, (None, 0)).await;
    let ours = Some(first.incarnation);
    let again = scene.events(&daemon, (ours, 0)).await;
    assert_eq!(again.events, first.events);
    assert!(matches!(&first.events[0].observation, Observation::Boot { rack: 3, .. }));
    // An acknowledgement for another store counts for nothing.
    let other = scene.exchange(&daemon, (Some(Uuid::from_u128(9)), 1), 0).await.unwrap();
    assert_eq!(other.events, first.events);
    daemon.stop().await.unwrap();
    let daemon = scene.start().await;
    let after = scene.exchange(&daemon, (ours, 0), 0).await.unwrap();
    assert_eq!((&after.events, after.incarnation), (&first.events, first.incarnation));
    let none = scene.exchange(&daemon, (ours, 1), 0).await.unwrap();
    assert!(none.events.is_empty());
    let too_long = scene.exchange(&daemon, (ours, 1), 20_001).await;
    assert!(matches!(too_long, Err(RpcError::Failed { kind: FailureKind::Malformed, .. })));
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_waiting_exchange_is_woken_by_an_event_and_ended_by_a_newer_one() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    scene.push(&daemon, 1).await;
    // The rack's faults are told at once, and then are known.
    scene.exchange(&daemon, (None, 0), 0).await.unwrap();
    let answered = std::cell::Cell::new(false);
    let waiting = async {
        let answer = scene.exchange(&daemon, (None, 0), 20_000).await;
        answered.set(true);
        answer
    };
    let newer = async {
        while daemon.rpc.service().running() == 0 && !answered.get() {
            tokio::task::yield_now().await;
        }
        let newer = scene.events(&daemon, (None, 0));
        let event = fetch(&daemon, "/api/v1/boot/ipxe/S1");
        tokio::join!(newer, event).0
    };
    let (older, newer) = tokio::join!(waiting, newer);
    assert_eq!(newer.events.len(), 1);
    // The older one got the event or news of the rack, or was ended before they came.
    match older {
        Ok(exchanged) => assert!(exchanged.events.len() <= 1),
        Err(RpcError::Failed { kind, .. }) => assert_eq!(kind, FailureKind::Interrupted),
        Err(other) => panic!("{other:?}"),
    }
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn only_who_knows_words_on_instances_is_woken_by_those_of_another_life() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let answer = scene.exchange(&daemon, (None, 0), 0).await.unwrap();
    let known = answer.sights.unwrap().known;
    let target = scene.target(&daemon);
    let ask = async |sights, wait_ms| {
        let call = Exchange { incarnation: None, acknowledged: 0, wait_ms, sights };
        let from = std::time::Instant::now();
        scene.client.call(&target, call, meta(1)).await.unwrap();
        from.elapsed().as_millis()
    };
    let waits = 300;
    assert!(ask(None, waits).await >= u128::from(waits), "software without instances");
    assert!(ask(Some(known), waits).await >= u128::from(waits), "it knows all");
    let former = SightsKnown { life: Uuid::from_u128(1), number: 99 };
    let answered = ask(Some(former), 20_000).await;
    assert!(answered < 10_000, "words of a former life are old: {answered} ms");
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn an_epoch_is_obeyed_after_a_restart() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let target = scene.target(&daemon);
    let delay = || TestDelay { seconds: 0.0 };
    scene.client.call(&target, delay(), meta(5)).await.unwrap();
    daemon.stop().await.unwrap();
    let daemon = scene.start().await;
    let target = scene.target(&daemon);
    let version = scene.client.call(&target, Version {}, meta(1)).await.unwrap();
    assert_eq!((version.epoch, version.node_id), (epoch(5), 2));
    let refused = scene.client.call(&target, delay(), meta(4)).await;
    let held =
        |refusal: &Refusal| matches!(refusal, Refusal::Epoch { held, .. } if *held == epoch(5));
    assert!(matches!(&refused, Err(RpcError::Refused { refusal, .. }) if held(refusal)));
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn whom_it_obeys_is_told_to_callers_of_any_epoch_and_kept() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let target = NodeTarget { offline: true, ..scene.target(&daemon) };
    let view = async |target: &NodeTarget, term| {
        scene.client.call(target, MasterView {}, meta(term)).await.unwrap()
    };
    let cluster_uuid = Uuid::from_u128(7);
    let enrolled = MasterViewed { obeys: epoch(1), master: None, cluster_uuid };
    // Asking is not calling: a higher epoch is not obeyed for it.
    assert_eq!(view(&target, 9).await, enrolled);
    let delay = TestDelay { seconds: 0.0 };
    scene.client.call(&scene.target(&daemon), delay.clone(), meta(1)).await.unwrap();
    assert_eq!(view(&target, 0).await, MasterViewed { master: Some(name("n1")), ..enrolled });
    scene.client.call(&scene.target(&daemon), delay, meta(5)).await.unwrap();
    daemon.stop().await.unwrap();
    let daemon = scene.start().await;
    let seen = view(&scene.target(&daemon), 2).await;
    assert_eq!((seen.obeys, seen.master), (epoch(5), Some(name("n1"))));
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn the_allow_list_is_obeyed_after_a_restart() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let other = Arc::new(scene.authority.issue(&name("n3"), &[], now()).unwrap());
    let list = |epoch, callers| SetAllowList { list: AllowList { epoch, callers } };
    let target = scene.target(&daemon);
    for bad in [list(epoch(1), Vec::new()), list(epoch(0), vec![caller(&other)])] {
        let refused = scene.client.call(&target, bad, meta(1)).await;
        assert!(matches!(refused, Err(RpcError::Failed { kind: FailureKind::Failed, .. })));
    }
    let replace = list(epoch(1), vec![caller(&other)]);
    scene.client.call(&target, replace, meta(1)).await.unwrap();
    daemon.stop().await.unwrap();
    let daemon = scene.start().await;
    let target = scene.target(&daemon);
    let client = Client::new(other, Tasks::new());
    client.call(&target, Version {}, meta(1)).await.unwrap();
    let refused = scene.client.call(&target, Version {}, meta(1)).await;
    assert!(matches!(refused, Err(RpcError::Refused { .. })), "{refused:?}");
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_leaves_only_its_own_cluster() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    scene.push(&daemon, 1).await;
    let target = scene.target(&daemon);
    let wrong = Leave { cluster_uuid: Uuid::from_u128(8) };
    assert!(scene.client.call(&target, wrong, meta(1)).await.is_err());
    let right = Leave { cluster_uuid: Uuid::from_u128(7) };
    let layout = Layout::new(scene.dir.path());
    // Nor does one that holds the store.
    let held = layout.data().join(model::document::CLUSTER);
    std::fs::create_dir_all(held.parent().unwrap()).unwrap();
    stdx::atomic::write(&held, b"{}", 0o600).unwrap();
    assert!(scene.client.call(&target, right.clone(), meta(1)).await.is_err());
    std::fs::remove_file(held).unwrap();
    scene.client.call(&target, right, meta(1)).await.unwrap();
    daemon.left().await;
    assert!(fetch(&daemon, "/api/v1/boot/ipxe/S1").await.starts_with("HTTP/1.1 404"));
    daemon.stop().await.unwrap();
    let error = Daemon::start(scene.settings()).await.unwrap_err();
    assert!(chain(&error).contains("noded enroll"), "{}", chain(&error));
}

#[tokio::test]
async fn a_second_agent_on_the_same_root_is_refused() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let error = Daemon::start(scene.settings()).await.unwrap_err();
    assert!(chain(&error).contains("another noded"), "{}", chain(&error));
    let taken = Settings { rpc: daemon.rpc_address(), ..scene.settings() };
    let error = Daemon::start(taken).await.unwrap_err();
    assert!(chain(&error).contains("is another program"), "{}", chain(&error));
    assert_eq!(error.code(), Some(Code::AlreadyRunning));
    // An address that no interface can have is nobody else's.
    let rpc = "[fe80::1%99]:0".parse().unwrap();
    let error = Daemon::start(Settings { rpc, ..scene.settings() }).await.unwrap_err();
    assert!(matches!(error, DaemonError::Listen(_)) && error.code().is_none(), "{error:?}");
    // The first one does not notice.
    scene.push(&daemon, 1).await;
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_that_the_machine_lacks_is_waited_for_and_told() {
    let scene = Scene::new();
    // One of documentation, which no machine has.
    let boot = "192.0.2.77:0".parse().unwrap();
    let daemon = Daemon::start(Settings { boot, ..scene.settings() }).await.unwrap();
    assert_eq!(daemon.boot_address().ip().to_string(), "192.0.2.77");
    let told = async {
        loop {
            let troubles = scene.exchange(&daemon, (None, 0), 100).await.unwrap().faults;
            if let Some(fault) = troubles.into_iter().next() {
                return fault.text;
            }
        }
    };
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), told).await.unwrap();
    assert!(
        told.contains("has the address 192.0.2.77") && told.contains("`--boot-address`"),
        "{told}"
    );
    daemon.stop().await.unwrap();
}

#[tokio::test]
async fn calls_of_all_kinds_are_answered() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let target = scene.target(&daemon);
    let facts = scene.client.call(&target, Facts {}, meta(1)).await.unwrap();
    assert!(facts.cpus > 0);
    for seconds in [-1.0, 1e9] {
        let refused = scene.client.call(&target, TestDelay { seconds }, meta(1)).await;
        assert!(matches!(refused, Err(RpcError::Failed { kind: FailureKind::Malformed, .. })));
    }
    let mut foreign = rack(1, 1);
    foreign.cluster_name = name("elsewhere");
    let push = RackPush { base: None, document: foreign };
    let refused = scene.client.call(&target, push, meta(1)).await.unwrap_err();
    assert!(refused.to_string().contains("elsewhere"), "{refused}");
    assert_eq!(scene.master.name(), &name("n1"));
    daemon.stop().await.unwrap();
}

/// Restarts nothing, and counts.
#[derive(Debug, Default)]
struct Recorded(std::sync::atomic::AtomicU32);

impl Powercycle for Recorded {
    fn schedule(&self) -> Result<std::time::Duration, crate::powercycle::PowercycleError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(crate::powercycle::DELAY)
    }
}

#[tokio::test]
async fn a_machine_is_restarted_where_that_is_allowed() {
    let scene = Scene::new();
    let daemon = scene.start().await;
    let target = scene.target(&daemon);
    let refused = scene.client.call(&target, rpc::calls::Powercycle {}, meta(1));
    let refused = refused.await.unwrap_err().to_string();
    assert!(refused.contains("--allow-powercycle"), "{refused}");
    daemon.stop().await.unwrap();
    let recorded = Arc::new(Recorded::default());
    let powercycle = Arc::clone(&recorded) as Arc<dyn Powercycle>;
    let daemon = Daemon::start(Settings { powercycle, ..scene.settings() }).await.unwrap();
    let target = scene.target(&daemon);
    let answer = scene.client.call(&target, rpc::calls::Powercycle {}, meta(2)).await.unwrap();
    assert!((answer.seconds - 5.0).abs() < f64::EPSILON, "{answer:?}");
    // Not by a master of before.
    assert!(scene.client.call(&target, rpc::calls::Powercycle {}, meta(1)).await.is_err());
    assert_eq!(recorded.0.load(std::sync::atomic::Ordering::Relaxed), 1);
    daemon.stop().await.unwrap();
}
