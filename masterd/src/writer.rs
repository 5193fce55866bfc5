//! The one writer: takes what happens to queue and configuration, one thing after the other, and
//! commits what it changes.
//!
//! Queue and configuration are cores; this shell feeds them, turns their effects into one commit a
//! round, and starts and interrupts workers. While a commit is being made durable the next round's
//! is formed, so batches grow with the load and a lone change waits for nobody.

pub mod commit;
pub mod publish;

use std::collections::HashMap;
use std::sync::Arc;

use model::error::{ErrorCode, ExceptionKind};
use model::{Exception, JobId, JobStatus};
use queue_format::Committer;
use stdx::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigChange};
use crate::jobs::state::Queue;
use crate::jobs::worker::Workers;
use crate::jobs::{Answer, Effects, Event, Start};
use commit::{Prepared, Round};
use publish::{After, Published};

/// Where an answer of the queue goes.
pub type Reply = oneshot::Sender<Answer>;

/// Commands that wait for the writer. Each comes from a client's connection or a worker that then
/// waits for the answer, so more would only hide a stall.
pub const COMMANDS_PENDING_MAX: usize = 4_096;
/// Commands that go into one round: enough to fill a commit, few enough to keep answers flowing.
const COMMANDS_PER_ROUND_MAX: usize = 512;

/// Decides on a change of the configuration, given how it stands.
pub type Decide = Box<dyn FnOnce(&Config) -> Result<Vec<ConfigChange>, Exception> + Send>;

/// What the writer is asked to do.
pub enum Command {
    /// Something happened to the queue.
    Queue(Event<Reply>),
    /// The configuration is to change.
    Transact {
        /// Decides how, with the newest configuration before its eyes.
        decide: Decide,
        /// Told when the change is durable, or why there is none.
        reply: oneshot::Sender<Result<(), Exception>>,
    },
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue(event) => f.debug_tuple("Queue").field(event).finish(),
            Self::Transact { .. } => f.write_str("Transact"),
        }
    }
}

/// The way to the writer; clones share it.
#[derive(Debug, Clone)]
pub struct Writer {
    commands: mpsc::Sender<Command>,
}

impl Writer {
    /// The way to a writer that is yet to run, and what it will run on.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS_PENDING_MAX);
        (Self { commands }, receiver)
    }

    /// Tells the queue of something, without waiting for more than room in the channel.
    ///
    /// # Errors
    /// The master is ending, and nothing has happened.
    pub async fn tell(&self, event: Event<Reply>) -> Result<(), Exception> {
        self.commands.send(Command::Queue(event)).await.map_err(|_closed| refused())
    }

    /// Asks the queue for something; `make` gets the place for the answer. The answer comes when
    /// all that it says is durable.
    ///
    /// # Errors
    /// The master is ending: nothing has happened, or that is not known.
    pub async fn ask(&self, make: impl FnOnce(Reply) -> Event<Reply>) -> Result<Answer, Exception> {
        let (reply, answer) = oneshot::channel();
        self.tell(make(reply)).await?;
        answer.await.map_err(|_dropped| unknown())
    }

    /// Changes the configuration; returns when the change is durable.
    ///
    /// # Errors
    /// What `decide` says; or the master is ending, and nothing has happened or that is not known.
    pub async fn transact(&self, decide: Decide) -> Result<(), Exception> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Transact { decide, reply };
        self.commands.send(command).await.map_err(|_closed| refused())?;
        answer.await.map_err(|_dropped| unknown())?
    }
}

fn refused() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        "The master daemon is ending, and nothing was done; try again when it is back",
    )
}

fn unknown() -> Exception {
    Exception::new(
        ExceptionKind::GenericError,
        "The master daemon ended before the outcome was known; look whether it was done before \
         you try again",
    )
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
    pub committer: Arc<Committer<After>>,
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
pub async fn run(mut state: State, tools: Tools, mut commands: mpsc::Receiver<Command>, run: Run) {
    let Run { archived, closing, stop } = run;
    let _guard = EndsWithTheWriter;
    let mut running: HashMap<JobId, CancellationToken> = HashMap::new();
    let mut effects = Effects::default();
    state.queue.begin(|id| archived.get(&id).copied(), now(&tools.clock), &mut effects);
    drop(archived);
    let mut round = Round::new(effects);
    let bytes_max = tools.committer.submission_bytes_max();
    let mut pending = Vec::with_capacity(COMMANDS_PER_ROUND_MAX);
    loop {
        finish_round(round, &tools, &mut running, &closing).await;
        let taken = tokio::select! {
            biased;
            taken = commands.recv_many(&mut pending, COMMANDS_PER_ROUND_MAX) => taken,
            () = stop.cancelled() => 0,
        };
        if taken == 0 {
            return;
        }
        round = Round::default();
        for command in pending.drain(..) {
            match command {
                Command::Queue(event) => {
                    if let Event::Ended { job, .. } = &event {
                        running.remove(job);
                    }
                    state.queue.handle(event, now(&tools.clock), &mut round.effects);
                }
                Command::Transact { decide, reply } => {
                    match prepare(&state.config, decide, bytes_max) {
                        Ok(prepared) => {
                            if !round.has_room(&prepared, bytes_max) {
                                let full = std::mem::take(&mut round);
                                finish_round(full, &tools, &mut running, &closing).await;
                            }
                            let config = round.take(prepared, reply);
                            adopt(&mut state, &tools, &mut round, config);
                        }
                        Err(refusal) => round.refusals.push((reply, refusal)),
                    }
                }
            }
            if round.is_full() {
                let full = std::mem::take(&mut round);
                finish_round(full, &tools, &mut running, &closing).await;
            }
        }
    }
}

fn now(clock: &Clock) -> model::Timestamp {
    model::Timestamp::from_micros(clock.now_micros())
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

/// Goes on with a configuration that is being committed.
fn adopt(state: &mut State, tools: &Tools, round: &mut Round, config: Arc<Config>) {
    let running_max = config.cluster.max_running_jobs;
    if state.config.cluster.max_running_jobs != running_max {
        let event = Event::SetRunningMax(running_max);
        state.queue.handle(event, now(&tools.clock), &mut round.effects);
    }
    tools.published.set_latest(Arc::clone(&config));
    state.config = config;
}

/// Commits a round, then starts and interrupts what it says.
async fn finish_round(
    mut round: Round,
    tools: &Tools,
    running: &mut HashMap<JobId, CancellationToken>,
    closing: &CancellationToken,
) {
    if closing.is_cancelled() {
        // They stay "waiting" on disk, and the next start queues them anew.
        round.effects.start.clear();
    }
    let start: Vec<Start> = std::mem::take(&mut round.effects.start);
    let interrupt = std::mem::take(&mut round.effects.interrupt);
    let reprioritize = std::mem::take(&mut round.effects.reprioritize);
    for (reply, refusal) in round.refusals.drain(..) {
        // A client that left does not need its answer.
        drop(reply.send(Err(refusal)));
    }
    if !round.commits_nothing() {
        commit::submit(&tools.committer, round).await;
    }
    for start in start {
        let cancel = CancellationToken::new();
        running.insert(start.job, cancel.clone());
        tools.workers.start(start, cancel);
    }
    for job in interrupt {
        if let Some(cancel) = running.get(&job) {
            cancel.cancel();
        }
    }
    for (job, priority) in reprioritize {
        tools.workers.reprioritize(job, priority);
    }
}
