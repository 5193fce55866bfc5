//! A host whose network is changed so that it cannot cut itself off.
//!
//! [`checkpoint`] is what is on disk while a change waits for its commit, [`routes`] says what becomes
//! of routes that others added.

pub(crate) mod checkpoint;
mod error;
mod routes;

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use ::model::layout::DIRECTORY_MODE;
use stdx::daemon::chain;
use stdx::{Clock, Tasks};

use crate::kernel::{Kernel, Reading, SavedRoute};
use crate::model::HostNetwork;
use crate::plan::step::Step;
use crate::plan::{self, Plan};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use error::HostError;

/// The most rounds of planning and applying a state. A further round is due when the kernel did more
/// than it was asked: with a link that goes down, it forgets routes of others.
const ROUNDS_MAX: usize = 4;

/// The network of the host, or network namespace, in which it was opened.
///
/// A change is [`read`](Self::read) and [`apply`](Self::apply), then a look whether the host can still
/// be reached, then [`commit`](Self::commit) or [`roll_back`](Self::roll_back).
#[derive(Debug)]
pub struct Host {
    kernel: Kernel,
    checkpoint: checkpoint::File,
    clock: Clock,
    /// Held as long as this value lives.
    _lock: File,
}

impl Host {
    /// Opens the network here. `directory`, made where it is missing, keeps the
    /// checkpoint; it must survive restarts of the agent.
    ///
    /// # Errors
    /// [`HostError::Held`], [`HostError::Lock`], or there is no way to the kernel.
    pub fn open(tasks: &Tasks, directory: &Path, clock: Clock) -> Result<Self, HostError> {
        let lock = lock(directory)?;
        let kernel = Kernel::open(tasks).map_err(HostError::Read)?;
        Ok(Self { kernel, checkpoint: checkpoint::File::new(directory), clock, _lock: lock })
    }

    /// Reads the network of the host.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub async fn read(&self) -> Result<Reading, HostError> {
        self.kernel.read().await.map_err(HostError::Read)
    }

    /// Plans what [`apply`](Self::apply) would do on a host in this state. Nothing is touched.
    ///
    /// # Errors
    /// The configuration does not fit this host, or its kernel lacks a kind of links.
    pub async fn plan(&self, reading: &Reading, desired: &HostNetwork) -> Result<Plan, HostError> {
        let actual = &reading.network;
        let plan = plan::plan(actual, desired).map_err(HostError::Misfit)?;
        let made = || {
            plan.steps
                .iter()
                .filter_map(|step| if let Step::Create(link) = step { Some(link) } else { None })
        };
        let lacks = self.kernel.lacks(made().map(|link| &link.kind)).await;
        let lacks = lacks.map_err(HostError::Read)?;
        if let Some(link) = made().find(|link| lacks.contains(link.kind.word())) {
            let (kind, link) = (link.kind.word(), link.name.to_string());
            return Err(HostError::Lacking { kind, link });
        }
        let mut plan = plan;
        if !plan.is_empty() {
            plan.lost = routes::lost(&routes::touched(reading, &plan.target), actual, &plan);
        }
        Ok(plan)
    }

    /// Makes the host, which was read just before, what it should be. Unless [`commit`](Self::commit)
    /// follows before the time is over, it must be rolled back, and is so by [`recover`](Self::recover)
    /// after a crash.
    ///
    /// If the host is already what it should be, nothing is touched, and nothing waits for a commit.
    ///
    /// # Errors
    /// Before anything is touched: what [`plan`](Self::plan) refuses, or a change that waits. After
    /// that: a step that the kernel refused; then the host is rolled back at once. If that fails
    /// too, the change is still [`pending`](Self::pending).
    pub async fn apply(
        &mut self,
        reading: Reading,
        desired: &HostNetwork,
        time: Duration,
    ) -> Result<Plan, HostError> {
        match self.attempt(reading, desired, time, &mut |_| true).await {
            Ok(plan) => Ok(plan),
            Err(error @ HostError::Pending { .. }) => Err(error),
            Err(error) => {
                if let Err(worse) = self.roll_back().await {
                    tracing::error!(error = %worse, "cannot roll back the network of this host");
                }
                Err(error)
            }
        }
    }

    /// The change that waits for its commit.
    ///
    /// # Errors
    /// The checkpoint cannot be read.
    pub fn pending(&self) -> Result<Option<Checkpoint>, HostError> {
        Ok(self.checkpoint.read()?)
    }

    /// Keeps the change. Says whether there was one.
    ///
    /// # Errors
    /// The checkpoint cannot be removed.
    pub fn commit(&mut self) -> Result<bool, HostError> {
        Ok(self.checkpoint.remove()?)
    }

    /// Undoes the change that waits for its commit. Says whether there was one.
    ///
    /// # Errors
    /// The checkpoint cannot be read, or the kernel refuses a step back; the checkpoint then stays.
    pub async fn roll_back(&mut self) -> Result<bool, HostError> {
        let Some(checkpoint) = self.checkpoint.read()? else { return Ok(false) };
        tracing::warn!("rolling back the network of this host");
        let reading = self.read().await?;
        if let Some(reached) = self.converge(reading, &checkpoint.before, &mut |_| true).await? {
            self.put_back(&checkpoint.routes.iter().collect::<Vec<_>>(), true, reached).await?;
        }
        Ok(self.checkpoint.remove()?)
    }

    /// To be called at each start, before anything else: a change that was not committed when the
    /// agent ended is undone. A checkpoint that cannot be read is set aside, so that it stops nothing.
    ///
    /// # Errors
    /// As [`roll_back`](Self::roll_back).
    pub async fn recover(&mut self) -> Result<bool, HostError> {
        match self.roll_back().await {
            Err(HostError::Checkpoint(error @ CheckpointError::Unreadable { .. })) => {
                tracing::warn!(error = chain(&error), "set aside: the network stays as it is");
                self.checkpoint.set_aside()?;
                Ok(false)
            }
            done => done,
        }
    }

    /// To be called when the deadline of [`pending`](Self::pending) has come: undoes the change if so.
    ///
    /// # Errors
    /// As [`roll_back`](Self::roll_back).
    pub async fn roll_back_if_due(&mut self) -> Result<bool, HostError> {
        match self.checkpoint.read()? {
            Some(checkpoint) if checkpoint.deadline_micros <= self.clock.now_micros() => {
                self.roll_back().await
            }
            Some(_) | None => Ok(false),
        }
    }

    /// As `apply`, but stops where `goes_on` says so and leaves everything as it then is.
    async fn attempt(
        &mut self,
        reading: Reading,
        desired: &HostNetwork,
        time: Duration,
        goes_on: &mut (dyn FnMut(&Step) -> bool + Send),
    ) -> Result<Plan, HostError> {
        let reading = if self.roll_back_if_due().await? { self.read().await? } else { reading };
        if let Some(Checkpoint { deadline_micros, .. }) = self.checkpoint.read()? {
            return Err(HostError::Pending { deadline_micros });
        }
        let plan = self.plan(&reading, desired).await?;
        if !plan.is_empty() {
            let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            let deadline_micros = self.clock.now_micros().saturating_add(time);
            let before = checkpoint::before(&reading.network, &plan.target);
            let routes = routes::touched(&reading, &plan.target);
            let checkpoint = Checkpoint { deadline_micros, before, routes };
            self.checkpoint.write(&checkpoint)?;
            if let Some(reached) = self.converge(reading, &plan.target, goes_on).await? {
                let stay = |route: &&SavedRoute| !routes::is_replaced(route, &plan.target);
                let stay: Vec<_> = checkpoint.routes.iter().filter(stay).collect();
                self.put_back(&stay, false, reached).await?;
            }
        }
        Ok(plan)
    }

    /// Adds those routes of others again that went with a link or an address.
    async fn put_back(
        &self,
        routes: &[&SavedRoute],
        replaces: bool,
        reading: Reading,
    ) -> Result<(), HostError> {
        let refused = self.kernel.put_back(routes, replaces, reading).await;
        let refused = refused.map_err(HostError::Read)?;
        for (route, error) in refused {
            tracing::warn!(%route, error = chain(&error), "a route of this host is lost");
        }
        Ok(())
    }

    /// Plans and applies until nothing differs, and gives what the host is then; nothing where it was
    /// stopped before.
    async fn converge(
        &self,
        mut reading: Reading,
        target: &HostNetwork,
        goes_on: &mut (dyn FnMut(&Step) -> bool + Send),
    ) -> Result<Option<Reading>, HostError> {
        for _ in 0..ROUNDS_MAX {
            let steps = plan::steps(&reading.network, target).map_err(HostError::Misfit)?;
            if steps.is_empty() {
                return Ok(Some(reading));
            }
            for step in &steps {
                if !goes_on(step) {
                    return Ok(None);
                }
                tracing::info!(%step, "changing the network of this host");
                self.kernel
                    .make(step)
                    .await
                    .map_err(|source| HostError::Step { step: step.to_string(), source })?;
            }
            reading = self.read().await?;
        }
        let steps = plan::steps(&reading.network, target).map_err(HostError::Misfit)?;
        match steps.first() {
            Some(step) => Err(HostError::Unreached { step: step.to_string() }),
            None => Ok(Some(reading)),
        }
    }
}

fn lock(directory: &Path) -> Result<File, HostError> {
    let path = directory.join("lock");
    let refused = |source| HostError::Lock { directory: directory.to_owned(), source };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE).create(directory).map_err(refused)?;
    let mut options = File::options();
    let lock = options.create(true).truncate(false).write(true).open(&path);
    // A disk that takes nothing any more is not in the way back.
    let lock =
        lock.or_else(|error| File::open(&path).map_err(|_missing| error)).map_err(refused)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(HostError::Held { directory: directory.to_owned() })
        }
        Err(std::fs::TryLockError::Error(error)) => Err(refused(error)),
    }
}
