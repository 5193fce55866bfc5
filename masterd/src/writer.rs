//! The one writer: takes what happens to queue and configuration, one thing after the other, and
//! commits what it changes.
//!
//! Queue and configuration are cores; this shell feeds them, turns their effects into one commit a
//! round, and starts and interrupts workers. While a commit is being made durable the next round's
//! is formed, so batches grow with the load and a lone change waits for nobody. What opcodes report
//! at once goes into the round that started them.

pub mod commit;
pub mod publish;
mod way;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::error::{ErrorCode, ExceptionKind};
use model::job::Wait;
use model::{Exception, JobId, JobStatus, Timestamp};
use stdx::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::commits::{Commits, OpenEngine};
use crate::config::{Config, ConfigChange};
use crate::jobs::state::{CANCELED, Queue};
use crate::jobs::worker::{Leash, Workers};
use crate::jobs::{Answer, Event, Start};
use commit::{Prepared, Round};
use publish::Published;

pub use way::Writer;

/// Where an answer of the queue goes.
pub type Reply = oneshot::Sender<Answer>;

/// Commands that wait for the writer. Each comes from a client's connection or a worker that then
/// waits for the answer, so more would only hide a stall.
pub const COMMANDS_PENDING_MAX: usize = 4_096;
/// Commands that go into one round: enough to fill a commit, few enough to keep answers flowing.
const COMMANDS_PER_ROUND_MAX: usize = 512;

/// How often a round takes what the opcodes that it started report at once into the same commit: a
/// job that has nothing to wait for is durable with its submission. An opcode that waits for
/// anything is not waited for.
const TURNS_PER_ROUND_MAX: usize = 4;

/// Decides on a change of the configuration, given how it stands.
pub type Decide = Box<dyn FnOnce(&Config) -> Result<Vec<ConfigChange>, Exception> + Send>;

/// Decides likewise, given the last job id that was given out, too.
pub type DecideAt = Box<dyn FnOnce(&Config, u64) -> Result<Vec<ConfigChange>, Exception> + Send>;

/// Jobs of which one question asks why they wait, so that it does not hold up the queue.
pub const WAITS_ASKED_MAX: usize = 256;

/// Why jobs wait, each by itself.
pub type Waits = Vec<(JobId, Vec<Wait>)>;

/// What the writer is asked to do.
pub enum Command {
    /// Something happened to the queue.
    Queue(Event<Reply>),
    /// The configuration is to change.
    Transact {
        /// Decides how, with the newest configuration before its eyes.
        decide: Decide,
        /// The job of the opcode that changes it: from then on that is not canceled, and one that was
        /// canceled before changes nothing.
        by: Option<JobId>,
        /// Told when the change is durable, or why there is none.
        reply: oneshot::Sender<Result<(), Exception>>,
    },
    /// The configuration is to change in a way that depends on how many jobs there were.
    TransactAt {
        /// Decides how.
        decide: DecideAt,
        /// Told when the change is durable, or why there is none.
        reply: oneshot::Sender<Result<(), Exception>>,
    },
    /// From here on a majority has to have what is committed.
    GoOver {
        /// Opens the engine.
        open: OpenEngine,
        /// Told when that is so.
        reply: oneshot::Sender<()>,
    },
    /// Somebody waits until no opcode runs. The gate is shut, so that none begins to.
    Quiet {
        /// Told when that is so, and what they did is decided.
        reply: oneshot::Sender<()>,
    },
    /// Somebody wants to know why jobs wait. Nothing is changed, so nothing is committed.
    Explain {
        /// Which, at most [`WAITS_ASKED_MAX`].
        jobs: Vec<JobId>,
        /// Gets the queue's reasons.
        reply: oneshot::Sender<Waits>,
    },
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue(event) => f.debug_tuple("Queue").field(event).finish(),
            Self::Transact { .. } => f.write_str("Transact"),
            Self::TransactAt { .. } => f.write_str("TransactAt"),
            Self::GoOver { .. } => f.write_str("GoOver"),
            Self::Quiet { .. } => f.write_str("Quiet"),
            Self::Explain { jobs, .. } => f.debug_tuple("Explain").field(jobs).finish(),
        }
    }
}

/// What the writer works on.
#[derive(Debug)]
pub struct State {
    /// The queue, ahead of the disk by what is being committed.
    pub queue: Queue<Reply>,
    /// The configuration, likewise.
    pub config: Arc<Config>,
}

/// What the writer works with.
#[derive(Debug)]
pub struct Tools {
    /// Gives the time of events.
    pub clock: Clock,
    /// Makes changes durable.
    pub commits: Arc<Commits>,
    /// What is committed.
    pub published: Arc<Published>,
    /// Runs opcodes.
    pub workers: Workers,
}

/// A master without its writer answers nobody and runs nothing: a panic here ends the process, and
/// the next start goes on from what is durable.
struct EndsWithTheWriter;

impl Drop for EndsWithTheWriter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the writer panicked; the daemon ends, and goes on when it is started");
            std::process::abort();
        }
    }
}

/// What a run of the writer begins with, and how it ends.
#[derive(Debug)]
pub struct Run {
    /// How archived jobs ended that live ones depend on.
    pub archived: HashMap<JobId, JobStatus>,
    /// No opcode is started any more; those that run may end.
    pub closing: CancellationToken,
    /// Ends the writer.
    pub stop: CancellationToken,
}

/// Runs the writer until every [`Writer`] is gone or it is told to stop.
pub async fn run(state: State, tools: Tools, mut commands: mpsc::Receiver<Command>, run: Run) {
    let Run { archived, closing, stop } = run;
    let _guard = EndsWithTheWriter;
    let mut desk = Desk::new(state, tools, closing);
    desk.begin(&archived).await;
    drop(archived);
    let mut pending = Vec::with_capacity(COMMANDS_PER_ROUND_MAX);
    loop {
        let taken = tokio::select! {
            biased;
            taken = commands.recv_many(&mut pending, COMMANDS_PER_ROUND_MAX) => taken,
            () = stop.cancelled() => 0,
        };
        if taken == 0 {
            return;
        }
        desk.take(&mut pending).await;
        for _ in 0..TURNS_PER_ROUND_MAX {
            if !desk.start() {
                break;
            }
            while pending.len() < COMMANDS_PER_ROUND_MAX
                && let Ok(command) = commands.try_recv()
            {
                pending.push(command);
            }
            desk.take(&mut pending).await;
        }
        let lone = commands.is_empty();
        desk.finish_round(lone).await;
        if lone {
            // Those who were answered go first, should there be something to do by now.
            tokio::task::yield_now().await;
        }
    }
}

/// Where commands become rounds.
struct Desk {
    state: State,
    tools: Tools,
    closing: CancellationToken,
    running: foldhash::HashMap<JobId, Leash>,
    round: Round,
    bytes_max: usize,
    /// Told when no opcode runs.
    quiet: Option<oneshot::Sender<()>>,
}

impl Desk {
    fn new(state: State, tools: Tools, closing: CancellationToken) -> Self {
        let bytes_max = tools.commits.submission_bytes_max();
        let (running, round) = (foldhash::HashMap::default(), Round::default());
        Self { state, tools, closing, running, round, bytes_max, quiet: None }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.tools.clock.now_micros())
    }

    /// Puts the jobs that were found to work.
    async fn begin(&mut self, archived: &HashMap<JobId, JobStatus>) {
        let now = self.now();
        let status = |id| archived.get(&id).copied();
        self.state.queue.begin(status, now, &mut self.round.effects);
        self.start();
        self.finish_round(false).await;
        self.reject_more().await;
    }

    /// Cancels what rules reject, a commit at a time.
    async fn reject_more(&mut self) {
        while self.state.queue.rejects_more() {
            self.handle(Event::RejectMore);
            self.finish_round(false).await;
        }
    }

    /// Takes commands into the round, and commits it whenever it is full.
    async fn take(&mut self, commands: &mut Vec<Command>) {
        for command in commands.drain(..) {
            match command {
                Command::Queue(event) => self.handle(event),
                Command::Transact { decide, by, reply } => self.transact(decide, by, reply).await,
                Command::TransactAt { decide, reply } => {
                    let serial = self.state.queue.serial();
                    let decide = Box::new(move |config: &Config| decide(config, serial));
                    self.transact(decide, None, reply).await;
                }
                Command::GoOver { open, reply } => self.go_over(open, reply).await,
                Command::Quiet { reply } => self.quiet = Some(reply),
                Command::Explain { jobs, reply } => {
                    // A client that left does not need its answer.
                    drop(reply.send(self.state.queue.waits(&jobs)));
                }
            }
            if self.round.is_full() {
                self.finish_round(false).await;
            }
        }
    }

    /// Rounds wait meanwhile, so nothing is submitted.
    async fn go_over(&mut self, open: OpenEngine, reply: oneshot::Sender<()>) {
        self.finish_round(false).await;
        if let Err(error) = self.tools.commits.go_over(open).await {
            let why = stdx::daemon::chain(&error);
            tracing::error!(why, "the daemon ends, and goes on when it is started");
            std::process::abort();
        }
        tracing::info!("changes are replicated from here on");
        // Who asked may have left.
        reply.send(()).unwrap_or(());
    }

    async fn transact(
        &mut self,
        decide: Decide,
        by: Option<JobId>,
        reply: oneshot::Sender<Result<(), Exception>>,
    ) {
        if by.is_some_and(|job| !self.state.queue.may_change(job)) {
            self.round.refusals.push((reply, canceled()));
            return;
        }
        match prepare(&self.state.config, decide, self.bytes_max) {
            Ok(prepared) => {
                if let Some(job) = by.filter(|_| prepared.changes_something()) {
                    self.state.queue.note_change(job);
                }
                if !self.round.has_room(&prepared, self.bytes_max) {
                    self.finish_round(false).await;
                }
                let config = self.round.take(prepared, reply);
                self.adopt(config);
                if self.state.queue.rejects_more() {
                    self.finish_round(false).await;
                    self.reject_more().await;
                }
            }
            Err(refusal) => self.round.refusals.push((reply, refusal)),
        }
    }

    fn handle(&mut self, event: Event<Reply>) {
        if let Event::Ended { job, .. } | Event::Withdrawn { job } = &event {
            self.running.remove(job);
        }
        let now = self.now();
        self.state.queue.handle(event, now, &mut self.round.effects);
    }

    /// Goes on with a configuration that is being committed.
    fn adopt(&mut self, config: Arc<Config>) {
        let running_max = config.cluster.max_running_jobs;
        if self.state.config.cluster.max_running_jobs != running_max {
            self.handle(Event::SetRunningMax(running_max));
        }
        if !Arc::ptr_eq(&self.state.config.filters, &config.filters) {
            self.handle(Event::SetRules(Arc::clone(&config.filters)));
        }
        self.tools.published.set_latest(Arc::clone(&config));
        self.state.config = config;
    }

    /// Starts the opcodes of the round; whether there were any.
    ///
    /// They begin before their start is durable. That shows to nobody: what they report and change
    /// is committed with it or behind it, and agents are called only once it is.
    fn start(&mut self) -> bool {
        let start: Vec<Start> = std::mem::take(&mut self.round.effects.start);
        if self.closing.is_cancelled() {
            // They stay "waiting" on disk, and the next start queues them anew.
            return false;
        }
        let any = !start.is_empty();
        for start in start {
            let leash = Leash::default();
            self.running.insert(start.job, leash.clone());
            self.tools.workers.start(start, leash);
        }
        any
    }

    /// Cancels who is to be interrupted and has no worker: once the reign ends, none begins.
    fn end_without_worker(&mut self) {
        let effects = &self.round.effects;
        let asked = effects.interrupt.iter().chain(&effects.kill);
        let idle: Vec<JobId> =
            asked.copied().filter(|job| !self.running.contains_key(job)).collect();
        for job in idle {
            self.handle(Event::Withdrawn { job });
        }
    }

    /// Commits the round, and interrupts whom it says. One that is `lone`, with nothing behind it
    /// to be done meanwhile, is written on this thread if the disk is quick.
    async fn finish_round(&mut self, lone: bool) {
        self.start();
        self.end_without_worker();
        let mut round = std::mem::take(&mut self.round);
        let interrupt = std::mem::take(&mut round.effects.interrupt);
        let kill = std::mem::take(&mut round.effects.kill);
        let reprioritize = std::mem::take(&mut round.effects.reprioritize);
        for (reply, refusal) in round.refusals.drain(..) {
            // A client that left does not need its answer.
            drop(reply.send(Err(refusal)));
        }
        if !round.commits_nothing() {
            commit::submit(&self.tools.commits, round, lone).await;
        }
        for job in interrupt {
            if let Some(leash) = self.running.get(&job) {
                leash.cancel.cancel();
            }
        }
        for job in kill {
            if let Some(leash) = self.running.get(&job) {
                leash.kill.cancel();
            }
        }
        for (job, priority) in reprioritize {
            self.tools.workers.reprioritize(job, priority);
        }
        let runs = |leash: &Leash| leash.passed.load(Ordering::Acquire);
        if self.quiet.is_some()
            && !self.running.values().any(runs)
            && let Some(quiet) = self.quiet.take()
        {
            // Who asked may have given up.
            quiet.send(()).unwrap_or(());
        }
    }
}

/// The answer to an opcode that was canceled before it could change anything.
fn canceled() -> Exception {
    Exception::new(ExceptionKind::JobCanceled, CANCELED)
}

/// Decides on a transaction, which must fit one commit: it happens whole or not at all.
fn prepare(config: &Arc<Config>, decide: Decide, bytes_max: usize) -> Result<Prepared, Exception> {
    let prepared = Prepared::new(decide(config)?, config);
    if prepared.bytes > bytes_max {
        let bytes = prepared.bytes;
        return Err(Exception::prereq(
            format!(
                "This changes {bytes} bytes of the configuration at once; at most {bytes_max} are \
                 taken. Nothing was changed; do it in several smaller steps"
            ),
            ErrorCode::InsufficientResources,
        ));
    }
    Ok(prepared)
}
