//! The one writer: takes what happens to queue and configuration, one thing after the other, and
//! commits what it changes.
//!
//! Queue and configuration are cores; this shell feeds them, turns their effects into one commit a
//! round, and starts and interrupts workers. While a commit is being made durable the next round's is
//! formed, so batches grow with the load and a lone change waits for nobody. Reports that opcodes make
//! at once go into the round that started them.

pub mod round;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::error::{ErrorCode, ExceptionKind};
use model::{Code, Exception, JobId, JobStatus, Timestamp};
use stdx::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::commits::{Commits, OpenEngine};
use crate::configuration::Configuration;
use crate::effects::Start;
use crate::event::{Channels, Event};
use crate::published::Published;
use crate::state::{CANCELED, Queue};
use crate::worker::{CancelHandle, Work, Workers};
use crate::writer::{Command, Decide, Decided};
use round::{Prepared, Round};

/// Commands that go into one round: enough to fill a commit, few enough to keep answers flowing.
const COMMANDS_PER_ROUND_MAX: usize = 512;

/// How often a round takes the first reports of the opcodes that it started into the same commit. So a
/// job that has nothing to wait for is durable with its submission. An opcode that waits for anything is
/// not waited for.
const TURNS_PER_ROUND_MAX: usize = 4;

/// The state that the writer works on.
#[derive(Debug)]
pub struct State<C> {
    /// The queue, ahead of the disk by what is being committed.
    pub queue: Queue<Channels>,
    /// The configuration, likewise.
    pub config: Arc<C>,
}

/// The services that the writer works with.
#[derive(Debug)]
pub struct Tools<C: Configuration, W> {
    /// Gives the time of events.
    pub clock: Clock,
    /// Makes changes durable.
    pub commits: Arc<Commits<C>>,
    /// What is committed.
    pub published: Arc<Published<C>>,
    /// Runs opcodes.
    pub workers: Workers<C, W>,
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

/// The input of a run of the writer, and the signals that end it.
#[derive(Debug)]
pub struct Run {
    /// How archived jobs ended that live ones depend on.
    pub archived: HashMap<JobId, JobStatus>,
    /// No opcode is started any more; those that run may end.
    pub closing: CancellationToken,
    /// Ends the writer.
    pub stop: CancellationToken,
}

/// Runs the writer until every [`Writer`](crate::writer::Writer) is gone or it is told to stop.
pub async fn run<C: Configuration, W: Work>(
    state: State<C>,
    tools: Tools<C, W>,
    mut commands: mpsc::Receiver<Command<C>>,
    run: Run,
) {
    let Run { archived, closing, stop } = run;
    let _guard = EndsWithTheWriter;
    let mut rounds = RoundBuilder::new(state, tools, closing);
    rounds.begin(&archived).await;
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
        rounds.take(&mut pending).await;
        for _ in 0..TURNS_PER_ROUND_MAX {
            if !rounds.start() {
                break;
            }
            while pending.len() < COMMANDS_PER_ROUND_MAX
                && let Ok(command) = commands.try_recv()
            {
                pending.push(command);
            }
            rounds.take(&mut pending).await;
        }
        let lone = commands.is_empty();
        rounds.finish_round(lone).await;
        if lone {
            // Those who were answered go first, should there be something to do by now.
            tokio::task::yield_now().await;
        }
    }
}

/// Makes rounds of commands.
struct RoundBuilder<C: Configuration, W> {
    state: State<C>,
    tools: Tools<C, W>,
    closing: CancellationToken,
    running: foldhash::HashMap<JobId, CancelHandle>,
    round: Round<C>,
    bytes_max: usize,
    /// Told when no opcode runs.
    quiet: Option<oneshot::Sender<()>>,
}

impl<C: Configuration, W: Work> RoundBuilder<C, W> {
    fn new(state: State<C>, tools: Tools<C, W>, closing: CancellationToken) -> Self {
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
    async fn take(&mut self, commands: &mut Vec<Command<C>>) {
        for command in commands.drain(..) {
            match command {
                Command::Queue(event) => self.handle(event),
                Command::Transact { decide, job } => self.transact(decide, job).await,
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
    async fn go_over(&mut self, open: OpenEngine<C>, reply: oneshot::Sender<()>) {
        self.finish_round(false).await;
        if let Err(error) = self.tools.commits.go_over(open).await {
            let why = stdx::daemon::chain(&error);
            tracing::error!(why, "the daemon ends, and goes on when it is started");
            std::process::abort();
        }
        tracing::info!("changes are replicated from here on");
        // The asker may have left.
        reply.send(()).unwrap_or(());
    }

    async fn transact(&mut self, decide: Decide<C>, job: Option<JobId>) {
        if job.is_some_and(|job| !self.state.queue.may_change(job)) {
            decide(Err(Exception::new(ExceptionKind::JobCanceled, CANCELED)));
            return;
        }
        let at = (self.state.config.as_ref(), self.state.queue.serial());
        let Some(Decided { changes, done }) = decide(Ok(at)) else { return };
        let prepared = Prepared::new(changes, &self.state.config);
        if prepared.bytes > self.bytes_max {
            // It happens whole or not at all.
            return done.tell(Err(too_large(prepared.bytes, self.bytes_max)));
        }
        if let Some(job) = job.filter(|_| prepared.changes_something()) {
            self.state.queue.note_change(job);
        }
        if !self.round.has_room(&prepared, self.bytes_max) {
            self.finish_round(false).await;
        }
        let config = self.round.take(prepared, done);
        self.adopt(config);
        if self.state.queue.rejects_more() {
            self.finish_round(false).await;
            self.reject_more().await;
        }
    }

    fn handle(&mut self, event: Event<Channels>) {
        if let Event::Ended { job, .. } | Event::Withdrawn { job } = &event {
            self.running.remove(job);
        }
        let now = self.now();
        self.state.queue.handle(event, now, &mut self.round.effects);
    }

    /// Goes on with a configuration that is being committed.
    fn adopt(&mut self, config: Arc<C>) {
        let running_max = config.running_jobs_max();
        if self.state.config.running_jobs_max() != running_max {
            self.handle(Event::SetRunningMax(running_max));
        }
        if !self.state.config.filter_rules().ptr_eq(config.filter_rules()) {
            self.handle(Event::SetRules(config.filter_rules().clone()));
        }
        self.tools.published.set_latest(Arc::clone(&config));
        self.state.config = config;
    }

    /// Starts the opcodes of the round; whether there were any.
    ///
    /// They begin before their start is durable. Nobody sees that: their reports and changes are
    /// committed with it or behind it, and agents are called only once it is durable.
    fn start(&mut self) -> bool {
        let start: Vec<Start> = std::mem::take(&mut self.round.effects.start);
        if self.closing.is_cancelled() {
            // They stay "waiting" on disk, and the next start queues them anew.
            return false;
        }
        let any = !start.is_empty();
        for start in start {
            let handle = CancelHandle::default();
            self.running.insert(start.job, handle.clone());
            self.tools.workers.start(start, handle);
        }
        any
    }

    /// Cancels who is to be interrupted and has no worker: once the leadership ends, none begins.
    fn end_without_worker(&mut self) {
        let effects = &self.round.effects;
        let asked = effects.interrupt.iter().chain(&effects.kill);
        let idle: Vec<JobId> =
            asked.copied().filter(|job| !self.running.contains_key(job)).collect();
        for job in idle {
            self.handle(Event::Withdrawn { job });
        }
    }

    /// Commits the round, and interrupts whom it says. A round that is `lone`, with nothing behind it to
    /// be done meanwhile, is written on this thread if the disk is quick.
    async fn finish_round(&mut self, lone: bool) {
        self.start();
        self.end_without_worker();
        let mut round = std::mem::take(&mut self.round);
        let interrupt = std::mem::take(&mut round.effects.interrupt);
        let kill = std::mem::take(&mut round.effects.kill);
        let reprioritize = std::mem::take(&mut round.effects.reprioritize);
        if !round.commits_nothing() {
            round::submit(&self.tools.commits, round, lone).await;
        }
        for job in interrupt {
            if let Some(handle) = self.running.get(&job) {
                handle.cancel.cancel();
            }
        }
        for job in kill {
            if let Some(handle) = self.running.get(&job) {
                handle.kill.cancel();
            }
        }
        for (job, priority) in reprioritize {
            self.tools.workers.reprioritize(job, priority);
        }
        let runs = |handle: &CancelHandle| handle.runs.load(Ordering::Acquire);
        if self.quiet.is_some()
            && !self.running.values().any(runs)
            && let Some(quiet) = self.quiet.take()
        {
            // The asker may have given up.
            quiet.send(()).unwrap_or(());
        }
    }
}

fn too_large(bytes: usize, bytes_max: usize) -> Exception {
    Exception::prereq(
        format!(
            "This changes {bytes} bytes of the configuration at once; at most {bytes_max} are \
             taken. Nothing was changed; do it in several smaller steps"
        ),
        ErrorCode::InsufficientResources,
    )
    .coded(Code::ChangeTooLarge)
}
