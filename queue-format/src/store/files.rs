//! The files, and what is on its way to them.
//!
//! Shared by three threads: the committer hands over committed batches, the writer makes files of
//! them, the checkpointer makes the files durable. Every method is one step of one of them, so
//! tests can take the steps in any order. The committer's and the readers' steps are here, the writer's
//! in `write`, the checkpointer's in `sync`. Readers of one moment have theirs in `frozen`, replacers of
//! all files in `held`.

pub(crate) mod frozen;
mod held;
pub(crate) mod sync;
pub(crate) mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::frozen::Views;
use super::dirty::Dirty;
use super::header::Note;
use super::pending::{Due, Entangled, Pending, Target};
use crate::change::Batch;
use crate::disk::Disk;
use crate::key::Key;
use crate::position::Position;
use crate::sync::{Condvar, Mutex};

/// Content that may wait for the file writer before new work is refused.
pub const LAG_BYTES_SOFT: usize = 64 << 20;

/// Content that may wait for the file writer before commits wait for it, too. The difference is
/// for work that was admitted before.
pub const LAG_BYTES_HARD: usize = 128 << 20;

/// A file that could not be written, read or made durable.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Writing, renaming or removing failed.
    #[error("cannot replace `{path}`{}", crate::disk::remedy(.error))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Syncing failed: what the file holds is unknown.
    #[error("cannot sync `{path}`")]
    Sync {
        /// The directory, or one of the files.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Why the disk takes nothing at the moment.
#[derive(Debug, Clone)]
pub(crate) struct DiskFull {
    /// The file that should have been written.
    pub(crate) path: PathBuf,
    /// When that was first tried.
    pub(crate) since: Instant,
    /// The system's error.
    pub(crate) reason: String,
}

/// How far a checkpoint reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reach {
    pub(crate) lsn: u64,
    pub(crate) position: Position,
}

pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    write_behind_ms: u64,
    began: Instant,
    state: Mutex<State>,
    /// Bytes that wait for the writer, for those who only look.
    lag_bytes: AtomicUsize,
    /// Whether `State::full` is set, likewise.
    is_full: AtomicBool,
    /// Asks for a frame that moves the gate.
    ask_for_frame: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Something for the writer: work while it is idle, a flush, an end.
    wake_writer: Condvar,
    /// Something happened to the files: room, an empty backlog, an end.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    /// Taken from `pending`, perhaps not in the files yet.
    writing: Vec<Due>,
    /// In the files, not durable.
    dirty: Dirty,
    /// Being made durable by the checkpoint that is under way.
    syncing: Dirty,
    handed: Reach,
    /// Changes up to this entry are wanted in the files at once.
    flush_upto: u64,
    /// No file may show its first change behind this entry yet, for a start could not undo it; without
    /// a gate, all may.
    gate: Option<u64>,
    /// The replication engine's note.
    note: Note,
    /// The note as it was when the last checkpoint began.
    captured_note: Note,
    /// Moments that are being read.
    views: Views,
    /// All files are being replaced: the writer rests.
    held: bool,
    writer_idle: bool,
    full: Option<DiskFull>,
    /// The store is closing: a disk that takes nothing is no longer waited for.
    hurried: bool,
    stopping: bool,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: &Path, write_behind: Duration) -> Self {
        Self {
            disk,
            root: root.to_owned(),
            write_behind_ms: u64::try_from(write_behind.as_millis()).unwrap_or(u64::MAX),
            began: Instant::now(),
            state: Mutex::default(),
            lag_bytes: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            ask_for_frame: OnceLock::new(),
            wake_writer: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Takes over a committed batch for the files; readers see it from now on.
    pub(crate) fn hand_over(&self, batch: &Batch, reach: Reach) -> Result<(), Entangled> {
        self.hand_over_with_members(batch, reach, None)
    }

    /// As [`Files::hand_over`]; `members` are those that the entry named, if it did.
    pub(crate) fn hand_over_with_members(
        &self,
        batch: &Batch,
        reach: Reach,
        members: Option<String>,
    ) -> Result<(), Entangled> {
        let now = self.now_ms();
        let mut state = self.state.lock();
        state.pending.apply(batch, reach.position.index, now)?;
        state.handed = reach;
        if let Some(members) = members {
            state.note.members = Some((reach.position, members));
        }
        if state.begin_awaited() {
            self.progress.notify_all();
        }
        self.lag_bytes.store(state.pending.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Wakes the writer if it waits for what was handed over. Apart from
    /// [`Files::hand_over`], so that those who wait for the commit are told first.
    pub(crate) fn nudge_writer(&self) {
        let state = self.state.lock();
        if state.writer_idle || state.pending.bytes() > LAG_BYTES_SOFT / 2 {
            self.wake_writer.notify_one();
        }
    }

    /// Says that the state of the files is this one, before anything is handed over.
    pub(crate) fn begin_at(&self, reach: Reach) {
        self.state.lock().handed = reach;
    }

    /// Lets no change behind entry `index` show in a file from now on; `ask` is called when that
    /// keeps a file waiting.
    pub(crate) fn set_gate(&self, index: u64, ask: Box<dyn Fn() + Send + Sync>) {
        self.state.lock().gate = Some(index);
        if self.ask_for_frame.set(ask).is_err() {
            tracing::error!("a store has one gate");
        }
    }

    fn ask_for_frame(&self) {
        if let Some(ask) = self.ask_for_frame.get() {
            ask();
        }
    }

    /// Whether the gate keeps anything from the files.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_gated(&self) -> bool {
        self.state.lock().is_gated()
    }

    /// Whether everything up to entry `index` is in the files.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_written(&self, index: u64) -> bool {
        self.state.lock().is_written(index)
    }

    /// Lets changes up to entry `index` show in the files.
    pub(crate) fn open_gate(&self, index: u64) {
        let mut state = self.state.lock();
        if state.gate.is_some_and(|gate| gate < index) {
            state.gate = Some(index);
            let flushes = state.flush_upto > 0 && !state.is_written(state.flush_upto);
            if flushes || state.pending.bytes() > LAG_BYTES_HARD {
                self.wake_writer.notify_one();
            }
        }
    }

    /// Changes what is to be remembered for a replication engine.
    pub(crate) fn change_note(&self, change: impl FnOnce(&mut Note)) {
        change(&mut self.state.lock().note);
    }

    /// Waits until the writer is near enough to take more, or waits itself for the next frame.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.state.lock();
        while !state.has_room() && !state.stopping {
            self.progress.wait(&mut state);
        }
    }

    /// Whether the key may differ from what the last checkpoint made durable.
    pub(crate) fn is_touched(&self, key: &Key) -> bool {
        let state = self.state.lock();
        state.on_the_way(key).is_some() || state.dirty.has(key) || state.syncing.has(key)
    }

    /// Whether the key has a file, whatever is on the way to it.
    pub(crate) fn has_file(&self, key: &Key) -> Result<bool, FileError> {
        let path = self.path(key);
        self.disk.exists(&path).map_err(|error| FileError::Read { path, error })
    }

    /// The keys that begin with this text and have a file on the way.
    pub(crate) fn coming(&self, prefix: &str) -> Vec<Key> {
        let state = self.state.lock();
        let written = state.writing.iter().filter(|due| due.target != Target::Absent);
        let written = written.map(|due| &due.key).filter(|key| key.as_str().starts_with(prefix));
        written.chain(state.pending.coming(prefix)).cloned().collect()
    }

    /// The committed content of a key.
    pub(crate) fn content(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        let target = self.state.lock().on_the_way(key).cloned();
        match target {
            Some(Target::Content(content)) => Ok(Some(content)),
            Some(Target::Absent) => Ok(None),
            None => self.read_file(key),
            // Whenever the rename happens, one of these finds the file.
            Some(Target::RenamedFrom(from)) => Ok(match self.read_file(key)? {
                None => match self.read_file(&from)? {
                    None => self.read_file(key)?,
                    found => found,
                },
                found => found,
            }),
        }
    }

    /// The present content of a key's file, whatever is on its way to it.
    pub(crate) fn read_file(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        let path = self.path(key);
        match self.disk.read(&path) {
            Ok(content) => Ok(Some(content.into())),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(FileError::Read { path, error }),
        }
    }

    /// Keys and bytes that wait for the writer.
    pub(crate) fn lag(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.pending.len() + state.writing.len(), state.pending.bytes())
    }

    /// Why the disk takes nothing, if so.
    pub(crate) fn full(&self) -> Option<DiskFull> {
        if !self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        self.state.lock().full.clone()
    }

    /// Whether so much waits for the writer that new work should wait, too.
    pub(crate) fn is_lagging(&self) -> bool {
        self.lag_bytes.load(Ordering::Relaxed) > LAG_BYTES_SOFT
    }

    /// Says that the disk takes nothing at this path.
    pub(crate) fn set_full(&self, path: &Path, error: &io::Error) {
        let mut state = self.state.lock();
        if state.full.is_none() {
            tracing::warn!(path = %path.display(), %error, "disk takes no files");
            let (path, reason) = (path.to_owned(), error.to_string());
            state.full = Some(DiskFull { path, since: Instant::now(), reason });
        }
        self.is_full.store(true, Ordering::Relaxed);
        self.progress.notify_all();
    }

    /// Says that the disk took something.
    pub(crate) fn clear_full(&self) {
        if self.is_full.swap(false, Ordering::Relaxed) {
            self.state.lock().full = None;
            tracing::info!("disk takes files again");
        }
    }

    /// Waits a while; false when everyone is to give up.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.stopping && !state.hurried {
            if self.progress.wait_until(&mut state, until).timed_out() {
                return true;
            }
        }
        false
    }

    /// Ends all waiting for a disk that takes nothing, after one more try.
    pub(crate) fn hurry(&self) {
        let mut state = self.state.lock();
        state.hurried = true;
        state.full = None;
        self.wake_writer.notify_all();
        self.progress.notify_all();
    }

    /// Lets everyone who waits give up.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        self.wake_writer.notify_all();
        self.progress.notify_all();
    }
}

impl State {
    fn on_the_way(&self, key: &Key) -> Option<&Target> {
        let written = || self.writing.iter().find(|due| due.key == *key).map(|due| &due.target);
        self.pending.target(key).or_else(written)
    }

    /// Whether commits may go on. Changes that the gate keeps from the files wait for the frame of a
    /// commit.
    fn has_room(&self) -> bool {
        let kept = |(index, _since): (u64, u64)| self.gate.is_some_and(|gate| index > gate);
        self.pending.bytes() <= LAG_BYTES_HARD || self.pending.oldest().is_some_and(kept)
    }

    fn is_gated(&self) -> bool {
        self.gate.is_some_and(|gate| gate < self.handed.position.index)
    }

    fn is_written(&self, index: u64) -> bool {
        self.pending.oldest().is_none_or(|(oldest, _since)| oldest > index)
            && self.writing.iter().all(|due| due.index > index)
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("root", &self.root).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    #[test]
    fn commits_go_on_where_only_their_frames_let_the_writer_go_on() {
        let content = Bytes::from(vec![0; 1 << 20]);
        let put = |number: usize| Change::Put {
            key: Key::parse(&format!("k/{number}")).unwrap(),
            content: content.clone(),
        };
        let much = |from: usize| Batch((from..=from + (LAG_BYTES_HARD >> 20)).map(put).collect());
        let mut state = State { gate: Some(1), ..State::default() };
        assert!(state.has_room());
        state.pending.apply(&much(0), 1, 0).unwrap();
        assert!(!state.has_room(), "the writer is behind, and may go on");
        state.pending.apply(&much(1_000), 2, 0).unwrap();
        while state.pending.oldest() == Some((1, 0)) {
            assert!(!state.has_room());
            state.pending.take();
        }
        assert!(state.pending.bytes() > LAG_BYTES_HARD && state.has_room());
        state.gate = Some(2);
        assert!(!state.has_room(), "it may go on again");
    }
}
