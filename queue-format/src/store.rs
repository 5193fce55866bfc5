//! The store directory: files, a journal before them, one writer.
//!
//! In reading order: [`Store::open`] (`open`) takes the lock and recovers; [`Reader`] (`scan`, by a
//! `walk`) reads. The [`Committer`] (`committer`, within the bounds of `admission`) takes changes from
//! any thread and tells its owner by [`Callbacks`] (`callbacks`). Behind it are three threads
//! (`threads`). The first (`log_writer`) makes one batch, which recovery can repeat (`resolve`), of what
//! waits in `queue`, and commits it (`commit`). The second brings `files` up to date with what is
//! `pending`. The third makes durable what is `dirty` (`checkpoint`) and says so in the `header`.
//! `naive` does without a journal; `replicated` is the same store below a replication engine. `frozen`
//! reads one moment of it while it goes on; `incoming` and `install` make it what another member sent.
//! `wipe` removes it all, and `aside` keeps it for people to look at. `by_hand` has the steps of its
//! threads for simulations.

mod admission;
mod aside;
#[cfg(any(test, feature = "simulation"))]
mod by_hand;
mod callbacks;
mod checkpoint;
mod commit;
pub(crate) mod committer;
mod dirty;
mod files;
pub(crate) mod frozen;
mod header;
pub(crate) mod incoming;
mod install;
mod log_writer;
mod naive;
pub(crate) mod open;
mod pending;
mod queue;
pub(crate) mod replicated;
mod resolve;
mod scan;
mod threads;
mod walk;
mod wipe;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::key::Key;
use crate::position::Position;

pub use admission::{
    Backlog, CloseError, Health, Refusal, Refused, SUBMISSION_CHANGES_MAX, SUBMISSION_MOVES_MAX,
};
pub use aside::{ASIDE, ASIDE_MAX, AsideError, keep_aside, wipe_aside};
pub use callbacks::{Callbacks, Flushed};
pub use commit::FatalError;
pub use committer::{Committer, StartError};
pub use files::frozen::FROZEN_MAX;
pub use files::{FileError, LAG_BYTES_HARD, LAG_BYTES_SOFT};
pub use frozen::aside::ASIDE_BYTES_MAX;
pub use frozen::{Frozen, FrozenError};
pub use header::{AtRest, FORMAT, FORMAT_OLDEST, HeaderError};
pub use incoming::spool::SpoolError;
pub use incoming::{Incoming, InstallError};
pub use open::{OpenError, is_headless};
pub use queue::{
    BACKLOG_BYTES_HARD, BACKLOG_BYTES_SOFT, BACKLOG_CHANGES_HARD, BACKLOG_CHANGES_SOFT,
};
pub use replicated::{Recorder, RecoveredLog, ReplicatedStore};
pub use scan::{Reader, Scan};
pub use wipe::{WipeError, finish_wipe, wipe};

/// The durable form that an answer rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A record in the journal; the files follow.
    #[default]
    Journal,
    /// The files themselves, one by one. Simple and slow.
    File,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "journal" => Ok(Self::Journal),
            "file" => Ok(Self::File),
            other => Err(format!("durability `{other}` is neither `journal` nor `file`")),
        }
    }
}

/// How a store is kept. The default is for production.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The durable form that an answer rests on.
    pub durability: Durability,
    /// Bytes of one journal segment, at least 16 KiB; counts for segments that are yet to be made.
    pub segment_bytes: u64,
    /// Segments of the journal, at least 2.
    pub segments: usize,
    /// Mode bits of the files.
    pub file_mode: u32,
    /// Mode bits of the directories.
    pub directory_mode: u32,
    /// How long a change waits for the next one of its key before its file is written.
    pub write_behind: Duration,
    /// Time between checkpoints, when anything changed.
    pub checkpoint_every: Duration,
}

/// A trivial job goes from submitted to done within a few milliseconds: waiting a little longer
/// than that makes one file write of it instead of two.
const WRITE_BEHIND: Duration = Duration::from_millis(50);

/// Half a minute of changes is what a start after a crash has to repeat at most.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// 50,000 changes of 1.3 KB; written with zeros in a fraction of a second.
const SEGMENT_BYTES: u64 = 64 << 20;

/// One being written, one being checkpointed, and two for bursts.
const SEGMENTS: usize = 4;

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            segment_bytes: SEGMENT_BYTES,
            segments: SEGMENTS,
            file_mode: 0o640,
            directory_mode: 0o750,
            write_behind: WRITE_BEHIND,
            checkpoint_every: CHECKPOINT_EVERY,
        }
    }
}

/// The findings at the opening of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The last committed position.
    pub position: Position,
    /// Batches that were repeated from the journal.
    pub replayed_batches: u64,
    /// Keys whose files were written again.
    pub replayed_keys: usize,
    /// The directory held no store before.
    pub created: bool,
    /// Which history this is: made when the store was created.
    pub incarnation: Uuid,
    /// The older format that it was of, which only the programs of that version can read; none if
    /// it was of [`FORMAT`] already.
    pub upgraded_from: Option<u32>,
}

/// An open store: locked, recovered, its files durable and up to date.
#[derive(Debug)]
pub struct Store {
    pub(crate) parts: open::Parts,
    pub(crate) recovered: Recovered,
}

impl Store {
    /// Opens the store in `data_dir`, creating it if there is none, and recovers what a crash left
    /// unfinished. When this returns, the files hold every committed change, durably.
    ///
    /// # Errors
    /// Somebody else has it open, it is of a newer format, it is damaged, or the disk fails.
    pub fn open(data_dir: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let open::Opened { parts, recovered, .. } =
            open::open_real(data_dir, options, open::Writer::Single)?;
        Ok(Self { parts, recovered })
    }

    /// The findings at the opening.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Reads the store, now and while a committer runs.
    pub fn reader(&self) -> Reader {
        self.parts.reader()
    }

    /// See [`Reader::read`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        self.reader().read(key)
    }

    /// See [`Reader::scan`].
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn scan(&self, prefix: &str) -> Result<Scan, FileError> {
        self.reader().scan(prefix)
    }
}
