//! Writes to the journal, one group after the other. The writer is a thread of its own, or a submitter
//! that finds nobody writing and would only wait for the thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::commit::FatalError;
use super::files::Reach;
use super::queue::{Submission, Work};
use super::threads::Shared;
use crate::journal::ring::NewSegment;
use crate::sync::Mutex;

/// A submitter writes by itself only on a disk that has been faster than this. On a slower one it would
/// be held up for long, and a thread's wake-up is nothing beside a flush.
const QUICK: Duration = Duration::from_micros(500);

/// The part of the past in the running mean of a group's time: the last ten or so count.
const MEMORY: u32 = 8;

/// The work of the journal's writer on submissions that wait.
pub(super) trait LogSteps<T>: Send {
    /// A group that is on its way.
    type Group: Send;
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
    /// Writes a frame without a group, if there is anything to say; false when there is no room
    /// before the next checkpoint.
    fn write_frame(&mut self) -> Result<bool, FatalError>;
    /// Lets the journal say that the files cover `reach`.
    fn note_checkpoint(&mut self, reach: Reach) -> Result<(), FatalError>;
    /// Adds a segment to the ring.
    fn add_segment(&mut self, segment: NewSegment);
    /// Bytes written to the journal since it was opened.
    fn written_bytes(&self) -> u64;
}

/// The journal's writer. Groups are taken under its lock, so they are written in their order
/// whoever writes them.
pub(super) struct LogWriter<T, S: LogSteps<T>> {
    shared: Arc<Shared<T>>,
    log: Arc<Mutex<Log<T, S>>>,
}

impl<T, S: LogSteps<T>> Clone for LogWriter<T, S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), log: self.log.clone() }
    }
}

struct Log<T, S: LogSteps<T>> {
    shared: Arc<Shared<T>>,
    steps: S,
    /// A group that a submitter could not write for lack of room.
    left_over: Option<S::Group>,
    /// How long a group takes, as a running mean.
    usual: Duration,
    /// How long it may take for submitters to write by themselves.
    quick: Duration,
    /// Journal bytes between requests for a checkpoint.
    request_bytes: u64,
    /// Journal bytes at the last request.
    requested_at: u64,
}

impl<T, S: LogSteps<T>> LogWriter<T, S> {
    pub(super) fn new(shared: Arc<Shared<T>>, steps: S, request_bytes: u64) -> Self {
        let log = Log {
            shared: shared.clone(),
            steps,
            left_over: None,
            usual: Duration::ZERO,
            quick: QUICK,
            request_bytes,
            requested_at: 0,
        };
        Self { shared, log: Arc::new(Mutex::new(log)) }
    }

    /// Writes what comes until the end; the work of the thread.
    pub(super) fn run(self) {
        loop {
            self.shared.queue.wait();
            let mut log = self.log.lock();
            match log.write_all() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    drop(log);
                    return self.shared.fail(&error);
                }
            }
        }
    }

    /// Writes what was submitted quietly if nobody else is writing and it takes no waiting for
    /// room; else the thread is told.
    pub(super) fn write_here(&self) {
        if let Some(mut log) = self.log.try_lock()
            && let Err(error) = log.write_one()
        {
            drop(log);
            self.shared.fail(&error);
        }
        self.shared.queue.call();
    }
}

#[cfg(any(test, feature = "simulation"))]
impl<T, S: LogSteps<T>> LogWriter<T, S> {
    /// Lets submitters write by themselves whatever the time that it takes.
    pub(super) fn forget_time(&self) {
        self.log.lock().quick = Duration::MAX;
    }

    /// Writes what waits, as the thread does, but comes back where that would wait for room. Then this
    /// is false, and the next call is to follow a checkpoint, and to say so.
    pub(super) fn write_unless_full(&self, after_checkpoint: bool) -> Result<bool, FatalError> {
        let mut log = self.log.lock();
        loop {
            if let Some(work) = self.shared.queue.take_room() {
                if !log.make_room(work)? {
                    return Ok(true);
                }
                continue;
            }
            let mut group = match log.left_over.take() {
                Some(group) => group,
                None => match self.shared.queue.next() {
                    Some(Work::Group(group)) => log.steps.prepare(group),
                    Some(Work::End) | None => return Ok(true),
                    Some(Work::Frame) if !log.steps.write_frame()? => return Ok(false),
                    Some(Work::Frame) => continue,
                    Some(work) => {
                        log.make_room(work)?;
                        continue;
                    }
                },
            };
            if !log.attempt(&mut group, after_checkpoint)? {
                log.left_over = Some(group);
                return Ok(false);
            }
            log.finish(group);
        }
    }
}

impl<T, S: LogSteps<T>> Log<T, S> {
    /// Does everything that is to be done; false at the end.
    fn write_all(&mut self) -> Result<bool, FatalError> {
        if let Some(group) = self.left_over.take()
            && !self.write_patiently(group, false)?
        {
            return Ok(false);
        }
        while let Some(work) = self.shared.queue.next() {
            let goes_on = match work {
                Work::Group(group) => {
                    self.shared.files.wait_for_room();
                    let group = self.steps.prepare(group);
                    self.write_patiently(group, true)?
                }
                other => self.make_room(other)?,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does what makes room in the journal; false at the end.
    fn make_room(&mut self, work: Work<T>) -> Result<bool, FatalError> {
        match work {
            Work::Checkpoint(reach) => {
                self.steps.note_checkpoint(reach)?;
                self.shared.bell.note(reach);
            }
            Work::Segment(segment) => self.steps.add_segment(segment),
            // Files wait for it, which a checkpoint lets through, too.
            Work::Frame => {
                if !self.steps.write_frame()? {
                    self.request_checkpoint();
                }
            }
            Work::Group(_) | Work::End => return Ok(false),
        }
        Ok(true)
    }

    /// Writes a group, waiting for room; false at the end. A group that is not `new` has been tried.
    fn write_patiently(&mut self, mut group: S::Group, new: bool) -> Result<bool, FatalError> {
        let mut covered = None;
        let mut tried = !new;
        while tried || !self.attempt(&mut group, self.covers_all(covered))? {
            tried = false;
            self.ask_for_room(covered);
            let work = self.shared.queue.next_room();
            if let Work::Checkpoint(reach) = work {
                covered = Some(reach.lsn);
            }
            if !self.make_room(work)? {
                return Ok(false);
            }
        }
        self.shared.lacks_room.store(false, Ordering::SeqCst);
        self.finish(group);
        Ok(true)
    }

    /// Asks for a checkpoint; behind one that covers these frames only if another could cover more,
    /// else whoever applies the next entry asks.
    fn ask_for_room(&mut self, covered: Option<u64>) {
        self.shared.lacks_room.store(true, Ordering::SeqCst);
        if !self.covers_all(covered) {
            self.request_checkpoint();
        }
    }

    /// Whether a checkpoint up to frame `covered` covers all that any could by now.
    fn covers_all(&self, covered: Option<u64>) -> bool {
        covered.is_some_and(|lsn| self.shared.files.handed().lsn <= lsn)
    }

    /// Writes a group if one waits, the disk is quick, and nothing has to be waited for.
    fn write_one(&mut self) -> Result<(), FatalError> {
        if self.usual > self.quick || self.left_over.is_some() || self.shared.files.is_lagging() {
            return Ok(());
        }
        let Some(group) = self.shared.queue.next_group() else { return Ok(()) };
        let mut group = self.steps.prepare(group);
        if self.attempt(&mut group, false)? {
            self.finish(group);
        } else {
            self.left_over = Some(group);
            self.shared.queue.group_left();
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        group: &mut S::Group,
        after_checkpoint: bool,
    ) -> Result<bool, FatalError> {
        let begun = Instant::now();
        let done = self.steps.attempt(group, after_checkpoint);
        self.usual = (self.usual * (MEMORY - 1) + begun.elapsed()) / MEMORY;
        done
    }

    fn finish(&mut self, group: S::Group) {
        self.steps.finish(group);
        self.shared.queue.group_done();
        if self.steps.written_bytes() - self.requested_at > self.request_bytes {
            self.request_checkpoint();
        }
    }

    fn request_checkpoint(&mut self) {
        self.requested_at = self.steps.written_bytes();
        self.shared.bell.request();
    }
}
