//! The job queue: what becomes of a submitted job.
//!
//! [`state`] is the core: one [`Event`] in, [`Effects`] out. The single writer (`crate::writer`)
//! feeds it and performs the effects; [`view`] holds what is committed, which is all that clients
//! and waiters ever see; [`filter`] and [`schedule`] say which jobs start; [`desk`] submits jobs,
//! [`repeat`] knows those that are sent again, [`worker`] runs one opcode; [`stored`] reads the jobs
//! of the master before, and [`recover`] says how they go on.

pub mod depend;
pub mod desk;
pub mod filter;
pub mod recover;
pub mod repeat;
pub mod room;
pub mod schedule;
pub mod state;
pub mod stored;
pub mod submit;
pub mod tally;
pub mod view;
pub mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::job::{LogType, Op, RequestId};
use model::{Exception, Job, JobId, JobStatus, OpInput, Timestamp};
use serde_json::Value;

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

/// Queued jobs canceled by one event because a rule rejects them; the rest follow, so that a rule
/// for all jobs does not write all of them at once.
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
    /// Limits under which every job fits a commit of `commit_bytes`: half of it for the opcodes, a
    /// quarter at least for the log, and the same for the results.
    #[must_use]
    pub fn within(commit_bytes: usize) -> Self {
        let ended = commit_bytes.saturating_sub(JOB_KEY_BYTES);
        Self { accepted: ended / 2, logged: ended / 4 * 3, ended }
    }
}

/// What a commit has of a job besides its file: its key, and its place in the batch.
const JOB_KEY_BYTES: usize = 256;

/// The opcodes of one job that keep every limit; see [`submit::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    ops: Vec<OpInput>,
    bytes: usize,
    submitter: Option<u32>,
    request: Option<RequestId>,
}

impl Submission {
    /// The job as one of a client's: the user, and what its request is known by if it is sent
    /// again.
    #[must_use]
    pub fn sent_by(mut self, uid: u32, request: Option<RequestId>) -> Self {
        self.submitter = Some(uid);
        self.request = request;
        self
    }
}

/// What happens to the queue. `R` is where an answer goes: a channel, or a number in tests.
#[derive(Debug)]
pub enum Event<R> {
    /// A client submits jobs.
    Submit {
        /// Their opcodes.
        jobs: Vec<Submission>,
        /// Whether a drained queue takes them all the same.
        to_drained: bool,
        /// How jobs ended that these depend on and that the queue may not have; none where there is
        /// no such job.
        archived: HashMap<JobId, Option<JobStatus>>,
        /// Gets [`Answer::Submitted`] or [`Answer::LookUp`].
        reply: R,
    },
    /// A client wants a job to end.
    Cancel {
        /// Which.
        job: JobId,
        /// Gets [`Answer::Told`].
        reply: R,
    },
    /// A client wants a job to end at once, wherever it stands.
    Kill {
        /// Which.
        job: JobId,
        /// Gets [`Answer::Told`] when it has ended.
        reply: R,
    },
    /// A client changes a job's priority.
    ChangePriority {
        /// Which.
        job: JobId,
        /// Its new priority, −20 to 19.
        priority: i32,
        /// Gets [`Answer::Told`].
        reply: R,
    },
    /// A client archives a job.
    Archive {
        /// Which.
        job: JobId,
        /// Gets [`Answer::Archived`].
        reply: R,
    },
    /// A client archives what ended before a moment, at most [`ARCHIVED_PER_COMMIT_MAX`] jobs.
    AutoArchive {
        /// The moment; none means all that ended.
        before: Option<Timestamp>,
        /// Gets [`Answer::AutoArchived`].
        reply: R,
    },
    /// A client opens or closes the queue for new jobs.
    SetDrained {
        /// Whether it is closed.
        drained: bool,
        /// Gets [`Answer::Archived`]`(true)`.
        reply: R,
    },
    /// The configuration changed how many jobs may call agents at once.
    SetRunningMax(u32),
    /// The configuration changed the filter rules.
    SetRules(Arc<filter::RuleMap>),
    /// There is room to cancel more of the jobs that rules reject.
    RejectMore,
    /// An opcode has its locks.
    Granted {
        /// Its job.
        job: JobId,
        /// Its place in the job.
        op: usize,
        /// Told when "running" is durable.
        durable: Option<R>,
    },
    /// An opcode is about to change something without a transaction.
    NoReturn {
        /// Its job.
        job: JobId,
        /// Gets [`Answer::Archived`]: whether it may, since nobody canceled it before.
        reply: R,
    },
    /// An opcode says something.
    Log {
        /// Its job.
        job: JobId,
        /// Its place in the job.
        op: usize,
        /// What kind of message.
        kind: LogType,
        /// The message.
        message: Value,
        /// Told when clients can see it.
        visible: Option<R>,
    },
    /// The next opcode of a job does not begin here any more: the reign ends, and whoever is master next
    /// has it run, unless somebody wants it canceled or killed.
    Withdrawn {
        /// The job.
        job: JobId,
    },
    /// An opcode ended.
    Ended {
        /// Its job.
        job: JobId,
        /// Its place in the job.
        op: usize,
        /// How.
        outcome: Outcome,
    },
}

/// How an opcode ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With its result.
    Success(Value),
    /// With a failure.
    Failure(Exception),
    /// On request, before it had changed anything, or between two of its steps.
    Canceled,
}

/// What a client is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// For each job its id, or why it was refused.
    Submitted(Vec<Result<JobId, Exception>>),
    /// Nothing was submitted: these jobs depend on others that the queue does not have. They are
    /// archived by the time this is answered, or never were; submit again with what the archive
    /// says of them.
    LookUp(Vec<Submission>, BTreeSet<JobId>),
    /// Whether it was done, and what to tell the operator.
    Told(bool, String),
    /// Whether it was done.
    Archived(bool),
    /// Jobs archived, and jobs that are left to look at.
    AutoArchived(u64, u64),
    /// What was waited for is durable and visible.
    Visible,
}

/// What the writer has to do after events were handled; everything in it becomes one commit.
#[derive(Debug)]
pub struct Effects<R> {
    /// The time of the event that is being handled.
    pub(crate) now: Timestamp,
    /// Jobs that changed, each as it is now.
    pub changed: BTreeMap<JobId, Arc<Job>>,
    /// Bytes of their files, roughly, each time that one changed.
    pub changed_bytes: usize,
    /// Jobs that go to the archive, each as it is now.
    pub archived: BTreeMap<JobId, Arc<Job>>,
    /// The job serial, if it grew.
    pub serial: Option<u64>,
    /// The drain mark, if it changed.
    pub drained: Option<bool>,
    /// Answers that go out when all this is durable.
    pub replies: Vec<(R, Answer)>,
    /// Opcodes to start; they may begin before the commit, and call no agent before their own
    /// "running" is durable.
    pub start: Vec<Start>,
    /// Jobs whose worker is to end before it changes anything.
    pub interrupt: Vec<JobId>,
    /// Jobs whose worker is to end at once.
    pub kill: Vec<JobId>,
    /// Jobs whose waiting lock request has a new priority.
    pub reprioritize: Vec<(JobId, i32)>,
}

impl<R> Default for Effects<R> {
    fn default() -> Self {
        Self {
            now: Timestamp::default(),
            changed: BTreeMap::new(),
            changed_bytes: 0,
            archived: BTreeMap::new(),
            serial: None,
            drained: None,
            replies: Vec::new(),
            start: Vec::new(),
            interrupt: Vec::new(),
            kill: Vec::new(),
            reprioritize: Vec::new(),
        }
    }
}

impl<R> Effects<R> {
    fn change(&mut self, job: &Arc<Job>, bytes: usize) {
        self.changed_bytes += bytes;
        self.changed.insert(job.id, Arc::clone(job));
    }

    /// Whether there is nothing to commit.
    #[must_use]
    pub fn commits_nothing(&self) -> bool {
        self.changed.is_empty()
            && self.archived.is_empty()
            && self.serial.is_none()
            && self.drained.is_none()
            && self.replies.is_empty()
    }
}

/// An opcode to run.
#[derive(Debug, Clone)]
pub struct Start {
    /// Its job.
    pub job: JobId,
    /// Its place in the job.
    pub op: usize,
    /// What to do.
    pub input: Arc<model::opcode::Input>,
    /// Priority of its lock requests.
    pub priority: i32,
}

impl Start {
    fn new(job: JobId, place: usize, op: &Op) -> Self {
        Self { job, op: place, input: Arc::clone(&op.input), priority: op.priority }
    }
}
