//! The checkpointer's steps: making durable what the files hold.

use std::io;

use super::{FileError, Files, Reach};
use crate::store::header::Note;

/// The range that a checkpoint is to cover.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) reach: Reach,
    /// Whether the gate keeps some of it from the files.
    pub(crate) gated: bool,
}

impl Files {
    /// The aim of a checkpoint that begins now: everything handed over so far. The note as it is at this
    /// moment goes with it.
    pub(crate) fn aim(&self) -> Aim {
        let mut state = self.state.lock();
        state.captured_note = state.note.clone();
        Aim { reach: state.handed, gated: state.is_gated() }
    }

    /// Waits until what was handed over up to entry `index` is in the files, which the gate lets
    /// through. False when the writer stopped, or when the disk takes nothing and `patient` is
    /// false.
    pub(crate) fn flush(&self, index: u64, patient: bool) -> bool {
        let mut state = self.state.lock();
        state.flush_upto = state.flush_upto.max(index);
        if !patient {
            // Not to give up because of what was: the writer tries again at once.
            state.full = None;
        }
        self.wake_writer.notify_one();
        while !state.is_written(index) {
            let patient = patient && !state.hurried;
            if state.stopping || (!patient && state.full.is_some()) {
                return false;
            }
            self.progress.wait(&mut state);
        }
        true
    }

    /// Makes everything durable that is in the files and was not.
    pub(crate) fn sync(&self) -> Result<(), FileError> {
        let mut state = self.state.lock();
        let dirty = std::mem::take(&mut state.dirty);
        state.syncing.merge(dirty);
        let (files, directories) = state.syncing.paths(&self.root);
        drop(state);
        self.disk.sync_files(&files).map_err(|error| FileError::Sync {
            path: files.first().cloned().unwrap_or_default(),
            error,
        })?;
        for path in directories {
            match self.disk.sync_directory(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::Sync { path, error });
                }
                Err(_) | Ok(()) => {}
            }
        }
        Ok(())
    }

    /// The last sync counts up to entry `index`: a checkpoint says so of the changes up to there.
    pub(crate) fn synced(&self, index: u64) {
        let mut state = self.state.lock();
        let mut rest = std::mem::take(&mut state.syncing);
        rest.keep_after(index);
        state.dirty.merge(rest);
    }

    /// The last entry that a file may show a change of, where there is a gate. A file that is written
    /// has all that was handed over for it, also what is behind the gate.
    pub(crate) fn shown(&self) -> Option<u64> {
        let state = self.state.lock();
        state.gate.map(|_gate| state.handed.position.index)
    }

    /// The note as it was when the last checkpoint began.
    pub(crate) fn captured_note(&self) -> Note {
        self.state.lock().captured_note.clone()
    }

    /// The last batch that was handed over.
    pub(crate) fn handed(&self) -> Reach {
        self.state.lock().handed
    }
}
