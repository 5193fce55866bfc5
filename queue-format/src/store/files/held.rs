//! The steps of who replaces all files: the writer rests, and what was on its way is void.

use std::sync::atomic::Ordering;

use super::{Files, Reach};
use crate::position::Position;
use crate::store::dirty::Dirty;
use crate::store::frozen::aside::Broken;
use crate::store::header::Note;
use crate::store::pending::Pending;

impl Files {
    /// Waits until the writer rests; false at the end.
    pub(crate) fn hold(&self) -> bool {
        let mut state = self.state.lock();
        state.held = true;
        while !state.writing.is_empty() && !state.stopping {
            self.progress.wait(&mut state);
        }
        if state.stopping {
            state.held = false;
        }
        state.held
    }

    /// Forgets what was on its way to the files, and ends the views of what was.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        state.pending = Pending::default();
        state.views.break_off(&Broken::Replaced);
        self.lag_bytes.store(0, Ordering::Relaxed);
        self.progress.notify_all();
    }

    /// The note to be remembered once the members are these.
    pub(crate) fn note_with(&self, members: (Position, String)) -> Note {
        let mut state = self.state.lock();
        state.note.members = Some(members);
        state.note.clone()
    }

    /// Goes on from files that hold everything up to `reach`, durably.
    pub(crate) fn begin_anew(&self, reach: Reach) {
        let mut state = self.state.lock();
        state.handed = reach;
        state.dirty = Dirty::default();
        state.syncing = Dirty::default();
        state.gate = state.gate.map(|gate| gate.max(reach.position.index));
        state.held = false;
        state.begin_awaited();
        self.wake_writer.notify_one();
        self.progress.notify_all();
    }
}
