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
use stdx::{Clock, Tasks};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use super::super::client::{Client, Excuse};
use super::super::oracle::Oracle;
use super::super::{CLIENTS, Daemon, ground};
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
    let me: NodeName = format!("n{}.example", begin.id).parse().unwrap();
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
    let daemon = Daemon::start(master, &ground().layout, ground().keys(), &begin.clock);
    seen.reigns.store(true, Ordering::Relaxed);
    let around = Tasks::new();
    around.spawn("majority", hear(commits, epoch));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let served = (Arc::clone(&daemon.service), Arc::clone(&begin.oracle), epoch);
        let quiet = Arc::clone(&begin.quiet);
        clients.spawn(come(number, served, branch(&mut begin.chance), quiet));
    }
    let served = (Arc::clone(&daemon.service), Arc::clone(&begin.oracle), epoch);
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

type Served = (Arc<LuxiService>, Arc<Mutex<Oracle>>, Epoch);

/// Clients, one after the other.
async fn come(number: usize, served: Served, mut chance: Chance, quiet: Arc<AtomicBool>) {
    let (service, oracle, epoch) = served;
    while !quiet.load(Ordering::Relaxed) {
        let told = (Arc::clone(&oracle), Excuse::Reign);
        let client = Client::new(number, Arc::clone(&service), branch(&mut chance), told);
        client.of(epoch).run().await;
        let micros = u64::try_from(chance.below(500_000)).unwrap();
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

/// When no more clients come, all jobs end.
async fn end_jobs(served: Served, published: Arc<Published>) {
    let (service, oracle, epoch) = served;
    let client = Client::new(0, service, Chance::new(0), (oracle, Excuse::Reign)).of(epoch);
    client.drain(false).await;
    while published.jobs.any(|job| !job.status().is_final()) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
