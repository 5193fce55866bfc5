//! Core: the index of waiting requests by lock.
//!
//! A request walks its locks in order up to its *frontier*, the first name at which something is
//! in its way. It counts, against those behind it, at the names it has **reached**: up to and with its
//! frontier. Locks that it has **passed** are free for it; it stands in the **queue** of its frontier
//! only.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::name::{Level, LockName, Mode, Owner, Target};

/// A request's turn: the smaller is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) priority: i32,
    /// Number of its arrival.
    pub(super) arrival: u64,
    pub(super) owner: Owner,
}

/// A request's turn at one lock: who upgrades the lock is first, since it holds up all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineKey {
    /// Whether it takes the lock, rather than upgrading it.
    pub(super) takes: bool,
    pub(super) rank: Rank,
}

/// Places by the mode in which the lock is wanted.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct ByMode {
    shared: BTreeSet<LineKey>,
    exclusive: BTreeSet<LineKey>,
}

impl ByMode {
    fn of(&self, mode: Mode) -> &BTreeSet<LineKey> {
        match mode {
            Mode::Shared => &self.shared,
            Mode::Exclusive => &self.exclusive,
        }
    }

    fn of_mut(&mut self, mode: Mode) -> &mut BTreeSet<LineKey> {
        match mode {
            Mode::Shared => &mut self.shared,
            Mode::Exclusive => &mut self.exclusive,
        }
    }

    /// The first place of each mode that conflicts with `mode`, where it is before `place`.
    pub(super) fn first_ahead(&self, place: LineKey, mode: Mode) -> impl Iterator<Item = LineKey> {
        let firsts = mode.conflicts().iter().filter_map(|other| self.of(*other).first().copied());
        firsts.filter(move |first| *first < place)
    }

    /// All places before `place` that conflict with `mode`.
    pub(super) fn ahead(&self, place: LineKey, mode: Mode) -> impl Iterator<Item = LineKey> {
        mode.conflicts().iter().flat_map(move |other| self.of(*other).range(..place).copied())
    }

    /// All places behind `place` that conflict with `mode`.
    pub(super) fn behind(&self, place: LineKey, mode: Mode) -> impl Iterator<Item = LineKey> {
        let range = (Bound::Excluded(place), Bound::Unbounded);
        mode.conflicts().iter().flat_map(move |other| self.of(*other).range(range).copied())
    }
}

/// The requests at one lock.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Line {
    /// All that name this lock, wherever they wait.
    pub(super) wanting: BTreeMap<LineKey, Mode>,
    pub(super) reached: ByMode,
    pub(super) passed: ByMode,
    /// Those whose frontier is here; at a member also those that want its set.
    pub(super) queue: BTreeSet<LineKey>,
}

impl Line {
    fn is_empty(&self) -> bool {
        // Requests in `reached` or `passed` are in `wanting` too.
        self.wanting.is_empty() && self.queue.is_empty()
    }
}

/// The requests at the locks of one level.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct LevelLines {
    pub(super) set: Line,
    pub(super) members: BTreeMap<Arc<str>, Line>,
}

/// The requests at every lock. Names that nobody waits for are absent.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Lines {
    levels: [LevelLines; Level::ALL.len()],
}

impl Lines {
    pub(super) fn level(&self, level: Level) -> &LevelLines {
        &self.levels[level.index()]
    }

    pub(super) fn get(&self, name: &LockName) -> Option<&Line> {
        let level = self.level(name.level);
        match &name.target {
            Target::Set => Some(&level.set),
            Target::Member(member) => level.members.get(member),
        }
    }

    fn entry(&mut self, name: &LockName) -> &mut Line {
        let level = &mut self.levels[name.level.index()];
        match &name.target {
            Target::Set => &mut level.set,
            Target::Member(member) => level.members.entry(Arc::clone(member)).or_default(),
        }
    }

    pub(super) fn want(&mut self, name: &LockName, place: LineKey, mode: Mode) {
        self.entry(name).wanting.insert(place, mode);
    }

    pub(super) fn reach(&mut self, name: &LockName, place: LineKey, mode: Mode) {
        self.entry(name).reached.of_mut(mode).insert(place);
    }

    pub(super) fn pass(&mut self, name: &LockName, place: LineKey, mode: Mode) {
        self.entry(name).passed.of_mut(mode).insert(place);
    }

    pub(super) fn enqueue(&mut self, name: &LockName, place: LineKey) {
        self.entry(name).queue.insert(place);
    }

    pub(super) fn unpass(&mut self, name: &LockName, place: LineKey, mode: Mode) {
        self.entry(name).passed.of_mut(mode).remove(&place);
    }

    pub(super) fn unreach(&mut self, name: &LockName, place: LineKey, mode: Mode) {
        let line = self.entry(name);
        line.reached.of_mut(mode).remove(&place);
        line.passed.of_mut(mode).remove(&place);
    }

    pub(super) fn unwant(&mut self, name: &LockName, place: LineKey) {
        self.entry(name).wanting.remove(&place);
        self.prune(name);
    }

    pub(super) fn dequeue(&mut self, name: &LockName, place: LineKey) {
        self.entry(name).queue.remove(&place);
        self.prune(name);
    }

    fn prune(&mut self, name: &LockName) {
        if let Target::Member(member) = &name.target {
            let members = &mut self.levels[name.level.index()].members;
            if members.get(member).is_some_and(Line::is_empty) {
                members.remove(member);
            }
        }
    }

    /// First of the queue at one name.
    pub(super) fn head(&self, name: &LockName) -> Option<Rank> {
        Some(self.get(name)?.queue.first()?.rank)
    }

    /// First of each queue whose requests may care about `name`: its own, and for a set those of
    /// all members.
    pub(super) fn heads(&self, name: &LockName) -> Vec<Rank> {
        let mut heads: Vec<Rank> = self.head(name).into_iter().collect();
        if name.is_set() {
            let members = self.level(name.level).members.values();
            heads.extend(members.filter_map(|line| Some(line.queue.first()?.rank)));
        }
        heads
    }

    /// Every lock that somebody waits for.
    pub(super) fn names(&self) -> impl Iterator<Item = LockName> {
        Level::ALL.into_iter().zip(&self.levels).flat_map(|(level, lines)| {
            let set = (!lines.set.wanting.is_empty()).then(|| LockName::set(level));
            let members = lines.members.iter().filter(|(_, line)| !line.wanting.is_empty());
            let member = move |(name, _): (&Arc<str>, _)| LockName::member(level, Arc::clone(name));
            set.into_iter().chain(members.map(member))
        })
    }

    /// Whether nothing is recorded anywhere.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.set.is_empty() && level.members.is_empty())
    }
}
