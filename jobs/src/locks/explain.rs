//! Core: who holds what and who waits for whom, for people.

use std::collections::BTreeSet;
use std::fmt;

use model::JobId;

use super::line::Line;
use super::name::{LockName, Mode, Owner};
use super::waiting::LockQueue;

/// Most holders, and most jobs ahead, that an explanation names; nobody reads more.
pub const EXPLAINED_MAX: usize = 64;
/// How many of them the sentence for a job's result names.
const SENTENCE_MAX: usize = 5;

/// Why a request waits: the first lock that it cannot have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock that it asks for.
    pub lock: LockName,
    pub mode: Mode,
    /// The place where it is stopped: the lock itself or, when that is a set, one of its members.
    pub at: LockName,
    /// The owners that hold what is in the way, at most [`EXPLAINED_MAX`].
    pub holders: Vec<(Owner, Mode)>,
    /// The owners whose waiting requests for the same are served before it, in turn, at most
    /// [`EXPLAINED_MAX`].
    pub ahead: Vec<Owner>,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.lock, self.mode)?;
        if !self.holders.is_empty() {
            let holders = self.holders.iter().map(|(owner, mode)| format!("{owner} ({mode})"));
            let holders = listed(holders);
            if self.at == self.lock {
                write!(f, ", held by {holders}")?;
            } else {
                write!(f, ", where {} is held by {holders}", self.at)?;
            }
        }
        if !self.ahead.is_empty() {
            write!(f, ", behind {}", listed(self.ahead.iter().map(Owner::to_string)))?;
        }
        Ok(())
    }
}

impl From<&Wait> for model::job::Wait {
    fn from(wait: &Wait) -> Self {
        let owner = |(owner, mode): &(Owner, Mode)| (JobId(owner.0), mode.to_string());
        Self::Lock {
            lock: wait.lock.to_string(),
            mode: wait.mode.to_string(),
            at: wait.at.to_string(),
            owners: wait.holders.iter().map(owner).collect(),
            ahead: wait.ahead.iter().map(|owner| JobId(owner.0)).collect(),
        }
    }
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(SENTENCE_MAX);
    let mut text = names.take(SENTENCE_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// One lock that is held or waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockState {
    pub name: LockName,
    /// How it is held; none: it is waited for only.
    pub mode: Option<Mode>,
    /// By whom, in order of job id.
    pub owners: Vec<Owner>,
    /// The owners that ask for it, in turn; shared requests that follow each other are one entry.
    pub pending: Vec<(Mode, Vec<Owner>)>,
}

impl LockQueue {
    /// Why `owner` waits; none if it does not.
    pub fn explain(&self, owner: Owner) -> Option<Wait> {
        let waiter = self.waiting.get(&owner)?;
        let (lock, mode) = waiter.walk[waiter.at].clone();
        let at = waiter.frontier.clone();
        let place = waiter.place(waiter.at);
        let mut ahead = BTreeSet::new();
        let line = self.lines.get(&at);
        ahead.extend(line.into_iter().flat_map(|line| line.reached.ahead(place, mode)));
        if !at.is_set() {
            let sets = self.lines.level(at.level).set.reached.ahead(place, mode);
            ahead.extend(sets.filter(|set| {
                self.waiting.get(&set.rank.owner).is_some_and(|other| other.frontier >= at)
            }));
        }
        Some(Wait {
            holders: self.table.blockers(owner, &at, mode).take(EXPLAINED_MAX).collect(),
            ahead: ahead.into_iter().take(EXPLAINED_MAX).map(|place| place.rank.owner).collect(),
            lock,
            mode,
            at,
        })
    }

    /// Whether somebody keeps everybody else from `name`, by itself or by its set.
    pub fn is_exclusive(&self, name: &LockName) -> bool {
        let holds = |name: &LockName| self.table.owners(name).any(|(_, m)| m == Mode::Exclusive);
        holds(name) || holds(&LockName::set(name.level))
    }

    /// All locks that are held or waited for, in their order.
    pub fn snapshot(&self) -> Vec<LockState> {
        let names: BTreeSet<LockName> = self.table.names().chain(self.lines.names()).collect();
        names.into_iter().map(|name| self.state(name)).collect()
    }

    fn state(&self, name: LockName) -> LockState {
        let (owners, modes): (Vec<_>, Vec<_>) = self.table.owners(&name).unzip();
        let pending = self.lines.get(&name).map(pending).unwrap_or_default();
        LockState { mode: modes.first().copied(), owners, pending, name }
    }
}

fn pending(line: &Line) -> Vec<(Mode, Vec<Owner>)> {
    let mut pending: Vec<(Mode, Vec<Owner>)> = Vec::new();
    for (place, mode) in &line.wanting {
        match pending.last_mut() {
            Some((Mode::Shared, owners)) if *mode == Mode::Shared => owners.push(place.rank.owner),
            _ => pending.push((*mode, vec![place.rank.owner])),
        }
    }
    pending
}
