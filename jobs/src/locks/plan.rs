//! Core: which requests are refused, and what is left to take of those that are not.
//!
//! The rules here are what makes deadlock impossible: see `docs/locking.md`.

use std::collections::{BTreeMap, HashMap};

use super::name::{Level, LockName, Mode, Owner};
use super::table::Table;

/// Most locks of one request: several times the largest rack registration seen.
pub const LOCKS_PER_REQUEST_MAX: usize = 65_536;
/// Most requests that wait at once; the queue starts far fewer opcodes.
pub const WAITING_MAX: usize = 131_072;
/// Most removed names that are remembered; the oldest is forgotten, and is then like any name that
/// never existed (the logical unit's check finds out).
pub const REMOVED_MAX: usize = 65_536;

/// Why a request was refused; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Taking it could deadlock.
    #[error("{owner} cannot ask for {asked} while it holds {highest}, which comes later")]
    Order {
        /// Who asks.
        owner: Owner,
        asked: LockName,
        /// The highest lock that it holds.
        highest: LockName,
    },
    /// A set held shared cannot have a member held exclusively.
    #[error("{owner} cannot have {asked} exclusively while it has its whole set shared")]
    OwnSet {
        /// Who asks.
        owner: Owner,
        asked: LockName,
    },
    /// Two owners who wait for each other to let go.
    #[error("{owner} cannot upgrade {asked}: {other} holds it too and is waiting to upgrade it")]
    UpgradeRace {
        /// Who asks.
        owner: Owner,
        asked: LockName,
        /// Who asked before.
        other: Owner,
    },
    /// A set lock is upgraded at once or not at all.
    #[error("{owner} cannot upgrade {asked}, since it would have to wait at {at}")]
    SetUpgrade {
        /// Who asks.
        owner: Owner,
        asked: LockName,
        /// The lock at which somebody else is in the way.
        at: LockName,
    },
    /// The object that the lock protects was removed.
    #[error("{owner} cannot have {asked}, which was removed")]
    Removed {
        /// Who asks.
        owner: Owner,
        asked: LockName,
    },
    /// One request at a time.
    #[error("{owner} cannot ask for locks while an earlier request of it waits or holds locks")]
    Twice {
        /// Who asks.
        owner: Owner,
    },
    /// It does not have what it wants to change.
    #[error("{owner} cannot give back, downgrade or remove {name}, which it does not hold so")]
    NotHeld {
        /// Who asks.
        owner: Owner,
        name: LockName,
    },
    /// Too few of the locks are free.
    #[error("{owner} needs at least {count} of {wanted} locks, and {free} are free")]
    TooFew {
        /// Who asks.
        owner: Owner,
        /// How many it needs.
        count: usize,
        /// How many it asked for.
        wanted: usize,
        /// How many it could have.
        free: usize,
    },
    /// More than [`LOCKS_PER_REQUEST_MAX`] locks.
    #[error("{owner} cannot ask for {wanted} locks at once; at most {LOCKS_PER_REQUEST_MAX}")]
    TooMany {
        /// Who asks.
        owner: Owner,
        /// How many.
        wanted: usize,
    },
    /// More than [`WAITING_MAX`] requests wait.
    #[error("{owner} cannot wait for locks: {WAITING_MAX} requests are waiting already")]
    Full {
        /// Who asks.
        owner: Owner,
    },
}

pub(super) type Wanted = Vec<(LockName, Mode)>;

/// The locks that are left to take of a request that may be granted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Locks to be taken, in order, each once.
    pub(super) walk: Wanted,
    /// Members of sets that the owner holds or takes; they come for free.
    pub(super) covered: Wanted,
    /// Whether the first of `walk` is held shared already.
    pub(super) upgrades: bool,
}

impl Plan {
    /// The set lock that is to be upgraded, if one is.
    pub(super) fn upgraded_set(&self) -> Option<&LockName> {
        let (first, _) = self.walk.first()?;
        (self.upgrades && first.is_set()).then_some(first)
    }
}

/// Names that were removed, oldest first to be forgotten.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct RemovedNames {
    names: HashMap<LockName, u64>,
    ages: BTreeMap<u64, LockName>,
    next: u64,
}

impl RemovedNames {
    pub(super) fn insert(&mut self, name: LockName) {
        self.forget(&name);
        self.ages.insert(self.next, name.clone());
        self.names.insert(name, self.next);
        self.next += 1;
        if self.names.len() > REMOVED_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.names.remove(&oldest);
        }
    }

    pub(super) fn forget(&mut self, name: &LockName) {
        if let Some(age) = self.names.remove(name) {
            self.ages.remove(&age);
        }
    }

    fn contains(&self, name: &LockName) -> bool {
        !self.names.is_empty() && self.names.contains_key(name)
    }
}

/// Sorts a request, each lock once, in its stronger mode.
pub(super) fn sorted(owner: Owner, mut wanted: Wanted) -> Result<Wanted, Refused> {
    if wanted.len() > LOCKS_PER_REQUEST_MAX {
        return Err(Refused::TooMany { owner, wanted: wanted.len() });
    }
    wanted.sort_unstable();
    wanted.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
    Ok(wanted)
}

/// Checks a sorted request against what its owner holds.
pub(super) fn plan(
    table: &Table,
    removed: &RemovedNames,
    owner: Owner,
    wanted: Wanted,
) -> Result<Plan, Refused> {
    let highest = table.highest(owner);
    let mut plan = Plan::default();
    let mut set_taken: Option<(Level, Mode)> = None;
    for (name, mode) in wanted {
        if removed.contains(&name) {
            return Err(Refused::Removed { owner, asked: name });
        }
        let held = table.held(owner, &name);
        if held >= Some(mode) {
            continue;
        }
        if name.is_set() {
            set_taken = Some((name.level, mode));
        } else {
            let taken = set_taken.filter(|(level, _)| *level == name.level).map(|(_, mode)| mode);
            let set = highest.and_then(|_| table.held(owner, &LockName::set(name.level)));
            match taken.max(set) {
                Some(set) if set >= mode => {
                    plan.covered.push((name, mode));
                    continue;
                }
                Some(_) => return Err(Refused::OwnSet { owner, asked: name }),
                None => {}
            }
        }
        match highest {
            Some(highest) if held.is_some() && name == *highest => plan.upgrades = true,
            Some(highest) if name <= *highest => {
                return Err(Refused::Order { owner, asked: name, highest: highest.clone() });
            }
            _ => {}
        }
        plan.walk.push((name, mode));
    }
    Ok(plan)
}
