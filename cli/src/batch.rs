//! Several jobs seen to their ends, in the words of Ganeti's clients.

use std::collections::VecDeque;

use luxi::Client;
use luxi::method::{QueryJobs, Submission};
use model::error::ExceptionKind;
use model::{Exception, JobId, JobStatus};
use serde_json::Value;

use crate::error::CliError;
use crate::explain::exception_words;
use crate::follow::listen;
use crate::output::{say, warn, warn_lines};
use crate::session::Session;

/// How many jobs are asked about to find one that goes on, as in Ganeti: those behind them can
/// wait for their turn.
const ASKED_AT_ONCE: usize = 25;

/// A job of a batch.
#[derive(Debug)]
struct Member {
    /// Its place in the batch.
    place: usize,
    /// The name of its object, where one was given.
    name: Option<String>,
    id: JobId,
}

/// Jobs that were submitted, and why others were not.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    jobs: VecDeque<Member>,
    refused: Vec<(Option<String>, String)>,
    count: usize,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchResult {
    /// The results of the opcodes of each job that succeeded, with its place in the batch.
    pub(crate) results: Vec<(usize, Vec<Value>)>,
    /// How many jobs failed or were not taken.
    pub(crate) failed: usize,
}

impl Batch {
    /// Adds a job, or the reason why there is none.
    pub(crate) fn add(&mut self, name: Option<String>, submission: Submission) {
        let place = self.count;
        self.count += 1;
        match submission {
            Submission::Accepted(id) => self.jobs.push_back(Member { place, name, id }),
            Submission::Refused(why) => self.refused.push((name, why)),
        }
    }

    /// The jobs.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.iter().map(|job| job.id)
    }

    /// Why there are no further ones.
    pub(crate) fn refused(&self) -> Vec<&str> {
        self.refused.iter().map(|(_name, why)| why.as_str()).collect()
    }

    /// Waits for all jobs, one after the other, showing what each says.
    pub(crate) fn wait(
        mut self,
        session: &Session,
        client: &mut Client,
        verbose: bool,
    ) -> Result<BatchResult, CliError> {
        if verbose && !self.jobs.is_empty() {
            let ids: Vec<String> = self.jobs.iter().map(|job| job.id.to_string()).collect();
            say(format_args!("Submitted jobs {}", ids.join(", ")))?;
        }
        let mut outcome = BatchResult { failed: self.refused.len(), ..BatchResult::default() };
        for (name, why) in &self.refused {
            warn(format_args!("Failed to submit job{}: {why}", purpose(name)))?;
        }
        while let Some(Member { place, name, id }) = self.next(client)? {
            let purpose = purpose(&name);
            say(format_args!("Waiting for job {id}{purpose} ..."))?;
            let ended = listen(session, client, id);
            match ended.map(luxi::client::JobOutcome::into_result) {
                Ok(Ok(results)) => outcome.results.push((place, results)),
                Ok(Err(exception)) => {
                    outcome.failed += 1;
                    tell_failure(id, &purpose, &exception, session)?;
                }
                Err(CliError::Client(error)) if error.exception().is_some() => {
                    outcome.failed += 1;
                    if let Some(exception) = error.exception() {
                        tell_failure(id, &purpose, exception, session)?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(outcome)
    }

    /// Takes out the next job to wait for: one that goes on or has ended, before those that wait.
    fn next(&mut self, client: &mut Client) -> Result<Option<Member>, CliError> {
        if self.jobs.len() < 2 {
            return Ok(self.jobs.pop_front());
        }
        let ids = self.jobs.iter().take(ASKED_AT_ONCE).map(|job| job.id).collect();
        let rows = client.call(&QueryJobs { job_ids: Some(ids), fields: ["status"].into() })?;
        let waits = [JobStatus::Queued, JobStatus::Waiting, JobStatus::Canceling];
        let is_waiting = |row: &Option<Vec<Value>>| {
            let status = row.as_ref().and_then(|row| row.first()).and_then(Value::as_str);
            waits.iter().any(|waiting| status == Some(waiting.as_str()))
        };
        let at = rows.iter().position(|row| !is_waiting(row)).unwrap_or_default();
        Ok(self.jobs.remove(at))
    }
}

fn purpose(name: &Option<String>) -> String {
    name.as_ref().map_or_else(String::new, |name| format!(" for {name}"))
}

fn tell_failure(
    id: JobId,
    purpose: &str,
    exception: &Exception,
    session: &Session,
) -> Result<(), CliError> {
    if exception.kind == ExceptionKind::JobLost {
        let told = "has been archived, cannot check its result";
        return warn(format_args!("Job {id}{purpose} {told}"));
    }
    let (words, _exit) = exception_words(exception, session);
    warn_lines(&format!("Job {id}{purpose} has failed: {words}"))
}
