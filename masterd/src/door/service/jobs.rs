//! Methods on jobs.

use std::sync::Arc;
use std::time::Duration;

use ::jobs::event::Channels;
use ::jobs::submitter::Sender;
use ::jobs::{AutoArchived, Event};
use luxi::limits::WAIT_SECONDS_MAX;
use luxi::method::{JobChange, Row, Submission, WaitForJobChange};
use model::error::{ErrorCode, Exception, ExceptionKind};
use model::{Job, JobId, OpInput};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::LuxiService;
use crate::door::lists::job::JobRow;
use crate::door::users;
use crate::units::list::bare;

impl LuxiService {
    pub(super) async fn submit_job(
        &self,
        ops: Vec<OpInput>,
        to_drained: bool,
        sender: Sender,
    ) -> Result<JobId, Exception> {
        let answers = self.submit(vec![ops], to_drained, sender).await?;
        answers.into_iter().next().unwrap_or_else(|| Err(unexpected()))
    }

    pub(super) async fn submit_many(
        &self,
        jobs: Vec<Vec<OpInput>>,
        sender: Sender,
    ) -> Result<Vec<Submission>, Exception> {
        let answers = self.submit(jobs, false, sender).await?;
        // Clients of the whole call would take a list of refusals for a success (Ganeti fails it).
        if let Some(Err(drained)) = answers.first()
            && answers.iter().all(|answer| answer.as_ref().err() == Some(drained))
            && drained.kind == ExceptionKind::JobQueueDrainError
        {
            return Err(drained.clone());
        }
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
        sender: Sender,
    ) -> Result<Vec<Result<JobId, Exception>>, Exception> {
        let tenant = sender.asker.as_deref().and_then(|asker| asker.tenant.clone());
        let _turn = match &tenant {
            Some(tenant) => Some(self.tenants_turn(tenant, jobs.len()).await?),
            None => None,
        };
        let first = jobs.first().and_then(|ops| ops.first()).map(|op| op.op.id());
        let uid = sender.uid;
        let answers = self.sources.submitter.submit(jobs, to_drained, Some(sender)).await?;
        record(first.unwrap_or_default(), &answers, uid);
        Ok(answers)
    }

    /// Whether this master may not know what another one has done.
    fn is_stale(&self) -> bool {
        self.sources.commits.majority().contact().answers_are_stale()
    }

    /// Asks the queue; a disk that takes nothing, or a majority that is silent, ends the wait with its reason.
    async fn ask<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> Event<Channels>,
    ) -> Result<T, Exception> {
        self.sources.submitter.unless_stalled(self.sources.writer.ask(make)).await
    }

    pub(super) async fn cancel(&self, job: JobId, kill: bool) -> Result<(bool, String), Exception> {
        let make = |reply| match kill {
            true => Event::Kill { job, reply },
            false => Event::Cancel { job, reply },
        };
        self.ask(make).await
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
        self.ask(|reply| Event::ChangePriority { job, priority, reply }).await
    }

    pub(super) async fn archive(&self, job: JobId) -> Result<bool, Exception> {
        self.ask(|reply| Event::Archive { job, reply }).await
    }

    pub(super) async fn auto_archive(
        &self,
        age: i64,
        timeout: f64,
    ) -> Result<(u64, u64), Exception> {
        let until = Instant::now() + wait_time(timeout);
        let now = self.now();
        if age < -1 {
            let text = format!("age {age} is not -1, for all, or a number of seconds");
            return Err(Exception::prereq(text, ErrorCode::WrongInput));
        }
        let before = (age >= 0).then(|| now.plus_seconds(-age));
        let mut total = 0;
        loop {
            let make = |reply| Event::AutoArchive { before, reply };
            let AutoArchived { archived, left } = self.ask(make).await?;
            total += archived;
            if left == 0 || archived == 0 || Instant::now() >= until {
                return Ok((total, left));
            }
        }
    }

    pub(super) async fn set_drained(&self, drained: bool) -> Result<bool, Exception> {
        self.ask(|reply| Event::SetDrained { drained, reply }).await?;
        Ok(true)
    }

    pub(super) async fn wait_for_change(
        &self,
        call: WaitForJobChange,
    ) -> Result<JobChange, Exception> {
        let until = Instant::now() + wait_time(call.timeout);
        let watch = self.sources.published.jobs.watch(call.job_id);
        loop {
            let changed = watch.changed();
            let (job, archived) = match self.find(call.job_id).await {
                Ok(found) => found,
                // Another master, of whom this one has not heard yet, may have taken it.
                Err(lost) if lost.kind == ExceptionKind::JobLost && self.is_stale() => {
                    if Instant::now() >= until {
                        return Ok(JobChange::Unchanged);
                    }
                    tokio::time::sleep_until(until.min(Instant::now() + LOOK_AGAIN)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_final = job.status().is_final();
            if let Some(change) = news(&call, job, archived)? {
                return Ok(change);
            }
            if is_final || tokio::time::timeout_at(until, changed).await.is_err() {
                return Ok(JobChange::Unchanged);
            }
        }
    }

    pub(super) async fn find(&self, id: JobId) -> Result<(Arc<Job>, bool), Exception> {
        if let Some(job) = self.sources.published.jobs.get(id) {
            return Ok((job, false));
        }
        Ok((self.sources.archive.job(id).await?.ok_or_else(|| lost(id))?, true))
    }
}

/// The words for a job that is not there.
pub(super) fn lost(id: JobId) -> Exception {
    Exception::new(ExceptionKind::JobLost, format!("Job {id} is not in the queue"))
}

/// How often a master that may be none any more looks for a job that it does not know.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The log's word on a submission. Tests of the queue are told of at `debug`.
fn record(first: &str, answers: &[Result<JobId, Exception>], uid: u32) {
    let ids = answers.iter().flatten().map(|id| id.0);
    let (low, high) = (ids.clone().min().unwrap_or(0), ids.max().unwrap_or(0));
    let jobs = answers.len();
    if first.starts_with("OP_TEST_") {
        tracing::debug!(first, jobs, low, high, uid, "submitted");
    } else {
        tracing::info!(first, jobs, low, high, uid, "submitted");
    }
}

/// The news of a job, as far as the client knows it; an ended job is always news.
fn news(
    call: &WaitForJobChange,
    job: Arc<Job>,
    archived: bool,
) -> Result<Option<JobChange>, Exception> {
    let known = call.previous_log.unwrap_or(0);
    let is_final = job.status().is_final();
    let logs: Vec<_> =
        job.ops.iter().flat_map(|op| &op.log).filter(|entry| entry.0 > known).cloned().collect();
    let rows = bare(
        crate::door::lists::job::FIELDS,
        [JobRow::new(job, archived, users::name)],
        &call.fields,
    )?;
    let values: Row = rows.into_iter().next().unwrap_or_default();
    let same = logs.is_empty() && call.previous.as_ref() == Some(&values);
    Ok((is_final || !same).then_some(JobChange::Changed(values, logs)))
}

fn wait_time(seconds: f64) -> Duration {
    let seconds = if seconds.is_finite() { seconds.clamp(0.0, WAIT_SECONDS_MAX) } else { 0.0 };
    Duration::from_secs_f64(seconds)
}

fn unexpected() -> Exception {
    Exception::new(
        ExceptionKind::ProgrammerError,
        "the queue gave another answer than was asked for",
    )
}
