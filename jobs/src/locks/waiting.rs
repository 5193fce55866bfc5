//! Core: who waits for what, who is served next, and who is woken.
//!
//! A request is granted whole, when nothing is in its way. It is served in the order of priority
//! and arrival, and keeps later ones from the locks up to the first that it cannot have yet (its
//! *frontier*; `line` has the words). So no stream of later requests starves it. Nobody waits for a lock
//! behind somebody who waits for an earlier one, so nobody waits in a circle. `frontier` computes this;
//! `docs/locking.md` has the argument.

mod frontier;

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::line::{Line, LineKey, Lines, Rank};
use super::name::{LockName, Mode, Owner};
use super::plan::{self, Plan, Refused, RemovedNames, WAITING_MAX, Wanted};
use super::table::Table;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Granted,
    /// It waits; a [`Woken`] follows unless it is withdrawn.
    Waiting,
}

/// The outcome of a request that was waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Woken {
    /// Whose.
    pub owner: Owner,
    /// None: granted. Otherwise the lock that it wanted and that was removed.
    pub removed: Option<LockName>,
}

/// A request that waits.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Waiter {
    pub(super) rank: Rank,
    pub(super) walk: Wanted,
    covered: Wanted,
    upgrades: bool,
    /// Index in `walk` of the lock at which it waits.
    pub(super) at: usize,
    /// The lock at which it waits; a member, if `walk[at]` is the set and this member is in the
    /// way.
    pub(super) frontier: LockName,
    /// The first index in `walk` that needs another look, if there is one before `at`.
    recheck: Option<usize>,
}

impl Waiter {
    /// Its turn at the lock `walk[index]`.
    pub(super) fn place(&self, index: usize) -> LineKey {
        LineKey { takes: !self.upgrades || index > 0, rank: self.rank }
    }
}

/// The locks and the requests for them.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct LockQueue {
    pub(super) table: Table,
    pub(super) lines: Lines,
    pub(super) waiting: HashMap<Owner, Waiter>,
    removed: RemovedNames,
    arrivals: u64,
    /// Waiters whose frontier may have moved.
    suspects: BTreeSet<Rank>,
    woken: Vec<Woken>,
    /// How often a waiter was looked at.
    #[cfg(test)]
    examined: usize,
}

impl LockQueue {
    /// Nothing is held.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for all of `wanted`, beside what `owner` holds; small priorities are served first.
    ///
    /// # Errors
    /// A rule forbids it.
    pub fn request(
        &mut self,
        owner: Owner,
        wanted: Wanted,
        priority: i32,
    ) -> Result<Admission, Refused> {
        if self.waiting.contains_key(&owner) {
            return Err(Refused::Twice { owner });
        }
        let plan = plan::plan(&self.table, &self.removed, owner, plan::sorted(owner, wanted)?)?;
        let rank = self.next_rank(owner, priority);
        match self.obstacle(rank, &plan.walk, plan.upgrades, 0) {
            None => {
                self.grant_unqueued(rank, &plan);
                self.settle();
                Ok(Admission::Granted)
            }
            Some((_, at)) => {
                self.may_wait(owner, &plan, at)?;
                self.enter(rank, plan);
                self.settle();
                if self.waiting.contains_key(&owner) {
                    return Ok(Admission::Waiting);
                }
                // Its upgrade pushed back who was in its way further on. It is answered, not woken.
                self.woken.retain(|woken| woken.owner != owner);
                Ok(Admission::Granted)
            }
        }
    }

    /// Takes those of `wanted` that are free, without waiting; returns what `owner` has of them.
    ///
    /// # Errors
    /// A rule forbids it, or fewer than `count` are free; nothing is taken then.
    pub fn try_request(
        &mut self,
        owner: Owner,
        wanted: Wanted,
        count: usize,
        priority: i32,
    ) -> Result<Vec<LockName>, Refused> {
        if self.waiting.contains_key(&owner) {
            return Err(Refused::Twice { owner });
        }
        let wanted = plan::sorted(owner, wanted)?;
        let asked = wanted.len();
        let rank = self.next_rank(owner, priority);
        let before: Vec<_> =
            wanted.iter().map(|(name, _)| (name.clone(), self.table.held(owner, name))).collect();
        let mut taken = Vec::new();
        let mut refused = None;
        // One after the other, so that a set that is had covers its members.
        for item in wanted {
            let name = item.0.clone();
            match plan::plan(&self.table, &self.removed, owner, vec![item]) {
                Ok(plan) if self.obstacle(rank, &plan.walk, plan.upgrades, 0).is_none() => {
                    self.grant_unqueued(rank, &plan);
                    taken.push(name);
                }
                Ok(_) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if refused.is_none() && taken.len() < count {
            refused = Some(Refused::TooFew { owner, count, wanted: asked, free: taken.len() });
        }
        if let Some(refused) = refused {
            self.give_back(owner, &before);
            return Err(refused);
        }
        self.settle();
        Ok(taken)
    }

    /// Gives back some locks.
    ///
    /// # Errors
    /// One of them is not held, or the owner waits for more; nothing is released then.
    pub fn release(&mut self, owner: Owner, names: &[LockName]) -> Result<(), Refused> {
        self.holds(owner, names, Mode::Shared)?;
        for name in names {
            if self.table.release(owner, name).is_some() {
                self.stir(name);
            }
        }
        self.settle();
        Ok(())
    }

    /// Gives back everything and withdraws what is waited for.
    pub fn release_all(&mut self, owner: Owner) {
        self.take_out(owner);
        for name in self.table.release_all(owner).keys() {
            self.stir(name);
        }
        self.settle();
    }

    /// Makes locks that are held exclusively shared; those that are shared stay so.
    ///
    /// # Errors
    /// One of them is not held, or the owner waits for more; nothing is changed then.
    pub fn downgrade(&mut self, owner: Owner, names: &[LockName]) -> Result<(), Refused> {
        self.holds(owner, names, Mode::Shared)?;
        for name in names {
            self.lower(owner, name);
        }
        self.settle();
        Ok(())
    }

    /// Puts locks back to how `owner` held them `before`, where it now holds more.
    pub fn give_back(&mut self, owner: Owner, before: &[(LockName, Option<Mode>)]) {
        for (name, held) in before {
            match held {
                None => {
                    if self.table.release(owner, name).is_some() {
                        self.stir(name);
                    }
                }
                Some(Mode::Shared) => self.lower(owner, name),
                Some(Mode::Exclusive) => {}
            }
        }
        self.settle();
    }

    /// Withdraws the request that `owner` waits for; says whether there was one.
    pub fn withdraw(&mut self, owner: Owner) -> bool {
        let waited = self.take_out(owner).is_some();
        self.settle();
        waited
    }

    /// Changes the priority of the request that `owner` waits for; says whether there is one.
    pub fn set_priority(&mut self, owner: Owner, priority: i32) -> bool {
        let Some(waiter) = self.take_out(owner) else { return false };
        let rank = Rank { priority, ..waiter.rank };
        let Waiter { walk, covered, upgrades, .. } = waiter;
        self.enter(rank, Plan { walk, covered, upgrades });
        self.settle();
        true
    }

    /// Lets a removed name be asked for again.
    pub fn add(&mut self, name: &LockName) {
        self.removed.forget(name);
    }

    /// Says that what `name` protects is gone: requests for it that wait, and later ones, fail.
    /// The owner keeps the lock until it releases it.
    ///
    /// # Errors
    /// It is a set lock, or the owner does not hold it exclusively.
    pub fn remove(&mut self, owner: Owner, name: &LockName) -> Result<(), Refused> {
        if name.is_set() || self.table.held(owner, name) != Some(Mode::Exclusive) {
            return Err(Refused::NotHeld { owner, name: name.clone() });
        }
        self.removed.insert(name.clone());
        let wanting = self.lines.get(name).map(|line| &line.wanting);
        let failed: Vec<Owner> =
            wanting.into_iter().flat_map(|wanting| wanting.keys().map(|p| p.rank.owner)).collect();
        for owner in failed {
            if self.take_out(owner).is_some() {
                self.woken.push(Woken { owner, removed: Some(name.clone()) });
            }
        }
        self.settle();
        Ok(())
    }

    /// How `owner` holds this very lock.
    pub fn held(&self, owner: Owner, name: &LockName) -> Option<Mode> {
        self.table.held(owner, name)
    }

    /// All that `owner` holds, in order.
    pub fn holdings(&self, owner: Owner) -> Vec<(LockName, Mode)> {
        self.table.of(owner).map(|(name, mode)| (name.clone(), mode)).collect()
    }

    /// How `owner` holds the locks that it waits for.
    pub fn before_grant(&self, owner: Owner) -> Vec<(LockName, Option<Mode>)> {
        let waiter = self.waiting.get(&owner).into_iter();
        let names = waiter.flat_map(|waiter| waiter.walk.iter().chain(&waiter.covered));
        names.map(|(name, _)| (name.clone(), self.table.held(owner, name))).collect()
    }

    /// Whether `owner` holds nothing and waits for nothing.
    pub fn is_idle(&self, owner: Owner) -> bool {
        self.table.highest(owner).is_none() && !self.waits(owner)
    }

    /// Whether `owner` waits.
    pub fn waits(&self, owner: Owner) -> bool {
        self.waiting.contains_key(&owner)
    }

    /// The outcomes of waiting requests since the last call, in the order of their turns.
    pub fn take_woken(&mut self) -> Vec<Woken> {
        std::mem::take(&mut self.woken)
    }

    fn next_rank(&mut self, owner: Owner, priority: i32) -> Rank {
        let arrival = self.arrivals;
        self.arrivals += 1;
        Rank { priority, arrival, owner }
    }

    /// Whether a request that is obstructed `at` a lock may wait.
    fn may_wait(&self, owner: Owner, plan: &Plan, at: LockName) -> Result<(), Refused> {
        if let Some(asked) = plan.upgraded_set() {
            return Err(Refused::SetUpgrade { owner, asked: asked.clone(), at });
        }
        if let (true, Some((asked, _))) = (plan.upgrades, plan.walk.first())
            && let Some(other) = self.lines.get(asked).and_then(upgrader)
        {
            return Err(Refused::UpgradeRace { owner, asked: asked.clone(), other });
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refused::Full { owner });
        }
        Ok(())
    }

    fn holds(&self, owner: Owner, names: &[LockName], mode: Mode) -> Result<(), Refused> {
        if self.waiting.contains_key(&owner) {
            return Err(Refused::Twice { owner });
        }
        match names.iter().find(|name| self.table.held(owner, name) < Some(mode)) {
            Some(name) => Err(Refused::NotHeld { owner, name: name.clone() }),
            None => Ok(()),
        }
    }

    fn lower(&mut self, owner: Owner, name: &LockName) {
        if self.table.held(owner, name) == Some(Mode::Exclusive) {
            self.table.release(owner, name);
            self.table.grant(owner, name, Mode::Shared);
            self.stir(name);
        }
    }

    /// Has a second look at those who may have waited for `name`.
    fn stir(&mut self, name: &LockName) {
        if !self.waiting.is_empty() {
            self.suspects.extend(self.lines.heads(name));
        }
    }

    /// Looks at all suspects, in turn, until nobody can be served any more.
    fn settle(&mut self) {
        while let Some(rank) = self.suspects.pop_first() {
            #[cfg(test)]
            {
                self.examined += 1;
            }
            self.examine(rank);
        }
    }
}

/// The owner that waits to upgrade the lock of this line.
fn upgrader(line: &Line) -> Option<Owner> {
    let (first, _) = line.wanting.first_key_value()?;
    (!first.takes).then_some(first.rank.owner)
}

#[cfg(test)]
mod tests;
