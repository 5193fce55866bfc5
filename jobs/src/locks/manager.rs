//! The lock manager as logical units see it: requests are awaited, and end at a deadline, when
//! they are canceled, or when the future is dropped.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::explain::{LockState, Wait};
use super::grant::Grant;
use super::name::{LockName, Mode, Owner};
use super::plan::Refused;
use super::waiting::{Admission, LockQueue};

/// Why locks were not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// A rule forbids the request, or there is no room for it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// They were not free in time.
    #[error("{owner} could not have its locks in time; it waited for {wait}")]
    Deadline {
        /// Who asked.
        owner: Owner,
        /// The wait that it was in at the end.
        wait: Box<Wait>,
    },
    /// The request was canceled.
    #[error("{owner} waits for locks no longer: its request was canceled")]
    Canceled {
        /// Who asked.
        owner: Owner,
    },
    /// The object that a lock protects was removed while the request waited.
    #[error("{owner} cannot have {name}, which was removed while it waited")]
    Removed {
        /// Who asked.
        owner: Owner,
        name: LockName,
    },
}

/// The end of a wait.
type LockResult = Result<(), LockError>;

/// The lock manager. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub struct Locks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: LockQueue,
    /// One for each request that waits. A request's end is sent while the state is locked, so that
    /// who gives up can tell whether it was granted.
    wakers: HashMap<Owner, oneshot::Sender<LockResult>>,
}

impl State {
    /// Tells those whose wait ended.
    pub(super) fn wake(&mut self) {
        for woken in self.queue.take_woken() {
            let owner = woken.owner;
            let outcome = match woken.removed {
                None => Ok(()),
                Some(name) => Err(LockError::Removed { owner, name }),
            };
            self.end(owner, outcome);
        }
    }

    /// Takes out a request whose end nobody wants to hear.
    fn forget(&mut self, owner: Owner) {
        self.wakers.remove(&owner);
        self.queue.withdraw(owner);
        self.wake();
    }

    fn end(&mut self, owner: Owner, outcome: LockResult) {
        if let Some(waker) = self.wakers.remove(&owner)
            && waker.send(outcome).is_err()
        {
            // Cannot be: who stops listening takes its waker out first.
            tracing::error!(%owner, "a request for locks ended unheard");
        }
    }
}

impl Locks {
    /// Nothing is held.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Takes all of `wanted`, waiting until `deadline` for them; small priorities are served
    /// first. Dropping the future leaves no trace.
    ///
    /// # Errors
    /// A rule forbids it; the owner already holds or awaits locks; the deadline passed; the
    /// request was canceled; one of the locks was removed.
    pub async fn acquire(
        &self,
        owner: Owner,
        wanted: Vec<(LockName, Mode)>,
        priority: i32,
        deadline: Instant,
    ) -> Result<Grant, LockError> {
        let asked = {
            let mut state = self.state();
            if !state.queue.is_idle(owner) {
                return Err(Refused::Twice { owner }.into());
            }
            self.ask(&mut state, owner, wanted, priority)?
        };
        if let Some(asked) = asked {
            asked.end(deadline).await?;
        }
        Ok(Grant::new(self.clone(), owner))
    }

    /// Takes those of `wanted` that are free, without waiting (opportunistic locking).
    ///
    /// # Errors
    /// A rule forbids it; the owner already holds or awaits locks; fewer than `count` are free.
    pub fn try_acquire(
        &self,
        owner: Owner,
        wanted: Vec<(LockName, Mode)>,
        count: usize,
        priority: i32,
    ) -> Result<Grant, LockError> {
        let mut state = self.state();
        if !state.queue.is_idle(owner) {
            return Err(Refused::Twice { owner }.into());
        }
        let taken = state.queue.try_request(owner, wanted, count, priority);
        state.wake();
        drop(state);
        taken?;
        Ok(Grant::new(self.clone(), owner))
    }

    /// Enters a request; none if it is granted at once.
    pub(super) fn ask(
        &self,
        state: &mut State,
        owner: Owner,
        wanted: Vec<(LockName, Mode)>,
        priority: i32,
    ) -> Result<Option<Asked>, LockError> {
        let answer = state.queue.request(owner, wanted, priority);
        state.wake();
        match answer? {
            Admission::Granted => Ok(None),
            Admission::Waiting => {
                let (waker, outcome) = oneshot::channel();
                state.wakers.insert(owner, waker);
                let before = state.queue.before_grant(owner);
                Ok(Some(Asked { locks: self.clone(), owner, before, outcome: Some(outcome) }))
            }
        }
    }

    /// Lets a removed name be asked for again: who makes such an object calls this before it asks
    /// for its lock.
    pub fn add(&self, name: &LockName) {
        self.state().queue.add(name);
    }

    /// Says that what `name` protects is gone: requests for it that wait, and later ones, fail
    /// until [`Self::add`]. The owner keeps the lock until it releases it.
    ///
    /// # Errors
    /// It is a set lock, or `owner` does not hold it exclusively.
    pub fn remove(&self, owner: Owner, name: &LockName) -> Result<(), LockError> {
        let mut state = self.state();
        let removed = state.queue.remove(owner, name);
        state.wake();
        Ok(removed?)
    }

    /// Ends the request that `owner` waits for, which fails with [`LockError::Canceled`]; what it
    /// holds stays. Says whether there was one.
    pub fn cancel(&self, owner: Owner) -> bool {
        let mut state = self.state();
        let waited = state.queue.withdraw(owner);
        if waited {
            state.end(owner, Err(LockError::Canceled { owner }));
        }
        state.wake();
        waited
    }

    /// Changes the priority of the request that `owner` waits for; says whether there is one.
    pub fn set_priority(&self, owner: Owner, priority: i32) -> bool {
        let mut state = self.state();
        let waits = state.queue.set_priority(owner, priority);
        state.wake();
        waits
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.state().wakers.len()
    }

    /// Why `owner` waits; none if it does not.
    pub fn explain(&self, owner: Owner) -> Option<Wait> {
        self.state().queue.explain(owner)
    }

    /// Whether somebody keeps everybody else from `name`.
    pub fn is_exclusive(&self, name: &LockName) -> bool {
        self.state().queue.is_exclusive(name)
    }

    /// All locks that are held or waited for, in their order.
    pub fn snapshot(&self) -> Vec<LockState> {
        self.state().queue.snapshot()
    }
}

/// A request that waits. Dropped before its end is seen, it leaves the queue, or gives back what
/// it was granted.
#[derive(Debug)]
pub(super) struct Asked {
    locks: Locks,
    owner: Owner,
    /// How the owner held what it asks for.
    before: Vec<(LockName, Option<Mode>)>,
    /// None once the end was seen.
    outcome: Option<oneshot::Receiver<LockResult>>,
}

impl Asked {
    /// Awaits the end of the request.
    pub(super) async fn end(mut self, deadline: Instant) -> LockResult {
        let Some(outcome) = self.outcome.as_mut() else { return Ok(()) };
        match tokio::time::timeout_at(deadline, outcome).await {
            Ok(Ok(outcome)) => {
                self.outcome = None;
                outcome
            }
            // The sender lives in the state until it is used.
            Ok(Err(_closed)) => Err(LockError::Canceled { owner: self.owner }),
            Err(_elapsed) => self.give_up(),
        }
    }

    /// The deadline passed, unless the end came in the same moment.
    fn give_up(&mut self) -> LockResult {
        let canceled = LockError::Canceled { owner: self.owner };
        let Some(mut outcome) = self.outcome.take() else { return Err(canceled) };
        let mut state = self.locks.state();
        if let Ok(ended) = outcome.try_recv() {
            return ended;
        }
        let wait = state.queue.explain(self.owner);
        state.forget(self.owner);
        Err(wait.map_or(canceled, |wait| LockError::Deadline {
            owner: self.owner,
            wait: Box::new(wait),
        }))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(mut outcome) = self.outcome.take() else { return };
        let mut state = self.locks.state();
        // A request that ended is in the queue no longer; the owner may have another one there.
        match outcome.try_recv() {
            Ok(Ok(())) => {
                state.queue.give_back(self.owner, &self.before);
                state.wake();
            }
            Ok(Err(_failed)) => {}
            Err(_still_waiting) => state.forget(self.owner),
        }
    }
}

#[cfg(test)]
mod orders;
#[cfg(test)]
mod tests;
