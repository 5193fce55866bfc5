//! Methods on jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use luxi::Caller;
use luxi::limits::WAIT_SECONDS_MAX;
use luxi::method::{JobChange, Row, Submission, WaitForJobChange};
use model::error::{ErrorCode, Exception, ExceptionKind};
use model::{Job, JobId, JobStatus, OpInput, Timestamp};
use queue_format::Refusal;
use tokio::time::Instant;

use super::LuxiService;
use crate::daemon::load::archived_job;
use crate::jobs::depend::named;
use crate::jobs::{Answer, Event, submit};
use crate::query::job::JobRow;
use crate::query::{self, bare};

impl LuxiService {
    pub(super) async fn submit_job(
        &self,
        ops: Vec<OpInput>,
        to_drained: bool,
        caller: Caller,
    ) -> Result<JobId, Exception> {
        let answers = self.submit(vec![ops], to_drained, caller).await?;
        answers.into_iter().next().unwrap_or_else(|| Err(unexpected()))
    }

    pub(super) async fn submit_many(
        &self,
        jobs: Vec<Vec<OpInput>>,
        caller: Caller,
    ) -> Result<Vec<Submission>, Exception> {
        let answers = self.submit(jobs, false, caller).await?;
        Ok(answers
            .into_iter()
            .map(|answer| match answer {
                Ok(id) => Submission::Accepted(id),
                Err(why) => Submission::Refused(why.to_string()),
            })
            .collect())
    }

    async fn submit(
        &self,
        jobs: Vec<Vec<OpInput>>,
        to_drained: bool,
        caller: Caller,
    ) -> Result<Vec<Result<JobId, Exception>>, Exception> {
        submit::check(&jobs)?;
        let first = jobs.first().and_then(|ops| ops.first()).map(|op| op.op.id());
        self.committer.admit().map_err(|refusal| no_room(&refusal))?;
        let archived = self.archived_dependencies(&jobs)?;
        let make = |reply| Event::Submit { jobs, to_drained, archived, reply };
        match self.world.writer.ask(make).await? {
            Answer::Submitted(answers) => {
                record(first.unwrap_or_default(), &answers, caller);
                Ok(answers)
            }
            _ => Err(unexpected()),
        }
    }

    /// How archived jobs ended that these depend on.
    fn archived_dependencies(
        &self,
        jobs: &[Vec<OpInput>],
    ) -> Result<HashMap<JobId, JobStatus>, Exception> {
        let mut ended = HashMap::new();
        let depends = |op: &OpInput| op.common.depends.clone().unwrap_or_default();
        for id in jobs.iter().flatten().flat_map(|op| named(&depends(op)).collect::<Vec<_>>()) {
            if self.world.published.jobs.get(id).is_none()
                && let Some(job) = self.archived(id)?
            {
                ended.insert(id, job.status());
            }
        }
        Ok(ended)
    }

    pub(super) fn archived(&self, id: JobId) -> Result<Option<Arc<Job>>, Exception> {
        archived_job(&self.reader, id).map_err(|error| {
            Exception::new(ExceptionKind::JobFileCorrupted, stdx::daemon::chain(&error))
        })
    }

    pub(super) async fn cancel(&self, job: JobId) -> Result<(bool, String), Exception> {
        told(self.world.writer.ask(|reply| Event::Cancel { job, reply }).await?)
    }

    pub(super) async fn change_priority(
        &self,
        job: JobId,
        priority: i32,
    ) -> Result<(bool, String), Exception> {
        if !(-20..=19).contains(&priority) {
            return Err(Exception::prereq(
                format!("priority {priority} is not -20 to 19"),
                ErrorCode::WrongInput,
            ));
        }
        told(self.world.writer.ask(|reply| Event::ChangePriority { job, priority, reply }).await?)
    }

    pub(super) async fn archive(&self, job: JobId) -> Result<bool, Exception> {
        match self.world.writer.ask(|reply| Event::Archive { job, reply }).await? {
            Answer::Archived(done) => Ok(done),
            _ => Err(unexpected()),
        }
    }

    pub(super) async fn auto_archive(
        &self,
        age: i64,
        timeout: f64,
    ) -> Result<(u64, u64), Exception> {
        let until = Instant::now() + wait_time(timeout);
        let now = Timestamp::from_micros(self.world.clock.now_micros());
        let before = (age >= 0).then(|| now.plus_seconds(-age));
        let mut total = 0;
        loop {
            let make = |reply| Event::AutoArchive { before, reply };
            let Answer::AutoArchived(archived, left) = self.world.writer.ask(make).await? else {
                return Err(unexpected());
            };
            total += archived;
            if left == 0 || archived == 0 || Instant::now() >= until {
                return Ok((total, left));
            }
        }
    }

    pub(super) async fn set_drained(&self, drained: bool) -> Result<bool, Exception> {
        self.world.writer.ask(|reply| Event::SetDrained { drained, reply }).await?;
        Ok(true)
    }

    pub(super) async fn wait_for_change(
        &self,
        call: WaitForJobChange,
    ) -> Result<JobChange, Exception> {
        let until = Instant::now() + wait_time(call.timeout);
        let watch = self.world.published.jobs.watch(call.job_id);
        loop {
            let changed = watch.changed();
            let (job, archived) = self.find(call.job_id)?;
            let is_final = job.status().is_final();
            if let Some(change) = news(&call, job, archived)? {
                return Ok(change);
            }
            if is_final || tokio::time::timeout_at(until, changed).await.is_err() {
                return Ok(JobChange::Unchanged);
            }
        }
    }

    fn find(&self, id: JobId) -> Result<(Arc<Job>, bool), Exception> {
        if let Some(job) = self.world.published.jobs.get(id) {
            return Ok((job, false));
        }
        let lost =
            || Exception::new(ExceptionKind::JobLost, format!("Job {id} is not in the queue"));
        Ok((self.archived(id)?.ok_or_else(lost)?, true))
    }
}

/// The log's word on a submission. Tests of the queue are told of at `debug`.
fn record(first: &str, answers: &[Result<JobId, Exception>], caller: Caller) {
    let ids = answers.iter().flatten().map(|id| id.0);
    let (low, high) = (ids.clone().min().unwrap_or(0), ids.max().unwrap_or(0));
    let jobs = answers.len();
    if first.starts_with("OP_TEST_") {
        tracing::debug!(first, jobs, low, high, uid = caller.uid, "submitted");
    } else {
        tracing::info!(first, jobs, low, high, uid = caller.uid, "submitted");
    }
}

/// What is new of a job, as far as the client knows it; a job that has ended is always told.
fn news(
    call: &WaitForJobChange,
    job: Arc<Job>,
    archived: bool,
) -> Result<Option<JobChange>, Exception> {
    let known = call.previous_log.unwrap_or(0);
    let is_final = job.status().is_final();
    let logs: Vec<_> =
        job.ops.iter().flat_map(|op| &op.log).filter(|entry| entry.0 > known).cloned().collect();
    let rows = bare(query::job::FIELDS, [JobRow { job, archived }], &call.fields)?;
    let values: Row = rows.into_iter().next().unwrap_or_default();
    let same = logs.is_empty() && call.previous.as_ref() == Some(&values);
    Ok((is_final || !same).then_some(JobChange::Changed(values, logs)))
}

fn wait_time(seconds: f64) -> Duration {
    let seconds = if seconds.is_finite() { seconds.clamp(0.0, WAIT_SECONDS_MAX) } else { 0.0 };
    Duration::from_secs_f64(seconds)
}

fn told(answer: Answer) -> Result<(bool, String), Exception> {
    match answer {
        Answer::Told(done, text) => Ok((done, text)),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Exception {
    Exception::new(
        ExceptionKind::ProgrammerError,
        "the queue gave another answer than was asked for",
    )
}

fn no_room(refusal: &Refusal) -> Exception {
    let text = match refusal {
        Refusal::Busy => {
            "The queue has more to store than the disk takes; try again later".to_owned()
        }
        Refusal::DiskFull { path, reason } => format!(
            "The master cannot write `{}` ({reason}); no new jobs are taken until it can: make room, \
             or make it writable",
            path.display()
        ),
        Refusal::TooLarge { what } => format!("The submission is too large: {what}"),
        Refusal::Stopped => "The master daemon is ending".to_owned(),
    };
    Exception::new(ExceptionKind::JobQueueError, text)
}
