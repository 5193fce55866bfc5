//! The steps of views of one moment: beginning and ending them, and putting aside for them.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::{Files, State};
use crate::digest::Group;
use crate::key::Key;
use crate::position::Position;
use crate::store::frozen::FrozenError;
use crate::store::frozen::aside::{ASIDE_BYTES_MAX, Aside, Broken};
use crate::store::pending::{Due, Target};

/// Views at a time: two members that catch up, one comparison, and one that somebody forgot. Each
/// has its own limit of memory.
pub const FROZEN_MAX: usize = 4;

/// The views that are being read.
#[derive(Debug, Default)]
pub(crate) struct Views {
    open: BTreeMap<u64, Aside>,
    /// Those whose moment is to come.
    awaited: BTreeMap<u64, Awaited>,
    /// The number of the next one of either kind.
    next: u64,
}

/// A view that begins right behind an entry.
#[derive(Debug)]
struct Awaited {
    index: u64,
    group: Option<Group>,
    begun: Option<Result<Begun, FrozenError>>,
}

impl Views {
    /// Ends all of them.
    pub(crate) fn break_off(&mut self, why: &Broken) {
        self.open.values_mut().for_each(|aside| aside.break_off(why.clone()));
    }
}

/// A view that was begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) view: u64,
    pub(crate) position: Position,
    pub(crate) members: Option<(Position, String)>,
}

impl Files {
    /// Waits until what is on its way is in the files, unless the disk takes nothing: so little has
    /// to be put aside at once.
    pub(crate) fn wait_written(&self) {
        let mut state = self.state.lock();
        let upto = state.handed.position.index;
        state.flush_upto = state.flush_upto.max(upto);
        self.wake_writer.notify_one();
        while !state.is_written(upto) && !state.stopping && state.full.is_none() {
            self.progress.wait(&mut state);
        }
    }

    /// Begins a view of what is applied now.
    pub(crate) fn begin_view(&self, group: Option<Group>) -> Result<Begun, FrozenError> {
        let mut state = self.state.lock();
        while state.held && !state.stopping {
            self.progress.wait(&mut state);
        }
        state.capture(group)
    }

    /// Begins a view of the moment right behind entry `index`, and waits for that until `deadline`.
    pub(crate) fn begin_view_at(
        &self,
        index: u64,
        group: Option<Group>,
        deadline: Instant,
    ) -> Result<Begun, FrozenError> {
        let mut state = self.state.lock();
        let ticket = state.views.next;
        state.views.next += 1;
        state.views.awaited.insert(ticket, Awaited { index, group, begun: None });
        state.begin_awaited();
        loop {
            let begun = state.views.awaited.get_mut(&ticket).and_then(|one| one.begun.take());
            let over = match begun {
                Some(begun) => Some(begun),
                None if state.stopping => Some(Err(FrozenError::Ended)),
                None => {
                    let late = self.progress.wait_until(&mut state, deadline).timed_out();
                    let has_come =
                        state.views.awaited.get(&ticket).is_some_and(|one| one.begun.is_some());
                    (late && !has_come).then(|| {
                        let position = state.handed.position;
                        Err(FrozenError::Late { index, position })
                    })
                }
            };
            if let Some(over) = over {
                state.views.awaited.remove(&ticket);
                return over;
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn awaits(&self) -> bool {
        !self.state.lock().views.awaited.is_empty()
    }

    pub(crate) fn end_view(&self, view: u64) {
        self.state.lock().views.open.remove(&view);
    }

    /// Gives what these keys had at the moment of the view; see [`Aside::settle`]. Their files were
    /// read before.
    pub(crate) fn settle(
        &self,
        view: u64,
        read: Vec<(Key, Option<Bytes>)>,
        last: bool,
    ) -> Result<Vec<(Key, Bytes)>, FrozenError> {
        let mut state = self.state.lock();
        if state.stopping {
            return Err(FrozenError::Ended);
        }
        let aside = state.views.open.get_mut(&view).expect("a view ends with its reader");
        Ok(aside.settle(read, last)?)
    }

    /// Makes a view useless, whose reader could not read a file.
    pub(crate) fn break_view(&self, view: u64, what: String) {
        if let Some(aside) = self.state.lock().views.open.get_mut(&view) {
            aside.break_off(Broken::Unread(what));
        }
    }

    /// Puts aside the contents of these keys' files, before they change. A reader that reads a file and
    /// then finds nothing put aside knows that the file had not changed when it was read.
    pub(super) fn put_aside(&self, wanted: &[Key]) {
        for key in wanted {
            let read = self.read_file(key);
            let mut state = self.state.lock();
            for aside in state.views.open.values_mut() {
                match &read {
                    Ok(content) => aside.keep(key, content.clone()),
                    Err(error) => {
                        tracing::warn!(%key, %error, "cannot put a file aside for a reader");
                        aside.break_off(Broken::Unread(error.to_string()));
                    }
                }
            }
        }
    }
}

impl State {
    /// A view of what is applied.
    fn capture(&mut self, group: Option<Group>) -> Result<Begun, FrozenError> {
        if self.stopping {
            return Err(FrozenError::Ended);
        }
        if self.views.open.len() >= FROZEN_MAX {
            return Err(FrozenError::Many);
        }
        let mut aside = Aside::new(group, ASIDE_BYTES_MAX);
        let writing = self.writing.iter().map(|due| (&due.key, &due.target));
        let written = writing.filter(|(key, _)| self.pending.target(key).is_none());
        for (key, target) in self.pending.targets().chain(written) {
            match target {
                Target::Content(content) => aside.keep(key, Some(content.clone())),
                Target::Absent => aside.keep(key, None),
                // Its content is in one of two files, and which one changes at this moment. Below an
                // engine there is none: moves travel as content there.
                Target::RenamedFrom(_) => return Err(FrozenError::Moving),
            }
        }
        let view = self.views.next;
        self.views.next += 1;
        self.views.open.insert(view, aside);
        let members = self.note.members.clone();
        Ok(Begun { view, position: self.handed.position, members })
    }

    /// Begins the views whose moment is now; true if anybody is to be told.
    pub(super) fn begin_awaited(&mut self) -> bool {
        if self.held || self.views.awaited.is_empty() {
            return false;
        }
        let position = self.handed.position;
        let mut awaited = std::mem::take(&mut self.views.awaited);
        let mut told = false;
        for one in awaited.values_mut().filter(|one| one.begun.is_none()) {
            if one.index <= position.index {
                let now = one.index == position.index;
                let passed = FrozenError::Passed { index: one.index, position };
                one.begun = Some(if now { self.capture(one.group.clone()) } else { Err(passed) });
                told = true;
            }
        }
        self.views.awaited = awaited;
        told
    }

    /// The keys whose files must be put aside before these are written.
    pub(super) fn wanted_aside(&self, due: &[Due]) -> Vec<Key> {
        if self.views.open.is_empty() {
            return Vec::new();
        }
        let keys = due.iter().flat_map(|due| {
            let from = match &due.target {
                Target::RenamedFrom(from) => Some(from),
                Target::Content(_) | Target::Absent => None,
            };
            from.into_iter().chain([&due.key])
        });
        let wanted = |key: &&Key| self.views.open.values().any(|aside| aside.wants(key));
        keys.filter(wanted).cloned().collect()
    }
}
