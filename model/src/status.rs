//! Core: the states of an opcode, their transitions, and the status of a job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

crate::words! {
    /// The state of an opcode. The order matters: what is greater than `Running` is final.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    OpStatus {
        /// Accepted, not begun.
        Queued = "queued",
        /// Waiting for locks.
        Waiting = "waiting",
        /// Was asked to end while waiting; only found in job files that Ganeti wrote.
        Canceling = "canceling",
        /// Has its locks and runs.
        Running = "running",
        /// Ended before it did its work.
        Canceled = "canceled",
        /// Ended well.
        Success = "success",
        /// Failed.
        Error = "error",
    }
}

impl OpStatus {
    /// Whether nothing can happen to it any more.
    pub fn is_final(self) -> bool {
        self > Self::Running
    }

    /// The status after `event`.
    ///
    /// # Errors
    /// [`Illegal`] when the event cannot happen in this status.
    pub fn next(self, event: OpEvent) -> Result<Self, Illegal> {
        use OpEvent as E;
        match (self, event) {
            (Self::Queued, E::Start) => Ok(Self::Waiting),
            (Self::Waiting, E::Requeue) => Ok(Self::Queued),
            (Self::Waiting, E::Granted) => Ok(Self::Running),
            (Self::Running, E::Succeed) => Ok(Self::Success),
            (Self::Queued | Self::Waiting | Self::Canceling | Self::Running, E::Fail) => {
                Ok(Self::Error)
            }
            (Self::Queued | Self::Waiting | Self::Canceling | Self::Running, E::Cancel) => {
                Ok(Self::Canceled)
            }
            (_, E::Start | E::Requeue | E::Granted | E::Succeed | E::Fail | E::Cancel) => {
                Err(Illegal { status: self, event })
            }
        }
    }
}

/// An event of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpEvent {
    /// The scheduler picked it; it waits for its locks.
    Start,
    /// The master ended while it waited; it is queued anew.
    Requeue,
    /// It has its locks.
    Granted,
    /// It ended well.
    Succeed,
    /// It failed, or can no longer run.
    Fail,
    /// It was canceled, at a point where that is safe.
    Cancel,
}

impl OpEvent {
    /// Every event.
    pub const ALL: [Self; 6] =
        [Self::Start, Self::Requeue, Self::Granted, Self::Succeed, Self::Fail, Self::Cancel];
}

/// A transition that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an opcode that is `{status}` cannot take the event {event:?}")]
pub struct Illegal {
    /// The state of the opcode.
    pub status: OpStatus,
    /// The event that it cannot take.
    pub event: OpEvent,
}

/// The status of a whole job: the same words, derived and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobStatus(OpStatus);

#[expect(non_upper_case_globals, reason = "they read as the variants of a status")]
impl JobStatus {
    /// No opcode has begun, or the next one has not.
    pub const Queued: Self = Self(OpStatus::Queued);
    /// An opcode waits for its locks.
    pub const Waiting: Self = Self(OpStatus::Waiting);
    /// An opcode was asked to end.
    pub const Canceling: Self = Self(OpStatus::Canceling);
    /// An opcode runs.
    pub const Running: Self = Self(OpStatus::Running);
    /// An opcode was canceled, and with it all that followed.
    pub const Canceled: Self = Self(OpStatus::Canceled);
    /// Every opcode ended well.
    pub const Success: Self = Self(OpStatus::Success);
    /// An opcode failed, and with it all that followed.
    pub const Error: Self = Self(OpStatus::Error);

    /// Every status, in order.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Waiting,
        Self::Canceling,
        Self::Running,
        Self::Canceled,
        Self::Success,
        Self::Error,
    ];

    /// The status of a job whose opcodes stand as given, in order.
    ///
    /// The first opcode that failed or was canceled decides; otherwise the last one that waits or
    /// runs; otherwise the job is queued, or all its opcodes ended well.
    pub fn of(ops: impl IntoIterator<Item = OpStatus>) -> Self {
        let mut status = OpStatus::Queued;
        let mut all_well = true;
        for op in ops {
            match op {
                OpStatus::Success => continue,
                OpStatus::Queued => {}
                OpStatus::Waiting | OpStatus::Running => status = op,
                OpStatus::Canceling | OpStatus::Canceled | OpStatus::Error => return Self(op),
            }
            all_well = false;
        }
        Self(if all_well { OpStatus::Success } else { status })
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        self.0.as_str()
    }

    /// Whether nothing can happen to the job any more.
    pub fn is_final(self) -> bool {
        self.0.is_final()
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let found = OpStatus::ALL.into_iter().find(|status| status.as_str() == text);
        found.map(Self).ok_or_else(|| UnknownStatus(text.chars().take(40).collect()))
    }
}

/// A word that is no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job status")]
pub struct UnknownStatus(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        let mut table = String::new();
        for status in OpStatus::ALL {
            for event in OpEvent::ALL {
                let next = status.next(event).map_or("-", OpStatus::as_str);
                table.push_str(&format!("{status:<10} {event:<8?} {next}\n"));
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn nothing_leaves_a_final_status() {
        for status in OpStatus::ALL.into_iter().filter(|s| s.is_final()) {
            assert!(OpEvent::ALL.iter().all(|&event| status.next(event).is_err()));
        }
    }

    #[test]
    fn job_status_is_derived() {
        use OpStatus::{Canceled, Error, Queued, Running, Success, Waiting};
        for (ops, status) in [
            (vec![Queued, Queued], JobStatus::Queued),
            (vec![Success, Queued], JobStatus::Queued),
            (vec![Success, Waiting], JobStatus::Waiting),
            (vec![Running, Queued], JobStatus::Running),
            (vec![Success, Success], JobStatus::Success),
            (vec![Success, Error, Error], JobStatus::Error),
            (vec![Success, Canceled, Canceled], JobStatus::Canceled),
            (vec![Error, Canceled], JobStatus::Error),
        ] {
            assert_eq!(JobStatus::of(ops.clone()), status, "{ops:?}");
        }
    }
}
