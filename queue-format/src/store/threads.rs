//! The threads of a committer: thin loops over the steps of `commit`, `files` and `checkpoint`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::admission::{CloseError, Health};
use super::callbacks::{OnFatal, chain};
use super::checkpoint::{Bell, Checkpoint, Ring, segment_path};
use super::commit::FatalError;
use super::files::{Files, Reach};
use super::queue::{Queue, Submission, Work};
use super::{Durability, StoreOptions};
use crate::disk::Locked;
use crate::journal::ring::NewSegment;
use crate::position::Position;

/// What closing needs once.
pub(super) struct Closing {
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) lock: Box<dyn Locked>,
}

#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) position: Position,
    pub(super) failed: Option<String>,
    pub(super) clean: bool,
}

pub(super) struct Shared<T> {
    pub(super) queue: Queue<T>,
    pub(super) files: Arc<Files>,
    pub(super) bell: Bell,
    pub(super) status: Mutex<Status>,
    pub(super) on_fatal: OnFatal,
}

impl<T> Shared<T> {
    /// Ends everything because of this error; only the first one is told.
    pub(super) fn fail(&self, error: &FatalError) {
        {
            let mut status = self.status.lock();
            if status.failed.is_some() {
                return;
            }
            status.failed = Some(chain(error));
        }
        self.end();
        (self.on_fatal)(error);
    }

    /// How the store is.
    pub(super) fn health(&self) -> Health {
        if let Some(reason) = self.status.lock().failed.clone() {
            return Health::Failed { reason };
        }
        match self.files.full() {
            Some(full) => {
                Health::DiskFull { path: full.path, since: full.since, reason: full.reason }
            }
            None => Health::Good,
        }
    }

    /// Finishes what waits, makes the files durable and complete, ends the threads, frees the lock.
    pub(super) fn close(&self, closing: Closing) -> Result<(), CloseError> {
        let Closing { threads, lock } = closing;
        self.queue.close_and_drain();
        self.bell.end();
        let mut threads = threads.into_iter();
        let log = threads.next();
        let (writer, checkpointer) = (threads.next(), threads.next());
        let with_journal = checkpointer.is_some();
        checkpointer.into_iter().for_each(join);
        self.end();
        log.into_iter().chain(writer).for_each(join);
        drop(lock);
        let status = self.status.lock();
        match &status.failed {
            Some(reason) => Err(CloseError::Failed { reason: reason.clone() }),
            None if with_journal && !status.clean => Err(CloseError::DiskFull),
            None => Ok(()),
        }
    }

    /// Lets every thread end without finishing anything.
    pub(super) fn end(&self) {
        self.queue.end();
        self.bell.break_off();
        self.files.stop();
    }
}

/// Starts the threads; the one that owns the journal is the first, the checkpoint thread the third.
pub(super) fn spawn_all<T: Send + 'static>(
    shared: &Arc<Shared<T>>,
    steps: impl LogSteps<T> + 'static,
    checkpoint: Checkpoint,
    missing_segments: Vec<usize>,
    (options, end_state): (StoreOptions, EndState),
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        let guard = PanicGuard(shared.clone());
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _guard = guard;
            body();
        })
    };
    let durability = options.durability;
    let request_bytes = options.segment_bytes / 4 * 3;
    let thread = LogThread { shared: shared.clone(), steps, request_bytes, requested_at: 0 };
    let mut threads = vec![spawn("store-log", Box::new(move || thread.run()))?];
    if durability == Durability::Journal {
        let writer = shared.clone();
        let write = move || {
            if let Err(error) = writer.files.write_until_stopped() {
                writer.fail(&FatalError::File(error));
            }
        };
        threads.push(spawn("store-files", Box::new(write))?);
        let shared = shared.clone();
        let thread = CheckpointThread { shared, checkpoint, missing_segments, options, end_state };
        threads.push(spawn("store-checkpoint", Box::new(move || thread.run()))?);
    }
    Ok(threads)
}

/// A thread of the store that panicked has been told by the panic itself.
fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store panicked");
    }
}

/// Without one of its threads a store answers nobody: a panic in one is a failure of the store.
struct PanicGuard<T>(Arc<Shared<T>>);

impl<T> Drop for PanicGuard<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let rule = "a thread of the store never panics".to_owned();
            self.0.fail(&FatalError::Rule { rule });
        }
    }
}

/// What the thread that owns the journal does with what waits for it.
pub(super) trait LogSteps<T>: Send {
    /// A group that is on its way.
    type Group;
    /// Gets a group ready.
    fn prepare(&mut self, group: Vec<Submission<T>>) -> Self::Group;
    /// Tries to make it durable; false when there is no room before the next checkpoint.
    fn attempt(
        &mut self,
        group: &mut Self::Group,
        after_checkpoint: bool,
    ) -> Result<bool, FatalError>;
    /// Tells those who wait for the group, which is durable.
    fn finish(&mut self, group: Self::Group);
    /// Writes a frame without a group.
    fn write_frame(&mut self) -> Result<(), FatalError>;
    /// Lets the journal say that the files cover `reach`.
    fn note_checkpoint(&mut self, reach: Reach) -> Result<(), FatalError>;
    /// Adds a segment to the ring.
    fn add_segment(&mut self, segment: NewSegment);
    /// Bytes written to the journal since it was opened.
    fn written_bytes(&self) -> u64;
}

struct LogThread<T, S> {
    shared: Arc<Shared<T>>,
    steps: S,
    /// Journal bytes between requests for a checkpoint.
    request_bytes: u64,
    /// Journal bytes at the last request.
    requested_at: u64,
}

impl<T, S: LogSteps<T>> LogThread<T, S> {
    fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let done = match shared.queue.next() {
                Work::Group(group) => self.write_group(group),
                other => self.make_room(other),
            };
            match done {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    shared.fail(&error);
                    return;
                }
            }
        }
    }

    /// Does what makes room in the journal; false at the end.
    fn make_room(&mut self, work: Work<T>) -> Result<bool, FatalError> {
        match work {
            Work::Checkpoint(reach) => {
                self.steps.note_checkpoint(reach)?;
                self.shared.bell.note(reach);
            }
            Work::Segment(segment) => self.steps.add_segment(segment),
            // A checkpoint may be waiting for it.
            Work::Frame => self.steps.write_frame()?,
            Work::Group(_) | Work::End => return Ok(false),
        }
        Ok(true)
    }

    fn write_group(&mut self, group: Vec<Submission<T>>) -> Result<bool, FatalError> {
        self.shared.files.wait_for_room();
        let mut group = self.steps.prepare(group);
        let mut after_checkpoint = false;
        while !self.steps.attempt(&mut group, after_checkpoint)? {
            self.request_checkpoint();
            let work = self.shared.queue.next_room();
            after_checkpoint |= matches!(work, Work::Checkpoint(_));
            if !self.make_room(work)? {
                return Ok(false);
            }
        }
        self.steps.finish(group);
        if self.steps.written_bytes() - self.requested_at > self.request_bytes {
            self.request_checkpoint();
        }
        Ok(true)
    }

    fn request_checkpoint(&mut self) {
        self.requested_at = self.steps.written_bytes();
        self.shared.bell.request();
    }
}

/// How long to wait before trying again to make a segment, usually because the disk is full.
const SEGMENT_RETRY: Duration = Duration::from_secs(5);

struct CheckpointThread<T> {
    shared: Arc<Shared<T>>,
    checkpoint: Checkpoint,
    /// Numbers of segments that are yet to be made.
    missing_segments: Vec<usize>,
    options: StoreOptions,
    end_state: EndState,
}

/// What is left when the threads have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndState {
    /// The files alone are the store.
    FilesAlone,
    /// The journal still belongs to it.
    WithJournal,
}

impl<T> CheckpointThread<T> {
    fn run(mut self) {
        loop {
            let interval = self.make_segments();
            let ring = self.shared.bell.wait(interval);
            let done = match ring {
                Ring::Broken => return,
                Ring::Time if !self.is_due() => Ok(true),
                Ring::Time | Ring::Requested => self.make(true),
                Ring::End => self.finish(),
            };
            match done {
                Ok(true) if ring != Ring::End => {}
                Ok(_) => return,
                Err(error) => {
                    self.shared.fail(&error);
                    return;
                }
            }
        }
    }

    fn is_due(&self) -> bool {
        self.shared.files.handed().lsn > self.checkpoint.header.lsn
    }

    /// One checkpoint; false when the threads are ending or, not `patient`, the disk is full.
    fn make(&mut self, patient: bool) -> Result<bool, FatalError> {
        let Some(reach) = self.checkpoint.make_durable(patient)? else { return Ok(false) };
        self.shared.queue.push_checkpoint(reach);
        Ok(self.shared.bell.wait_noted(reach.lsn))
    }

    /// The last checkpoint.
    fn finish(&mut self) -> Result<bool, FatalError> {
        let complete = self.make(false)?;
        let clean = match self.end_state {
            EndState::FilesAlone => complete && self.checkpoint.mark_clean()?,
            EndState::WithJournal => complete,
        };
        self.shared.status.lock().clean = clean;
        Ok(clean)
    }

    /// Makes the segments that the ring lacks, away from the way to a commit, and tells how long
    /// to wait for the next checkpoint.
    fn make_segments(&mut self) -> Duration {
        while let Some(&number) = self.missing_segments.first() {
            if let Err(error) = self.make_segment(number) {
                let path = segment_path(&self.checkpoint.root, number);
                tracing::warn!(path = %path.display(), %error, "cannot make a journal segment");
                return SEGMENT_RETRY.min(self.options.checkpoint_every);
            }
            self.missing_segments.remove(0);
        }
        self.options.checkpoint_every
    }

    fn make_segment(&self, number: usize) -> std::io::Result<()> {
        let path = segment_path(&self.checkpoint.root, number);
        self.checkpoint.disk.make_segment(&path, self.options.segment_bytes)?;
        let (file, bytes) = self.checkpoint.disk.open_segment(&path)?;
        self.shared.queue.push_segment(NewSegment { number, file, bytes, last_lsn: 0 });
        Ok(())
    }
}
