//! One leadership: from the role entry to the end of the role, or of the process.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::cluster::Role;
use model::layout::Layout;
use model::vault::VaultKeys;
use model::{Job, JobId, JobStatus, NodeName, Secret, Timestamp, document};
use queue_format::{Epoch, Position, Reader, StartError};
use rpc::calls::Membership;
use rpc::identity::{Authority, NodeIdentity};
use stdx::{Clock, Executor, Tasks};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use jobs::Documents;
use jobs::filter::RuleMap;
use jobs::limits::JobBytes;
use jobs::recover::recover;
use jobs::rounds::{self, Tools};
use jobs::state::Queue;
use jobs::view::View;
use jobs::worker::Workers;

use super::DaemonError;
use super::assembly::{Assembly, Parts};
use crate::agents::metrics::Metrics;
use crate::config::ConfigChange;
use crate::config::queue::{After, Command, Commits, Published, State, Writer};
use crate::config::reconciler::{self, Reconciler};
use crate::config::vault;
use crate::door::service::Sources;
use crate::health::status::MasterView;
use crate::health::watcher::Watcher;
use crate::instances::keep::InstanceKeeper;
use crate::role::load::Found;
use crate::role::majority;
pub(crate) use crate::role::replicate::Publisher;
use crate::switching::watch::SwitchWatcher;
use crate::sync::spool::Spool;
use crate::sync::{self, AgentSync};

/// How long running jobs may go on after the leadership was asked to end; what runs longer is failed by
/// the next one.
const END_TIME: Duration = Duration::from_secs(10);

/// Jobs of one kind that the log names after a start; the others are found by their times.
const RECOVERED_TOLD_MAX: usize = 50;

/// A master that has its role, and serves nobody yet.
pub(crate) struct Master {
    pub(crate) state: State,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) writer: Writer,
    pub(crate) commits: Arc<Commits>,
    pub(crate) published: Arc<Published>,
    pub(crate) epoch: Epoch,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) archived: HashMap<JobId, JobStatus>,
}

/// The inputs for a leadership.
pub(crate) struct Begin {
    /// The content of the store.
    pub(crate) found: Found,
    /// Reads the store.
    pub(crate) reader: Reader,
    /// The last position in it.
    pub(crate) position: Position,
    pub(crate) me: NodeName,
    /// The epoch of the leadership.
    pub(crate) epoch: Epoch,
    pub(crate) metrics: Arc<Metrics>,
    /// The authority's key, where the store does not have it yet.
    pub(crate) adopt: Option<Secret<String>>,
}

/// The keys by which agents know a master, and by which it makes nodes.
pub(crate) struct Keys {
    pub(crate) identity: Arc<NodeIdentity>,
    pub(crate) membership: Membership,
    pub(crate) authority: Authority,
}

/// Commits the role entry: the new epoch, and what becomes of the jobs that were found. `start` gives
/// that by what this master commits.
pub(crate) async fn take_role(
    begin: Begin,
    clock: &Clock,
    start: impl FnOnce(Publisher) -> Result<Commits, StartError>,
) -> Result<Master, DaemonError> {
    let Begin { found, reader, position, me, epoch, metrics, adopt } = begin;
    let Found { mut config, jobs, serial, drained, archived, requests } = found;
    let now = Timestamp::from_micros(clock.now_micros());
    let requests = stdx::aside(|| ::jobs::load::requests(&reader, &jobs, serial, requests))
        .map_err(crate::role::load::FoundError::from)?;
    let mut changed = Vec::new();
    let jobs: Vec<Arc<Job>> = jobs
        .into_iter()
        .map(|job| match recover(&job, now) {
            Some(next) => {
                changed.push(Arc::clone(&next));
                next
            }
            None => Arc::new(job),
        })
        .collect();
    let role = Role { master: me, term: epoch.term, node: epoch.node, since: now };
    let mut changes = vec![ConfigChange::Role(role)];
    if config.vault.is_none() {
        changes.push(ConfigChange::Vault(VaultKeys::first(vault::new_key()?)));
    }
    let mut documents = config.apply(changes).documents;
    let adopted = adopt.map(|key| key.expose().clone().into());
    documents.extend(adopted.map(|key| (document::AUTHORITY.to_owned(), Some(key))));
    let config = Arc::new(config);
    let view = Arc::new(View::default());
    let begun_at = position.index + 1;
    let published =
        Arc::new(Published::new(Arc::clone(&view), Arc::clone(&config), drained, begun_at));
    let publisher = Publisher::new(Arc::clone(&published), Arc::clone(&metrics));
    let commits = Arc::new(start(publisher)?);
    commit_role(&commits, &jobs, &changed, &documents).await?;
    published.jobs.status_counts().forget_found();
    tracing::info!(jobs = jobs.len(), term = epoch.term, "role is taken");
    record_recovered(&changed);
    let running_max = config.cluster.max_running_jobs;
    let (writer, commands) = Writer::channel();
    let bytes = JobBytes::within(commits.submission_bytes_max());
    let queue = Queue::new(jobs, serial, drained, running_max, bytes);
    let mut queue = queue.with_rules(RuleMap::clone(&config.filters));
    queue.recall(requests);
    let state = State { queue, config };
    Ok(Master { state, commands, writer, commits, published, epoch, metrics, archived })
}

/// The log's word on the jobs that the end of the last master changed.
fn record_recovered(changed: &[Arc<Job>]) {
    let told = |ended: bool| -> Vec<u64> {
        let jobs = changed.iter().filter(|job| job.status().is_final() == ended);
        jobs.map(|job| job.id.0).take(RECOVERED_TOLD_MAX).collect()
    };
    let (ended, requeued) = (told(true), told(false));
    if !changed.is_empty() {
        let jobs = changed.len();
        tracing::warn!(jobs, ?ended, ?requeued, "the last master left jobs that had begun");
    }
}

async fn commit_role(
    commits: &Commits,
    found: &[Arc<Job>],
    changed: &[Arc<Job>],
    documents: &Documents,
) -> Result<(), DaemonError> {
    let pieces = rounds::round::role_entry(changed, documents);
    let (reply, durable) = oneshot::channel();
    let shown = After::role_entry(found.to_vec(), reply);
    rounds::round::offer_all(commits, pieces, shown, false).await.map_err(DaemonError::Refused)?;
    durable.await.map_err(|_dropped| DaemonError::RoleLost)
}

/// Tells that a vital part ended, be it by a panic, which was not asked to.
struct Until {
    asked: CancellationToken,
    broken: CancellationToken,
}

impl Drop for Until {
    fn drop(&mut self) {
        if !self.asked.is_cancelled() {
            self.broken.cancel();
        }
    }
}

/// A master at work.
pub(crate) struct Leadership {
    /// The parts that it works with.
    pub(crate) parts: Parts,
    /// The sources of answers to clients.
    pub(crate) sources: Arc<Sources>,
    /// The sources of its status.
    pub(crate) view: Arc<MasterView>,
    sync: Arc<AgentSync>,
    watcher: Option<Watcher>,
    switches: Option<SwitchWatcher>,
    instances: Option<InstanceKeeper>,
    spool: Option<Spool>,
    /// No opcode is started any more.
    closing: CancellationToken,
    /// Ends the exchanges with agents.
    exchanges: CancellationToken,
    /// Ends the writer.
    stop: CancellationToken,
    background: Tasks,
    /// The tasks beside it that need no word before it ends.
    companions: Tasks,
    opcodes: Tasks,
    /// Looks whether a majority is heard, and acts on that, for as long as opcodes run. A leadership
    /// that ends has their calls refused too once it is cut off, and not before.
    lookout: (Tasks, CancellationToken),
    /// Its own agent was asked to give the master's address up.
    has_left_address: bool,
}

impl Leadership {
    /// Sets a master to work.
    pub(crate) fn begin(
        master: Master,
        layout: &Layout,
        keys: Keys,
        (clock, engine): (&Clock, &Executor),
    ) -> Self {
        let Assembly { parts, units, sync, watcher, switches, instances, spool, sources, view } =
            Assembly::new(&master, layout, keys, clock);
        let majority = parts.commits.majority();
        let leadership = Self {
            parts,
            sources,
            view,
            sync,
            watcher: Some(watcher),
            switches: Some(switches),
            instances: Some(instances),
            spool: Some(spool),
            closing: CancellationToken::new(),
            exchanges: CancellationToken::new(),
            stop: CancellationToken::new(),
            background: Tasks::new(),
            companions: Tasks::new(),
            opcodes: Tasks::new(),
            lookout: (Tasks::new(), CancellationToken::new()),
            has_left_address: false,
        };
        let (lookout, over) = &leadership.lookout;
        let looking = majority::look(Arc::clone(&master.commits), master.epoch, over.clone());
        let engine = engine.clone();
        lookout.spawn("majority", async move { engine.run(looking).await });
        let following =
            majority::run(majority, Arc::clone(&leadership.parts.address), over.clone());
        lookout.spawn("contact", following);
        let tools = Tools {
            clock: clock.clone(),
            commits: Arc::clone(&master.commits),
            published: Arc::clone(&master.published),
            workers: Workers::new(
                units,
                leadership.parts.writer.clone(),
                leadership.parts.locks.clone(),
                leadership.opcodes.clone(),
            ),
        };
        let job = rounds::Run {
            archived: master.archived,
            closing: leadership.closing.clone(),
            stop: leadership.stop.clone(),
        };
        let work = rounds::run(master.state, tools, master.commands, job);
        leadership.background.spawn("writer", work);
        leadership
    }

    /// Takes what agents see, and looks after them. `broken` is told when that ends by itself.
    pub(crate) fn talk_with_agents(&mut self, broken: &CancellationToken) {
        let exchanges = sync::run(Arc::clone(&self.sync), self.exchanges.clone());
        self.keep("agent sync", exchanges, broken);
        if let Some(spool) = self.spool.take() {
            self.keep("spool", reconciler::run(spool, self.exchanges.clone()), broken);
        }
        if let Some(switches) = self.switches.take() {
            self.keep(
                "switches",
                reconciler::run(switches.at_work(), self.exchanges.clone()),
                broken,
            );
        }
        if let Some(instances) = self.instances.take() {
            let keeping = reconciler::run(instances.at_work(), self.exchanges.clone());
            self.keep("instances", keeping, broken);
        }
        if let Some(watcher) = self.watcher.take() {
            self.keep(
                "watcher",
                reconciler::run(watcher.at_work(), self.exchanges.clone()),
                broken,
            );
        }
    }

    /// Has a vital part go on until exchanges end.
    fn keep<F>(&self, name: &'static str, part: F, broken: &CancellationToken)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let until = Until { asked: self.exchanges.clone(), broken: broken.clone() };
        self.background.spawn(name, async move {
            let _until = until;
            part.await;
        });
    }

    /// Drives a reconciler beside it until it is `over`.
    pub(crate) fn reconcile<R: Reconciler + 'static>(
        &self,
        what: R,
        broken: &CancellationToken,
        over: &CancellationToken,
    ) {
        self.accompany((R::NAME, broken), reconciler::run(what, over.clone()));
    }

    /// Has something go on beside it until it ends. A panic in it is a bug, and tells `broken`: a master
    /// whose members nobody keeps would seem to be well.
    pub(crate) fn accompany<F>(
        &self,
        (name, broken): (&'static str, &CancellationToken),
        companion: F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let broken = broken.clone();
        self.companions.spawn(name, async move {
            if AssertUnwindSafe(companion).catch_unwind().await.is_err() {
                tracing::error!(part = name, "a part of the master panicked");
                broken.cancel();
            }
        });
    }

    /// Has no opcode begin to run until [`Self::resume`], and waits until none runs; whether that came
    /// to be within `limit`.
    pub(crate) async fn pause(&self, limit: Duration) -> bool {
        self.parts.pause.shut();
        tokio::time::timeout(limit, self.parts.writer.quiet())
            .await
            .is_ok_and(|quiet| quiet.is_ok())
    }

    /// Has opcodes run again, those that were to begin meanwhile too.
    pub(crate) fn resume(&self) {
        self.parts.pause.open();
    }

    /// Has the agent of this machine give the master's address up, if it still listens: who is master
    /// next asks it too, if it is reached.
    pub(crate) async fn leave_address(&mut self) {
        self.look_no_more().await;
        self.has_left_address = true;
        majority::drop_address(&self.parts.address).await;
    }

    async fn look_no_more(&self) {
        self.lookout.1.cancel();
        self.lookout.0.join().await;
    }

    /// Ends at once, since another member leads: what opcodes still do is refused by the agents.
    pub(crate) async fn abandon(self) {
        self.begin_to_end();
        self.stop.cancel();
        self.companions.shutdown().await;
        self.opcodes.shutdown().await;
        self.look_no_more().await;
        self.background.shutdown().await;
        // Nothing runs any more; its own agent may be the one whom the new master does not reach.
        majority::drop_address(&self.parts.address).await;
        self.parts.agents.close().await;
        if let Err(error) = self.parts.commits.close().await {
            tracing::warn!(%error, "what was submitted last may or may not be committed");
        }
    }

    /// Has no more opcodes run and asks no more agents; clients may still be answered.
    pub(crate) fn begin_to_end(&self) {
        self.closing.cancel();
        self.parts.pause.end();
        self.exchanges.cancel();
    }

    /// Lets what runs end, for a while, and ends.
    ///
    /// # Errors
    /// The store does not close.
    pub(crate) async fn end(self) -> Result<(), DaemonError> {
        self.begin_to_end();
        self.companions.shutdown().await;
        if tokio::time::timeout(END_TIME, self.opcodes.join()).await.is_err() {
            tracing::warn!("jobs still run; the next start will fail them");
        }
        self.stop.cancel();
        if tokio::time::timeout(END_TIME, self.background.join()).await.is_err() {
            tracing::warn!("changes still wait for the disk; whether they are made is not known");
        }
        self.parts.agents.close().await;
        self.look_no_more().await;
        let is_heard = self.parts.commits.majority().contact().takes_changes();
        if !is_heard && !self.has_left_address {
            // Another one may be elected, and nobody would be left here to give it up.
            majority::drop_address(&self.parts.address).await;
        }
        Ok(self.parts.commits.close().await?)
    }
}
