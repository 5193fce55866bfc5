//! The threads of a committer: thin loops over the steps of `commit`, `files` and `checkpoint`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::admission::{Backlog, CloseError, Health, Refusal};
use super::callbacks::{OnFatal, chain};
use super::checkpoint::{Bell, Checkpoint, Ring, segment_path};
use super::commit::FatalError;
use super::files::Files;
use super::log_writer::{LogSteps, LogWriter};
use super::queue::Queue;
use super::{Durability, StoreOptions};
use crate::disk::Locked;
use crate::journal::ring::{Fill, NewSegment};
use crate::position::Position;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle};

/// The parts that closing needs once.
pub(super) struct Closing {
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) lock: Box<dyn Locked>,
}

#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) position: Position,
    pub(super) fill: Fill,
    pub(super) failed: Option<String>,
    pub(super) clean: bool,
}

pub(super) struct Shared<T> {
    pub(super) queue: Queue<T>,
    pub(super) files: Arc<Files>,
    pub(super) bell: Bell,
    pub(super) status: Mutex<Status>,
    /// A group waits for room in the journal.
    pub(super) lacks_room: AtomicBool,
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

    /// Whether new work would be taken now; otherwise why not.
    pub(super) fn admit(&self) -> Result<(), Refusal> {
        if let Some(full) = self.files.full() {
            if matches!(self.health(), Health::Failed { .. }) {
                // Room on the disk would not bring it back.
                return Err(Refusal::Stopped);
            }
            return Err(Refusal::DiskFull { path: full.path, reason: full.reason });
        }
        if self.queue.is_busy() || self.files.is_lagging() {
            return Err(Refusal::Busy);
        }
        Ok(())
    }

    /// The backlog at the moment.
    pub(super) fn backlog(&self) -> Backlog {
        let (file_lag_keys, file_lag_bytes) = self.files.lag();
        let queue = &self.queue;
        Backlog { changes: queue.changes(), bytes: queue.bytes(), file_lag_keys, file_lag_bytes }
    }

    /// Finishes what waits, makes the files durable and complete, ends the threads, frees the lock.
    pub(super) fn close(&self, closing: Closing) -> Result<(), CloseError> {
        let Closing { threads, lock } = closing;
        if !self.queue.close_and_drain(|| self.files.full().is_some()) {
            // A change that waits for room in the journal waits for a disk that takes nothing, and so
            // would the threads.
            self.end();
        }
        // A checkpoint under way may wait for a disk that takes nothing.
        self.files.hurry();
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

/// The threads, and the journal's writer, which the first of them is not alone to use.
pub(super) type Spawned<T, S> = (Vec<JoinHandle<()>>, LogWriter<T, S>);

/// Starts the threads; the one that owns the journal is the first, the checkpoint thread the third.
pub(super) fn spawn_all<T: Send + 'static, S: LogSteps<T> + 'static>(
    shared: &Arc<Shared<T>>,
    steps: S,
    checkpoint: Checkpoint,
    missing_segments: Vec<usize>,
    (options, end_state): (StoreOptions, EndState),
) -> std::io::Result<Spawned<T, S>> {
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        let guard = PanicGuard(shared.clone());
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _guard = guard;
            body();
        })
    };
    let durability = options.durability;
    let request_bytes = options.segment_bytes / 4 * 3;
    let log = LogWriter::new(shared.clone(), steps, request_bytes);
    let thread = log.clone();
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
    Ok((threads, log))
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

/// The state of the store when the threads have ended.
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
                Ring::Install => self.install(),
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

    /// Makes the store what was received; false when the threads are ending.
    fn install(&mut self) -> Result<bool, FatalError> {
        let Some(request) = self.shared.bell.take_request() else { return Ok(true) };
        let Some(reach) = self.checkpoint.install(request, true)? else { return Ok(false) };
        self.shared.bell.installed();
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
