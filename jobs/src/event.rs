//! The events of the queue, and the answer to each.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

use model::job::LogType;
use model::{Exception, JobId, JobStatus, Timestamp};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::filter::RuleMap;
use crate::submit::Submission;

/// The destination of answers: channels, or numbers in tests.
pub trait Replies: Debug + 'static {
    /// The way of one answer.
    type To<T: Debug + Send + 'static>: Debug + Send;
}

/// Answers go into channels.
#[derive(Debug)]
pub enum Channels {}

impl Replies for Channels {
    type To<T: Debug + Send + 'static> = oneshot::Sender<T>;
}

/// The outcome of a submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// For each job its id, or why it was refused.
    Jobs(Vec<Result<JobId, Exception>>),
    /// Nothing was submitted: these jobs depend on others that the queue does not have. They are
    /// archived by the time this is answered, or never were; submit again with what the archive
    /// says of them.
    LookUp(Vec<Submission>, BTreeSet<JobId>),
}

/// The result of one run of archiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoArchived {
    /// Jobs archived.
    pub archived: u64,
    /// Jobs that are left to look at.
    pub left: u64,
}

/// An answer on its way, which leaves when all that it says is durable.
#[derive(Debug)]
pub enum Reply<R: Replies> {
    /// To a submission.
    Submitted(R::To<Submitted>, Submitted),
    /// Whether something was done, and what to tell the operator.
    Told(R::To<(bool, String)>, (bool, String)),
    /// Whether something was done.
    Done(R::To<bool>, bool),
    /// To a run of archiving.
    AutoArchived(R::To<AutoArchived>, AutoArchived),
    /// The change that was waited for is durable and visible.
    Visible(R::To<()>),
}

impl Reply<Channels> {
    /// Sends it; a client that left does not need its answer.
    pub(crate) fn send(self) {
        match self {
            Self::Submitted(to, answer) => drop(to.send(answer)),
            Self::Told(to, answer) => drop(to.send(answer)),
            Self::Done(to, answer) => drop(to.send(answer)),
            Self::AutoArchived(to, answer) => drop(to.send(answer)),
            Self::Visible(to) => drop(to.send(())),
        }
    }
}

/// An event of the queue. `R` says where answers go.
#[derive(Debug)]
pub enum Event<R: Replies> {
    /// A client submits jobs.
    Submit {
        /// Their opcodes.
        jobs: Vec<Submission>,
        /// Whether a drained queue takes them all the same.
        to_drained: bool,
        /// How jobs ended that these depend on and that the queue may not have; none where there is
        /// no such job.
        archived: HashMap<JobId, Option<JobStatus>>,
        /// Gets the ids, or what must be looked up before.
        reply: R::To<Submitted>,
    },
    /// A client wants a job to end.
    Cancel {
        job: JobId,
        /// Gets whether it was done, and what to tell the operator.
        reply: R::To<(bool, String)>,
    },
    /// A client wants a job to end at once, wherever it stands.
    Kill {
        job: JobId,
        /// Gets the same when it has ended.
        reply: R::To<(bool, String)>,
    },
    /// A client changes a job's priority.
    ChangePriority {
        job: JobId,
        /// Its new priority, −20 to 19.
        priority: i32,
        /// Gets whether it was done, and what to tell the operator.
        reply: R::To<(bool, String)>,
    },
    /// A client archives a job.
    Archive {
        job: JobId,
        /// Gets whether it was done.
        reply: R::To<bool>,
    },
    /// A client archives what ended before a moment, at most
    /// [`ARCHIVED_PER_COMMIT_MAX`](crate::limits::ARCHIVED_PER_COMMIT_MAX) jobs.
    AutoArchive {
        /// The moment; none means all that ended.
        before: Option<Timestamp>,
        /// Gets how many.
        reply: R::To<AutoArchived>,
    },
    /// A client opens or closes the queue for new jobs.
    SetDrained {
        /// Whether it is closed.
        drained: bool,
        /// Told when that is durable.
        reply: R::To<()>,
    },
    /// The configuration changed how many jobs may call agents at once.
    SetRunningMax(u32),
    /// The configuration changed the filter rules.
    SetRules(RuleMap),
    /// There is room to cancel more of the jobs that rules reject.
    RejectMore,
    /// An opcode has its locks.
    Granted {
        job: JobId,
        /// Its place in the job.
        op: usize,
        /// Told when "running" is durable.
        durable: Option<R::To<()>>,
    },
    /// An opcode is about to change something without a transaction.
    NoReturn {
        job: JobId,
        /// Gets whether it may: nobody canceled it before.
        reply: R::To<bool>,
    },
    /// An opcode says something.
    Log {
        job: JobId,
        /// Its place in the job.
        op: usize,
        /// The kind of message.
        kind: LogType,
        message: Value,
        /// Told when clients can see it.
        visible: Option<R::To<()>>,
    },
    /// The next opcode of a job does not begin here any more: the leadership ends. The next master has
    /// it run, unless somebody wants it canceled or killed.
    Withdrawn { job: JobId },
    /// An opcode ended.
    Ended {
        job: JobId,
        /// Its place in the job.
        op: usize,
        outcome: Outcome,
    },
}

/// How an opcode ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With its result.
    Success(Value),
    Failure(Exception),
    /// On request, before it had changed anything, or between two of its steps.
    Canceled,
}
