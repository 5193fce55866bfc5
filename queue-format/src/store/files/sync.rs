//! The checkpointer's steps: making durable what the files hold.

use std::io;

use super::{FileError, Files, Reach};
use crate::store::header::Note;

impl Files {
    /// Waits until everything handed over so far is in the files, and tells how far that is.
    /// None when the writer stopped, or when the disk takes nothing and `patient` is false.
    pub(crate) fn flush(&self, patient: bool) -> Option<Reach> {
        let mut state = self.state.lock();
        let reach = state.handed;
        state.flush_upto = state.flush_upto.max(reach.position.index);
        state.captured_note = state.note.clone();
        if !patient {
            // Not to give up because of what was: the writer tries again at once.
            state.full = None;
        }
        self.wake_writer.notify_one();
        while !state.is_written(reach.position.index) {
            if state.stopping || (!patient && state.full.is_some()) {
                return None;
            }
            self.progress.wait(&mut state);
        }
        Some(reach)
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

    /// What was synced last counts: a checkpoint says so of the changes up to entry `index`.
    pub(crate) fn synced(&self, index: u64) {
        let mut state = self.state.lock();
        let mut rest = std::mem::take(&mut state.syncing);
        rest.keep_after(index);
        state.dirty.merge(rest);
    }

    /// The note as it was at the last flush.
    pub(crate) fn captured_note(&self) -> Note {
        self.state.lock().captured_note.clone()
    }

    /// The last batch that was handed over.
    pub(crate) fn handed(&self) -> Reach {
        self.state.lock().handed
    }
}
