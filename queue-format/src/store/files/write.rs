//! The writer's steps: making files of what is pending.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{FileError, Files, LAG_BYTES_SOFT, State};
use crate::disk::{self, Disk};
use crate::key::Key;
use crate::store::dirty::Dirty;
use crate::store::pending::{Due, Target};

/// Files taken from the pending ones at a time: enough to make the lock cheap, few enough that a
/// checkpoint or a reader never waits for long.
const CHUNK_FILES: usize = 64;

/// How long the writer waits before it tries again on a disk that takes nothing.
const FULL_RETRY: Duration = Duration::from_millis(250);

/// When the file that has waited longest is due.
enum Next {
    Now,
    /// In so many milliseconds.
    In(u64),
    /// As soon as its change may show in a file.
    Gated,
    Nothing,
}

impl State {
    /// Whether somebody waits for the files of entry `index`, or is about to.
    fn is_wanted(&self, index: u64) -> bool {
        index <= self.flush_upto || self.pending.bytes() > LAG_BYTES_SOFT / 2
    }

    fn next_due(&self, now_ms: u64, write_behind_ms: u64) -> Next {
        if self.held {
            return Next::Nothing;
        }
        let Some((index, since_ms)) = self.pending.oldest() else { return Next::Nothing };
        let waited = now_ms.saturating_sub(since_ms);
        if waited < write_behind_ms && !self.is_wanted(index) {
            Next::In(write_behind_ms - waited)
        } else if self.gate.is_some_and(|gate| index > gate) {
            Next::Gated
        } else {
            Next::Now
        }
    }
}

impl Files {
    /// Writes files as they come due until [`Files::stop`].
    pub(crate) fn write_until_stopped(&self) -> Result<(), FileError> {
        while self.wait_for_due() {
            self.write_chunk(self.write_behind_ms / 2, true)?;
        }
        Ok(())
    }

    /// Waits until a file is due; false when there is nothing more to do.
    fn wait_for_due(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return false;
            }
            let wait_ms = match state.next_due(self.now_ms(), self.write_behind_ms) {
                Next::Now => return true,
                Next::In(wait_ms) => wait_ms,
                Next::Gated => {
                    // Ask again should the answer be slow in coming.
                    self.ask_for_frame();
                    self.write_behind_ms.max(1)
                }
                Next::Nothing => {
                    state.writer_idle = true;
                    self.wake_writer.wait(&mut state);
                    state.writer_idle = false;
                    continue;
                }
            };
            self.wake_writer.wait_for(&mut state, Duration::from_millis(wait_ms));
        }
    }

    /// Writes the files that have waited for `behind_ms`, up to a bounded number. A thread that is woken
    /// for one that is due asks for less than that, so as not to be woken for each.
    ///
    /// If `patient`, waits for a disk that takes nothing, until [`Files::stop`].
    pub(crate) fn write_chunk(&self, behind_ms: u64, patient: bool) -> Result<(), FileError> {
        let mut state = self.state.lock();
        let (now, behind) = (self.now_ms(), behind_ms);
        let hurries = state.pending.oldest().is_some_and(|(index, _)| state.is_wanted(index));
        let mut due = Vec::new();
        while due.len() < CHUNK_FILES && matches!(state.next_due(now, behind), Next::Now) {
            due.extend(state.pending.take());
        }
        // A file that was written before has a name already, most likely.
        let existing: Vec<_> = due.iter().map(|due| state.dirty.has(&due.key)).collect();
        state.writing.clone_from(&due);
        let wanted = state.wanted_aside(&due);
        drop(state);
        self.put_aside(&wanted);

        let mut dirty = Dirty::default();
        for (due, exists) in due.iter().zip(existing) {
            if !hurries {
                // Commits go first: on a busy machine they would wait for a whole slice of time.
                std::thread::yield_now();
            }
            while let Err(error) = self.write_one(due, exists, &mut dirty) {
                let path = self.path(&due.key);
                if !patient || !disk::is_full(&error) {
                    return Err(FileError::Write { path, error });
                }
                self.set_full(&path, &error);
                if !self.wait_to_retry() {
                    return Ok(());
                }
            }
        }

        let mut state = self.state.lock();
        state.writing.clear();
        state.dirty.merge(dirty);
        self.lag_bytes.store(state.pending.bytes(), Ordering::Relaxed);
        self.progress.notify_all();
        drop(state);
        self.clear_full();
        Ok(())
    }

    /// Waits until a disk that took nothing is worth another try; false at the end.
    fn wait_to_retry(&self) -> bool {
        let mut state = self.state.lock();
        // Somebody who ends only if the disk still takes nothing asked for the try.
        if !state.stopping && state.full.is_some() {
            self.wake_writer.wait_for(&mut state, FULL_RETRY);
        }
        !state.stopping
    }

    fn write_one(&self, due: &Due, exists: bool, dirty: &mut Dirty) -> io::Result<()> {
        let path = self.path(&due.key);
        match &due.target {
            Target::Content(content) => {
                if exists {
                    self.in_directory(&due.key, dirty, || self.disk.replace(&path, content))?;
                } else {
                    self.in_directory(&due.key, dirty, || {
                        match self.disk.create(&path, content) {
                            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                                self.replace_other(&path, content)
                            }
                            done => done,
                        }
                    })?;
                }
                dirty.add_content(&due.key, due.last_index);
            }
            Target::Absent => {
                match self.disk.remove(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    // It never had a file, or was renamed.
                    Err(_) | Ok(()) => dirty.add_name(&due.key, due.last_index),
                }
            }
            Target::RenamedFrom(from) => {
                let from_path = self.path(from);
                let rename = || self.disk.rename_new(&from_path, &path);
                match self.in_directory(&due.key, dirty, rename) {
                    // Done before a crash, or there is no such file.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                        ) => {}
                    done => done?,
                }
                dirty.add_name(&due.key, due.last_index);
                dirty.add_name(from, due.last_index);
            }
        }
        Ok(())
    }

    /// Gives a file this content, unless it has it: after a crash, most of what the journal repeats was
    /// written before it. To replace a file takes its new content to the disk at once on some file
    /// systems, thousands of times.
    fn replace_other(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        match self.disk.read(path) {
            Ok(found) if found == content => Ok(()),
            _ => self.disk.replace(path, content),
        }
    }

    /// Does something that needs the directory of `key`, which is made when it is missing.
    fn in_directory(
        &self,
        key: &Key,
        dirty: &mut Dirty,
        operation: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_directories(self.disk.as_ref(), &self.root, key, dirty)?;
                operation()
            }
            done => done,
        }
    }
}

/// Makes the directories on the way to the file of `key`.
pub(crate) fn make_directories(
    disk: &dyn Disk,
    root: &Path,
    key: &Key,
    dirty: &mut Dirty,
) -> io::Result<()> {
    let mut directory = root.to_owned();
    for segment in key.directory().split('/').filter(|segment| !segment.is_empty()) {
        let parent = directory.clone();
        directory.push(segment);
        match disk.make_directory(&directory) {
            Ok(()) => dirty.add_directory(parent),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::change::{Batch, Change};
    use crate::disk::real::RealDisk;
    use crate::store::files::Reach;

    #[test]
    fn what_a_crash_left_in_place_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let temporaries = dir.path().join(".tmp");
        std::fs::create_dir(&temporaries).unwrap();
        let path = dir.path().join("a");
        // A start knows nothing of what was written before it.
        let repeated = |content: &'static str| {
            let disk = RealDisk::new(temporaries.clone(), 0o640, 0o750);
            let files = Files::new(Arc::new(disk), dir.path(), Duration::ZERO);
            let key = Key::parse("a").unwrap();
            let batch = Batch(vec![Change::Put { key: key.clone(), content: content.into() }]);
            files.hand_over(&batch, Reach::default()).unwrap();
            files.write_chunk(0, false).unwrap();
            assert!(files.is_touched(&key), "it is to be made durable");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            std::fs::metadata(&path).unwrap().ino()
        };
        let first = repeated("one");
        assert_eq!(repeated("one"), first);
        assert_ne!(repeated("two"), first);
    }
}
