//! Core: who holds what. A set lock stands for every name of its level.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;

use super::name::{Level, LockName, Mode, Owner, Target};

/// Everything that is held. It answers and records; what may be asked for is `plan`'s subject, and
/// who waits is `waiting`'s.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Table {
    levels: [Shelf; Level::ALL.len()],
    owners: HashMap<Owner, BTreeMap<LockName, Mode>>,
}

/// One level. Names that nobody holds are absent.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Shelf {
    set_shared: BTreeSet<Owner>,
    set_exclusive: Option<Owner>,
    shared: BTreeMap<Arc<str>, BTreeSet<Owner>>,
    exclusive: BTreeMap<Arc<str>, Owner>,
}

impl Shelf {
    fn set_blocked(&self, owner: Owner, mode: Mode) -> bool {
        self.set_exclusive.is_some_and(|held| held != owner)
            || mode == Mode::Exclusive && others(&self.set_shared, owner)
    }

    fn member_blocked(&self, owner: Owner, name: &str, mode: Mode) -> bool {
        self.exclusive.get(name).is_some_and(|held| *held != owner)
            || mode == Mode::Exclusive
                && self.shared.get(name).is_some_and(|held| others(held, owner))
    }

    /// The first member that others hold in a way that keeps `owner` from the set.
    fn member_in_the_way(&self, owner: Owner, mode: Mode) -> Option<&Arc<str>> {
        let foreign = |(name, held): (_, &Owner)| (*held != owner).then_some(name);
        let exclusive = self.exclusive.iter().find_map(foreign);
        if mode == Mode::Shared {
            return exclusive;
        }
        let foreign = |(name, held)| others(held, owner).then_some(name);
        let shared = self.shared.iter().find_map(foreign);
        match (exclusive, shared) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn insert(&mut self, owner: Owner, target: &Target, mode: Mode) {
        match (target, mode) {
            (Target::Set, Mode::Shared) => {
                self.set_shared.insert(owner);
            }
            (Target::Set, Mode::Exclusive) => self.set_exclusive = Some(owner),
            (Target::Member(name), Mode::Shared) => {
                self.shared.entry(Arc::clone(name)).or_default().insert(owner);
            }
            (Target::Member(name), Mode::Exclusive) => {
                self.exclusive.insert(Arc::clone(name), owner);
            }
        }
    }

    fn remove(&mut self, owner: Owner, target: &Target, mode: Mode) {
        match (target, mode) {
            (Target::Set, Mode::Shared) => {
                self.set_shared.remove(&owner);
            }
            (Target::Set, Mode::Exclusive) => self.set_exclusive = None,
            (Target::Member(name), Mode::Shared) => {
                if let Some(held) = self.shared.get_mut(name) {
                    held.remove(&owner);
                    if held.is_empty() {
                        self.shared.remove(name);
                    }
                }
            }
            (Target::Member(name), Mode::Exclusive) => {
                self.exclusive.remove(name);
            }
        }
    }

    /// The exclusive and the shared owners of exactly this lock.
    fn owners(&self, target: &Target) -> (Option<Owner>, Option<&BTreeSet<Owner>>) {
        match target {
            Target::Set => (self.set_exclusive, Some(&self.set_shared)),
            Target::Member(name) => (self.exclusive.get(name).copied(), self.shared.get(name)),
        }
    }
}

/// Whether somebody but `owner` is among `held`, in constant time.
fn others(held: &BTreeSet<Owner>, owner: Owner) -> bool {
    held.first().is_some_and(|first| *first != owner)
        || held.last().is_some_and(|last| *last != owner)
}

impl Table {
    fn shelf(&self, level: Level) -> &Shelf {
        &self.levels[level.index()]
    }

    /// How `owner` holds this very lock (not through a set).
    pub(super) fn held(&self, owner: Owner, name: &LockName) -> Option<Mode> {
        self.owners.get(&owner)?.get(name).copied()
    }

    /// The highest lock that `owner` holds.
    pub(super) fn highest(&self, owner: Owner) -> Option<&LockName> {
        self.owners.get(&owner)?.last_key_value().map(|(name, _)| name)
    }

    /// All that `owner` holds, in order.
    pub(super) fn of(&self, owner: Owner) -> impl Iterator<Item = (&LockName, Mode)> {
        self.owners.get(&owner).into_iter().flatten().map(|(name, mode)| (name, *mode))
    }

    /// The first name at which what others hold keeps `owner` from a lock: the lock itself, or for
    /// a set the first such member.
    pub(super) fn in_the_way(&self, owner: Owner, name: &LockName, mode: Mode) -> Option<LockName> {
        let shelf = self.shelf(name.level);
        if shelf.set_blocked(owner, mode) {
            return Some(name.clone());
        }
        match &name.target {
            Target::Member(member) => {
                shelf.member_blocked(owner, member, mode).then(|| name.clone())
            }
            Target::Set => shelf
                .member_in_the_way(owner, mode)
                .map(|member| LockName::member(name.level, Arc::clone(member))),
        }
    }

    /// Records that `owner` holds a lock, in place of how it held it before.
    pub(super) fn grant(&mut self, owner: Owner, name: &LockName, mode: Mode) {
        debug_assert_eq!(self.in_the_way(owner, name, mode), None, "{owner} takes {name}");
        let before = self.owners.entry(owner).or_default().insert(name.clone(), mode);
        let shelf = &mut self.levels[name.level.index()];
        if let Some(before) = before {
            shelf.remove(owner, &name.target, before);
        }
        shelf.insert(owner, &name.target, mode);
    }

    /// Records that `owner` holds a lock no longer; returns how it did.
    pub(super) fn release(&mut self, owner: Owner, name: &LockName) -> Option<Mode> {
        let locks = self.owners.get_mut(&owner)?;
        let mode = locks.remove(name)?;
        if locks.is_empty() {
            self.owners.remove(&owner);
        }
        self.levels[name.level.index()].remove(owner, &name.target, mode);
        Some(mode)
    }

    /// Records that `owner` holds nothing; returns what it held.
    pub(super) fn release_all(&mut self, owner: Owner) -> BTreeMap<LockName, Mode> {
        let locks = self.owners.remove(&owner).unwrap_or_default();
        for (name, mode) in &locks {
            self.levels[name.level.index()].remove(owner, &name.target, *mode);
        }
        locks
    }

    /// The owners of this very lock, each with its mode.
    pub(super) fn owners(&self, name: &LockName) -> impl Iterator<Item = (Owner, Mode)> {
        let (exclusive, shared) = self.shelf(name.level).owners(&name.target);
        let exclusive = exclusive.into_iter().map(|owner| (owner, Mode::Exclusive));
        exclusive.chain(shared.into_iter().flatten().map(|owner| (*owner, Mode::Shared)))
    }

    /// Others who keep `owner` from having `mode` at one name, itself or through the set.
    pub(super) fn blockers(
        &self,
        owner: Owner,
        name: &LockName,
        mode: Mode,
    ) -> impl Iterator<Item = (Owner, Mode)> {
        let set = (!name.is_set()).then(|| LockName::set(name.level));
        let through_set = set.into_iter().flat_map(|set| self.owners(&set).collect::<Vec<_>>());
        self.owners(name)
            .chain(through_set)
            .filter(move |(other, held)| *other != owner && mode.conflicts().contains(held))
    }

    /// Every lock that somebody holds.
    pub(super) fn names(&self) -> impl Iterator<Item = LockName> {
        Level::ALL.into_iter().zip(&self.levels).flat_map(|(level, shelf)| {
            let set = shelf.set_exclusive.is_some() || !shelf.set_shared.is_empty();
            let members = shelf.shared.keys().chain(shelf.exclusive.keys());
            set.then(|| LockName::set(level))
                .into_iter()
                .chain(members.map(move |name| LockName::member(level, Arc::clone(name))))
        })
    }
}

#[cfg(test)]
mod tests;
