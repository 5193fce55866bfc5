//! One member's process: the daemon as it lives on a machine, from standby to master and back, and
//! clients of each leadership.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::simulation::{Node, branch};
use engine::{Committed, Engine};
use model::role_check::RoleRequest;
use parking_lot::Mutex;
use queue_format::Epoch;
use queue_format::simulation::Chance;
use rpc::simulation::Network;
use stdx::{Clock, Tasks};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::super::client::{Client, Excuse};
use super::super::oracle::Oracle;
use super::super::{CLIENTS, ground};
use super::nodes;
use crate::door::service::LuxiService;
use crate::health::status::MasterView;
use crate::process::leadership::Keys;
use crate::process::simulated::{self, Seen};
use crate::role::load;

/// How often is looked whether there is a leadership, and whether jobs have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long opcodes may go on that run when the role is handed over.
const DRAIN_SECONDS: u32 = 3;

/// The parameters with which a process begins.
pub(super) struct Begin {
    pub(super) id: u64,
    /// How many there are.
    pub(super) nodes: u64,
    pub(super) network: Network,
    pub(super) clock: Clock,
    pub(super) oracle: Arc<Mutex<Oracle>>,
    pub(super) chance: Chance,
    pub(super) quiet: Arc<AtomicBool>,
    /// Whether the cluster is there.
    pub(super) founded: bool,
}

/// A process as seen from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    wanted: Arc<Notify>,
    leads: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Process {
    pub(super) fn begin(
        begin: Begin,
        node: &Node,
        engine: &Arc<Engine>,
        mut news: mpsc::Receiver<Committed>,
    ) -> Self {
        let process = Self::default();
        if !begin.founded {
            node.spawn(async move { while news.recv().await.is_some() {} });
            return process;
        }
        let (engine, flags) = (Arc::clone(engine), process.clone());
        node.spawn(async move {
            let Keys { membership, .. } = nodes::keys(begin.id, &begin.network);
            let daemon = simulated::Begin {
                layout: ground().layout.clone(),
                clock: begin.clock.clone(),
                identity: nodes::identity(begin.id, &begin.network),
                membership,
                listener: begin.network.host(nodes::address(begin.id)).listen(nodes::PEER_PORT),
            };
            let (seen, life) = simulated::live(daemon, engine, news);
            let around = Tasks::new();
            around.spawn("failovers", fail_over(seen.clone(), Arc::clone(&flags.wanted)));
            around.spawn("clients", serve(begin, seen, flags.clone()));
            let ended = life.await;
            tracing::info!(?ended, "the daemon ended");
            around.shutdown().await;
            flags.leads.store(false, Ordering::Relaxed);
            flags.ended.store(true, Ordering::Relaxed);
        });
        process
    }

    /// Has it take the role, as a failover command does.
    pub(super) fn take_role(&self) {
        self.wanted.notify_one();
    }

    pub(super) fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// It has ended by itself, and has to begin anew.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Its jobs have ended, and nobody submits more.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

/// Has it take the role whenever that is wanted.
async fn fail_over(seen: Seen, wanted: Arc<Notify>) {
    loop {
        wanted.notified().await;
        seen.fail_over(RoleRequest { drain_seconds: DRAIN_SECONDS, ..RoleRequest::default() })
            .await;
    }
}

/// Waits until there is a leadership other than that of `before`, or none if there was one.
async fn other_leadership(seen: &Seen, before: Option<Epoch>) -> Option<Arc<MasterView>> {
    loop {
        let master = seen.master();
        if master.as_ref().map(|master| epoch(master)) != before {
            return master;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn epoch(master: &MasterView) -> Epoch {
    let role = &master.published.snapshot().config.role;
    Epoch { term: role.term, node: role.node }
}

/// Clients of one leadership after the other.
async fn serve(mut begin: Begin, seen: Seen, flags: Process) {
    let mut next = None;
    loop {
        let master = match next.take() {
            Some(master) => master,
            None => match other_leadership(&seen, None).await {
                Some(master) => master,
                None => continue,
            },
        };
        let Some(service) = seen.service() else { continue };
        let epoch = epoch(&master);
        let reader = master.commits.reader();
        // A disk that has come to its end ends the process, too.
        let Ok(found) = load::load(&reader) else { return };
        begin.oracle.lock().begin_leadership(epoch, &found, &reader);
        flags.leads.store(true, Ordering::Relaxed);
        let around = Tasks::new();
        around.spawn(
            "clients",
            be_clients(&mut begin, (service, &master), epoch, Arc::clone(&flags.done)),
        );
        drop(master);
        next = other_leadership(&seen, Some(epoch)).await;
        flags.leads.store(false, Ordering::Relaxed);
        around.shutdown().await;
        flags.done.store(false, Ordering::Relaxed);
    }
}

fn be_clients(
    begin: &mut Begin,
    (service, master): (LuxiService, &Arc<MasterView>),
    epoch: Epoch,
    done: Arc<AtomicBool>,
) -> impl Future<Output = ()> + use<> {
    let served = || Served {
        service: Arc::new(service.clone()),
        master: Arc::clone(master),
        oracle: Arc::clone(&begin.oracle),
        epoch,
        nodes: begin.nodes,
    };
    let mut clients = JoinSet::new();
    let all: Vec<_> = (0..CLIENTS).map(|number| (number, served())).collect();
    let last = served();
    for (number, served) in all {
        clients.spawn(come(number, served, branch(&mut begin.chance), Arc::clone(&begin.quiet)));
    }
    async move {
        clients.join_all().await;
        end_jobs(last).await;
        done.store(true, Ordering::Relaxed);
    }
}

/// The service of a leadership for its clients, and the oracle of their answers.
struct Served {
    service: Arc<LuxiService>,
    master: Arc<MasterView>,
    oracle: Arc<Mutex<Oracle>>,
    epoch: Epoch,
    nodes: u64,
}

impl Served {
    fn client(&self, number: usize, chance: Chance) -> Client {
        let told = (Arc::clone(&self.oracle), Excuse::Leadership);
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
async fn end_jobs(served: Served) {
    served.client(0, Chance::new(0)).drain(false).await;
    while served.master.published.jobs.any(|job| !job.status().is_final()) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
