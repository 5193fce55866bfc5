//! The watcher: looks at the cluster and submits jobs where something is to be done, as an operator
//! would (docs/failover.md), and archives old ones. It changes nothing else itself; [`rules`] decides, [`alarms`] is what it tells,
//! [`machines`] knows which machines are late, [`silence`] which are silent, [`switches`] which ports are wrong,
//! [`instances`] which ones keep dying, and [`guesses`] whether somebody guesses passwords.

pub mod alarms;
pub mod guesses;
pub mod instances;
pub mod machines;
pub mod rules;
pub mod silence;
pub mod switches;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jobs::{AutoArchived, Event};
use model::audit::AuditEntry;
use model::instance::Instance;
use model::node::{Node, NodeRole};
use model::opcode::{OpInput, ReasonEntry};
use model::switch::Switch;
use model::{Job, JobId, NodeName, Timestamp};
use parking_lot::{Mutex, RwLock};
use rpc::calls::Caller;
use stdx::Clock;
use tokio::time::Instant;

use crate::agents::allow_list::AllowListPush;
use crate::agents::contacts::{Contact, Contacts};
use crate::agents::master_address::MoveAddress;
use crate::config::Config;
use crate::config::queue::{Commits, Published, Submitter, Writer};
use crate::config::reconciler::Reconciler;
use crate::health::alarm::Alarm;
use crate::instances::keep::rules::Attempts;
use crate::machines::rack::status as rack_status;
use crate::role::members::{self, Awaited};
use crate::role::replica_audit::ReplicaAudit;
use crate::switching::watch::SwitchLooks;
use alarms::agents::Agent;
use guesses::Guesses;
use rules::{Round, Seen, Task, Watch};
use silence::Silence;

/// The first reason of its jobs.
pub const SOURCE: &str = "gnt:watcher";
/// Between two looks.
const ROUND: Duration = Duration::from_secs(5);
/// Commits of one archiving: what is left waits for the next one, so that a round has an end.
const ARCHIVE_COMMITS_MAX: usize = 100;

/// The alarms of this master, for whoever asks, and what was refused, which may be one.
#[derive(Debug, Default)]
pub struct Alarms {
    on: RwLock<Arc<Vec<Alarm>>>,
    guesses: Mutex<Guesses>,
}

impl Alarms {
    /// The alarms that are on, in the order of their subjects.
    pub fn all(&self) -> Arc<Vec<Alarm>> {
        Arc::clone(&self.on.read())
    }

    fn set(&self, alarms: Vec<Alarm>) {
        if **self.on.read() != alarms {
            *self.on.write() = Arc::new(alarms);
        }
    }

    pub(crate) fn note_refused(&self, entries: &[AuditEntry]) {
        self.guesses.lock().note(entries);
    }
}

/// Looks at the cluster, and submits jobs.
#[derive(Debug)]
pub struct Watcher {
    /// What is committed.
    pub(crate) published: Arc<Published>,
    /// Tells who is a member.
    pub(crate) commits: Arc<Commits>,
    /// Archives jobs.
    pub(crate) writer: Writer,
    /// Takes jobs.
    pub(crate) submitter: Submitter,
    /// Which agents are reached.
    pub(crate) contacts: Arc<Contacts>,
    /// Which agents have another allow-list.
    pub(crate) allow_lists: Arc<AllowListPush>,
    /// Whether the master's address is here.
    pub(crate) address: Arc<MoveAddress>,
    /// Whether replicas differ.
    pub(crate) audit: Arc<ReplicaAudit>,
    /// The alarms: states that should have passed by themselves and did not.
    pub(crate) alarms: Arc<Alarms>,
    /// The last looks at switches.
    pub(crate) switches: Arc<SwitchLooks>,
    /// The jobs that were tried with instances.
    pub(crate) attempts: Arc<Mutex<Attempts>>,
    /// Gives the time.
    pub(crate) clock: Clock,
}

/// The memory of the watcher between two looks.
#[derive(Debug)]
struct Memory {
    begun: Instant,
    watch: Watch,
    awaited: Awaited,
    /// Jobs of its own that have not ended.
    own: BTreeMap<JobId, Task>,
}

/// A watcher at work.
#[derive(Debug)]
pub(crate) struct Watching {
    watcher: Watcher,
    memory: Option<Memory>,
}

impl Reconciler for Watching {
    const NAME: &'static str = "watcher";

    async fn reconcile(&mut self) -> Option<Duration> {
        match &mut self.memory {
            // A new leadership looks first when agents had the time to be reached.
            None => self.memory = Some(self.watcher.begin()),
            Some(memory) => self.watcher.round(memory).await,
        }
        Some(ROUND)
    }

    fn begin_anew(&mut self) {
        self.memory = None;
    }
}

impl Watcher {
    /// The watcher at work.
    pub(crate) fn at_work(self) -> Watching {
        Watching { watcher: self, memory: None }
    }

    fn begin(&self) -> Memory {
        let (watch, awaited) = (Watch::default(), Awaited::default());
        Memory { begun: Instant::now(), watch, awaited, own: self.found() }
    }

    async fn round(&self, memory: &mut Memory) {
        let Memory { begun, watch, awaited, own } = memory;
        let is_live = |id| self.published.jobs.get(id).is_some_and(|job| !job.status().is_final());
        own.retain(|id, _| is_live(*id));
        let live = own.values().cloned().collect();
        let seen = self.look(begun.elapsed(), live, awaited);
        let Round { jobs, archive_before, raised, cleared } = watch.round(&seen);
        self.alarms.set(watch.states.alarms());
        tell(&raised, &cleared);
        for task in jobs {
            own.extend(self.submit(&task).await.map(|id| (id, task)));
        }
        if let Some(before) = archive_before {
            self.archive(before).await;
        }
    }

    /// Jobs that the watcher of an earlier leadership submitted and that have not ended.
    fn found(&self) -> BTreeMap<JobId, Task> {
        let jobs = self.published.jobs.all();
        let live = jobs.iter().filter(|job| !job.status().is_final());
        live.filter_map(|job| Some((job.id, own_task(job)?))).collect()
    }

    fn look(&self, at: Duration, live: BTreeSet<Task>, awaited: &mut Awaited) -> Seen {
        let snapshot = self.published.snapshot();
        let config = &snapshot.config;
        let contacts = self.contacts.all();
        let callers = Caller::digest(&config.callers());
        let mut agents = agents(config, &contacts);
        for agent in agents.iter_mut().filter(|agent| agent.unreached.is_none()) {
            let is_known = contacts.contains_key(&agent.node);
            let other = self.allow_lists.lacks(&agent.node, &callers);
            agent.other_callers = other.filter(|_| is_known);
        }
        let ended =
            self.published.jobs.status_counts().now().filter(|(status, _)| status.is_final());
        Seen {
            now: self.now(),
            at: at.as_secs(),
            paused_until: config.cluster.watcher_pause,
            drained: self.published.is_drained(),
            pool: members::pool(
                (self.commits.engine().as_deref(), &self.contacts),
                config,
                &BTreeSet::new(),
                (awaited, at),
            ),
            agents,
            master: config.role.master.clone(),
            address_missing: self.address.held.missing(),
            auto_failover: config.cluster.auto_failover,
            mend_network: config.cluster.mend_network,
            copies: self.audit.differ(),
            unserved: unserved(config),
            machines: machines::find(config, self.now(), |job| self.published.jobs.has_ended(job)),
            silence: self.silence(config, at.as_secs()),
            objects: self.objects(config),
            guesses: self.alarms.guesses.lock().alarm(self.now()),
            ended: ended.map(|(_, number)| number).sum(),
            live,
        }
    }

    /// Alarms about switches, their ports, and instances.
    fn objects(&self, config: &Config) -> Vec<Alarm> {
        let look = |switch: &Switch| self.switches.of(switch.name.as_str());
        let seen = &self.contacts.instances;
        let sight = |one: &Instance| seen.of(&one.primary_node, one.uuid).flatten();
        let mut alarms = switches::find(config, look, self.now());
        alarms.extend(instances::find(config, &self.attempts.lock()));
        alarms.extend(instances::stale_copies(config));
        alarms.extend(instances::still(config, sight));
        alarms
    }

    /// The machines in service that are silent.
    fn silence(&self, config: &Config, at: u64) -> Silence {
        let now = self.now();
        let contacts = self.contacts.all();
        let reached = |agent: &NodeName| {
            let contact = contacts.get(agent).filter(|c| c.failure.is_none() && !c.held.behind)?;
            u64::try_from(now.micros().saturating_sub(contact.since.micros()) / 1_000_000).ok()
        };
        self.contacts.liveness.look(|signs, elapsed| {
            silence::find(config, silence::Ears { signs, elapsed, at, now }, reached)
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_micros())
    }

    async fn submit(&self, task: &Task) -> Option<JobId> {
        let mut op = OpInput::new(task.opcode());
        let nanos = self.now().micros().saturating_mul(1_000);
        op.common.reason.push(ReasonEntry(SOURCE.to_owned(), task.why(), nanos));
        let submitted = self.submitter.submit(vec![vec![op]], false, None).await;
        match submitted.map(|answers| answers.into_iter().next()) {
            Ok(Some(Ok(job))) => {
                tracing::info!(%job, ?task, why = task.why(), "the watcher submitted a job");
                Some(job)
            }
            Ok(Some(Err(why))) | Err(why) => {
                tracing::warn!(?task, %why, "the watcher could not submit a job");
                None
            }
            Ok(None) => None,
        }
    }

    async fn archive(&self, before: Timestamp) {
        let mut total = 0;
        for _ in 0..ARCHIVE_COMMITS_MAX {
            let make = |reply| Event::AutoArchive { before: Some(before), reply };
            match self.submitter.unless_stalled(self.writer.ask(make)).await {
                Ok(AutoArchived { archived, left }) => {
                    total += archived;
                    if left == 0 || archived == 0 {
                        break;
                    }
                }
                Err(why) => {
                    tracing::warn!(%why, "old jobs could not be archived");
                    break;
                }
            }
        }
        if total > 0 {
            tracing::info!(jobs = total, %before, "the watcher archived jobs that had ended before");
        }
    }
}

/// The agents of all nodes, as they were found last.
pub(crate) fn agents(config: &Config, contacts: &HashMap<NodeName, Contact>) -> Vec<Agent> {
    let agent = |node: &Arc<Node>| {
        let contact = contacts.get(&node.name).cloned().unwrap_or_default();
        let Contact { since, failure, is_stranger, clock, held, .. } = contact;
        Agent {
            node: node.name.clone(),
            id: node.id,
            called: node.role != NodeRole::Offline,
            rack: node.rack,
            unreached: failure.map(|failure| (since, failure)),
            is_stranger,
            behind: held.behind,
            clock,
            other_callers: None,
            faults: held.faults(),
            network_drift: held.network_drift,
        }
    };
    config.nodes.values().map(agent).collect()
}

/// Racks whose machines nobody serves, once addresses are given at all.
pub(crate) fn unserved(config: &Config) -> Vec<(u32, String)> {
    let racks = rack_status::with_machines(config).filter(|_| config.ipam.is_some());
    racks.filter_map(|rack| Some((rack, rack_status::unserved(config, rack)?))).collect()
}

/// The task of one of the watcher's jobs.
fn own_task(job: &Job) -> Option<Task> {
    let input = job.ops.first()?.input.known()?;
    let is_own = input.common.reason.first().is_some_and(|ReasonEntry(who, ..)| who == SOURCE);
    is_own.then(|| Task::of(&input.op)).flatten()
}

fn tell(raised: &[Alarm], cleared: &[Alarm]) {
    for Alarm { what, since, text, todo } in raised {
        tracing::warn!(code = what.kind().code().word(), %what, %since, text, todo, "alarm");
    }
    for Alarm { what, since, .. } in cleared {
        tracing::info!(%what, %since, "alarm is over");
    }
}
