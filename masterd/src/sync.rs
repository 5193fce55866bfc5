//! Commits what agents saw. Sees to it that agents serve the newest document of their rack, and that
//! only the master's agent has its address. All agents get the files that name the master, and the list
//! of permitted callers.
//!
//! This is a reconciler: it looks, and what is to be done to the cluster it submits as a job.

mod callers;
mod certificates;
pub(crate) mod desired_state;
mod images;
mod keys;
mod master_files;
mod rack_documents;
mod runs;
pub(crate) mod spool;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::node::{Node, NodeRole};
use model::rack_fault::{RackCause, RackFault};
use model::ssconf::Ssconf;
use model::{Code, Coded as _, MacAddress, NodeName, Serial, Timestamp};
use rpc::RpcError;
use rpc::calls::{Exchange, Exchanged, TROUBLES_MAX};
use stdx::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::agents::Agents;
use crate::agents::allow_list::AllowListPush;
use crate::agents::blobs::Source;
use crate::agents::clock_skew::ClockSkew;
use crate::agents::contacts::{AgentHeld, Contacts, Unreached};
use crate::agents::master_address::MoveAddress;
use crate::agents::metrics::Metrics;
use crate::config::queue::{Published, Submitter, Writer};
use crate::config::reconciler::{self, Reconciler};
use crate::machines::observe::{Clocks, EventTimes, Led};
use callers::Callers;
use desired_state::{Keep, Wanted};
use images::ImageBlobs;

/// How long an agent holds an exchange that has nothing to tell.
const WAIT_MS: u32 = 15_000;
/// The same for an agent that does not hold what it should: it is looked at again soon.
const BEHIND_WAIT_MS: u32 = 1_000;
/// Pause after an exchange that failed: the agent is down or cut off, and is asked again soon.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The same for a node that has just been added.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// How long after its document changed a node may take to be reached: its agent begins to serve
/// behind the answer with which it took its certificate.
const STARTS_WITHIN_SECONDS: i64 = 5;

/// Between two pushes of files to an agent that says it lacks some: the first may be under way.
const FILES_AGAIN: Duration = Duration::from_secs(30);

/// Racks of one agent whose refused events are logged: a log that names more helps nobody.
const REFUSED_RACKS_MAX: usize = 64;

/// The state that is kept at every agent.
#[derive(Debug, Clone)]
struct AllKept {
    files: Wanted<Ssconf>,
    callers: Wanted<Callers>,
    images: Wanted<ImageBlobs>,
}

/// Counts when an agent may not have what is kept there.
#[derive(Debug)]
struct Due {
    files: watch::Sender<u64>,
    callers: watch::Sender<u64>,
    images: watch::Sender<u64>,
}

/// Keeps all agents in step.
#[derive(Debug)]
pub struct AgentSync {
    /// What is committed.
    pub(crate) published: Arc<Published>,
    /// Commits what agents saw.
    pub(crate) writer: Writer,
    /// Takes jobs that push rack documents.
    pub(crate) submitter: Submitter,
    /// The way to the agents.
    pub(crate) agents: Agents,
    /// Which agents are reached.
    pub(crate) contacts: Arc<Contacts>,
    /// Tells agents who may call them.
    pub(crate) allow_lists: Arc<AllowListPush>,
    /// Has the master's address given up by others.
    pub(crate) address: Arc<MoveAddress>,
    /// Counts events.
    pub(crate) metrics: Arc<Metrics>,
    /// The source of image files.
    pub(crate) source: Arc<Source>,
    /// Gives the time.
    pub(crate) clock: Clock,
}

/// Runs exchanges with all agents until `stop`.
pub async fn run(sync: Arc<AgentSync>, stop: CancellationToken) {
    let mut changes = sync.published.subscribe();
    let mut enrolling = sync.contacts.enrolling();
    let mut running: HashMap<NodeName, (Arc<Node>, CancellationToken)> = HashMap::new();
    let mut loops = JoinSet::new();
    let kept = AllKept {
        files: Wanted::new(&sync.published),
        callers: Wanted::new(&sync.published),
        images: Wanted::new(&sync.published),
    };
    loops.spawn(kept.images.clone().follow(sync.published.subscribe(), stop.clone()));
    loops.spawn(kept.files.clone().follow(sync.published.subscribe(), stop.clone()));
    loops.spawn(kept.callers.clone().follow(sync.published.subscribe(), stop.clone()));
    loop {
        let config = Arc::clone(&changes.borrow_and_update().config);
        let without_certificate = enrolling.borrow_and_update().clone();
        running.retain(|name, (node, token)| {
            let same = config.nodes.get(name).is_some_and(|now| same_agent(now, node));
            if !same {
                token.cancel();
                sync.contacts.forget(name);
                sync.allow_lists.forget(name);
            }
            same
        });
        for (name, node) in config.nodes.iter() {
            let is_called = node.role != NodeRole::Offline && !without_certificate.contains(name);
            if !is_called || running.contains_key(name) {
                continue;
            }
            let token = stop.child_token();
            running.insert(name.clone(), (Arc::clone(node), token.clone()));
            let (sync, node) = (Arc::clone(&sync), Arc::clone(node));
            loops.spawn(with_agent(sync, node, kept.clone(), token));
        }
        tokio::select! {
            () = stop.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Ok(()) = enrolling.changed() => {}
            Some(_ended) = loops.join_next() => {}
        }
    }
    while loops.join_next().await.is_some() {}
}

/// Whether the exchange with a node can go on after its object changed.
fn same_agent(now: &Node, before: &Node) -> bool {
    now.id == before.id
        && now.rpc_address() == before.rpc_address()
        && now.fingerprint == before.fingerprint
        && now.renewing == before.renewing
        && (now.role == NodeRole::Offline) == (before.role == NodeRole::Offline)
}

/// The master's memory of one agent between exchanges.
#[derive(Debug, Default)]
struct Conversation {
    incarnation: Option<Uuid>,
    acknowledged: u64,
    /// Events that the agent gave up, as it told last.
    dropped: u64,
    reached: Option<bool>,
    /// It does not hold the document that it should.
    behind: bool,
    push: crate::sync::rack_documents::State,
    /// The last order on the runs that it is to have.
    runs: runs::RunsSync,
    /// Racks of which events were refused, and that was told.
    refused: BTreeSet<u32>,
    /// The times of events that were committed.
    times: EventTimes,
    /// When it was last sent files that it said it lacks.
    files_due: Option<Instant>,
    /// Answers to machines that ask for keys; they end with the exchanges.
    answering: JoinSet<()>,
}

impl Conversation {
    /// Whether the agent lacks files, and it is time to send them.
    fn lacks_files(&mut self, faults: &[RackFault]) -> bool {
        let lacks = faults.iter().any(|fault| fault.cause == RackCause::FileMissing);
        if !lacks {
            self.files_due = None;
            return false;
        }
        let is_due = self.files_due.is_none_or(|last| last.elapsed() >= FILES_AGAIN);
        if is_due {
            self.files_due = Some(Instant::now());
        }
        is_due
    }
}

/// All that is kept of one agent until `stop`.
async fn with_agent(sync: Arc<AgentSync>, node: Arc<Node>, kept: AllKept, stop: CancellationToken) {
    let ((files, files_due), (callers, callers_due)) = (watch::channel(0), watch::channel(0));
    let (images, images_due) = watch::channel(0);
    let exchange = AgentExchange {
        sync: Arc::clone(&sync),
        node: Arc::clone(&node),
        wanted: kept.callers.clone(),
        due: Due { files, callers, images },
        talk: Conversation::default(),
    };
    let files = Keep::new(Arc::clone(&sync), Arc::clone(&node), kept.files, files_due);
    let images = Keep::new(Arc::clone(&sync), Arc::clone(&node), kept.images, images_due);
    let callers = Keep::new(sync, node, kept.callers, callers_due);
    tokio::join!(
        reconciler::run(exchange, stop.clone()),
        reconciler::run(files, stop.clone()),
        reconciler::run(callers, stop.clone()),
        reconciler::run(images, stop),
    );
}

#[derive(Debug)]
struct AgentExchange {
    sync: Arc<AgentSync>,
    node: Arc<Node>,
    wanted: Wanted<Callers>,
    /// Counts when the agent was reached after it was not, and when it told of another list of callers
    /// than the one that is wanted.
    due: Due,
    talk: Conversation,
}

impl Reconciler for AgentExchange {
    const NAME: &'static str = "agent sync";

    async fn reconcile(&mut self) -> Option<Duration> {
        let Self { sync, node, wanted, due, talk } = self;
        let exchange = Exchange {
            incarnation: talk.incarnation,
            acknowledged: talk.acknowledged,
            sights: sync.contacts.instances.known(&node.name),
            wait_ms: match talk.reached {
                Some(true) if talk.behind => BEHIND_WAIT_MS,
                Some(true) => WAIT_MS,
                // An agent that was not reached is asked at once what it holds.
                Some(false) | None => 0,
            },
        };
        let from = sync.now();
        match sync.agents.call(node, exchange, None).await {
            Ok(mut exchanged) => {
                let told = exchanged.time;
                let clock = told.and_then(|told| ClockSkew::measured(told, from, sync.now()));
                sync.is_reached(node, (wanted, due), talk, &exchanged).await;
                let asked = std::mem::take(&mut exchanged.key_requests);
                sync.answer_keys(node, &mut talk.answering, asked);
                let wanted = exchanged.machine_certificate.take();
                sync.certify(node, &mut talk.answering, wanted);
                if talk.lacks_files(&exchanged.faults) {
                    due.images.send_modify(|count| *count += 1);
                }
                if let Some(sights) = exchanged.sights.take() {
                    sync.contacts.instances.take(&node.name, sights);
                }
                if let Some(facts) = exchanged.facts.take() {
                    sync.contacts.set_facts(&node.name, facts);
                }
                sync.end_unowned(node, &mut talk.runs).await;
                sync.take(node, talk, exchanged, clock).await;
                Some(Duration::ZERO)
            }
            Err(error) => Some(sync.is_not_reached(node, talk, &error)),
        }
    }

    fn begin_anew(&mut self) {
        self.talk = Conversation::default();
    }
}

impl AgentSync {
    /// Notes that an agent answered.
    async fn is_reached(
        &self,
        node: &Node,
        (wanted, due): (&Wanted<Callers>, &Due),
        talk: &mut Conversation,
        exchanged: &Exchanged,
    ) {
        let was_away = talk.reached.replace(true) != Some(true);
        let (told, wanted) = (exchanged.callers.as_deref(), wanted.newest());
        if self.allow_lists.reported(&node.name, told, was_away, &wanted.digest) {
            due.callers.send_modify(|count| *count += 1);
        }
        if was_away {
            tracing::info!(node = %node.name, "agent is reached");
            self.contacts.set(&node.name, self.now(), None);
            Box::pin(self.address.drop_at(node)).await;
            due.files.send_modify(|count| *count += 1);
            due.images.send_modify(|count| *count += 1);
        }
    }

    /// Notes that an agent did not answer; gives the pause before the next attempt.
    fn is_not_reached(&self, node: &Node, talk: &mut Conversation, error: &RpcError) -> Duration {
        let is_new = talk.reached.is_none() && is_new(node, self.now());
        if let Some(why) = Unreached::by(error).filter(|_| !is_new) {
            if talk.reached.replace(false) != Some(false) {
                let code = error.code().map(Code::word);
                tracing::warn!(node = %node.name, code, why = why.why, "agent is not reached");
            }
            self.contacts.set(&node.name, self.now(), Some(why));
        }
        if is_new { FIRST_PAUSE } else { RETRY_PAUSE }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now_micros())
    }

    /// Commits what an agent saw, and only then lets it forget.
    async fn take(
        &self,
        node: &Node,
        talk: &mut Conversation,
        exchanged: Exchanged,
        clock: Option<ClockSkew>,
    ) {
        let Exchanged {
            incarnation,
            mut events,
            racks,
            dropped,
            certificate_ends,
            time,
            mut faults,
            lease_ranges,
            mut network_drift,
            signs,
            ..
        } = exchanged;
        let config = Arc::clone(&self.published.snapshot().config);
        let now = self.now();
        self.contacts.liveness.see(&node.name, &config, now, signs);
        faults.truncate(TROUBLES_MAX);
        network_drift.truncate(TROUBLES_MAX);
        if talk.incarnation != Some(incarnation) {
            if talk.incarnation.is_some() {
                tracing::warn!(node = %node.name, "agent came back with another store");
            }
            talk.incarnation = Some(incarnation);
            talk.acknowledged = 0;
            talk.times = EventTimes::default();
        }
        if dropped != std::mem::replace(&mut talk.dropped, dropped) {
            tracing::warn!(node = %node.name, dropped, "agent gave up events: its outbox was full");
        }
        if let Some(last) = events.last().map(|event| event.number) {
            let name = node.name.clone();
            let number = u64::try_from(events.len()).unwrap_or(u64::MAX);
            let mut times = talk.times;
            times.correct(&mut events, Clocks { master: now, agent: time });
            let decide = move |config: &_| {
                let Led { changes, learnt, refused, served } =
                    crate::machines::observe::observed(config, &name, &events, now);
                Ok((changes, (learnt, refused, served)))
            };
            match self.writer.transact(None, decide).await {
                Ok((learnt, refused, served)) => {
                    (talk.acknowledged, talk.times) = (last, times);
                    let config = self.published.snapshot().config;
                    self.contacts.unregistered.see(&node.name, &config, &served);
                    self.metrics.agent_events.add_many(number);
                    log_observed(node, talk, learnt, refused);
                }
                Err(error) => {
                    tracing::warn!(node = %node.name, %error, "events were not committed");
                }
            }
        }
        talk.behind = self.push_if_stale(node, &mut talk.push, &racks).await;
        let behind = talk.behind;
        let held = AgentHeld {
            behind,
            certificate_ends,
            faults,
            lease_ranges,
            network_drift,
            ..AgentHeld::default()
        };
        self.contacts.set_held(&node.name, clock, held);
    }
}

/// Whether a node that was not reached yet may still be starting its agent.
fn is_new(node: &Node, now: Timestamp) -> bool {
    (node.mtime..node.mtime.plus_seconds(STARTS_WITHIN_SECONDS)).contains(&now)
}

/// Logs what events led to, but for what is seen in lists.
fn log_observed(
    node: &Node,
    talk: &mut Conversation,
    learnt: Vec<(Serial, MacAddress)>,
    refused: BTreeMap<u32, usize>,
) {
    for (serial, mac) in learnt {
        tracing::info!(node = %node.name, %serial, %mac, "machine booted with a new Ethernet address");
    }
    for (rack, events) in refused {
        if talk.refused.len() >= REFUSED_RACKS_MAX || !talk.refused.insert(rack) {
            continue;
        }
        tracing::warn!(
            node = %node.name,
            rack,
            events,
            "events of a rack that the node does not serve are left out; if it should serve it, \
             `gnt node modify --rack {rack} {}`",
            node.name
        );
    }
}
