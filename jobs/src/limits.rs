//! Core: how much the queue takes.

/// Most opcodes that one job may hold: a job is one document, rewritten at each change.
pub const OPS_PER_JOB_MAX: usize = 10_000;
/// Most jobs of one submission: more would hold up everybody else's.
pub const JOBS_PER_SUBMISSION_MAX: usize = 10_000;
/// Most unarchived jobs; each costs a file and a few KiB of memory.
pub const LIVE_JOBS_MAX: usize = 1_000_000;
/// Bytes of unarchived jobs, as their files hold them and rather too many: in memory they take two
/// to three times that. A million trivial jobs have less.
pub const LIVE_BYTES_MAX: usize = 2 << 30;
/// Most log entries that one opcode may write: beyond it the job's document only grows.
pub const LOG_ENTRIES_PER_OP_MAX: usize = 10_000;
/// Jobs archived in one commit, so that a large archive run does not delay others.
pub const ARCHIVED_PER_COMMIT_MAX: usize = 1_000;

/// Queued jobs canceled by one event because a rule rejects them. The rest follow, so that a rule for
/// all jobs does not write all of them at once.
pub const REJECTED_AT_ONCE_MAX: usize = 1_000;
/// Bytes of jobs changed by one event, from which on it cancels no more of them, likewise.
pub const REJECTED_BYTES_MAX: usize = 16 << 20;

/// How large a job's file may grow. It is written whole, in one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobBytes {
    /// With its opcodes alone, as it is accepted.
    pub accepted: usize,
    /// With its log.
    pub logged: usize,
    /// With its results, too.
    pub ended: usize,
}

impl JobBytes {
    /// Limits under which every job fits a commit of `commit_bytes`: half of it for the opcodes, and at
    /// least a quarter each for the log and the results.
    pub fn within(commit_bytes: usize) -> Self {
        let ended = commit_bytes.saturating_sub(JOB_KEY_BYTES);
        Self { accepted: ended / 2, logged: ended / 4 * 3, ended }
    }
}

/// The bytes of a job in a commit besides its file: its key, and its place in the batch.
const JOB_KEY_BYTES: usize = 256;
