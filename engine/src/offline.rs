//! A member that does not run: what it holds, and how it becomes the only voter of its cluster without
//! anybody's vote (docs/failover.md). The engine has no such thing: these are records of ours.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytes::Bytes;
use queue_format::journal::{AppendError, Entry, Payload, Record};
use queue_format::{
    Batch, Change, DecodeError, Epoch, FileError, Key, Position, Reader, RecoveredLog,
    ReplicatedStore,
};

use crate::engine::{EngineOptions, lone};
use crate::error::OpenError;
use crate::types::{Vote, members_to_text, vote_from_text, vote_to_text};

/// The store of a member that does not run, locked.
#[derive(Debug)]
pub struct OfflineStore {
    store: ReplicatedStore,
    log: RecoveredLog,
    vote: Epoch,
    /// The newest content of keys in entries not known to be committed; none where a key is gone.
    ahead: BTreeMap<Key, Option<Bytes>>,
    member: u64,
    node: String,
}

/// An override that was not made, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// Nothing happened: somebody may have had that epoch.
    #[error("epoch {epoch} is not far enough above {known}, which this member knows of")]
    NotAbove {
        /// The epoch of the new leadership.
        epoch: Epoch,
        /// The highest that this member has voted for, obeyed or written under.
        known: Epoch,
    },
    /// Nothing happened: the epoch is another member's.
    #[error("epoch {epoch} is not one of member {member}")]
    OtherMember {
        /// The epoch of the new leadership.
        epoch: Epoch,
        /// The member whose store it is.
        member: u64,
    },
    /// Nothing happened: moves cannot be repeated everywhere, and there is nobody who resolves them.
    #[error("an override moves no keys")]
    Moves,
    /// It was not written, or it is not known; the next start finds the old state or the new one.
    #[error("cannot write to the journal; start masterd anew, which makes room, and try again")]
    Journal(#[from] AppendError),
}

impl OfflineStore {
    /// Opens the store in `data_dir` and takes its lock, while no engine has it.
    ///
    /// # Errors
    /// The store cannot be opened, or what the engine had remembered is not understood.
    pub fn open(data_dir: &Path, options: EngineOptions) -> Result<Self, OpenError> {
        let EngineOptions { member, node, store, .. } = options;
        let store = ReplicatedStore::open(data_dir, store, member)?;
        let log = store.log();
        let text = |error| OpenError::Remembered(io::Error::other(error));
        let vote = log.vote.as_deref().map(vote_from_text).transpose();
        let vote = vote.map_err(|error| text(error.to_string()))?;
        let vote = vote.map_or_else(Epoch::default, |vote| {
            let leader = vote.leader_id();
            Epoch { term: leader.term, node: leader.node_id }
        });
        let ahead = ahead(&log.tail).map_err(|error| text(error.to_string()))?;
        Ok(Self { store, log, vote, ahead, member, node })
    }

    /// The last entry that it holds, committed or not.
    pub fn last(&self) -> Position {
        self.log.tail.last().map_or(self.log.applied, |entry| entry.position)
    }

    /// The highest epoch that it has voted for or obeyed.
    pub fn vote(&self) -> Epoch {
        self.vote
    }

    /// Reads what is known to be committed.
    pub fn reader(&self) -> Reader {
        self.store.reader()
    }

    /// The newest content of keys in entries not known to be committed; none where a key is gone.
    pub fn ahead(&self) -> &BTreeMap<Key, Option<Bytes>> {
        &self.ahead
    }

    /// The content that was written under this key last, committed or not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn newest(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        match self.ahead.get(key) {
            Some(content) => Ok(content.clone()),
            None => self.store.reader().read(key),
        }
    }

    /// The content that was written last under all keys that begin with `prefix`, committed or not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn all_newest(&self, prefix: &str) -> Result<BTreeMap<Key, Bytes>, FileError> {
        let found = self.store.reader().scan(prefix)?;
        let mut found = found.collect::<Result<BTreeMap<_, _>, _>>()?;
        for (key, content) in self.ahead.iter().filter(|(key, _)| key.as_str().starts_with(prefix))
        {
            match content {
                Some(content) => found.insert(key.clone(), content.clone()),
                None => found.remove(key),
            };
        }
        Ok(found)
    }

    /// The newest content of keys in entries not known to be committed, without keys that are gone;
    /// frees the lock.
    pub fn into_uncommitted(self) -> BTreeMap<Key, Bytes> {
        self.ahead.into_iter().filter_map(|(key, content)| Some((key, content?))).collect()
    }

    /// Makes this member the only one, at once and whoever else is there; frees the lock. A process that
    /// opens the store then is elected by itself when it asks for that, in `epoch` or a later one. It
    /// commits all that this member holds, with `batch` as the last of it. Gives the last position.
    ///
    /// It is one record in the journal: a crash leaves all of it or nothing.
    ///
    /// # Errors
    /// See [`OverrideError`], which says whether anything happened.
    pub fn override_members(self, epoch: Epoch, batch: &Batch) -> Result<Position, OverrideError> {
        let last = self.last();
        let known = last.epoch.max(self.vote);
        // To be elected in it, this member has voted for itself in the term before.
        let voted = Epoch { term: epoch.term.saturating_sub(1), node: self.member };
        if epoch.node != self.member {
            return Err(OverrideError::OtherMember { epoch, member: self.member });
        }
        if voted.term <= known.term {
            return Err(OverrideError::NotAbove { epoch, known });
        }
        if batch.0.iter().any(|change| matches!(change, Change::Move { .. })) {
            return Err(OverrideError::Moves);
        }
        let vote = vote_to_text(&Vote::new(voted.term, voted.node));
        let members = members_to_text(&lone(self.member, &self.node));
        let entry = |index, payload| {
            Record::Entry(Entry { position: Position { epoch: voted, index }, payload })
        };
        let records = [
            Record::Vote(vote.into()),
            entry(last.index + 1, Payload::Batch(batch.encode())),
            entry(last.index + 2, Payload::Membership(members.into())),
        ];
        self.store.append_at_rest(&records)?;
        Ok(Position { epoch: voted, index: last.index + 2 })
    }
}

/// The newest content of the keys in these entries; none where a key is gone.
fn ahead(tail: &[Entry]) -> Result<BTreeMap<Key, Option<Bytes>>, DecodeError> {
    let mut ahead = BTreeMap::new();
    for entry in tail {
        let Payload::Batch(bytes) = &entry.payload else { continue };
        for change in Batch::decode(bytes.clone())?.0 {
            match change {
                Change::Put { key, content } => ahead.insert(key, Some(content)),
                Change::Delete { key } => ahead.insert(key, None),
                // Below an engine there are none: they travel as content.
                Change::Move { from, to: _ } => ahead.insert(from, None),
            };
        }
    }
    Ok(ahead)
}
