//! All that a logical unit may touch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::Engine;
use jobs::event::Channels;
use jobs::locks::{Grant, LockError, LockName, Owner, Refused};
use jobs::{CancelHandle, Event, Start};
use model::asker::Asker;
use model::error::ExceptionKind;
use model::job::LogType;
use model::layout::Layout;
use model::opcode::common::Unchanged;
use model::opcode::{Common, Input, OpInput, Reach, SubmittedJobs};
use model::{Code, Exception, JobId, NodeName, Timestamp};
use rpc::identity::IdentityError;
use serde_json::Value;
use stdx::Clock;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Failure, Resources, Wanted};
use crate::agents::allow_list::AllowListPush;
use crate::agents::blobs::Source;
use crate::agents::contacts::{Contacts, Enrolling};
use crate::agents::master_address::MoveAddress;
use crate::agents::{Agents, Behalf};
use crate::config::Config;
use crate::config::queue::{Decision, Snapshot};
use crate::config::secrets::StagedSecrets;
use crate::config::tenancy;
use crate::role::replicas::Compared;
use membership::peers::PeerBook;

/// How long an opcode waits for its locks before it fails and says who holds them. The limit is a day,
/// since an operator may well queue a night's work behind a long one.
const LOCK_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Between two looks for locks that are free, where some are enough (Ganeti's).
const SOME_LOCKS_AGAIN: Duration = Duration::from_secs(2);

/// All that one opcode may touch.
#[derive(Debug)]
pub struct Context {
    resources: Arc<Resources>,
    job: JobId,
    op: usize,
    input: Arc<Input>,
    priority: i32,
    dry_run: bool,
    /// The conditions on which the change rests, until it is made.
    unchanged: Vec<Unchanged>,
    reach: Reach,
    cancel: CancellationToken,
    /// Whether it began to run.
    runs: Arc<AtomicBool>,
    grant: Option<Grant>,
    /// Whether agents may have been called.
    called: bool,
    /// Whether a change of the configuration was asked for.
    changed: bool,
    /// Whether it is canceled between two of its steps only, whatever it changed.
    by_steps: bool,
    /// The submitter of its job.
    asker: Option<Arc<Asker>>,
    /// Told when "running" is durable; nothing is done to the outside before.
    running: Option<oneshot::Receiver<()>>,
}

impl Context {
    pub(crate) fn new(
        resources: Arc<Resources>,
        start: &Start,
        common: &Common,
        handle: &CancelHandle,
    ) -> Self {
        Self {
            resources,
            job: start.job,
            op: start.op,
            input: Arc::clone(&start.input),
            priority: start.priority,
            dry_run: common.dry_run,
            unchanged: common.unchanged.clone(),
            reach: start.input.reach(),
            cancel: handle.cancel.clone(),
            runs: Arc::clone(&handle.runs),
            grant: None,
            called: false,
            changed: false,
            by_steps: false,
            asker: start.asker.clone(),
            running: None,
        }
    }

    /// The job that this opcode belongs to.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Its place in the job.
    pub fn op(&self) -> usize {
        self.op
    }

    /// On whose behalf its calls are made.
    pub fn behalf(&self) -> Option<Behalf> {
        Some((self.job, self.op))
    }

    /// Looks whether what the change rests on is as it was. The first transaction looks again.
    ///
    /// # Errors
    /// It is not.
    pub fn check_unchanged(&self) -> Result<(), Exception> {
        self.config().check_unchanged(&self.unchanged)
    }

    /// Looks whether the tenant as which the job was submitted may still have this opcode run: what it
    /// names, or who submitted it, may have been taken away meanwhile.
    ///
    /// # Errors
    /// It may not.
    pub fn check_tenant(&self) -> Result<(), Exception> {
        let asker = self.asker.as_deref();
        let Some((asker, name)) = asker.and_then(|asker| Some((asker, asker.tenant.as_ref()?)))
        else {
            return Ok(());
        };
        let config = self.config();
        let tenant = config.tenant(name.as_str())?;
        if !tenant.members.contains(asker.user.as_ref()) {
            let text = format!("`{}` is a member of tenant {name} no more", asker.user);
            return Err(model::tenant::refused(text));
        }
        match self.input.known() {
            Some(op) => tenancy::may_submit(&config, tenant, &op.op),
            None => Ok(()),
        }
    }

    /// Whether it is only to check.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// The configuration with all that was decided so far.
    pub fn config(&self) -> Arc<Config> {
        self.resources.published.latest()
    }

    /// The committed configuration.
    pub fn committed(&self) -> Snapshot {
        self.resources.published.snapshot()
    }

    /// Tells of each new committed configuration.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.resources.published.subscribe()
    }

    /// Whether a job does nothing any more: it has ended, or is gone.
    pub(crate) fn has_ended(&self, job: JobId) -> bool {
        self.resources.published.jobs.has_ended(job)
    }

    /// Whether new jobs are refused.
    pub fn is_drained(&self) -> bool {
        self.resources.published.is_drained()
    }

    /// The engine, where this master has one.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.resources.commits.engine()
    }

    /// The way to other members' `masterd`.
    pub fn peers(&self) -> &PeerBook {
        &self.resources.peers
    }

    /// The nodes whose agents were reached at the last attempt.
    pub fn reached(&self) -> BTreeSet<NodeName> {
        self.resources.contacts.reached()
    }

    /// Which agents are reached, since when, and why not.
    pub fn contacts(&self) -> &Contacts {
        &self.resources.contacts
    }

    /// Keeps the exchange from a node that is about to be given its certificate.
    pub fn enrol(&self, node: NodeName) -> Enrolling {
        self.resources.contacts.enrol(node)
    }

    /// One-time secrets of nodes that are about to be added.
    pub fn secrets(&self) -> &StagedSecrets {
        &self.resources.secrets
    }

    /// Tells agents who may call them.
    pub fn allow_lists(&self) -> Arc<AllowListPush> {
        Arc::clone(&self.resources.allow_lists)
    }

    /// Moves the master's address.
    pub fn address(&self) -> Arc<MoveAddress> {
        Arc::clone(&self.resources.address)
    }

    /// Compares the stores of all candidates with the master's.
    pub async fn compare_replicas(&self) -> Vec<Compared> {
        self.resources.audit.compare(&self.resources.writer).await
    }

    /// Until when the certificate of the cluster's authority is valid.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn authority_ends(&self) -> Result<Timestamp, IdentityError> {
        self.resources.agents.authority_ends()
    }

    /// The source of image files.
    pub(crate) fn source(&self) -> Arc<Source> {
        Arc::clone(&self.resources.source)
    }

    /// The paths on this machine.
    pub fn layout(&self) -> &Layout {
        &self.resources.layout
    }

    /// Gives the time.
    pub fn clock(&self) -> &Clock {
        &self.resources.clock
    }

    /// Makes the lock of an object that is about to be added.
    pub fn add_lock(&self, name: &LockName) {
        self.resources.locks.add(name);
    }

    /// Waits until no opcode will begin to run any more.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let pause = Arc::clone(&self.resources.pause);
        async move { pause.ended().await }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.resources.clock.now_micros())
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
                    self.resources.locks.acquire(owner, wanted, self.priority, deadline).await;
                granted.map(|grant| self.grant = Some(grant))
            }
        };
        self.resources.metrics.lock_wait_seconds.observe_time(begun.elapsed());
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
                    let (locks, owner) = (&self.resources.locks, Owner(self.job.0));
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
        self.resources.pause.pass(&self.runs).await;
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
        Ok(self.resources.writer.tell(event).await?)
    }

    /// Whether agents may have been called: what they were told stands, whatever becomes of the
    /// opcode.
    pub fn has_called(&self) -> bool {
        self.called
    }

    /// Whether a change of the configuration was asked for; it stands, whatever becomes of the opcode.
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

    /// The message in the log of an opcode that was canceled before it changed the configuration.
    pub(crate) fn told_of_cancel(&self) -> String {
        self.resources.agents.made().told(self.job)
    }

    /// From here on the opcode cannot be canceled. Needed before what cannot be taken back and is no
    /// transaction, which has the same effect.
    ///
    /// # Errors
    /// It was canceled before, or the master is ending.
    pub async fn point_of_no_return(&self) -> Result<(), Failure> {
        let make = |reply| Event::NoReturn { job: self.job, reply };
        let may = self.resources.writer.ask(make).await?;
        may.then_some(()).ok_or(Failure::Canceled)
    }

    /// Writes a line into the job's log.
    pub async fn say(&self, text: impl Into<String>) {
        let message = Value::String(text.into());
        let event = self.log_event(LogType::Message, message, None);
        if self.resources.writer.tell(event).await.is_err() {
            tracing::info!("the master ends before a log message could be recorded");
        }
    }

    /// Writes an entry into the job's log and waits until clients can see it.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn show(&self, kind: LogType, message: Value) -> Result<(), Failure> {
        let make = |reply| self.log_event(kind, message, Some(reply));
        Ok(self.resources.writer.ask(make).await?)
    }

    fn log_event(
        &self,
        kind: LogType,
        message: Value,
        visible: Option<oneshot::Sender<()>>,
    ) -> Event<Channels> {
        Event::Log { job: self.job, op: self.op, kind, message, visible }
    }

    /// Changes the configuration; returns what `decide` gives beside the changes, when they are
    /// durable. From then on the opcode cannot be canceled, unless it works by steps.
    ///
    /// # Errors
    /// What `decide` says; the opcode was canceled before; or the master is ending.
    pub async fn transact<T: Send + 'static>(
        &mut self,
        decide: impl FnOnce(&Config) -> Decision<T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.changed = true;
        let job = (!self.by_steps).then_some(self.job);
        let unchanged = std::mem::take(&mut self.unchanged);
        let decide = move |config: &Config| {
            config.check_unchanged(&unchanged)?;
            decide(config)
        };
        let done = self.resources.writer.transact(job, decide).await;
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
        let answers = self.resources.submitter.submit(jobs, true, None).await?;
        Ok(answers.into_iter().map(|answer| answer.map_err(|why| why.to_string())).collect())
    }

    /// The way to the agents, once "running" is durable: a job whose calls were made never runs
    /// again.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn agents(&mut self) -> Result<&Agents, Failure> {
        self.reach_out().await?;
        Ok(&self.resources.agents)
    }

    /// Waits until "running" is durable, before anything outside is asked: a job that asked never runs
    /// again.
    ///
    /// # Errors
    /// The master is ending.
    pub async fn reach_out(&mut self) -> Result<(), Failure> {
        if !self.called {
            self.called = true;
            self.resources.agents.made().record(self.job);
        }
        if let Some(running) = self.running.take() {
            running.await.map_err(|_dropped| {
                let text = "The master daemon ends before this job became durable";
                Exception::exec(text).coded(Code::MasterUnreached)
            })?;
        }
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.called {
            self.resources.agents.made().forget(self.job);
        }
    }
}

fn lock_failure(refused: &LockError) -> Failure {
    Failure::Exception(Exception::new(ExceptionKind::LockError, refused.to_string()))
}
