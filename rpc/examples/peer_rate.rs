//! How fast members ask each other: round trips over loopback, with TLS, one at a time.
//!
//! `cargo run --release -p rpc --example peer_rate [SECONDS]`
#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use uuid::Uuid;

use model::role_check::RoleTaken;
use model::{NodeName, Timestamp};
use rpc::calls::{AllowList, Caller};
use rpc::identity::Authority;
use rpc::peer::control::{
    AskDigest, AskPosition, Join, Joined, LeadAndHandOver, PeerDigest, PeerPosition, Purge,
    TakeOver,
};
use rpc::peer::{
    ControlService, EngineService, Gate, Hello, Here, PeerClient, PeerFailure, PeerLimits,
    PeerRefusal, PeerServer, PeerTarget, StoreId,
};
use rpc::tls::AllowedCallers;
use stdx::Clock;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const CLUSTER: Uuid = Uuid::from_u128(7);
/// Time for one answer: far above any.
const LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a question: an append of one small job, and a large one.
const SIZES: [usize; 2] = [1_500, 64 * 1024];
/// Bytes of an answer: what an append is acknowledged by.
const ANSWER: &[u8] = &[7; 40];

/// Acknowledges whatever comes.
#[derive(Debug)]
struct Follower;

impl Gate for Follower {
    fn admit(&self, hello: &Hello) -> Result<(), PeerRefusal> {
        let store = StoreId::new(2, Uuid::from_u128(2));
        hello.check(&Here { cluster_uuid: CLUSTER, store, last: Default::default() })
    }
}

impl EngineService for Follower {
    async fn answer(&self, _: &Hello, _: u8, _: Bytes) -> Result<Bytes, PeerFailure> {
        Ok(Bytes::from_static(ANSWER))
    }
}

fn not_here<T>() -> Result<T, PeerFailure> {
    Err(PeerFailure::not_now("there is no member here"))
}

impl ControlService for Follower {
    async fn position(&self, _: &Hello, _: AskPosition) -> Result<PeerPosition, PeerFailure> {
        not_here()
    }

    async fn join(&self, _: &Hello, _: Join) -> Result<Joined, PeerFailure> {
        not_here()
    }

    async fn purge(&self, _: &Hello, _: Purge) -> Result<(), PeerFailure> {
        not_here()
    }

    async fn lead_and_hand_over(&self, _: &Hello, _: LeadAndHandOver) -> Result<(), PeerFailure> {
        not_here()
    }

    async fn take_over(&self, _: &Hello, _: TakeOver) -> Result<RoleTaken, PeerFailure> {
        not_here()
    }

    async fn digest(&self, _: &Hello, _: AskDigest) -> Result<PeerDigest, PeerFailure> {
        not_here()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    // A runtime for each side, as if they were two programs.
    let (there, here) = (Runtime::new()?, Runtime::new()?);
    let now = Timestamp::from_micros(Clock::system().now_micros());
    let name = |text: &str| text.parse::<NodeName>();
    let authority = Authority::create(&name("cluster")?, now)?;
    let master = authority.issue(&name("n1")?, &[LOCALHOST], now)?;
    let follower = authority.issue(&name("n2")?, &[LOCALHOST], now)?;
    let caller = Caller { name: name("n1")?, fingerprint: master.fingerprint() };
    let list = AllowList { callers: vec![caller], ..AllowList::default() };
    let server = there.block_on(async {
        let listener = TcpListener::bind((LOCALHOST, 0)).await?;
        let (allowed, limits) = (AllowedCallers::new(list), PeerLimits::default());
        let server = PeerServer::start(listener, &follower, allowed, Follower, limits)?;
        Ok::<_, Box<dyn Error>>(server)
    })?;
    let target = PeerTarget {
        name: name("n2")?,
        address: server.address(),
        fingerprint: Some(follower.fingerprint()),
        renewing: None,
    };
    let client = PeerClient::new(&master, CLUSTER, target)?;
    for size in SIZES {
        let (client, time) = (client.clone(), Duration::from_secs(seconds));
        // From a task, as the engine asks.
        let mut set = tokio::task::JoinSet::new();
        set.spawn_on(async move { measure(&client, size, time).await }, here.handle());
        let mut nanos = here.block_on(set.join_next()).ok_or("no task")???;
        nanos.sort_unstable();
        let rate = u128::try_from(nanos.len())? * 1_000_000_000 / nanos.iter().sum::<u128>();
        let [p50, p99] = [50, 99].map(|part| nanos[nanos.len() * part / 100] / 1_000);
        println!("{size:>6} bytes: {rate:>6} round trips/s, p50 {p50} us, p99 {p99} us");
    }
    there.block_on(server.stop());
    Ok(())
}

/// Nanoseconds of each round trip.
async fn measure(
    client: &PeerClient,
    size: usize,
    time: Duration,
) -> Result<Vec<u128>, rpc::peer::PeerError> {
    let store = |member| StoreId::new(member, Uuid::from_u128(member.into()));
    let mut link = client.engine(store(1), store(2));
    let body = vec![42; size];
    // An append is a head and entries.
    let (head, entries) = body.split_at(64);
    link.ask(1, &[head, entries], LIMIT).await?;
    let (mut taken, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < time {
        let asked = Instant::now();
        link.ask(1, &[head, entries], LIMIT).await?;
        taken.push(asked.elapsed().as_nanos());
    }
    Ok(taken)
}
