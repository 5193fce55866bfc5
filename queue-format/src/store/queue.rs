//! The work that waits for the commit thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::files::Reach;
use crate::change::Change;
use crate::journal::ring::NewSegment;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Changes that may wait before new work is refused: at 25,000 commits a second, over two seconds.
pub const BACKLOG_CHANGES_SOFT: usize = 65_536;

/// Changes that may wait at all. The room between the two is for work that was admitted before.
pub const BACKLOG_CHANGES_HARD: usize = 4 * BACKLOG_CHANGES_SOFT;

/// Bytes that may wait before new work is refused.
pub const BACKLOG_BYTES_SOFT: usize = 64 << 20;

/// Bytes that may wait at all.
pub const BACKLOG_BYTES_HARD: usize = 4 * BACKLOG_BYTES_SOFT;

/// How long a queue that is closed is waited for before it is asked whether there is any hope.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// Submissions that go into one batch: more would only make the first of them wait longer.
const GROUP_SUBMISSIONS_MAX: usize = 16_384;

/// Changes submitted together, which are committed together.
#[derive(Debug)]
pub(crate) struct Submission<T> {
    pub(crate) changes: Vec<Change>,
    pub(crate) weight: usize,
    pub(crate) tag: T,
}

/// The next work of the commit thread.
#[derive(Debug)]
pub(crate) enum Work<T> {
    /// Commit these as one batch.
    Group(Vec<Submission<T>>),
    /// The files are durable up to here.
    Checkpoint(Reach),
    /// One more segment is ready.
    Segment(NewSegment),
    /// Write a frame, be it an empty one.
    Frame,
    /// Nothing more will come.
    End,
}

/// Why a submission was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// Too much waits.
    Busy,
    /// Nothing is taken any more.
    Closed,
}

#[derive(Debug)]
struct State<T> {
    submissions: VecDeque<Submission<T>>,
    changes: usize,
    checkpoint: Option<Reach>,
    segments: Vec<NewSegment>,
    frame_wanted: bool,
    /// The log thread waits for work.
    waiting: bool,
    /// A group was taken and is not done.
    committing: bool,
    /// The thread that took the group left it to the log thread.
    left_over: bool,
    closed: bool,
    ended: bool,
}

impl<T> State<T> {
    fn has_work(&self) -> bool {
        self.ended
            || self.left_over
            || self.frame_wanted
            || self.checkpoint.is_some()
            || !self.segments.is_empty()
            || !self.submissions.is_empty()
    }

    /// The end, or what makes room in the journal.
    fn room(&mut self) -> Option<Work<T>> {
        if self.ended {
            return Some(Work::End);
        }
        // Segments first: they are few, while each try that lacks one asks for a checkpoint anew.
        let segment = self.segments.pop().map(Work::Segment);
        segment.or_else(|| self.checkpoint.take().map(Work::Checkpoint))
    }
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    bytes: AtomicUsize,
    changes: AtomicUsize,
    wake: Condvar,
    drained: Condvar,
    group_bytes_max: usize,
}

impl<T> Queue<T> {
    /// A queue whose groups have at most this many bytes, or are a single submission.
    pub(crate) fn new(group_bytes_max: usize) -> Self {
        Self {
            state: Mutex::new(State {
                submissions: VecDeque::new(),
                changes: 0,
                checkpoint: None,
                segments: Vec::new(),
                frame_wanted: false,
                waiting: false,
                committing: false,
                left_over: false,
                closed: false,
                ended: false,
            }),
            bytes: AtomicUsize::new(0),
            changes: AtomicUsize::new(0),
            wake: Condvar::new(),
            drained: Condvar::new(),
            group_bytes_max,
        }
    }

    /// Adds work unless too much waits.
    pub(crate) fn push(&self, submission: Submission<T>) -> Result<(), (PushError, Submission<T>)> {
        self.push_quietly(submission)?;
        self.wake_if_waiting(self.state.lock());
        Ok(())
    }

    /// Adds work without telling the log thread; [`Queue::call`] must follow.
    pub(crate) fn push_quietly(
        &self,
        submission: Submission<T>,
    ) -> Result<(), (PushError, Submission<T>)> {
        let mut state = self.state.lock();
        if state.closed {
            return Err((PushError::Closed, submission));
        }
        if state.changes > BACKLOG_CHANGES_HARD || self.bytes() > BACKLOG_BYTES_HARD {
            return Err((PushError::Busy, submission));
        }
        // A submission without changes takes a place, too.
        state.changes += submission.changes.len().max(1);
        self.changes.store(state.changes, Ordering::Relaxed);
        self.bytes.fetch_add(submission.weight, Ordering::Relaxed);
        state.submissions.push_back(submission);
        Ok(())
    }

    /// Wakes the log thread if it waits and there is anything for it.
    pub(crate) fn call(&self) {
        let state = self.state.lock();
        if state.has_work() {
            self.wake_if_waiting(state);
        }
    }

    /// Tells that the files are durable up to here.
    pub(crate) fn push_checkpoint(&self, reach: Reach) {
        let mut state = self.state.lock();
        state.checkpoint = Some(reach);
        self.wake_if_waiting(state);
    }

    /// Brings one more segment.
    pub(crate) fn push_segment(&self, segment: NewSegment) {
        let mut state = self.state.lock();
        state.segments.push(segment);
        self.wake_if_waiting(state);
    }

    /// Asks for a frame, be it an empty one.
    pub(crate) fn ask_for_frame(&self) {
        let mut state = self.state.lock();
        state.frame_wanted = true;
        self.wake_if_waiting(state);
    }

    fn wake_if_waiting(&self, state: MutexGuard<'_, State<T>>) {
        let waiting = state.waiting;
        drop(state);
        if waiting {
            self.wake.notify_one();
        }
    }

    /// Changes that wait.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether new work should wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.changes() > BACKLOG_CHANGES_SOFT || self.bytes() > BACKLOG_BYTES_SOFT
    }

    /// Waits until there is work, which [`Queue::next`] then takes; somebody else may be faster.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        while !state.has_work() {
            state.waiting = true;
            self.wake.wait(&mut state);
            state.waiting = false;
        }
    }

    /// The next work, without waiting: of submissions everything that waits at this moment, within
    /// bounds.
    pub(crate) fn next(&self) -> Option<Work<T>> {
        let mut state = self.state.lock();
        if let Some(work) = state.room() {
            return Some(work);
        }
        if state.submissions.is_empty() {
            return std::mem::take(&mut state.frame_wanted).then_some(Work::Frame);
        }
        Some(Work::Group(self.take_group(&mut state)))
    }

    /// Submissions to commit, unless there is something else to do first.
    pub(crate) fn next_group(&self) -> Option<Vec<Submission<T>>> {
        let mut state = self.state.lock();
        let first = state.ended
            || state.left_over
            || state.checkpoint.is_some()
            || !state.segments.is_empty()
            || state.submissions.is_empty();
        if first { None } else { Some(self.take_group(&mut state)) }
    }

    /// Whether the end was told.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().ended
    }

    /// The work that makes room, if there is any.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn take_room(&self) -> Option<Work<T>> {
        self.state.lock().room()
    }

    /// Waits for a checkpoint, a segment or the end; submissions stay where they are.
    pub(crate) fn next_room(&self) -> Work<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.room() {
                return work;
            }
            if std::mem::take(&mut state.frame_wanted) {
                return Work::Frame;
            }
            state.waiting = true;
            self.wake.wait(&mut state);
            state.waiting = false;
        }
    }

    /// The group that was taken is committed.
    pub(crate) fn group_done(&self) {
        let mut state = self.state.lock();
        state.committing = false;
        state.left_over = false;
        if state.submissions.is_empty() {
            self.drained.notify_all();
        }
    }

    /// The group that was taken is left to the log thread.
    pub(crate) fn group_left(&self) {
        let mut state = self.state.lock();
        state.left_over = true;
        self.wake_if_waiting(state);
    }

    fn take_group(&self, state: &mut State<T>) -> Vec<Submission<T>> {
        state.committing = true;
        state.frame_wanted = false;
        let mut bytes = 0;
        let fits = |submission: &Submission<T>| {
            bytes += submission.weight;
            bytes <= self.group_bytes_max
        };
        let count = state.submissions.iter().take(GROUP_SUBMISSIONS_MAX).take_while({
            let mut fits = fits;
            move |submission| fits(submission)
        });
        let count = count.count().max(1);
        let group: Vec<_> = state.submissions.drain(..count).collect();
        let weight: usize = group.iter().map(|submission| submission.weight).sum();
        let changes: usize = group.iter().map(|submission| submission.changes.len().max(1)).sum();
        state.changes -= changes;
        self.changes.store(state.changes, Ordering::Relaxed);
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
        group
    }

    /// Takes no more submissions, and waits until those taken are committed; false if `hopeless`
    /// says that they will not be for now.
    pub(crate) fn close_and_drain(&self, hopeless: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        state.closed = true;
        // A thread that added something quietly may not be there any more to tell of it.
        self.wake.notify_all();
        while !state.ended && (!state.submissions.is_empty() || state.committing) {
            let late = self.drained.wait_for(&mut state, DRAIN_PATIENCE).timed_out();
            if late {
                // The files are looked at, whose owner may look at this.
                drop(state);
                if hopeless() {
                    return false;
                }
                state = self.state.lock();
            }
        }
        true
    }

    /// Ends the commit thread as soon as it asks for work.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.ended = true;
        self.wake.notify_all();
        self.drained.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(tag: u32, weight: usize) -> Submission<u32> {
        Submission { changes: Vec::new(), weight, tag }
    }

    fn tags(work: Option<Work<u32>>) -> Vec<u32> {
        match work {
            Some(Work::Group(group)) => {
                group.into_iter().map(|submission| submission.tag).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_group_is_what_waits_within_bounds_and_never_nothing() {
        let queue = Queue::new(100);
        for (tag, weight) in [(1, 60), (2, 40), (3, 1), (4, 500), (5, 1)] {
            queue.push(submission(tag, weight)).unwrap();
        }
        assert_eq!((queue.changes(), queue.bytes()), (5, 602));
        assert_eq!(tags(queue.next()), [1, 2]);
        assert_eq!(tags(queue.next()), [3]);
        assert_eq!(tags(queue.next()), [4]);
        assert_eq!(tags(queue.next()), [5]);
        assert_eq!((queue.changes(), queue.bytes()), (0, 0));
    }

    #[test]
    fn checkpoints_go_first_and_a_closed_queue_takes_nothing() {
        let queue = Queue::new(100);
        queue.push(submission(1, 1)).unwrap();
        let reach = Reach { lsn: 7, ..Reach::default() };
        queue.push_checkpoint(reach);
        assert!(matches!(queue.next_room(), Work::Checkpoint(found) if found == reach));
        queue.end();
        assert!(matches!(queue.next(), Some(Work::End)));
        assert_eq!(queue.push(submission(2, 1)).unwrap_err().0, PushError::Closed);
        assert!(queue.close_and_drain(|| false));
    }

    #[test]
    fn what_was_added_quietly_is_taken_at_the_end_though_nobody_called() {
        let queue = std::sync::Arc::new(Queue::new(100));
        let theirs = std::sync::Arc::clone(&queue);
        let log = std::thread::spawn(move || {
            theirs.wait();
            let taken = tags(theirs.next());
            theirs.group_done();
            taken
        });
        while !queue.state.lock().waiting {
            std::thread::yield_now();
        }
        queue.push_quietly(submission(1, 1)).unwrap();
        // A log that nobody wakes is given up at last.
        let looks = std::cell::Cell::new(30);
        let drained = queue.close_and_drain(|| looks.replace(looks.get() - 1) == 0);
        queue.end();
        assert!(drained, "the log sleeps on");
        assert_eq!(log.join().unwrap(), [1]);
    }

    #[test]
    fn the_hard_bound_holds() {
        let queue = Queue::new(100);
        queue.push(submission(1, BACKLOG_BYTES_HARD + 1)).unwrap();
        assert!(queue.is_busy());
        assert_eq!(queue.push(submission(2, 1)).unwrap_err().0, PushError::Busy);
    }
}
