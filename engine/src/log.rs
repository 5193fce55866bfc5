//! The engine's log on our journal.
//!
//! Appended entries are readable at once, from memory; the store's log thread takes everything that
//! waits, writes one frame, flushes once and calls back in order. Votes go the same way, so a vote and
//! an entry never swap places. Entries in memory are those that the engine has not purged; after a
//! start, those that were not known to be committed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use parking_lot::Mutex;
use queue_format::journal::Record;
use queue_format::{Batch, Change, Key, Recorder, RecoveredLog};
use tokio::sync::{Notify, oneshot, watch};

pub use kept::Kept;

use crate::message;
use crate::types::{
    LogEntry, LogId, Payload, Proposal, TypeConfig, Vote, entry_from_stored, entry_to_stored,
    log_id, position, vote_from_text, vote_to_text,
};

pub(crate) mod kept;

/// The tag that comes back from the store when records are durable.
pub(crate) enum Tag {
    /// Entries, the running number of the append, and whom to tell.
    Appended(u64, IOFlushed<TypeConfig>),
    /// A vote, and whom to tell.
    Voted(oneshot::Sender<()>),
    /// Something that nobody waits for.
    Other,
}

/// The log; clones are the same log.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    member: u64,
    recorder: Arc<Recorder<Tag>>,
    memory: Arc<Mutex<Memory>>,
    durable: watch::Receiver<u64>,
    /// Told of each append of entries that this member made.
    own: Arc<Notify>,
    kept: Kept,
    /// Told when more is in memory than is to be kept.
    grown: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Entries by index, each with the running number of its append.
    entries: BTreeMap<u64, (u64, LogEntry)>,
    /// What they take.
    bytes: usize,
    appends: u64,
    purged: Option<LogId>,
    committed: Option<LogId>,
    vote: Option<Vote>,
}

impl Memory {
    /// The log as the store recovered it.
    pub(crate) fn recover(log: &RecoveredLog) -> io::Result<Self> {
        let vote = log.vote.as_deref().map(vote_from_text).transpose()?;
        let applied = log_id(log.applied);
        let mut memory = Self { purged: applied, committed: applied, vote, ..Self::default() };
        for entry in &log.tail {
            let entry = entry_from_stored(entry).map_err(io::Error::other)?;
            memory.insert(0, entry);
        }
        let last = memory.entries.last_key_value().map(|(_index, (_number, entry))| entry.log_id);
        let known = last.or(memory.purged).map_or(0, |last| last.committed_leader_id().term);
        let voted = memory.vote.as_ref().map_or(0, |vote| vote.leader_id().term);
        message::check_own_term(voted, known).map_err(io::Error::other)?;
        Ok(memory)
    }

    fn insert(&mut self, number: u64, entry: LogEntry) {
        self.bytes += weight(&entry);
        let replaced = self.entries.insert(entry.log_id.index(), (number, entry));
        self.bytes -= replaced.map_or(0, |(_number, entry)| weight(&entry));
    }

    /// Forgets the entries from this one on.
    fn cut_from(&mut self, first: u64) {
        let cut = self.entries.split_off(&first);
        self.bytes -= cut.values().map(|(_number, entry)| weight(entry)).sum::<usize>();
    }

    /// Forgets the entries up to this one.
    fn forget_upto(&mut self, upto: u64) {
        let rest = self.entries.split_off(&(upto + 1));
        let gone = std::mem::replace(&mut self.entries, rest);
        self.bytes -= gone.values().map(|(_number, entry)| weight(entry)).sum::<usize>();
    }

    /// The newest entry that is to go, where too much is kept.
    fn surplus(&self, kept: Kept) -> Option<u64> {
        if !kept.is_exceeded(self.entries.len(), self.bytes) {
            return None;
        }
        let newest_first = || self.entries.iter().rev();
        let stay = kept.stay(newest_first().map(|(_index, (_number, entry))| weight(entry)));
        newest_first().nth(stay).map(|(index, _entry)| *index)
    }
}

/// The bytes of an entry in memory.
fn weight(entry: &LogEntry) -> usize {
    Kept::weight(match &entry.payload {
        Payload::Normal(Proposal(bytes)) => bytes.len(),
        Payload::Blank | Payload::Membership(_) => 0,
    })
}

/// Takes what the store says is durable to those who wait for it.
pub(crate) fn report_durable(tags: Vec<Tag>, durable: &watch::Sender<u64>) {
    for tag in tags {
        match tag {
            Tag::Appended(number, flushed) => {
                // First those who apply: the engine's answer makes them look.
                durable.send_replace(number);
                flushed.io_completed(Ok(()));
            }
            // A caller that no longer waits need not be told.
            Tag::Voted(waiting) => waiting.send(()).unwrap_or(()),
            Tag::Other => {}
        }
    }
}

impl Log {
    /// The log of `member`. It keeps as much in memory as `kept` says if its owner purges it whenever
    /// [`Log::grown`] has come. A member that leads must run [`Log::write_own`].
    pub(crate) fn new(
        (member, kept): (u64, Kept),
        recorder: Arc<Recorder<Tag>>,
        memory: Memory,
        durable: watch::Receiver<u64>,
    ) -> Self {
        let memory = Arc::new(Mutex::new(memory));
        let (own, grown) = Default::default();
        Self { member, recorder, memory, durable, own, kept, grown }
    }

    /// Has this member's own entries written, each as soon as those who take it to the others had
    /// their turn. The way to the others is the longer one, and with few processors the log thread would
    /// take their turn.
    pub(crate) async fn write_own(self) {
        loop {
            self.own.notified().await;
            tokio::task::yield_now().await;
            self.recorder.call();
        }
    }

    /// The last entry, durable or not.
    pub(crate) fn last(&self) -> Option<LogId> {
        let memory = self.memory.lock();
        let last = memory.entries.last_key_value().map(|(_index, (_number, entry))| entry.log_id);
        last.max(memory.purged)
    }

    /// Entries in memory, and the bytes that they take.
    pub(crate) fn kept(&self) -> (usize, usize) {
        let memory = self.memory.lock();
        (memory.entries.len(), memory.bytes)
    }

    /// The bytes of the entries behind `applied`; zero where they are certainly not more than `enough`.
    pub(crate) fn tail_beyond(&self, enough: usize, applied: u64) -> usize {
        let memory = self.memory.lock();
        if memory.bytes <= enough {
            return 0;
        }
        // Our index of what is applied is the engine's of the next.
        memory.entries.range(applied..).map(|(_index, (_number, entry))| weight(entry)).sum()
    }

    /// Waits until more is in memory than is to be kept; the newest entry that is to go.
    pub(crate) async fn grown(&self) -> u64 {
        loop {
            if let Some(upto) = self.memory.lock().surplus(self.kept) {
                return upto;
            }
            self.grown.notified().await;
        }
    }

    /// The effect of the newest entry behind `applied` on this key, if there is one: its content, or
    /// none where it is gone.
    pub(crate) fn newest(&self, key: &Key, applied: u64) -> Option<Option<Bytes>> {
        let memory = self.memory.lock();
        // Our index of what is applied is the engine's of the next.
        let behind = memory.entries.range(applied..).rev();
        behind.into_iter().find_map(|(_index, (_number, entry))| {
            let Payload::Normal(Proposal(bytes)) = &entry.payload else { return None };
            // A batch that does not read stops the member when it is applied.
            let batch = Batch::decode(bytes.clone()).ok()?;
            batch.0.into_iter().rev().find_map(|change| match change {
                Change::Put { key: put, content } if put == *key => Some(Some(content)),
                Change::Delete { key: gone } if gone == *key => Some(None),
                Change::Put { .. } | Change::Delete { .. } | Change::Move { .. } => None,
            })
        })
    }

    /// Waits until the entry is durable here. An entry that is not in the log was durable long ago.
    pub(crate) async fn wait_durable(&mut self, index: u64) -> io::Result<()> {
        let number = match self.memory.lock().entries.get(&index) {
            Some((number, _entry)) => *number,
            None => return Ok(()),
        };
        let durable = self.durable.wait_for(|durable| *durable >= number).await;
        durable.map(drop).map_err(|_ended| ended())
    }
}

fn ended() -> io::Error {
    io::Error::other("the store has ended")
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<LogEntry>, io::Error> {
        let memory = self.memory.lock();
        Ok(memory.entries.range(range).map(|(_index, (_number, entry))| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.memory.lock().vote)
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let last_log_id = self.last();
        Ok(LogState { last_purged_log_id: self.memory.lock().purged, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (tell, told) = oneshot::channel();
        let record = Record::Vote(Bytes::from(vote_to_text(vote)));
        self.recorder.append(vec![record], Tag::Voted(tell)).map_err(|_tag| ended())?;
        told.await.map_err(|_gone| ended())?;
        self.memory.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        if let Some(committed) = committed {
            self.recorder.commit(position(&committed).index);
            self.memory.lock().committed = Some(committed);
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.memory.lock().committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (number, own, records) = {
            let mut memory = self.memory.lock();
            memory.appends += 1;
            let number = memory.appends;
            let (mut own, mut records) = (false, Vec::new());
            for entry in entries {
                own |= position(&entry.log_id).epoch.node == self.member;
                records.push(Record::Entry(entry_to_stored(&entry)));
                memory.insert(number, entry);
            }
            if self.kept.is_exceeded(memory.entries.len(), memory.bytes) {
                self.grown.notify_one();
            }
            (number, own, records)
        };
        match self.recorder.append_quietly(records, Tag::Appended(number, callback)) {
            Ok(()) if own => {
                self.own.notify_one();
                Ok(())
            }
            Ok(()) => {
                self.recorder.call();
                Ok(())
            }
            Err(Tag::Appended(_number, callback)) => {
                callback.io_completed(Err(ended()));
                Err(ended())
            }
            Err(Tag::Voted(_) | Tag::Other) => Err(ended()),
        }
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let first_cut = last.map_or(0, |last| last.index() + 1);
        self.memory.lock().cut_from(first_cut);
        // Our index of the last entry that stays is the engine's index of the first that goes.
        let record = Record::Truncate { after_index: first_cut };
        self.recorder.append(vec![record], Tag::Other).map_err(|_tag| ended())
    }

    /// Forgets entries in memory. The journal needs no word of it: after a start its log begins
    /// behind what is in the files.
    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        let mut memory = self.memory.lock();
        memory.forget_upto(upto.index());
        memory.purged = memory.purged.max(Some(upto));
        Ok(())
    }
}
