//! Following a job to its end.

use std::sync::Arc;

use model::job::LogEntry;
use model::{Exception, JobId, JobStatus, OpStatus};
use serde_json::Value;

use super::{Client, ClientError};
use crate::limits::WAIT_SECONDS_MAX;
use crate::method::{Fields, JobChange, Row, WaitForJobChange};
use crate::response::Failure;

/// The fields asked about the job: all that its end tells, so that no further question is needed.
const OBSERVED: [&str; 3] = ["status", "opstatus", "opresult"];

/// A watcher of a job that is followed.
pub trait Observer {
    /// The job said something.
    fn log(&mut self, entry: &LogEntry) {
        let _ = entry;
    }

    /// The job has this status, which may be the same as before.
    fn status(&mut self, status: JobStatus) {
        let _ = status;
    }
}

/// Nobody looks on.
impl Observer for () {}

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOutcome {
    /// Its final status.
    pub status: JobStatus,
    /// Status of each opcode.
    pub opstatus: Vec<OpStatus>,
    /// Result of each opcode: null, its value, or an encoded exception.
    pub opresult: Vec<Value>,
}

impl JobOutcome {
    /// The results of the opcodes of a job that succeeded.
    ///
    /// # Errors
    /// The exception of the first opcode that failed; `JobCanceled` if none did.
    pub fn into_result(self) -> Result<Vec<Value>, Exception> {
        use model::error::ExceptionKind;
        if self.status == JobStatus::Success {
            return Ok(self.opresult);
        }
        let ops = self.opstatus.iter().zip(&self.opresult);
        let failed = ops.filter(|(status, _)| **status == OpStatus::Error).map(|op| op.1).next();
        Err(match failed {
            Some(result) => {
                Exception::from_value(result).unwrap_or_else(|| Exception::exec(result.to_string()))
            }
            None => Exception::new(ExceptionKind::JobCanceled, "Job was canceled"),
        })
    }
}

impl Client {
    /// Follows the job `job_id` to its end, telling `observer` of what happens on the way.
    ///
    /// # Errors
    /// As [`Client::call`]; the exception `JobLost` if there is no such job.
    pub fn wait_for_job(
        &mut self,
        job_id: JobId,
        observer: &mut impl Observer,
    ) -> Result<JobOutcome, ClientError> {
        let mut question = WaitForJobChange {
            job_id,
            fields: Fields::from(OBSERVED),
            previous: None,
            previous_log: None,
            timeout: WAIT_SECONDS_MAX,
        };
        loop {
            let JobChange::Changed(values, log) = self.call(&question)? else { continue };
            for entry in &log {
                observer.log(entry);
            }
            let outcome = outcome(values.clone())?;
            observer.status(outcome.status);
            if outcome.status.is_final() {
                return Ok(outcome);
            }
            question.previous = Some(values);
            let newest = log.iter().map(|entry: &Arc<LogEntry>| entry.0).max();
            question.previous_log = newest.or(question.previous_log);
        }
    }
}

fn outcome(values: Row) -> Result<JobOutcome, ClientError> {
    let read = serde_json::from_value::<(JobStatus, Vec<OpStatus>, Vec<Value>)>(values.into());
    let (status, opstatus, opresult) = read.map_err(|error| {
        ClientError::Failure(Failure::Malformed { method: "WaitForJobChange", error })
    })?;
    Ok(JobOutcome { status, opstatus, opresult })
}
