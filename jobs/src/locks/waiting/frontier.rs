//! Core: how far waiting requests get.
//!
//! The frontier of a request follows from what is held and from the frontiers of those ahead of
//! it. Each change names the waiters whose frontier it may move (suspects), and they are examined in
//! turn. Of a queue only the head is a suspect. If the head stays, then what stops it, or the head
//! itself, stops all behind it. If it leaves, the next one becomes a suspect.

use super::{LockQueue, Waiter, Woken};
use crate::locks::line::{LineKey, Rank};
use crate::locks::name::{LockName, Mode, Owner, Target};
use crate::locks::plan::{Plan, Wanted};

impl LockQueue {
    /// The first lock of `walk[from..]` that a request cannot have, and the name at which.
    pub(super) fn obstacle(
        &self,
        rank: Rank,
        walk: &Wanted,
        upgrades: bool,
        from: usize,
    ) -> Option<(usize, LockName)> {
        walk.iter().enumerate().skip(from).find_map(|(index, (name, mode))| {
            let place = LineKey { takes: !upgrades || index > 0, rank };
            let held = self.table.in_the_way(rank.owner, name, *mode);
            let first = if self.waiting.is_empty() || held.as_ref() == Some(name) {
                held
            } else {
                let ahead = match &name.target {
                    Target::Member(_) => self.member_ahead(place, name, *mode),
                    Target::Set => self.set_ahead(place, name, *mode, held.as_ref()),
                };
                ahead.or(held)
            };
            Some((index, first?))
        })
    }

    /// `name`, if requests ahead of `place` keep it from this member.
    fn member_ahead(&self, place: LineKey, name: &LockName, mode: Mode) -> Option<LockName> {
        let line = self.lines.get(name);
        let direct =
            line.is_some_and(|line| line.reached.first_ahead(place, mode).next().is_some());
        // The first of each mode that waits for the whole set got farthest into it.
        let through_set = || {
            let sets = &self.lines.level(name.level).set.reached;
            sets.first_ahead(place, mode).any(|first| self.reaches(first.rank.owner, name))
        };
        (direct || through_set()).then(|| name.clone())
    }

    /// The first name before `limit` at which requests ahead of `place` keep it from this set.
    fn set_ahead(
        &self,
        place: LineKey,
        name: &LockName,
        mode: Mode,
        limit: Option<&LockName>,
    ) -> Option<LockName> {
        let level = self.lines.level(name.level);
        if level.set.reached.first_ahead(place, mode).next().is_some() {
            return Some(name.clone());
        }
        let stops = |(_, line): &(_, &crate::locks::line::Line)| {
            line.reached.first_ahead(place, mode).next().is_some()
        };
        let (member, _) = level.members.iter().find(stops)?;
        let member = LockName::member(name.level, member.clone());
        limit.is_none_or(|limit| member < *limit).then_some(member)
    }

    fn reaches(&self, owner: Owner, name: &LockName) -> bool {
        self.waiting.get(&owner).is_some_and(|waiter| waiter.frontier >= *name)
    }

    /// Grants a request that nothing is in the way of and that never waited.
    pub(super) fn grant_unqueued(&mut self, rank: Rank, plan: &Plan) {
        for (index, (name, mode)) in plan.walk.iter().enumerate() {
            let place = LineKey { takes: !plan.upgrades || index > 0, rank };
            self.table.grant(rank.owner, name, *mode);
            if !self.waiting.is_empty() {
                self.displace(place, name, *mode, None);
            }
        }
        for (name, mode) in &plan.covered {
            self.table.grant(rank.owner, name, *mode);
        }
    }

    /// Adds a request, at its first lock; it is a suspect.
    pub(super) fn enter(&mut self, rank: Rank, plan: Plan) {
        let Plan { walk, covered, upgrades } = plan;
        let Some((frontier, _)) = walk.first().cloned() else { return };
        let waiter = Waiter { rank, walk, covered, upgrades, at: 0, frontier, recheck: None };
        for (index, (name, mode)) in waiter.walk.iter().enumerate() {
            self.lines.want(name, waiter.place(index), *mode);
        }
        let (place, mode) = (waiter.place(0), waiter.walk[0].1);
        self.lines.reach(&waiter.frontier, place, mode);
        self.lines.enqueue(&waiter.frontier, place);
        let at = waiter.frontier.clone();
        self.waiting.insert(rank.owner, waiter);
        self.displace(place, &at, mode, Some(&at));
        self.suspects.insert(rank);
    }

    /// Takes a request out; those behind it are suspects.
    pub(super) fn take_out(&mut self, owner: Owner) -> Option<Waiter> {
        let waiter = self.waiting.remove(&owner)?;
        self.suspects.remove(&waiter.rank);
        self.erase(&waiter);
        for (name, _) in &waiter.walk[..=waiter.at] {
            self.stir(name);
        }
        Some(waiter)
    }

    fn erase(&mut self, waiter: &Waiter) {
        self.lines.dequeue(&waiter.frontier, waiter.place(waiter.at));
        for (index, (name, mode)) in waiter.walk.iter().enumerate() {
            let place = waiter.place(index);
            if index <= waiter.at {
                self.lines.unreach(name, place, *mode);
            }
            self.lines.unwant(name, place);
        }
    }

    /// Computes a waiter's frontier anew.
    pub(super) fn examine(&mut self, rank: Rank) {
        let Some(waiter) = self.waiting.get_mut(&rank.owner) else { return };
        let from = waiter.recheck.take().map_or(waiter.at, |index| index.min(waiter.at));
        let Some(waiter) = self.waiting.get(&rank.owner) else { return };
        match self.obstacle(rank, &waiter.walk, waiter.upgrades, from) {
            None => self.grant_waiter(rank.owner),
            Some((at, frontier)) if frontier > waiter.frontier => {
                self.advance(rank.owner, at, frontier);
            }
            Some((at, frontier)) if frontier < waiter.frontier => {
                self.retreat(rank.owner, at, frontier);
            }
            Some(_) => {}
        }
    }

    fn grant_waiter(&mut self, owner: Owner) {
        let Some(waiter) = self.waiting.remove(&owner) else { return };
        self.erase(&waiter);
        for (index, (name, mode)) in waiter.walk.iter().enumerate() {
            self.table.grant(owner, name, *mode);
            if index >= waiter.at {
                self.displace(waiter.place(index), name, *mode, None);
            }
        }
        for (name, mode) in &waiter.covered {
            self.table.grant(owner, name, *mode);
        }
        self.suspects.extend(self.lines.head(&waiter.frontier));
        self.woken.push(Woken { owner, removed: None });
    }

    fn advance(&mut self, owner: Owner, at: usize, frontier: LockName) {
        let Some(mut waiter) = self.waiting.remove(&owner) else { return };
        self.lines.dequeue(&waiter.frontier, waiter.place(waiter.at));
        for index in waiter.at..=at {
            let (name, mode) = &waiter.walk[index];
            let place = waiter.place(index);
            self.lines.reach(name, place, *mode);
            if frontier > *name {
                self.lines.pass(name, place, *mode);
            }
            self.displace(place, name, *mode, (index == at).then_some(&frontier));
        }
        self.suspects.extend(self.lines.head(&waiter.frontier));
        self.lines.enqueue(&frontier, waiter.place(at));
        (waiter.at, waiter.frontier) = (at, frontier);
        self.waiting.insert(owner, waiter);
    }

    fn retreat(&mut self, owner: Owner, at: usize, frontier: LockName) {
        let Some(mut waiter) = self.waiting.remove(&owner) else { return };
        self.lines.dequeue(&waiter.frontier, waiter.place(waiter.at));
        for index in at + 1..=waiter.at {
            let (name, mode) = &waiter.walk[index];
            self.lines.unreach(name, waiter.place(index), *mode);
            self.stir(name);
        }
        let (name, mode) = &waiter.walk[at];
        if frontier == *name {
            self.lines.unpass(name, waiter.place(at), *mode);
        }
        if name.is_set() {
            self.stir(name);
        }
        self.lines.enqueue(&frontier, waiter.place(at));
        (waiter.at, waiter.frontier) = (at, frontier);
        self.waiting.insert(owner, waiter);
    }

    /// Makes suspects of those behind `place` who passed this lock (a set: up to `limit`), since
    /// a request ahead of them has now got here.
    fn displace(&mut self, place: LineKey, name: &LockName, mode: Mode, limit: Option<&LockName>) {
        let level = self.lines.level(name.level);
        let mut passed: Vec<(Owner, LockName)> = Vec::new();
        let sets = level.set.passed.behind(place, mode);
        match &name.target {
            Target::Member(member) => {
                let line = level.members.get(member);
                let direct = line.into_iter().flat_map(|line| line.passed.behind(place, mode));
                passed.extend(direct.map(|behind| (behind.rank.owner, name.clone())));
                let sets = sets.map(|behind| behind.rank.owner);
                let sets = sets.filter(|owner| {
                    self.waiting.get(owner).is_some_and(|waiter| waiter.frontier > *name)
                });
                passed.extend(sets.map(|owner| (owner, LockName::set(name.level))));
            }
            Target::Set => {
                passed.extend(sets.map(|behind| (behind.rank.owner, name.clone())));
                for (member, line) in &level.members {
                    let member = LockName::member(name.level, member.clone());
                    if limit.is_some_and(|limit| member > *limit) {
                        break;
                    }
                    let behind = line.passed.behind(place, mode);
                    passed.extend(behind.map(|behind| (behind.rank.owner, member.clone())));
                }
            }
        }
        for (owner, name) in passed {
            self.suspect(owner, &name);
        }
    }

    fn suspect(&mut self, owner: Owner, name: &LockName) {
        let Some(waiter) = self.waiting.get_mut(&owner) else { return };
        if let Ok(index) = waiter.walk.binary_search_by(|(wanted, _)| wanted.cmp(name)) {
            waiter.recheck = Some(waiter.recheck.map_or(index, |known| known.min(index)));
            self.suspects.insert(waiter.rank);
        }
    }
}
