//! The same store below a replication engine. The engine says what is appended and what is committed;
//! the store makes it durable and brings the files up to date.
//!
//! The difference to a single master: an entry is committed some time after it is durable here, or
//! never. So the files wait not for the entry but for a durable frame that says it is committed.
//! Otherwise a crash could leave in a file what the log does not vouch for.

#[cfg(any(test, feature = "simulation"))]
pub(crate) mod by_hand;
mod offline;
mod order;
mod receive;
pub(in crate::store) mod steps;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::order::Order;
use self::steps::{Progress, RecordSteps, Recorded};
use super::admission::{Backlog, CloseError, Health, Refusal, group_bytes_max};
use super::callbacks::Callbacks;
use super::checkpoint::{Bell, Checkpoint};
use super::commit::FatalError;
use super::committer::StartError;
use super::files::{FileError, Reach};
use super::frozen::{Frozen, FrozenError};
use super::open::{OpenError, Opened, Parts, Writer, open_real};
use super::queue::{BACKLOG_BYTES_HARD, Queue, Submission};
use super::resolve::moves_as_content;
use super::scan::Reader;
use super::threads::{Closing, EndState, Shared, Status, spawn_all};
use super::{Durability, Recovered, StoreOptions};
use crate::change::{Batch, Change};
use crate::digest::Group;
use crate::disk::Locked;
use crate::journal::{Entry, Fill, Record};
use crate::position::Position;
use crate::sync::Mutex;

/// A store opened for a replication engine: locked, recovered up to what is known to be committed.
#[derive(Debug)]
pub struct ReplicatedStore {
    opened: Opened,
}

/// A recovered log, as far as the engine has to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredLog {
    /// Entries up to here are in the files, and no longer in the log.
    pub applied: Position,
    /// Entries behind it, in order; nobody knows yet whether they are committed.
    pub tail: Vec<Entry>,
    /// The newest vote, in the engine's words.
    pub vote: Option<String>,
    /// The members as of `applied`, in the engine's words, and the entry that named them.
    pub members: Option<(Position, String)>,
}

impl ReplicatedStore {
    /// Opens the store of `member` in `data_dir`, creating it if there is none; one that a single
    /// master wrote becomes that member's.
    ///
    /// # Errors
    /// As [`super::Store::open`]; or it is another member's.
    pub fn open(data_dir: &Path, options: StoreOptions, member: u64) -> Result<Self, OpenError> {
        let options = StoreOptions { durability: Durability::Journal, ..options };
        Ok(Self { opened: open_real(data_dir, options, Writer::Engine { member })? })
    }

    /// The findings at the opening.
    pub fn recovered(&self) -> &Recovered {
        &self.opened.recovered
    }

    /// The recovered log, for the engine.
    pub fn log(&self) -> RecoveredLog {
        RecoveredLog {
            applied: self.opened.parts.position,
            tail: self.opened.tail.clone(),
            vote: self.opened.note.vote.clone(),
            members: self.opened.note.members.clone(),
        }
    }

    /// Reads what is applied.
    pub fn reader(&self) -> Reader {
        self.opened.parts.reader()
    }

    /// Starts the threads. The callback gets the tags of records that are durable, in the order in
    /// which they were appended, and the position applied so far.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start<T: Send + 'static>(
        self,
        callbacks: Callbacks<T>,
    ) -> Result<Recorder<T>, StartError> {
        let Assembled { recorder, steps, checkpoint, missing_segments, options, lock } =
            self.assemble(callbacks);
        let end = (options, EndState::WithJournal);
        let threads = spawn_all(&recorder.shared, steps, checkpoint, missing_segments, end);
        let (threads, _log) = threads.map_err(|error| {
            recorder.shared.end();
            StartError::Thread(error)
        })?;
        *recorder.closing.lock() = Some(Closing { threads, lock });
        Ok(recorder)
    }

    fn assemble<T: Send + 'static>(self, callbacks: Callbacks<T>) -> Assembled<T> {
        let reader = self.reader();
        let Opened { parts, tail, .. } = self.opened;
        let Parts { disk, root, options, files, header, position, journal, missing_segments, lock } =
            parts;
        let journal = journal.expect("a replicated store is opened with a journal");
        let group_bytes_max = group_bytes_max(Some(&journal), &missing_segments, &options);
        let shared = Arc::new(Shared {
            queue: Queue::new(group_bytes_max),
            files: files.clone(),
            bell: Bell::default(),
            status: Mutex::new(Status { position, ..Status::default() }),
            lacks_room: AtomicBool::new(false),
            on_fatal: callbacks.on_fatal,
        });
        let asking = Arc::downgrade(&shared);
        let ask = move || {
            if let Some(shared) = asking.upgrade() {
                shared.queue.ask_for_frame();
            }
        };
        files.set_gate(journal.committed(), Box::new(ask));
        let progress = Arc::new(Progress::new(&journal, &tail));
        let last = tail.last().map_or(position.index, |last| last.position.index);
        let order = Mutex::new(Order::new(last, BACKLOG_BYTES_HARD));
        let salt = header.salt();
        let mut on_durable = callbacks.on_committed;
        let status = shared.clone();
        let steps = RecordSteps {
            journal,
            files: files.clone(),
            progress: progress.clone(),
            on_durable: Box::new(move |tags| {
                let position = status.status.lock().position;
                on_durable(tags, position);
            }),
        };
        let checkpoint = Checkpoint { disk, root, files, header };
        let recorder = Recorder {
            shared,
            progress,
            order,
            reader,
            salt,
            receiving: Arc::default(),
            closing: Mutex::new(None),
            group_bytes_max,
            #[cfg(any(test, feature = "simulation"))]
            by_hand: None,
        };
        Assembled { recorder, steps, checkpoint, missing_segments, options, lock }
    }
}

/// A recorder whose threads have not begun, and what these work with.
struct Assembled<T: Send + 'static> {
    recorder: Recorder<T>,
    steps: RecordSteps<T>,
    checkpoint: Checkpoint,
    missing_segments: Vec<usize>,
    options: StoreOptions,
    lock: Box<dyn Locked>,
}

/// Makes the records of an engine durable in groups, and its committed entries files.
pub struct Recorder<T: Send + 'static> {
    shared: Arc<Shared<Recorded<T>>>,
    progress: Arc<Progress>,
    /// Locked while records go to the queue, which has them in this order.
    order: Mutex<Order<T>>,
    reader: Reader,
    /// The start of the journal's checksums.
    salt: u32,
    /// A snapshot is on its way.
    receiving: Arc<AtomicBool>,
    closing: Mutex<Option<Closing>>,
    group_bytes_max: usize,
    /// The driver of the steps, where there are no threads.
    #[cfg(any(test, feature = "simulation"))]
    by_hand: Option<by_hand::Driver>,
}

impl<T: Send + 'static> Recorder<T> {
    /// Appends records, in the order of the calls; the tag comes back when they are durable. Does
    /// not block. Entries that do not follow the log wait, with all that is appended behind them, for
    /// the snapshot that they follow, while one is received. After the end, gives the tag back.
    ///
    /// # Errors
    /// The store takes nothing any more, or far too much waits.
    pub fn append(&self, records: Vec<Record>, tag: T) -> Result<(), T> {
        self.append_quietly(records, tag)?;
        self.call();
        Ok(())
    }

    /// The same without waking the log thread, which takes it when it is done with what it has;
    /// [`Recorder::call`] must follow.
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn append_quietly(&self, records: Vec<Record>, tag: T) -> Result<(), T> {
        for record in &records {
            if let Record::Vote(vote) = record {
                let vote = String::from_utf8_lossy(vote).into_owned();
                self.shared.files.change_note(|note| note.vote = Some(vote));
            }
        }
        let mut order = self.order.lock();
        let receiving = self.receiving.load(Ordering::Acquire);
        if order.admits(&records, receiving) {
            self.push(records, tag)
        } else {
            order.park(records, tag)
        }
    }

    /// The files hold everything up to entry `index`: what waited for that goes on.
    fn log_goes_on(&self, index: u64) {
        let mut order = self.order.lock();
        for (records, tag) in order.reached(index) {
            if self.push(records, tag).is_err() {
                tracing::debug!("what waited for a snapshot came too late");
            }
        }
        self.call();
    }

    /// Wakes the log thread if anything waits for it.
    pub fn call(&self) {
        self.shared.queue.call();
    }

    fn push(&self, records: Vec<Record>, tag: T) -> Result<(), T> {
        let mut parts = self.split(records).into_iter().peekable();
        let mut tag = Some(tag);
        while let Some((weight, records)) = parts.next() {
            let tag = if parts.peek().is_none() { tag.take() } else { None };
            let recorded = Recorded { records, tag };
            let submission = Submission { changes: Vec::new(), weight, tag: recorded };
            if let Err((_error, back)) = self.shared.queue.push_quietly(submission) {
                match back.tag.tag {
                    Some(tag) => return Err(tag),
                    // The parts before the last carry no tag: the caller's is still here.
                    None => break,
                }
            }
        }
        tag.map_or(Ok(()), Err)
    }

    /// Records in parts that each fit a frame, with their weights; at least one part.
    fn split(&self, records: Vec<Record>) -> Vec<(usize, Vec<Record>)> {
        let mut parts = vec![(0, Vec::new())];
        for record in records {
            let bytes = record.encoded_bytes();
            let (weight, part) = parts.last_mut().expect("there is always a part");
            if part.is_empty() || *weight + bytes <= self.group_bytes_max {
                *weight += bytes;
                part.push(record);
            } else {
                parts.push((bytes, vec![record]));
            }
        }
        parts
    }

    /// Says that the entries up to `index` are committed. The next frame has it in writing.
    pub fn commit(&self, index: u64) {
        self.progress.committed.fetch_max(index, Ordering::Release);
    }

    /// Takes over a committed entry for readers and files. Entries come in order, each after it
    /// was appended and is durable here; `members` are those that the entry names, if it does.
    ///
    /// # Errors
    /// The batch has a move: [`Recorder::resolve`] leaves none.
    pub fn apply(
        &self,
        position: Position,
        batch: &Batch,
        members: Option<String>,
    ) -> Result<(), FatalError> {
        if batch.0.iter().any(|change| matches!(change, Change::Move { .. })) {
            let rule = format!("moves travel as content, but entry {} has one", position.index);
            return Err(FatalError::Rule { rule });
        }
        let lsn = self.progress.frames.lock().applied(position.index);
        self.commit(position.index);
        let reach = Reach { lsn, position };
        self.shared.files.hand_over_with_members(batch, reach, members)?;
        self.shared.status.lock().position = position;
        if self.shared.lacks_room.load(Ordering::SeqCst) {
            self.shared.bell.request_beyond(lsn);
        }
        self.log_goes_on(position.index);
        self.shared.files.nudge_writer();
        Ok(())
    }

    /// Makes a deletion and a write of every move, so that each member can repeat the batch whatever
    /// its files hold. A move of a key that does not exist does nothing. No other batch may be on its
    /// way between this and this batch's own [`Recorder::apply`].
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn resolve(&self, batch: Batch) -> Result<Batch, FileError> {
        moves_as_content(batch, &self.shared.files)
    }

    /// The last position that was applied.
    pub fn position(&self) -> Position {
        self.shared.status.lock().position
    }

    /// Bytes that one entry may have at most.
    pub fn entry_bytes_max(&self) -> usize {
        self.group_bytes_max * 2
    }

    /// Reads what is applied.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// Whether new work would be taken now.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<(), Refusal> {
        self.shared.admit()
    }

    /// The backlog at the moment; records of the engine have no changes of their own.
    pub fn backlog(&self) -> Backlog {
        self.shared.backlog()
    }

    /// How full the journal is.
    pub fn journal_fill(&self) -> Fill {
        *self.progress.fill.lock()
    }

    /// Waits until everything applied so far is durable in the files. Blocks; false after the end.
    pub fn make_durable(&self) -> bool {
        let applied = self.shared.files.handed().position.index;
        self.shared.bell.request_and_wait(applied)
    }

    /// Begins a view of everything that is applied now, to be read while changes go on. Blocks a
    /// moment, until the files show what is applied so far.
    ///
    /// # Errors
    /// Too many are being read, the directory cannot be listed, or the store has ended.
    pub fn freeze(&self) -> Result<Frozen, FrozenError> {
        #[cfg(any(test, feature = "simulation"))]
        self.catch_up_by_hand();
        Frozen::begin(&self.reader, None)
    }

    /// Begins a view of the moment right behind entry `index`, of everything or of one group: so that
    /// members can compare the same moment while changes go on. Blocks until that entry is applied,
    /// `patience` at most.
    ///
    /// # Errors
    /// Later entries are applied already, the entry does not come in time, or see
    /// [`Recorder::freeze`].
    pub fn freeze_at(
        &self,
        index: u64,
        group: Option<Group>,
        patience: Duration,
    ) -> Result<Frozen, FrozenError> {
        Frozen::begin_at(&self.reader, index, group, Instant::now() + patience)
    }

    #[cfg(test)]
    pub(in crate::store) fn awaits(&self) -> bool {
        self.shared.files.awaits()
    }

    /// Asks for a checkpoint and does not wait for it.
    pub fn checkpoint(&self) {
        self.shared.bell.request();
    }

    /// Makes everything appended durable, brings the files up to date with what is applied, ends
    /// the threads and frees the lock. Blocks. Later calls do nothing.
    ///
    /// # Errors
    /// The files could not be completed; the next start will do it from the journal.
    pub fn close(&self) -> Result<(), CloseError> {
        #[cfg(any(test, feature = "simulation"))]
        self.finish_by_hand();
        match self.closing.lock().take() {
            Some(closing) => self.shared.close(closing),
            None => Ok(()),
        }
    }
}

impl<T: Send + 'static> Drop for Recorder<T> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "store not closed cleanly");
        }
    }
}

impl<T: Send + 'static> std::fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("progress", &self.progress).finish_non_exhaustive()
    }
}
