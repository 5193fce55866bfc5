//! Core: why a job does not go on, in words that programs read too.

use serde::{Deserialize, Serialize};

use crate::job_id::JobId;
use crate::status::JobStatus;

/// One reason why a job waits; on the wire an object with the key `reason`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Wait {
    /// For a lock that others hold, or were promised first.
    Lock {
        /// The lock that it asks for, as `node/n1`.
        lock: String,
        /// `shared` or `exclusive`.
        mode: String,
        /// The point where it is stopped: the lock itself or, when that is a set, one of its members.
        at: String,
        /// Jobs that hold what is in the way, each with its mode.
        owners: Vec<(JobId, String)>,
        /// Jobs that are served before it, in turn.
        ahead: Vec<JobId>,
    },
    /// For other jobs to end.
    Jobs {
        /// The jobs that have not ended, each with the ends that are good enough; none means any.
        jobs: Vec<(JobId, Vec<JobStatus>)>,
    },
    /// For its turn: as many jobs run as may.
    Turn {
        /// How many may run.
        limit: u64,
        /// Jobs that are before it in the line.
        ahead: u64,
    },
    /// For a filter rule that holds it back.
    Filter {
        /// The rule's id; none for a limit that the job itself asked for by its reason.
        uuid: Option<String>,
        /// `PAUSE`, or `RATE_LIMIT n`.
        action: String,
        /// Jobs that run and count against a rate limit.
        running: u64,
        /// The reason that the operator gave with the rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}
