//! Asking over real connections: agents and other members' `masterd` on loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use engine::{Engine, EngineOptions};
use model::Timestamp;
use model::node::{Member, NodeRole};
use queue_format::{Position, StoreOptions};
use rpc::calls::{AllowList, Caller, MasterViewed};
use rpc::fence::{EpochStore, Fence, HoldError, Obeyed};
use rpc::identity::{Authority, NodeIdentity};
use rpc::peer::control::{PeerRole, PeerState};
use rpc::peer::{PeerLimits, PeerServer, StoreId};
use rpc::server::{Limits, Server};
use rpc::service::{Agent, AgentService, CallContext};
use rpc::tls::{AllowedCallers, server_config};
use rpc::{Answer, Failure, Request, answer};
use stdx::{Clock, Tasks};
use tokio::net::TcpListener;

use super::*;
use crate::agents::metrics::Metrics;
use crate::role::local_member::{LocalMember, MemberState};
use crate::testing::{self, Nobody};
use membership::amnesia::Found;
use membership::confirm::{Decision, Reason, confirm};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const CLUSTER: Uuid = Uuid::from_u128(7);
const EPOCH: Epoch = Epoch { term: 2, node: 11 };

/// Nobody waits as long as that.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// An agent that knows one call.
struct Knows(NodeName);

impl Agent for Knows {
    async fn call(&self, request: Request, _: CallContext) -> Answer {
        let Request::MasterView(call) = request else { return Err(Failure::failed("not asked")) };
        let master = Some(self.0.clone());
        let view = MasterViewed { obeys: EPOCH, master, cluster_uuid: CLUSTER };
        answer(call, |_| std::future::ready(Ok(view))).await
    }
}

struct NoDisk;

impl EpochStore for NoDisk {
    async fn hold(&self, _: &Obeyed) -> Result<(), HoldError> {
        Ok(())
    }
}

fn now() -> Timestamp {
    Timestamp::from_micros(Clock::system().now_micros())
}

fn authority(cluster: &str) -> Authority {
    Authority::create(&cluster.parse().unwrap(), now()).unwrap()
}

/// A cluster whose node n1 asks.
struct Scene {
    authority: Authority,
    me: Arc<NodeIdentity>,
    allowed: AllowedCallers,
    agents: Vec<Server<AgentService<Knows, NoDisk>>>,
    members: Vec<PeerServer<LocalMember>>,
    nodes: Vec<Node>,
    metrics: Arc<Metrics>,
}

impl Scene {
    fn new() -> Self {
        let authority = authority("c1");
        let me = Arc::new(issue(&authority, "n1.example"));
        let caller = Caller { name: me.name().clone(), fingerprint: me.fingerprint() };
        let allowed = AllowedCallers::new(AllowList { epoch: EPOCH, callers: vec![caller] });
        let (agents, members, nodes) = (Vec::new(), Vec::new(), Vec::new());
        Self { authority, me, allowed, agents, members, nodes, metrics: Arc::default() }
    }

    /// A node whose agent answers as `identity`, and is known by its certificate; `member` is its
    /// `masterd`, outside.
    async fn add(&mut self, identity: NodeIdentity, member: Option<u64>) {
        let listen = async || TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let fence = Fence::new(NoDisk, EPOCH.into());
        let agent = Arc::new(Knows(self.me.name().clone()));
        let service = AgentService::new(agent, fence, self.allowed.clone());
        let tls = server_config(&identity, self.allowed.clone()).unwrap();
        let server = Server::start(listen().await, tls, service, Limits::default()).unwrap();
        let mut node = testing::node(identity.name().as_str(), NodeRole::Candidate);
        node.primary_ip = LOCALHOST;
        node.rpc_port = server.address().port();
        node.fingerprint = identity.fingerprint();
        self.agents.push(server);
        if let Some(id) = member {
            node.member = Some(Member {
                id,
                incarnation: Some(Uuid::from_u128(id.into())),
                acknowledged: None,
            });
            let identity = Arc::new(identity);
            let me = (identity.name().clone(), CLUSTER);
            let book = PeerBook::new(Arc::clone(&identity), CLUSTER);
            let (local, _errands) = LocalMember::new(me, book, std::env::temp_dir());
            let (allowed, limits) = (self.allowed.clone(), PeerLimits::default());
            let server =
                PeerServer::start(listen().await, &identity, allowed, local, limits).unwrap();
            node.peer_port = server.address().port();
            self.members.push(server);
        }
        self.nodes.push(node);
    }

    /// A node where nothing listens.
    async fn add_dead(&mut self, name: &str) -> SocketAddr {
        let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let mut node = testing::node(name, NodeRole::Offline);
        node.primary_ip = LOCALHOST;
        node.rpc_port = listener.local_addr().unwrap().port();
        let address = node.rpc_address();
        self.nodes.push(node);
        address
    }

    fn asker(&self) -> Asker {
        let client = Client::new(Arc::clone(&self.me), Tasks::new());
        let book = PeerBook::new(Arc::clone(&self.me), CLUSTER);
        Asker::new(self.me.name().clone(), CLUSTER, (client, book), Arc::clone(&self.metrics))
    }

    async fn ask(&self, own: &PeerPosition) -> Question {
        self.ask_as(self.asker(), own).await
    }

    async fn ask_as(&self, asker: Asker, own: &PeerPosition) -> Question {
        let config = testing::config(&self.nodes);
        let question = ask(&asker, &config, Attempt::Start, Waivers::default(), own).await;
        asker.agents.close().await;
        question
    }
}

fn issue(authority: &Authority, name: &str) -> NodeIdentity {
    authority.issue(&name.parse().unwrap(), &[LOCALHOST], now()).unwrap()
}

/// The position of member 11 on n1, which votes alone.
fn own() -> PeerPosition {
    let last = Position { epoch: EPOCH, index: 9 };
    let master: NodeName = "n1.example".parse().unwrap();
    PeerPosition {
        member: Some(11),
        incarnation: Some(Uuid::from_u128(11)),
        node: master.clone(),
        last,
        committed: last,
        epoch: EPOCH,
        leader: None,
        voters: vec![11],
        changing: Vec::new(),
        learners: vec![12],
        role: Some(PeerRole { master, epoch: EPOCH }),
        leads: false,
        disk_full: false,
        state: PeerState::Standby,
        disk_free_mib: 100,
        last_job: None,
    }
}

fn page(metrics: &Metrics) -> String {
    let mut page = stdx::metrics::Page::new(crate::agents::metrics::FAMILIES);
    metrics.show(&mut page);
    page.text()
}

#[tokio::test]
async fn everyone_is_asked_and_every_answer_is_in_its_place() {
    let mut scene = Scene::new();
    scene.add(issue(&scene.authority, "n1.example"), Some(11)).await;
    scene.add(issue(&scene.authority, "n2.example"), Some(12)).await;
    scene.add(issue(&authority("c2"), "n3.example"), None).await;
    let dead = scene.add_dead("n4.example").await;
    let question = scene.ask(&own()).await;
    let master: NodeName = "n1.example".parse().unwrap();
    assert_eq!((&question.taker, question.next_member), (&master, 10));
    let [one, two, three, four] = question.nodes.as_slice() else { panic!("{question:?}") };
    let agent = Ok(AgentSays { obeys: EPOCH, master: Some(master) });
    assert_eq!((&one.agent, &two.agent), (&agent, &agent));
    // Its own store is not asked over the network: there it would be outside.
    let store = |asked: &Asked| asked.store.clone().unwrap().unwrap();
    assert_eq!(store(one), answers::says(&own()));
    assert_eq!(store(two).found, Found::Nothing);
    assert!(matches!(three.agent, Err(Silence::AnotherCluster { .. })), "{three:?}");
    assert_eq!((&three.store, &four.store), (&None, &None));
    let Err(Silence::Unreachable { why }) = &four.agent else { panic!("{four:?}") };
    assert!(why.starts_with(&format!("its agent at {dead}: ")), "{why}");

    let page = page(&scene.metrics);
    for line in [
        r#"gantry_rpc_seconds_count{call="master_view"} 4"#,
        r#"gantry_rpc_failures_total{call="master_view",reason="unreachable"} 1"#,
        r#"gantry_peer_seconds_count{question="position"} 1"#,
        r#"gantry_peer_failures_total{question="position",reason="lost"} 0"#,
    ] {
        assert!(page.contains(line), "no {line} in {page}");
    }

    let verdict = confirm(&question);
    // n1 and n2 of three: n4 is offline.
    assert_eq!(verdict.nodes.to_string(), "2 of 3");
    assert_eq!((verdict.voters.to_string().as_str(), &verdict.decision), ("1 of 1", &Decision::Go));
    let reason = |at: usize| verdict.rows[at].reason.clone();
    assert!(reason(0).is_none() && matches!(reason(1), Some(Reason::Forgetful { .. })));
    assert!(matches!(reason(2), Some(Reason::AnotherCluster { .. })));
}

#[tokio::test]
async fn who_does_not_know_this_node_says_so() {
    let mut scene = Scene::new();
    scene.add(issue(&scene.authority, "n1.example"), Some(11)).await;
    scene.add(issue(&scene.authority, "n2.example"), Some(12)).await;
    let other = issue(&scene.authority, "n9.example");
    let caller = Caller { name: other.name().clone(), fingerprint: other.fingerprint() };
    scene.allowed.replace(AllowList { epoch: EPOCH, callers: vec![caller] });
    let question = scene.ask(&own()).await;
    let refused = |asked: &Asked| {
        let store = asked.store.as_ref().unwrap();
        let by_store = matches!(store, Err(Silence::Refused { .. }));
        matches!(asked.agent, Err(Silence::Refused { .. })) && by_store
    };
    assert!(refused(&question.nodes[1]), "{question:?}");
    assert!(question.nodes[0].store.as_ref().unwrap().is_ok());
}

#[tokio::test]
async fn of_who_is_to_be_ignored_the_store_alone_is_asked() {
    let mut scene = Scene::new();
    scene.add(issue(&scene.authority, "n1.example"), Some(11)).await;
    scene.add(issue(&scene.authority, "n2.example"), Some(12)).await;
    let config = testing::config(&scene.nodes);
    let ignored = Waivers { ignored: ["n2.example".parse().unwrap()].into(), ..Waivers::default() };
    let _asked = ask(&scene.asker(), &config, Attempt::Failover, ignored, &own()).await;
    let page = page(&scene.metrics);
    assert!(page.contains(r#"gantry_rpc_seconds_count{call="master_view"} 1"#), "{page}");
    assert!(page.contains(r#"gantry_peer_seconds_count{question="position"} 1"#), "{page}");
}

#[tokio::test]
async fn who_opens_its_store_anew_is_asked_again() {
    let mut scene = Scene::new();
    scene.add(issue(&scene.authority, "n1.example"), Some(11)).await;
    scene.add(issue(&scene.authority, "n2.example"), Some(12)).await;
    let dir = tempfile::tempdir().unwrap();
    let store = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
    let options = EngineOptions::new(12, "n2.example", store);
    let (engine, _news) = Engine::open(dir.path(), options, Arc::new(Nobody)).await.unwrap();
    engine.close().await.unwrap();
    let here = StoreId::new(12, engine.recovered().incarnation);
    let local = scene.members[1].service();
    local.set_state(MemberState::Standby(Arc::new(engine)), here);
    let metrics = Arc::clone(&scene.metrics);
    let anew = async {
        let not_now = r#"gantry_peer_failures_total{question="position",reason="failed"} 0"#;
        while page(&metrics).contains(not_now) {
            tokio::task::yield_now().await;
        }
        local.set_state(MemberState::Outside, StoreId::NONE);
    };
    let asker = Asker { limit: FOR_EVER, ..scene.asker() };
    let own = own();
    let (question, ()) = tokio::join!(scene.ask_as(asker, &own), anew);
    let says = question.nodes[1].store.clone().unwrap().unwrap();
    assert_eq!(says.found, Found::Nothing);
}

#[tokio::test]
async fn where_enough_have_answered_nobody_is_waited_for() {
    let mut scene = Scene::new();
    scene.add(issue(&scene.authority, "n1.example"), Some(11)).await;
    scene.add(issue(&scene.authority, "n2.example"), None).await;
    let _dead = scene.add_dead("n3.example").await;
    // It takes the connection and says nothing.
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    scene.nodes[2].rpc_port = listener.local_addr().unwrap().port();
    scene.nodes[2].role = NodeRole::Regular;
    let asker = Asker { limit: FOR_EVER, patience: Duration::ZERO, ..scene.asker() };
    let question = scene.ask_as(asker, &own()).await;
    assert!(question.nodes[..2].iter().all(|node| node.agent.is_ok()), "{question:?}");
    assert_eq!(question.nodes[2].agent, Err(answers::late(Duration::ZERO)));
    assert_eq!(confirm(&question).decision, Decision::Go);
}
