//! Locks that are held: more can be added, some given back, and all are released at the end.

use tokio::time::Instant;

use super::manager::{LockError, Locks};
use super::name::{Level, LockName, Mode, Owner};

/// The locks that one owner holds. Dropping the grant releases everything.
#[derive(Debug)]
#[must_use = "dropping it releases the locks"]
pub struct Grant {
    locks: Locks,
    owner: Owner,
}

impl Grant {
    pub(super) fn new(locks: Locks, owner: Owner) -> Self {
        Self { locks, owner }
    }

    /// The owner of these locks.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// All that is held, in order.
    pub fn held(&self) -> Vec<(LockName, Mode)> {
        self.locks.state().queue.holdings(self.owner)
    }

    /// Takes all of `wanted` too, waiting until `deadline` for them. Dropping the future, or its
    /// failure, leaves what was held before.
    ///
    /// # Errors
    /// A rule forbids it (a lock comes before one that is held); the deadline passed; the request
    /// was canceled; one of the locks was removed.
    pub async fn add(
        &mut self,
        wanted: Vec<(LockName, Mode)>,
        priority: i32,
        deadline: Instant,
    ) -> Result<(), LockError> {
        let asked = self.locks.ask(&mut self.locks.state(), self.owner, wanted, priority)?;
        match asked {
            Some(asked) => asked.end(deadline).await,
            None => Ok(()),
        }
    }

    /// Takes those of `wanted` that are free, without waiting; returns what it has of them.
    ///
    /// # Errors
    /// A rule forbids it; fewer than `count` are free.
    pub fn try_add(
        &mut self,
        wanted: Vec<(LockName, Mode)>,
        count: usize,
        priority: i32,
    ) -> Result<Vec<LockName>, LockError> {
        let mut state = self.locks.state();
        let taken = state.queue.try_request(self.owner, wanted, count, priority);
        state.wake();
        Ok(taken?)
    }

    /// Makes a shared lock, the highest that is held, exclusive; it is served before all others
    /// who wait for that lock. A set lock is upgraded at once or not at all.
    ///
    /// # Errors
    /// A rule forbids it, or as for [`Self::add`]. The rules: another holder is waiting to upgrade it;
    /// the set lock is not free at once; a higher lock is held.
    pub async fn upgrade(
        &mut self,
        name: LockName,
        priority: i32,
        deadline: Instant,
    ) -> Result<(), LockError> {
        self.add(vec![(name, Mode::Exclusive)], priority, deadline).await
    }

    /// Makes locks shared.
    ///
    /// # Errors
    /// One of them is not held; nothing is changed then.
    pub fn downgrade(&mut self, names: &[LockName]) -> Result<(), LockError> {
        let mut state = self.locks.state();
        let changed = state.queue.downgrade(self.owner, names);
        state.wake();
        Ok(changed?)
    }

    /// Gives back some of the locks.
    ///
    /// # Errors
    /// One of them is not held; nothing is changed then.
    pub fn release(&mut self, names: &[LockName]) -> Result<(), LockError> {
        let mut state = self.locks.state();
        let changed = state.queue.release(self.owner, names);
        state.wake();
        Ok(changed?)
    }

    /// Gives back the locks of one level, except `names`.
    pub fn keep(&mut self, level: Level, names: &[LockName]) {
        let mut state = self.locks.state();
        let held = state.queue.holdings(self.owner).into_iter();
        let others = held
            .filter(|(name, _)| name.level == level && !names.contains(name))
            .map(|(n, _)| (n, None));
        state.queue.give_back(self.owner, &others.collect::<Vec<_>>());
        state.wake();
    }

    /// Says that what `name` protects is gone; see [`Locks::remove`].
    ///
    /// # Errors
    /// It is a set lock, or not held exclusively.
    pub fn remove(&mut self, name: &LockName) -> Result<(), LockError> {
        self.locks.remove(self.owner, name)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        state.queue.release_all(self.owner);
        state.wake();
    }
}
