//! All that a logical unit may touch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::error::ExceptionKind;
use model::job::LogType;
use model::layout::Layout;
use model::opcode::{Common, Input, OpInput, Reach, SubmittedJobs};
use model::{Exception, JobId, Timestamp};
use serde_json::Value;
use stdx::Clock;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Failure, Gate, Wanted};
use crate::agents::Agents;
use crate::archive::Archive;
use crate::commits::Commits;
use crate::config::{Config, ConfigChange};
use crate::copies::Copies;
use crate::exchange::contact::Contacts;
use crate::export::desk::Exports;
use crate::jobs::room::Turnstile;
use crate::jobs::worker::Leash;
use crate::jobs::{Answer, Event, Start, desk};
use crate::locks::{Grant, LockError, LockName, Locks, Owner, Refused};
use crate::metrics::Metrics;
use crate::peers::PeerBook;
use crate::secrets::StagedSecrets;
use crate::watcher::Alarms;
use crate::writer::publish::{Published, Snapshot};
use crate::writer::{Reply, Writer};

/// How long an opcode waits for its locks before it fails and says who holds them: a day, since an
/// operator may well queue a night's work behind a long one.
const LOCK_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Between two looks for locks that are free, where some are enough (Ganeti's).
const SOME_LOCKS_AGAIN: Duration = Duration::from_secs(2);

/// What all logical units share.
#[derive(Debug)]
pub struct World {
    /// The way to the queue and the configuration.
    pub writer: Writer,
    /// What is committed.
    pub published: Arc<Published>,
    /// Who holds what.
    pub locks: Locks,
    /// The way to the agents.
    pub agents: Agents,
    /// The way to other members' `masterd`, whoever they are.
    pub peers: PeerBook,
    /// Which agents are reached.
    pub contacts: Contacts,
    /// What should have passed by itself and did not.
    pub alarms: Alarms,
    /// Whether candidates hold what the master does.
    pub copies: Copies,
    /// One-time secrets of nodes that are about to be added.
    pub secrets: StagedSecrets,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Gives the time.
    pub clock: Clock,
    /// Where things live.
    pub layout: Layout,
    /// Exports of the store that clients fetch.
    pub exports: Exports,
    /// Archived jobs.
    pub archive: Archive,
    /// Tells whether there is room for new work.
    pub commits: Arc<Commits>,
    /// Where new work waits for room.
    pub turnstile: Turnstile,
    /// Where opcodes wait while none may run.
    pub gate: Gate,
}

/// One opcode's view of the world.
#[derive(Debug)]
pub struct Context {
    world: Arc<World>,
    job: JobId,
    op: usize,
    input: Arc<Input>,
    priority: i32,
    dry_run: bool,
    reach: Reach,
    cancel: CancellationToken,
    /// Whether it began to run.
    passed: Arc<AtomicBool>,
    grant: Option<Grant>,
    /// Whether agents may have been called.
    called: bool,
    /// Whether a change of the configuration was asked for.
    changed: bool,
    /// Whether it is canceled between two of its steps only, whatever it changed.
    by_steps: bool,
    /// Told when "running" is durable; nothing is done to the outside before.
    running: Option<oneshot::Receiver<Answer>>,
}

impl Context {
    pub(crate) fn new(world: Arc<World>, start: &Start, common: &Common, leash: &Leash) -> Self {
        Self {
            world,
            job: start.job,
            op: start.op,
            input: Arc::clone(&start.input),
            priority: start.priority,
            dry_run: common.dry_run,
            reach: start.input.reach(),
            cancel: leash.cancel.clone(),
            passed: Arc::clone(&leash.passed),
            grant: None,
            called: false,
            changed: false,
            by_steps: false,
            running: None,
        }
    }

    /// The job that this opcode belongs to.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Its place in the job.
    #[must_use]
    pub fn op(&self) -> usize {
        self.op
    }

    /// Whether it is only to check.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// The configuration with all that was decided so far.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.world.published.latest()
    }

    /// The committed configuration.
    #[must_use]
    pub fn committed(&self) -> Snapshot {
        self.world.published.snapshot()
    }

    /// What all logical units share.
    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.world.clock.now_micros())
    }

    /// Takes further locks, all of them or none.
    ///
    /// # Errors
    /// The lock manager's refusal.
    pub async fn acquire(&mut self, wanted: Wanted) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + LOCK_DEADLINE;
        let owner = Owner(self.job.0);
        let begun = tokio::time::Instant::now();
        let granted = match &mut self.grant {
            Some(grant) => grant.add(wanted, self.priority, deadline).await,
            None => {
                let granted =
                    self.world.locks.acquire(owner, wanted, self.priority, deadline).await;
                granted.map(|grant| self.grant = Some(grant))
            }
        };
        self.world.metrics.lock_wait_seconds.observe_time(begun.elapsed());
        granted.map_err(|refused| lock_failure(&refused))
    }

    /// Takes those of `wanted` that are free; while fewer than `count` are, tries again after a
    /// while.
    ///
    /// # Errors
    /// The lock manager's refusal.
    pub async fn acquire_some(&mut self, wanted: Wanted, count: usize) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + LOCK_DEADLINE;
        loop {
            let taken = match &mut self.grant {
                Some(grant) => grant.try_add(wanted.clone(), count, self.priority).map(drop),
                None => {
                    let (locks, owner) = (&self.world.locks, Owner(self.job.0));
                    let grant = locks.try_acquire(owner, wanted.clone(), count, self.priority);
                    grant.map(|grant| self.grant = Some(grant))
                }
            };
            match taken {
                Err(LockError::Refused(Refused::TooFew { .. }))
                    if tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(SOME_LOCKS_AGAIN).await;
                }
                taken => return taken.map_err(|refused| lock_failure(&refused)),
            }
        }
    }

    /// Whether the opcode has this lock.
    #[must_use]
    pub fn holds(&self, name: &LockName) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.held().iter().any(|(held, _)| held == name))
    }

    /// Takes the lock of a removed object out of use; who waits for it fails.
    ///
    /// # Errors
    /// The lock is not held exclusively.
    pub fn remove_lock(&mut self, name: &LockName) -> Result<(), Failure> {
        let Some(grant) = &mut self.grant else { return Ok(()) };
        grant.remove(name).map_err(|refused| lock_failure(&refused))
    }

    /// Waits until opcodes may run.
    pub(crate) async fn pass_gate(&self) {
        self.world.gate.pass(&self.passed).await;
    }

    /// Tells the queue that the opcode has its locks and runs.
    ///
    /// # Errors
    /// The master is ending.
    pub(crate) async fn granted(&mut self) -> Result<(), Failure> {
        let durable = match self.reach {
            Reach::Master => None,
            Reach::Agents => {
                let (reply, running) = oneshot::channel();
                self.running = Some(running);
                Some(reply)
            }
        };
        let event = Event::Granted { job: self.job, op: self.op, durable };
        Ok(self.world.writer.tell(event).await?)
    }

    /// Whether agents may have been called: what they were told stands, whatever becomes of the
    /// opcode.
    #[must_use]
    pub fn has_called(&self) -> bool {
        self.called
    }

    /// Whether a change of the configuration was asked for; it stands, whatever becomes of the opcode.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Has the opcode canceled between two of its steps only.
    pub(crate) fn go_by_steps(&mut self) {
        self.by_steps = true;
    }

    /// Fires when the job is canceled.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// What the log of an opcode says that was canceled before it changed the configuration.
    pub(crate) fn told_of_cancel(&self) -> String {
        self.world.agents.made().told(self.job)
    }

    /// From here on the opcode cannot be canceled. Needed before what cannot be taken back and is no
    /// transaction, which has the same effect.
    ///
    /// # Errors
    /// It was canceled before, or the master is ending.
    pub async fn point_of_no_return(&self) -> Result<(), Failure> {
        let make = |reply| Event::NoReturn { job: self.job, reply };
        match self.world.writer.ask(make).await? {
            Answer::Archived(true) => Ok(()),
            _ => Err(Failure::Canceled),
        }
    }

    /// Writes a line into the job's log.
    pub async fn say(&self, text: impl Into<String>) {
        let message = Value::String(text.into());
        let event = self.log_event(LogType::Message, message, None);
        if self.world.writer.tell(event).await.is_err() {
            tracing::info!("the master ends before a log message could be recorded");
        }
    }

    /// Writes an entry into the job's log and waits until clients can see it.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn show(&self, kind: LogType, message: Value) -> Result<(), Failure> {
        let make = |reply| self.log_event(kind, message, Some(reply));
        self.world.writer.ask(make).await?;
        Ok(())
    }

    fn log_event(&self, kind: LogType, message: Value, visible: Option<Reply>) -> Event<Reply> {
        Event::Log { job: self.job, op: self.op, kind, message, visible }
    }

    /// Changes the configuration; returns when the change is durable. From then on the opcode cannot
    /// be canceled, unless it works by steps.
    ///
    /// # Errors
    /// What `decide` says; the opcode was canceled before; or the master is ending.
    pub async fn transact(
        &mut self,
        decide: impl FnOnce(&Config) -> Result<Vec<ConfigChange>, Exception> + Send + 'static,
    ) -> Result<(), Failure> {
        self.changed = true;
        let (writer, decide) = (&self.world.writer, Box::new(decide));
        let done = match self.by_steps {
            true => writer.transact(decide).await,
            false => writer.transact_for(self.job, decide).await,
        };
        done.map_err(|why| match why.kind {
            ExceptionKind::JobCanceled => Failure::Canceled,
            _ => why.into(),
        })
    }

    /// Submits jobs of this opcode's own, which go on when it has ended. They keep its priority and
    /// the reasons for it. A drained queue takes them: they are part of work that it took before.
    ///
    /// # Errors
    /// Canceled before, none was accepted, or the master is ending.
    pub async fn submit(&self, mut jobs: Vec<Vec<OpInput>>) -> Result<SubmittedJobs, Failure> {
        if let Some(parent) = self.input.known() {
            for op in jobs.iter_mut().flatten() {
                op.common.priority = parent.common.priority;
                op.common.debug_level = parent.common.debug_level;
                op.common.reason.clone_from(&parent.common.reason);
                op.common.comment = Some(format!("Submitted by {}", parent.op.id()));
            }
        }
        self.point_of_no_return().await?;
        let answers = desk::submit(&self.world, jobs, true).await?;
        Ok(answers.into_iter().map(|answer| answer.map_err(|why| why.to_string())).collect())
    }

    /// The way to the agents, once "running" is durable: a job whose calls were made never runs
    /// again.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn agents(&mut self) -> Result<&Agents, Failure> {
        if !self.called {
            self.called = true;
            self.world.agents.made().record(self.job);
        }
        if let Some(running) = self.running.take() {
            running.await.map_err(|_dropped| {
                Exception::exec("The master daemon ends before this job became durable")
            })?;
        }
        Ok(&self.world.agents)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.called {
            self.world.agents.made().forget(self.job);
        }
    }
}

fn lock_failure(refused: &LockError) -> Failure {
    Failure::Exception(Exception::new(ExceptionKind::LockError, refused.to_string()))
}
