//! One member's process: follows, takes the role when it is told to, reigns until another does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::simulation::{Node, branch};
use engine::{Committed, Engine};
use model::NodeName;
use parking_lot::Mutex;
use queue_format::Epoch;
use queue_format::simulation::Chance;
use rpc::simulation::Network;
use stdx::{Clock, Tasks};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use super::super::client::{Client, Excuse};
use super::super::oracle::Oracle;
use super::super::{CLIENTS, Daemon, ground};
use super::nodes;
use crate::commits::Commits;
use crate::daemon::load::{self, Found};
use crate::daemon::reign::{self, Publisher};
use crate::daemon::{DaemonError, replicate};
use crate::luxi_service::LuxiService;
use crate::majority;
use crate::writer::publish::Published;

/// How long an election may take.
const ELECTION: Duration = Duration::from_secs(4);
/// How often is looked whether the majority is heard, and whether jobs have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a process begins with.
pub(super) struct Begin {
    pub(super) id: u64,
    /// How many there are.
    pub(super) nodes: u64,
    pub(super) network: Network,
    pub(super) clock: Clock,
    pub(super) oracle: Arc<Mutex<Oracle>>,
    pub(super) chance: Chance,
    pub(super) quiet: Arc<AtomicBool>,
}

/// What is seen of it from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    wanted: Arc<Notify>,
    reigns: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    to_reopen: Arc<AtomicBool>,
}

impl Process {
    pub(super) fn begin(
        begin: Begin,
        node: &Node,
        engine: &Arc<Engine>,
        mut news: mpsc::Receiver<Committed>,
    ) -> Self {
        let process = Self::default();
        node.spawn(async move { while news.recv().await.is_some() {} });
        let (engine, seen) = (Arc::clone(engine), process.clone());
        node.spawn(live(begin, engine, seen));
        process
    }

    /// Has it take the role, as a failover command does.
    pub(super) fn take_role(&self) {
        self.wanted.notify_one();
    }

    pub(super) fn reigns(&self) -> bool {
        self.reigns.load(Ordering::Relaxed)
    }

    /// It leads without a reign, and has to begin anew.
    pub(super) fn is_to_reopen(&self) -> bool {
        self.to_reopen.load(Ordering::Relaxed)
    }

    /// Its jobs have ended, and nobody submits more.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

async fn live(mut begin: Begin, engine: Arc<Engine>, seen: Process) {
    loop {
        seen.wanted.notified().await;
        if let Ok(epoch) = engine.take_over(ELECTION).await {
            reign(&mut begin, &engine, epoch, &seen).await;
            seen.reigns.store(false, Ordering::Relaxed);
            seen.done.store(false, Ordering::Relaxed);
        }
        seen.to_reopen.store(engine.leads().is_some(), Ordering::Relaxed);
    }
}

/// From the election to the end of the reign.
async fn reign(begin: &mut Begin, engine: &Arc<Engine>, epoch: Epoch, seen: &Process) {
    let reader = engine.reader();
    let found = || load::load(&reader);
    // Who was just invited has nothing yet.
    let (Ok(found), Ok(before)) = (found(), found()) else { return };
    let me = nodes::name(begin.id);
    let (ended, mut end) = watch::channel(None);
    let tasks = Tasks::new();
    let start = |publisher: Publisher| {
        let led = replicate::propose(Arc::clone(engine), epoch, publisher, &tasks, ended);
        Ok(Commits::replicated(led.0, led.1))
    };
    let position = engine.position();
    let role = (found, reader.clone(), position, me, epoch);
    let master = match take_role(role, &begin.clock, start).await {
        Ok(master) => master,
        Err(DaemonError::RoleLost | DaemonError::Refused(_)) => return tasks.shutdown().await,
        Err(error) => panic!("the role cannot be taken: {error:?}"),
    };
    begin.oracle.lock().begin_reign(epoch, &before, &reader);
    let commits = Arc::clone(&master.commits);
    let keys = nodes::keys(begin.id, &begin.network);
    let daemon = Daemon::start(master, &ground().layout, keys, &begin.clock);
    seen.reigns.store(true, Ordering::Relaxed);
    let around = Tasks::new();
    around.spawn("majority", hear(commits, epoch));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let served = Served::of(&daemon, begin, epoch);
        let quiet = Arc::clone(&begin.quiet);
        clients.spawn(come(number, served, branch(&mut begin.chance), quiet));
    }
    let served = Served::of(&daemon, begin, epoch);
    let (published, done) = (Arc::clone(&daemon.published), Arc::clone(&seen.done));
    around.spawn("clients", async move {
        clients.join_all().await;
        end_jobs(served, published).await;
        done.store(true, Ordering::Relaxed);
    });
    tokio::select! {
        biased;
        _ended = end.wait_for(Option::is_some) => {}
        _leads = until_led(engine, epoch) => {}
    }
    seen.reigns.store(false, Ordering::Relaxed);
    around.shutdown().await;
    daemon.abandon().await;
    tasks.shutdown().await;
}

type Role = (Found, queue_format::Reader, queue_format::Position, NodeName, Epoch);

async fn take_role(
    (found, reader, position, me, epoch): Role,
    clock: &Clock,
    start: impl FnOnce(Publisher) -> Result<Commits, queue_format::StartError>,
) -> Result<reign::Master, DaemonError> {
    let metrics = Arc::default();
    let begin = reign::Begin { found, reader, position, me, epoch, metrics, adopt: None };
    reign::take_role(begin, clock, start).await
}

async fn until_led(engine: &Engine, epoch: Epoch) {
    while engine.leads_otherwise(Some(epoch)).await == Some(epoch) {}
}

/// Notes how long the majority has been silent.
async fn hear(commits: Arc<Commits>, epoch: Epoch) {
    loop {
        commits.majority().set_silence_ms(majority::silence_ms(&commits, epoch));
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What clients of a reign ask, and tell.
struct Served {
    service: Arc<LuxiService>,
    oracle: Arc<Mutex<Oracle>>,
    epoch: Epoch,
    nodes: u64,
}

impl Served {
    fn of(daemon: &Daemon, begin: &Begin, epoch: Epoch) -> Self {
        let (service, oracle) = (Arc::clone(&daemon.service), Arc::clone(&begin.oracle));
        Self { service, oracle, epoch, nodes: begin.nodes }
    }

    fn client(&self, number: usize, chance: Chance) -> Client {
        let told = (Arc::clone(&self.oracle), Excuse::Reign);
        let client = Client::new(number, Arc::clone(&self.service), chance, told);
        client.of(self.epoch, self.nodes)
    }
}

/// Clients, one after the other.
async fn come(number: usize, served: Served, mut chance: Chance, quiet: Arc<AtomicBool>) {
    while !quiet.load(Ordering::Relaxed) {
        served.client(number, branch(&mut chance)).run().await;
        let micros = u64::try_from(chance.below(500_000)).unwrap();
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

/// When no more clients come, all jobs end.
async fn end_jobs(served: Served, published: Arc<Published>) {
    served.client(0, Chance::new(0)).drain(false).await;
    while published.jobs.any(|job| !job.status().is_final()) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
