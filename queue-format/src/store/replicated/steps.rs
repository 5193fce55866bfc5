//! The work of a recorder's log thread, and the frames that the files still need.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::journal::ring::{Fill, NewSegment};
use crate::journal::{AppendError, Entry, Journal, Record};
use crate::store::commit::FatalError;
use crate::store::files::{Files, Reach};
use crate::store::log_writer::LogSteps;
use crate::store::queue::Submission;
use crate::sync::Mutex;

/// Records on their way to the journal.
pub(in crate::store) struct Recorded<T> {
    pub(super) records: Vec<Record>,
    /// The last part of an append carries the tag.
    pub(super) tag: Option<T>,
}

#[derive(Debug)]
pub(in crate::store) struct Progress {
    /// The last entry that the engine said is committed.
    pub(in crate::store) committed: AtomicU64,
    pub(in crate::store) frames: Mutex<Frames>,
    /// How full the journal is.
    pub(in crate::store) fill: Mutex<Fill>,
}

impl Progress {
    pub(in crate::store) fn new(journal: &Journal, tail: &[Entry]) -> Self {
        // Which frame holds which entry of the tail is not told: the first may hold them all.
        let tail = tail.last().map(|last| (last.position.index, journal.checkpoint() + 1));
        let unapplied = tail.into_iter().collect();
        Self {
            committed: AtomicU64::new(journal.committed()),
            fill: Mutex::new(journal.fill()),
            frames: Mutex::new(Frames { unapplied, last_lsn: journal.last_lsn() }),
        }
    }
}

/// Which frames hold entries that are not applied.
#[derive(Debug)]
pub(in crate::store) struct Frames {
    /// The last entry of a frame and the frame's number, in order.
    unapplied: VecDeque<(u64, u64)>,
    /// The last durable frame.
    last_lsn: u64,
}

impl Frames {
    fn written(&mut self, lsn: u64, records: &[Record]) {
        let mut last = None;
        for record in records {
            match record {
                Record::Entry(entry) => last = Some(entry.position.index),
                // Entries that are cut are never applied: no frame is needed for them.
                Record::Truncate { after_index } => {
                    let kept = self.unapplied.iter_mut().map(|(last, _lsn)| last).chain(&mut last);
                    kept.for_each(|last| *last = (*last).min(*after_index));
                }
                Record::Vote(_) | Record::Purge { .. } => {}
            }
        }
        self.unapplied.extend(last.map(|last| (last, lsn)));
        self.last_lsn = lsn;
    }

    /// The last frame that nobody needs once the entries up to `index` are in the files.
    pub(in crate::store) fn applied(&mut self, index: u64) -> u64 {
        while self.unapplied.front().is_some_and(|(last, _lsn)| *last <= index) {
            self.unapplied.pop_front();
        }
        self.unapplied.front().map_or(self.last_lsn, |(_last, lsn)| lsn - 1)
    }

    /// The last frame that nobody needs once the files are a snapshot of entry `index`. The frame
    /// that holds that entry here stays: it tells whether what follows is of the same log.
    pub(in crate::store) fn replaced(&mut self, index: u64) -> u64 {
        self.applied(index.saturating_sub(1))
    }
}

pub(super) type OnDurable<T> = Box<dyn FnMut(Vec<T>) + Send>;

/// The work of a recorder's log thread.
pub(in crate::store) struct RecordSteps<T> {
    pub(in crate::store) journal: Journal,
    pub(in crate::store) files: Arc<Files>,
    pub(in crate::store) progress: Arc<Progress>,
    pub(in crate::store) on_durable: OnDurable<T>,
}

/// The tags and the records of several appends.
pub(in crate::store) struct RecordGroup<T> {
    pub(in crate::store) tags: Vec<T>,
    pub(in crate::store) records: Vec<Record>,
}

impl<T: Send> LogSteps<Recorded<T>> for RecordSteps<T> {
    type Group = RecordGroup<T>;

    fn prepare(&mut self, group: Vec<Submission<Recorded<T>>>) -> RecordGroup<T> {
        let mut tags = Vec::with_capacity(group.len());
        let mut records = Vec::with_capacity(group.len());
        for submission in group {
            tags.extend(submission.tag.tag);
            records.extend(submission.tag.records);
        }
        RecordGroup { tags, records }
    }

    fn attempt(
        &mut self,
        group: &mut RecordGroup<T>,
        _after_checkpoint: bool,
    ) -> Result<bool, FatalError> {
        let committed = self.progress.committed.load(Ordering::Acquire);
        match self.journal.append(&group.records, committed) {
            Ok(lsn) => {
                self.progress.frames.lock().written(lsn, &group.records);
                *self.progress.fill.lock() = self.journal.fill();
                self.files.open_gate(committed);
                Ok(true)
            }
            Err(AppendError::Full) => Ok(false),
            Err(error) => Err(FatalError::Journal(error)),
        }
    }

    fn finish(&mut self, group: RecordGroup<T>) {
        (self.on_durable)(group.tags);
    }

    fn write_frame(&mut self) -> Result<bool, FatalError> {
        let committed = self.progress.committed.load(Ordering::Acquire);
        if committed > self.journal.committed() {
            match self.journal.append_committed(committed) {
                Ok(lsn) => self.progress.frames.lock().written(lsn, &[]),
                // The next checkpoint says it in the header.
                Err(AppendError::Full) => return Ok(false),
                Err(error) => return Err(FatalError::Journal(error)),
            }
            self.files.open_gate(committed);
        }
        Ok(true)
    }

    fn note_checkpoint(&mut self, reach: Reach) -> Result<(), FatalError> {
        // A checkpoint that covers no more frames frees nothing, and the room for it is not endless.
        if reach.lsn > self.journal.checkpoint() {
            match self.journal.append_checkpoint(&[], reach.lsn) {
                Ok(lsn) => self.progress.frames.lock().written(lsn, &[]),
                Err(AppendError::Full) => {}
                Err(error) => return Err(FatalError::Journal(error)),
            }
        }
        *self.progress.fill.lock() = self.journal.fill();
        self.files.synced(reach.position.index);
        Ok(())
    }

    fn add_segment(&mut self, segment: NewSegment) {
        self.journal.add_segment(segment);
        *self.progress.fill.lock() = self.journal.fill();
    }

    fn written_bytes(&self) -> u64 {
        self.journal.written_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Payload;
    use crate::position::Position;

    fn frames(written: &[&[Record]]) -> Frames {
        let mut frames = Frames { unapplied: VecDeque::new(), last_lsn: 0 };
        (1..).zip(written).for_each(|(lsn, records)| frames.written(lsn, records));
        frames
    }

    fn entry(index: u64) -> Record {
        let position = Position { index, ..Position::default() };
        Record::Entry(Entry { position, payload: Payload::Blank })
    }

    fn cut(after_index: u64) -> Record {
        Record::Truncate { after_index }
    }

    fn vote() -> Record {
        Record::Vote("v".into())
    }

    #[test]
    fn frames_are_needed_until_their_entries_are_applied_or_cut() {
        let many: Vec<Record> = (3..100).map(entry).collect();
        let mut cut_later = frames(&[&[entry(1), entry(2)], &many, &[cut(2), entry(3)], &[vote()]]);
        assert_eq!([1, 2, 3].map(|index| cut_later.applied(index)), [0, 2, 4]);
        let mut cut_at_once = frames(&[&[entry(1), entry(2), cut(1), entry(2)], &[entry(3)]]);
        assert_eq!([1, 2, 3].map(|index| cut_at_once.applied(index)), [0, 1, 2]);
        let mut partly = frames(&[&many, &[cut(50)], &[entry(51)]]);
        assert_eq!([49, 50, 51].map(|index| partly.applied(index)), [0, 2, 3]);
        let mut all = frames(&[&[entry(1)], &[cut(0)], &[vote()]]);
        assert_eq!(all.applied(0), 3);
    }
}
