//! Taking changes from any thread, and the threads that commit them.

use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[cfg(any(test, feature = "simulation"))]
pub(crate) mod by_hand;

use super::admission::{Backlog, CloseError, Health, Refusal, Refused, group_bytes_max, weigh};
use super::callbacks::{Callbacks, Flushed, OnCommitted, OnFlushed};
use super::checkpoint::{Bell, Checkpoint};
use super::commit::{Commit, CommitError, FatalError, Log};
use super::files::Reach;
use super::frozen::{Frozen, FrozenError};
use super::log_writer::{LogSteps, LogWriter};
use super::naive::Naive;
use super::open::Parts;
use super::queue::{PushError, Queue, Submission};
use super::scan::Reader;
use super::threads::{Closing, EndState, Shared, Status, spawn_all};
use super::{Store, StoreOptions};
use crate::change::Change;
use crate::disk::Locked;
use crate::journal::Journal;
use crate::journal::ring::{Fill, NewSegment};
use crate::position::{Epoch, Position};

/// A committer that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store has seen a later epoch.
    #[error("the store is in epoch {found}, epoch {asked} is over")]
    Epoch {
        /// The epoch of the last committed position.
        found: Epoch,
        asked: Epoch,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread of the store")]
    Thread(#[source] std::io::Error),
}

/// Takes changes and commits them in groups. Any thread may use it; dropping it closes it.
pub struct Committer<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    reader: Reader,
    closing: Mutex<Option<Closing>>,
    log: LogWriter<T, CommitSteps<T>>,
    submission_bytes_max: usize,
    has_journal: bool,
}

/// Attempts to begin a view, each once the files show what was committed before. Jobs that are archived
/// meanwhile are in the way of it, and thousands of them are not archived at one go.
const FREEZE_ATTEMPTS: usize = 1_000;

impl Store {
    /// Starts the threads that commit, as the writer of `epoch`.
    ///
    /// # Errors
    /// The store has seen a later epoch, or a thread cannot be started.
    pub fn start<T: Send + 'static>(
        self,
        epoch: Epoch,
        callbacks: Callbacks<T>,
    ) -> Result<Committer<T>, StartError> {
        let assembled = self.assemble(epoch, callbacks)?;
        let Assembled { shared, steps, checkpoint, missing_segments, options, .. } = assembled;
        let threads = spawn_all(
            &shared,
            steps,
            checkpoint,
            missing_segments,
            (options, EndState::FilesAlone),
        );
        let (threads, log) = threads.map_err(|error| {
            shared.end();
            StartError::Thread(error)
        })?;
        let closing = Closing { threads, lock: assembled.lock };
        Ok(Committer {
            shared,
            reader: assembled.reader,
            closing: Mutex::new(Some(closing)),
            log,
            submission_bytes_max: assembled.submission_bytes_max,
            has_journal: assembled.has_journal,
        })
    }

    /// All that the threads work with, and nothing that runs.
    fn assemble<T: Send + 'static>(
        self,
        epoch: Epoch,
        callbacks: Callbacks<T>,
    ) -> Result<Assembled<T>, StartError> {
        let found = self.recovered.position.epoch;
        if epoch < found {
            return Err(StartError::Epoch { found, asked: epoch });
        }
        let reader = self.reader();
        let Parts { disk, root, options, files, header, position, journal, missing_segments, lock } =
            self.parts;
        let group_bytes_max = group_bytes_max(journal.as_ref(), &missing_segments, &options);
        let fill = journal.as_ref().map(Journal::fill).unwrap_or_default();
        let shared = Arc::new(Shared {
            queue: Queue::new(group_bytes_max),
            files: files.clone(),
            bell: Bell::default(),
            status: Mutex::new(Status { position, fill, ..Status::default() }),
            lacks_room: AtomicBool::new(false),
            on_fatal: callbacks.on_fatal,
        });
        let has_journal = journal.is_some();
        let log = match journal {
            Some(journal) => Log::Journal(journal),
            None => Log::Files(Naive::new(disk.clone(), &root, header.clone())),
        };
        let checkpoint = Checkpoint { disk, root, files: files.clone(), header };
        let steps = CommitSteps {
            commit: Commit { log, files, epoch, position },
            shared: shared.clone(),
            on_committed: callbacks.on_committed,
            on_flushed: callbacks.on_flushed,
        };
        let submission_bytes_max = group_bytes_max * 2;
        Ok(Assembled {
            shared,
            steps,
            checkpoint,
            missing_segments,
            options,
            reader,
            lock,
            submission_bytes_max,
            has_journal,
        })
    }
}

struct Assembled<T> {
    shared: Arc<Shared<T>>,
    steps: CommitSteps<T>,
    checkpoint: Checkpoint,
    missing_segments: Vec<usize>,
    options: StoreOptions,
    reader: Reader,
    lock: Box<dyn Locked>,
    submission_bytes_max: usize,
    has_journal: bool,
}

impl<T: Send + 'static> Committer<T> {
    /// Submits changes that must go on, such as the end of a running job: refused only when far
    /// too much waits. They are committed together, or not at all; `tag` comes back then.
    ///
    /// # Errors
    /// See [`Refusal`]; tag and changes are given back.
    pub fn submit(&self, changes: Vec<Change>, tag: T) -> Result<(), Refused<T>> {
        let submission = self.submission(changes, tag)?;
        self.shared.queue.push(submission).map_err(not_taken)
    }

    /// Like [`Committer::submit`], for a caller that has nothing else to do meanwhile. It commits on the
    /// caller's thread where that needs no waiting but for a quick disk, so that no other thread has to
    /// be woken. Callbacks may run within this call.
    ///
    /// # Errors
    /// See [`Refusal`]; tag and changes are given back.
    pub fn submit_here(&self, changes: Vec<Change>, tag: T) -> Result<(), Refused<T>> {
        let submission = self.submission(changes, tag)?;
        self.shared.queue.push_quietly(submission).map_err(not_taken)?;
        self.log.write_here();
        Ok(())
    }

    fn submission(&self, changes: Vec<Change>, tag: T) -> Result<Submission<T>, Refused<T>> {
        match weigh(&changes, self.submission_bytes_max) {
            Ok(weight) => Ok(Submission { changes, weight, tag }),
            Err(reason) => Err(Refused { tag, changes, reason }),
        }
    }

    /// Submits new work: refused when much waits already, or the disk takes nothing.
    ///
    /// # Errors
    /// See [`Refusal`]; tag and changes are given back.
    pub fn try_submit(&self, changes: Vec<Change>, tag: T) -> Result<(), Refused<T>> {
        match self.admit() {
            Ok(()) => self.submit(changes, tag),
            Err(reason) => Err(Refused { tag, changes, reason }),
        }
    }
}

impl<T: Send + 'static> Committer<T> {
    /// Whether new work would be taken now.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<(), Refusal> {
        self.shared.admit()
    }

    /// Most bytes that one submission may weigh, by [`Change::weight`].
    pub fn submission_bytes_max(&self) -> usize {
        self.submission_bytes_max
    }

    /// The backlog at the moment.
    pub fn backlog(&self) -> Backlog {
        self.shared.backlog()
    }

    /// How full the journal is; nothing of nothing where there is none.
    pub fn journal_fill(&self) -> Fill {
        self.shared.status.lock().fill
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// The last committed position.
    pub fn position(&self) -> Position {
        self.shared.status.lock().position
    }

    /// Reads the store.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Begins a view of everything that is committed now, to be read while changes go on. Blocks a
    /// moment, until the files show what is committed so far.
    ///
    /// # Errors
    /// Too many are being read, files are being moved all the time, the directory cannot be listed,
    /// the store has ended, or has no journal.
    pub fn freeze(&self) -> Result<Frozen, FrozenError> {
        if !self.has_journal {
            return Err(FrozenError::Naked);
        }
        for _attempt in 1..FREEZE_ATTEMPTS {
            match Frozen::begin(&self.reader, None) {
                Err(FrozenError::Moving) => {}
                done => return done,
            }
        }
        Frozen::begin(&self.reader, None)
    }

    /// Asks for a checkpoint and does not wait for it.
    pub fn checkpoint(&self) {
        self.shared.bell.request();
    }

    /// Commits what waits, makes the files durable and complete, ends the threads and frees the
    /// lock. Blocks. Later calls do nothing.
    ///
    /// # Errors
    /// The files could not be completed; the next start will do it from the journal.
    pub fn close(&self) -> Result<(), CloseError> {
        match self.closing.lock().take() {
            Some(closing) => self.shared.close(closing),
            None => Ok(()),
        }
    }
}

fn not_taken<T>((error, back): (PushError, Submission<T>)) -> Refused<T> {
    let reason = match error {
        PushError::Busy => Refusal::Busy,
        PushError::Closed => Refusal::Stopped,
    };
    Refused { tag: back.tag, changes: back.changes, reason }
}

impl<T: Send + 'static> Drop for Committer<T> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "store not closed cleanly");
        }
    }
}

impl<T: Send + 'static> std::fmt::Debug for Committer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").field("position", &self.position()).finish_non_exhaustive()
    }
}

/// The work of a committer's log thread.
struct CommitSteps<T> {
    shared: Arc<Shared<T>>,
    commit: Commit,
    on_committed: OnCommitted<T>,
    on_flushed: OnFlushed,
}

impl<T> CommitSteps<T> {
    fn tell_fill(&self) {
        self.shared.status.lock().fill = self.commit.fill();
    }
}

/// The tags and the changes of several submissions.
struct CommitGroup<T> {
    tags: Vec<T>,
    changes: Vec<Change>,
}

impl<T: Send> LogSteps<T> for CommitSteps<T> {
    type Group = CommitGroup<T>;

    fn prepare(&mut self, group: Vec<Submission<T>>) -> CommitGroup<T> {
        let mut tags = Vec::with_capacity(group.len());
        let mut changes = Vec::with_capacity(group.iter().map(|s| s.changes.len()).sum());
        for submission in group {
            tags.push(submission.tag);
            changes.extend(submission.changes);
        }
        CommitGroup { tags, changes }
    }

    fn attempt(
        &mut self,
        group: &mut CommitGroup<T>,
        after_checkpoint: bool,
    ) -> Result<bool, FatalError> {
        let (begun, changes) = (Instant::now(), group.changes.len());
        match self.commit.commit(std::mem::take(&mut group.changes), after_checkpoint) {
            Ok(_position) => {
                let (took, submissions) = (begun.elapsed(), group.tags.len());
                (self.on_flushed)(Flushed { took, submissions, changes });
                Ok(true)
            }
            Err(CommitError::Fatal(error)) => Err(error),
            Err(CommitError::Full(batch)) => {
                group.changes = batch.0;
                Ok(false)
            }
        }
    }

    fn finish(&mut self, group: CommitGroup<T>) {
        let position = self.commit.position;
        {
            let mut status = self.shared.status.lock();
            status.position = position;
            status.fill = self.commit.fill();
        }
        (self.on_committed)(group.tags, position);
        self.shared.files.nudge_writer();
    }

    fn write_frame(&mut self) -> Result<bool, FatalError> {
        // Only a gate asks for frames, and a single master has none.
        Ok(true)
    }

    fn note_checkpoint(&mut self, reach: Reach) -> Result<(), FatalError> {
        self.commit.note_checkpoint(reach)?;
        self.tell_fill();
        Ok(())
    }

    fn add_segment(&mut self, segment: NewSegment) {
        self.commit.add_segment(segment);
        self.tell_fill();
    }

    fn written_bytes(&self) -> u64 {
        self.commit.written_bytes()
    }
}
