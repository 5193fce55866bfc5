//! Core: the rules of waiting word by word, slowly: the oracle of the tests.
//!
//! Everything is computed anew after each step, from lists, over a small world of names.

use std::collections::{BTreeMap, BTreeSet};

use super::name::{Level, LockName, Mode, Owner};
use super::plan::{Refused, Wanted};
use super::waiting::{Admission, LockQueue};

/// All names there are, in order.
pub(super) fn world() -> Vec<LockName> {
    let mut world = vec![LockName::set(Level::Cluster), LockName::big()];
    for (level, members) in
        [(Level::Node, &["n1", "n2", "n3"][..]), (Level::Machine, &["m1", "m2"])]
    {
        world.push(LockName::set(level));
        world.extend(members.iter().map(|member| LockName::member(level, *member)));
    }
    assert!(world.is_sorted());
    world
}

fn covers(lock: &LockName, name: &LockName) -> bool {
    lock == name || lock.is_set() && lock.level == name.level
}

fn conflict(one: Mode, other: Mode) -> bool {
    (one, other) != (Mode::Shared, Mode::Shared)
}

/// Kind of refusal, for comparison.
pub(super) fn kind(refused: &Refused) -> &'static str {
    match refused {
        Refused::Order { .. } => "order",
        Refused::OwnSet { .. } => "own set",
        Refused::UpgradeRace { .. } => "upgrade race",
        Refused::SetUpgrade { .. } => "set upgrade",
        Refused::Removed { .. } => "removed",
        Refused::Twice { .. } => "twice",
        Refused::NotHeld { .. } => "not held",
        Refused::TooFew { .. } => "too few",
        Refused::TooMany { .. } => "too many",
        Refused::Full { .. } => "full",
    }
}

#[derive(Debug, Clone)]
struct Request {
    turn: (i32, u64),
    owner: Owner,
    /// The locks that it asks for and does not hold in that mode. The flag says whether a lock counts
    /// when the request waits: a lock that its own set covers does not.
    items: Vec<(LockName, Mode, bool)>,
    frontier: Option<LockName>,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    held: BTreeMap<Owner, BTreeMap<LockName, Mode>>,
    waiting: Vec<Request>,
    removed: BTreeSet<LockName>,
    arrivals: u64,
}

impl Reference {
    fn has(&self, owner: Owner, name: &LockName) -> Option<Mode> {
        self.held.get(&owner)?.get(name).copied()
    }

    fn waits(&self, owner: Owner) -> bool {
        self.waiting.iter().any(|request| request.owner == owner)
    }

    pub(super) fn frontiers(&self) -> BTreeMap<Owner, LockName> {
        let frontier = |request: &Request| request.frontier.clone().expect("waits somewhere");
        self.waiting.iter().map(|request| (request.owner, frontier(request))).collect()
    }

    pub(super) fn holdings(&self, owner: Owner) -> Wanted {
        let held = self.held.get(&owner).cloned().unwrap_or_default();
        held.into_iter().collect()
    }

    fn make(
        &mut self,
        owner: Owner,
        wanted: &Wanted,
        priority: i32,
    ) -> Result<Request, &'static str> {
        let mut strongest = BTreeMap::new();
        for (name, mode) in wanted {
            let kept = strongest.entry(name.clone()).or_insert(*mode);
            *kept = (*kept).max(*mode);
        }
        let highest = self.holdings(owner).last().map(|(name, _)| name.clone());
        let mut items = Vec::new();
        for (name, mode) in &strongest {
            if self.removed.contains(name) {
                return Err("removed");
            }
            if self.has(owner, name) >= Some(*mode) {
                continue;
            }
            let set = LockName::set(name.level);
            let by_set = self.has(owner, &set).max(strongest.get(&set).copied());
            if !name.is_set() && by_set.is_some() {
                if by_set < Some(*mode) {
                    return Err("own set");
                }
                items.push((name.clone(), *mode, false));
                continue;
            }
            let upgrade = self.has(owner, name).is_some() && highest.as_ref() == Some(name);
            if highest.as_ref().is_some_and(|highest| name <= highest) && !upgrade {
                return Err("order");
            }
            items.push((name.clone(), *mode, true));
        }
        self.arrivals += 1;
        Ok(Request { turn: (priority, self.arrivals), owner, items, frontier: None })
    }

    fn upgrades(&self, request: &Request, name: &LockName) -> bool {
        self.has(request.owner, name).is_some()
    }

    /// The first name at which something is in the way.
    fn obstacle(&self, request: &Request) -> Option<LockName> {
        for (lock, mode, counts) in &request.items {
            for name in world().iter().filter(|name| *counts && covers(lock, name)) {
                let by_holder = self.held.iter().any(|(owner, locks)| {
                    *owner != request.owner
                        && locks.iter().any(|(h, m)| covers(h, name) && conflict(*m, *mode))
                });
                let by_waiter = self.waiting.iter().any(|other| {
                    other.items.iter().any(|(theirs, m, counts)| {
                        let first = self.upgrades(other, theirs);
                        let reached = first || other.frontier.as_ref().is_some_and(|at| at >= name);
                        let turn = (!first, other.turn);
                        let mine = (!self.upgrades(request, lock), request.turn);
                        *counts
                            && other.owner != request.owner
                            && turn < mine
                            && reached
                            && covers(theirs, name)
                            && conflict(*m, *mode)
                    })
                });
                if by_holder || by_waiter {
                    return Some(name.clone());
                }
            }
        }
        None
    }

    fn grant(&mut self, request: Request) {
        let held = self.held.entry(request.owner).or_default();
        held.extend(request.items.into_iter().map(|(name, mode, _)| (name, mode)));
    }

    /// Serves everybody in turn.
    fn settle(&mut self) {
        let mut turns = std::mem::take(&mut self.waiting);
        turns.sort_by_key(|request| request.turn);
        // Those whose turn has not come are not in the way yet, but for who upgrades.
        let mut later: Vec<Request> = turns
            .iter()
            .filter(|request| request.items.iter().any(|item| self.upgrades(request, &item.0)))
            .map(|request| Request { frontier: None, ..request.clone() })
            .collect();
        for mut request in turns {
            later.retain(|other| other.owner != request.owner);
            let served = self.waiting.len();
            self.waiting.append(&mut later.clone());
            request.frontier = self.obstacle(&request);
            self.waiting.truncate(served);
            if request.frontier.is_none() {
                self.grant(request);
            } else {
                self.waiting.push(request);
            }
        }
    }

    pub(super) fn request(
        &mut self,
        owner: Owner,
        wanted: &Wanted,
        priority: i32,
    ) -> Result<Admission, &'static str> {
        if self.waits(owner) {
            return Err("twice");
        }
        let request = self.make(owner, wanted, priority)?;
        let upgraded = request.items.iter().find(|item| self.upgrades(&request, &item.0) && item.2);
        let upgraded = upgraded.map(|item| item.0.clone());
        if self.obstacle(&request).is_some()
            && let Some(name) = upgraded
        {
            if name.is_set() {
                return Err("set upgrade");
            }
            let race = |other: &Request| {
                other.items.iter().any(|item| item.0 == name && self.upgrades(other, &name))
            };
            if self.waiting.iter().any(race) {
                return Err("upgrade race");
            }
        }
        if self.obstacle(&request).is_none() {
            self.grant(request);
        } else {
            self.waiting.push(request);
        }
        self.settle();
        Ok(if self.waits(owner) { Admission::Waiting } else { Admission::Granted })
    }

    pub(super) fn try_request(
        &mut self,
        owner: Owner,
        wanted: &Wanted,
        count: usize,
    ) -> Result<usize, &'static str> {
        if self.waits(owner) {
            return Err("twice");
        }
        let before = self.held.clone();
        let mut strongest: BTreeMap<LockName, Mode> = BTreeMap::new();
        for (name, mode) in wanted {
            let kept = strongest.entry(name.clone()).or_insert(*mode);
            *kept = (*kept).max(*mode);
        }
        let mut refused = None;
        let mut free = 0;
        for item in strongest {
            match self.make(owner, &vec![item], 0) {
                Err(error) => refused = refused.or(Some(error)),
                Ok(request) if self.obstacle(&request).is_none() => {
                    self.grant(request);
                    free += 1;
                }
                Ok(_) => {}
            }
        }
        if refused.is_none() && free < count {
            refused = Some("too few");
        }
        if let Some(refused) = refused {
            self.held = before;
            return Err(refused);
        }
        self.settle();
        Ok(free)
    }

    pub(super) fn release(&mut self, owner: Owner, names: &[LockName]) -> Result<(), &'static str> {
        self.holds(owner, names)?;
        for name in names {
            self.held.entry(owner).or_default().remove(name);
        }
        self.settle();
        Ok(())
    }

    fn holds(&self, owner: Owner, names: &[LockName]) -> Result<(), &'static str> {
        if self.waits(owner) {
            return Err("twice");
        }
        let all = names.iter().all(|name| self.has(owner, name).is_some());
        if all { Ok(()) } else { Err("not held") }
    }

    pub(super) fn downgrade(
        &mut self,
        owner: Owner,
        names: &[LockName],
    ) -> Result<(), &'static str> {
        self.holds(owner, names)?;
        for name in names {
            self.held.entry(owner).or_default().insert(name.clone(), Mode::Shared);
        }
        self.settle();
        Ok(())
    }

    pub(super) fn release_all(&mut self, owner: Owner) {
        self.held.remove(&owner);
        self.withdraw(owner);
    }

    pub(super) fn withdraw(&mut self, owner: Owner) -> bool {
        let waited = self.waits(owner);
        self.waiting.retain(|request| request.owner != owner);
        self.settle();
        waited
    }

    pub(super) fn set_priority(&mut self, owner: Owner, priority: i32) -> bool {
        let waits = self.waits(owner);
        for request in self.waiting.iter_mut().filter(|request| request.owner == owner) {
            request.turn.0 = priority;
        }
        self.settle();
        waits
    }

    pub(super) fn add(&mut self, name: &LockName) {
        self.removed.remove(name);
    }

    /// Returns those who fail.
    pub(super) fn remove(
        &mut self,
        owner: Owner,
        name: &LockName,
    ) -> Result<Vec<Owner>, &'static str> {
        if name.is_set() || self.has(owner, name) != Some(Mode::Exclusive) {
            return Err("not held");
        }
        self.removed.insert(name.clone());
        // A lock that a set covers is not asked for in its own name.
        let wants = |request: &Request| request.items.iter().any(|item| item.0 == *name && item.2);
        let (failed, rest) = std::mem::take(&mut self.waiting).into_iter().partition(wants);
        self.waiting = rest;
        self.settle();
        let failed: Vec<Request> = failed;
        Ok(failed.into_iter().map(|request| request.owner).collect())
    }
}

/// Checks what must hold at any time: exclusion, truthful reasons, no waiting in circles.
pub(super) fn check_sound(queue: &LockQueue, owners: &[Owner]) {
    let held: Vec<(Owner, Wanted)> = owners.iter().map(|o| (*o, queue.holdings(*o))).collect();
    for (one, locks) in &held {
        for (other, theirs) in held.iter().filter(|(other, _)| other > one) {
            for ((a, mode), (b, their)) in
                locks.iter().flat_map(|lock| theirs.iter().map(move |their| (lock, their)))
            {
                let overlap = covers(a, b) || covers(b, a);
                assert!(!overlap || !conflict(*mode, *their), "{one} {a} against {other} {b}");
            }
        }
    }
    let mut waits_for: BTreeMap<Owner, Vec<Owner>> = BTreeMap::new();
    for owner in owners.iter().filter(|owner| queue.waits(**owner)) {
        let wait = queue.explain(*owner).expect("it waits");
        assert!(covers(&wait.lock, &wait.at));
        for (holder, mode) in &wait.holders {
            let theirs = queue.holdings(*holder);
            assert!(theirs.iter().any(|(h, m)| covers(h, &wait.at) && m == mode));
            assert!(*holder != *owner && conflict(*mode, wait.mode));
        }
        let mut reasons: Vec<Owner> = wait.holders.iter().map(|holder| holder.0).collect();
        reasons.extend(&wait.ahead);
        assert!(wait.ahead.iter().all(|ahead| queue.waits(*ahead) && ahead != owner));
        assert!(!reasons.is_empty(), "{owner} waits for nothing");
        waits_for.insert(*owner, reasons);
    }
    // Take away who waits for nobody that waits, until none is left.
    while !waits_for.is_empty() {
        let waiting: BTreeSet<Owner> = waits_for.keys().copied().collect();
        waits_for.retain(|_, reasons| reasons.iter().any(|reason| waiting.contains(reason)));
        assert!(waits_for.len() < waiting.len(), "a circle: {waits_for:?}");
    }
}
