//! The bounds of submissions: which are taken, which are refused, and how much waits.

use std::path::PathBuf;
use std::time::Instant;

use super::StoreOptions;
use crate::change::Change;
use crate::journal::Journal;

/// Changes in one submission: a batch of them, with all moves resolved, stays within
/// [`crate::change::codec::BATCH_CHANGES_MAX`].
pub const SUBMISSION_CHANGES_MAX: usize = 65_536;

/// Moves in one submission: each may have to take its content along.
pub const SUBMISSION_MOVES_MAX: usize = 1024;

/// Bytes that a move may add to its batch, for the bound of groups.
const MOVE_WEIGHT: usize = 4096;

/// Bytes of one group: a flush of more takes long enough to be felt by everyone behind it.
const GROUP_BYTES_MAX: u64 = 8 << 20;

/// A group is at most this part of a segment, so that little is wasted at its end.
const SEGMENT_PART: u64 = 4;

/// Bytes of one group. The smallest segment counts, be it one that is there from an earlier start
/// with other options, or one that is yet to be made.
pub(super) fn group_bytes_max(
    journal: Option<&Journal>,
    missing_segments: &[usize],
    options: &StoreOptions,
) -> usize {
    let there = journal.map(Journal::segment_bytes);
    let to_come = (!missing_segments.is_empty()).then_some(options.segment_bytes);
    let smallest = there.into_iter().chain(to_come).min().unwrap_or(options.segment_bytes);
    usize::try_from(GROUP_BYTES_MAX.min(smallest / SEGMENT_PART)).unwrap_or(usize::MAX)
}

/// Why changes were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too much waits for the disk; try again later.
    #[error("the store is busy, try again later")]
    Busy,
    /// The disk takes nothing.
    #[error("`{path}` cannot be written ({reason}): make room or make it writable, then try again")]
    DiskFull {
        /// The file that should have been written.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// The changes can never be committed together.
    #[error("too many changes at once: {what}")]
    TooLarge {
        /// The excess, and the limit.
        what: String,
    },
    /// The other members are silent: nothing was appended.
    #[error("no majority of the voters is heard; it goes on when they are back")]
    CutOff,
    /// The store is closed, or failed.
    #[error("the store takes no more changes")]
    Stopped,
}

/// Changes that were not taken, given back.
#[derive(Debug)]
pub struct Refused<T> {
    /// The tag as submitted.
    pub tag: T,
    /// The changes as submitted.
    pub changes: Vec<Change>,
    /// Why.
    pub reason: Refusal,
}

/// The amount of work that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Changes that wait for the commit thread.
    pub changes: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Keys that wait for the file writer.
    pub file_lag_keys: usize,
    /// Their bytes.
    pub file_lag_bytes: usize,
}

/// How the store is.
#[derive(Debug, Clone)]
pub enum Health {
    /// Well.
    Good,
    /// The disk takes no files: new work is refused, what was admitted goes on while the journal
    /// has room.
    DiskFull {
        /// The file that should have been written.
        path: PathBuf,
        /// When that was first tried.
        since: Instant,
        /// The system's error.
        reason: String,
    },
    /// It failed; nothing is committed any more.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A store that could not be closed cleanly. Nothing is lost: the next start recovers.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// The disk takes nothing, so the files are not complete.
    #[error("the disk takes no files, the journal keeps what they lack")]
    DiskFull,
    /// The store had failed before.
    #[error("the store failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// The weight of a submission in the bounds; refused when it can never be committed.
pub(super) fn weigh(changes: &[Change], bytes_max: usize) -> Result<usize, Refusal> {
    let too_large = |what| Err(Refusal::TooLarge { what });
    if changes.len() > SUBMISSION_CHANGES_MAX {
        let count = changes.len();
        return too_large(format!("{count} changes, the limit is {SUBMISSION_CHANGES_MAX}"));
    }
    let moves = changes.iter().filter(|change| matches!(change, Change::Move { .. })).count();
    if moves > SUBMISSION_MOVES_MAX {
        return too_large(format!("{moves} moves, the limit is {SUBMISSION_MOVES_MAX}"));
    }
    let bytes: usize = changes.iter().map(Change::weight).sum();
    if bytes > bytes_max {
        return too_large(format!("{bytes} bytes, the limit is {bytes_max}"));
    }
    Ok(bytes + moves * MOVE_WEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn what_can_never_be_committed_is_refused_with_the_limit() {
        let key = Key::parse("queue/job-1").unwrap();
        let put = Change::Put { key: key.clone(), content: vec![0; 100].into() };
        assert!(weigh(std::slice::from_ref(&put), 1000).unwrap() >= 100);
        let refused = weigh(&[put], 50).unwrap_err().to_string();
        assert!(refused.contains("the limit is 50"), "{refused}");
        let delete = Change::Delete { key: key.clone() };
        assert!(weigh(&vec![delete; SUBMISSION_CHANGES_MAX + 1], usize::MAX).is_err());
        let rename = Change::Move { from: key.clone(), to: key };
        assert!(weigh(&vec![rename; SUBMISSION_MOVES_MAX + 1], usize::MAX).is_err());
    }
}
