//! One commit: a group of changes becomes one batch, one frame, one flush.
//!
//! The steps of the commit thread, without the thread.

use std::sync::Arc;

use super::files::{FileError, Files, Reach};
use super::header::HeaderError;
use super::naive::{Naive, NaiveError};
use super::pending::Entangled;
use super::resolve::resolve;
use crate::change::{Batch, Change};
use crate::journal::ring::{Fill, NewSegment};
use crate::journal::{AppendError, Entry, Journal, Payload, Record};
use crate::position::{Epoch, Position};

/// Why the store cannot go on. The process must end: after a failed write or sync no later one
/// can be believed. The next start recovers everything that was acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum FatalError {
    /// The journal cannot be written.
    #[error("the journal failed")]
    Journal(#[source] AppendError),
    /// A file cannot be read, replaced or synced.
    #[error("a file failed")]
    File(#[source] FileError),
    /// The header cannot be replaced.
    #[error("the header failed")]
    Header(#[source] HeaderError),
    /// A thread of the store cannot be started.
    #[error("cannot start a thread of the store")]
    Thread(#[source] std::io::Error),
    /// The program broke a rule of its own.
    #[error("a rule of the store is broken: {rule}")]
    Rule {
        /// The rule and how it was broken.
        rule: String,
    },
}

impl From<Entangled> for FatalError {
    fn from(error: Entangled) -> Self {
        Self::Rule { rule: error.to_string() }
    }
}

/// The place where commits become durable.
#[derive(Debug)]
pub(crate) enum Log {
    Journal(Journal),
    Files(Naive),
}

/// Content that moves may add to a batch is at most this part of a segment. With what was submitted, at
/// most half a segment, the frame still fits.
const ADDED_PART: u64 = 8;

/// Why a batch is not committed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Not before the next checkpoint.
    Full(Batch),
    /// Not ever.
    Fatal(FatalError),
}

/// The writer of one log, in one epoch.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) log: Log,
    pub(crate) files: Arc<Files>,
    pub(crate) epoch: Epoch,
    pub(crate) position: Position,
}

impl Commit {
    /// Makes one batch of the changes and commits it. Readers see it when this returns.
    ///
    /// After [`CommitError::Full`], it is called again with the same changes `after_checkpoint`.
    pub(crate) fn commit(
        &mut self,
        changes: Vec<Change>,
        after_checkpoint: bool,
    ) -> Result<Position, CommitError> {
        let batch = Batch(changes).collapse();
        let position = Position { epoch: self.epoch, index: self.position.index + 1 };
        match &mut self.log {
            Log::Journal(journal) => {
                let resolved = resolve(&batch, &self.files)
                    .map_err(|error| CommitError::Fatal(FatalError::File(error)))?;
                // Moves that had to take their content along; behind a checkpoint they need not.
                let added_max =
                    usize::try_from(journal.segment_bytes() / ADDED_PART).unwrap_or(usize::MAX);
                if resolved.added_bytes > added_max && !after_checkpoint {
                    return Err(CommitError::Full(batch));
                }
                let batch = resolved.batch.unwrap_or(batch);
                let payload = Payload::Batch(batch.encode());
                let records = [Record::Entry(Entry { position, payload })];
                let lsn = match journal.append(&records, position.index) {
                    Ok(lsn) => lsn,
                    Err(AppendError::Full) => return Err(CommitError::Full(batch)),
                    Err(error) => return Err(CommitError::Fatal(FatalError::Journal(error))),
                };
                self.files
                    .hand_over(&batch, Reach { lsn, position })
                    .map_err(|error| CommitError::Fatal(error.into()))?;
            }
            Log::Files(naive) => naive.apply(&batch, position).map_err(|error| {
                CommitError::Fatal(match error {
                    NaiveError::File(error) => FatalError::File(error),
                    NaiveError::Header(error) => FatalError::Header(error),
                })
            })?,
        }
        self.position = position;
        Ok(position)
    }

    /// Lets the journal say that the files cover `reach`, so that segments come free.
    pub(crate) fn note_checkpoint(&mut self, reach: Reach) -> Result<(), FatalError> {
        // A checkpoint that covers no more frames frees nothing, and takes room.
        if let Log::Journal(journal) = &mut self.log
            && reach.lsn > journal.checkpoint()
        {
            match journal.append_checkpoint(&[], reach.lsn) {
                // Room is reserved for it; should that not do, the next checkpoint reaches further.
                Ok(_) | Err(AppendError::Full) => {}
                Err(error) => return Err(FatalError::Journal(error)),
            }
        }
        self.files.synced(reach.position.index);
        Ok(())
    }

    /// Adds a segment to the ring.
    pub(crate) fn add_segment(&mut self, segment: NewSegment) {
        if let Log::Journal(journal) = &mut self.log {
            journal.add_segment(segment);
        }
    }

    /// Bytes written to the journal since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        match &self.log {
            Log::Journal(journal) => journal.written_bytes(),
            Log::Files(_) => 0,
        }
    }

    /// How full the journal is; nothing of nothing where there is none.
    pub(crate) fn fill(&self) -> Fill {
        match &self.log {
            Log::Journal(journal) => journal.fill(),
            Log::Files(_) => Fill::default(),
        }
    }
}
