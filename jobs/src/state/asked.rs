//! Core: what clients ask of the queue.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::error::ExceptionKind;
use model::opcode::Input;
use model::opcode::common::DependsOn;
use model::status::{OpEvent, OpStatus};
use model::{Exception, Job, JobId, JobStatus, Timestamp};

use super::{Live, Phase, Queue, canceled};
use crate::deduplication::Remembered;
use crate::effects::Effects;
use crate::event::{AutoArchived, Replies, Reply, Submitted};
use crate::limits::{ARCHIVED_PER_COMMIT_MAX, LIVE_BYTES_MAX, LIVE_JOBS_MAX};
use crate::submit::{self, Submission};

impl<R: Replies> Queue<R> {
    /// Takes what can be taken of a submission, unless something must be looked up first.
    pub(super) fn submit(
        &mut self,
        jobs: Vec<Submission>,
        to_drained: bool,
        archived: &HashMap<JobId, Option<JobStatus>>,
        effects: &mut Effects<R>,
    ) -> Submitted {
        let missing = self.not_here(&jobs, archived);
        if !missing.is_empty() {
            return Submitted::LookUp(jobs, missing);
        }
        self.requests.expire(effects.now);
        let mut batch: Vec<Option<JobId>> = Vec::with_capacity(jobs.len());
        let mut answers = Vec::with_capacity(jobs.len());
        let mut new = Vec::with_capacity(jobs.len());
        for job in jobs {
            let known = job.request.and_then(|request| self.requests.find(request));
            let answer = known.map_or_else(
                || self.accept(job, to_drained, &batch, effects).inspect(|&id| new.push(id)),
                Ok,
            );
            batch.push(answer.as_ref().ok().copied());
            answers.push(answer);
        }
        for id in new {
            self.note_dependencies(id, |id| archived.get(&id).copied().flatten());
            self.judge(id);
            self.settle(id, effects);
        }
        Submitted::Jobs(answers)
    }

    /// Jobs that exist, for all that is known, and that these depend on, but that are not in the
    /// queue.
    fn not_here(
        &self,
        jobs: &[Submission],
        archived: &HashMap<JobId, Option<JobStatus>>,
    ) -> BTreeSet<JobId> {
        let ops = jobs.iter().flat_map(|job| &job.ops);
        let depends = ops.flat_map(|op| op.common.depends.iter().flatten());
        depends
            .filter_map(|dependency| match dependency.0 {
                DependsOn::Job(id) => Some(id),
                DependsOn::Back(_) => None,
            })
            .filter(|id| id.0 <= self.serial)
            .filter(|id| !self.jobs.contains_key(id) && !archived.contains_key(id))
            .collect()
    }

    fn accept(
        &mut self,
        Submission { mut ops, bytes, submitter, asker, request }: Submission,
        to_drained: bool,
        batch: &[Option<JobId>],
        effects: &mut Effects<R>,
    ) -> Result<JobId, Exception> {
        if self.drained && !to_drained {
            return Err(Exception::new(
                ExceptionKind::JobQueueDrainError,
                "Job queue is drained, refusing job",
            ));
        }
        if self.jobs.len() >= LIVE_JOBS_MAX || self.live_bytes + bytes > LIVE_BYTES_MAX {
            return Err(Exception {
                kind: ExceptionKind::JobQueueFull,
                args: Vec::new(),
                code: None,
            });
        }
        submit::resolve_dependencies(&mut ops, batch)?;
        self.serial += 1;
        effects.serial = Some(self.serial);
        let id = JobId(self.serial);
        submit::add_reason(&mut ops, id, effects.now);
        let inputs = ops.into_iter().map(|op| Arc::new(Input::Known(Box::new(op))));
        let mut job = Job::new(id, inputs, effects.now);
        (job.submitter, job.asker, job.request) = (submitter, asker, request);
        if job.ops.is_empty() {
            // There is nothing that could end it later.
            (job.start_timestamp, job.end_timestamp) =
                (job.received_timestamp, job.received_timestamp);
        }
        if let Some(remembered) = Remembered::of(&job) {
            self.requests.note(remembered);
        }
        let job = Arc::new(job);
        effects.change(&job, bytes);
        self.live_bytes += bytes;
        self.jobs.insert(id, Live::new(job, bytes));
        Ok(id)
    }

    pub(super) fn cancel(
        &mut self,
        id: JobId,
        reply: R::To<(bool, String)>,
        effects: &mut Effects<R>,
    ) {
        let told = |reply, done, text: String| Reply::Told(reply, (done, text));
        let Some(live) = self.jobs.get_mut(&id) else {
            effects.replies.push(told(reply, false, format!("Job {id} not found")));
            return;
        };
        match live.phase {
            Phase::Final => {
                let text = format!("Job {id} is already {}", live.job.status());
                effects.replies.push(told(reply, false, text));
            }
            Phase::Ready | Phase::Depends => {
                self.schedule.withdraw(id, live.job.priority(), live.reach, &live.gate);
                self.finish(id, OpEvent::Cancel, canceled(), effects);
                effects.replies.push(told(reply, true, format!("Dequeued job {id}")));
            }
            Phase::Started if live.irrevocable => {
                let place = live.job.current().unwrap_or_default();
                let behind = live.job.ops.len().saturating_sub(place + 1);
                live.canceling |= behind > 0;
                let text = match behind {
                    0 => format!(
                        "Job {id} has made its change and can no longer be canceled; it runs to its end"
                    ),
                    _ => format!(
                        "Job {id}: opcode {place} has made its change and runs to its end; the \
                         {behind} behind it will not begin"
                    ),
                };
                effects.replies.push(told(reply, behind > 0, text));
            }
            Phase::Started => {
                live.canceling = true;
                effects.interrupt.push(id);
                live.cancelers.push(reply);
            }
        }
    }

    /// Whether the opcode of a job that runs may change something: nobody canceled it before.
    pub fn may_change(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|live| live.irrevocable || !live.canceling)
    }

    /// The opcode of a job that runs changes something, and is not canceled from here on.
    pub fn note_change(&mut self, id: JobId) {
        if let Some(live) = self.jobs.get_mut(&id) {
            live.irrevocable = true;
        }
    }

    /// A job that has a worker ends with it; any other one is canceled.
    pub(super) fn kill(
        &mut self,
        id: JobId,
        reply: R::To<(bool, String)>,
        effects: &mut Effects<R>,
    ) {
        match self.jobs.get_mut(&id) {
            Some(live) if live.phase == Phase::Started => {
                // Nothing of it is to begin, should the opcode end by itself before it is killed.
                live.canceling = true;
                live.killers.push(reply);
                effects.kill.push(id);
            }
            _ => self.cancel(id, reply, effects),
        }
    }

    pub(super) fn change_priority(
        &mut self,
        id: JobId,
        priority: i32,
        effects: &mut Effects<R>,
    ) -> (bool, String) {
        let Some(live) = self.jobs.get_mut(&id) else {
            return (false, format!("Job {id} not found"));
        };
        if live.phase == Phase::Final {
            return (false, format!("Job {id} is finished"));
        }
        if live.phase == Phase::Ready {
            self.schedule.withdraw(id, live.job.priority(), live.reach, &live.gate);
        }
        let job = Arc::make_mut(&mut live.job);
        for op in job.ops.iter_mut().filter(|op| op.status < OpStatus::Running) {
            op.priority = priority;
        }
        if live.phase == Phase::Ready {
            self.schedule.ready(id, live.job.priority(), live.reach, &live.gate);
        }
        effects.reprioritize.push((id, priority));
        effects.change(&live.job, live.bytes);
        (
            true,
            format!("Priorities of pending opcodes for job {id} have been changed to {priority}"),
        )
    }

    pub(super) fn archive(&mut self, id: JobId, effects: &mut Effects<R>) -> bool {
        if self.jobs.get(&id).is_none_or(|live| live.phase != Phase::Final) {
            return false;
        }
        if let Some(live) = self.jobs.remove(&id) {
            self.live_bytes = self.live_bytes.saturating_sub(live.bytes);
            effects.archived.insert(id, live.job);
        }
        true
    }

    pub(super) fn auto_archive(
        &mut self,
        before: Option<Timestamp>,
        effects: &mut Effects<R>,
    ) -> AutoArchived {
        let old = |live: &Live<R>| {
            let end = live.job.end_timestamp;
            live.phase == Phase::Final && before.is_none_or(|t| end.is_none_or(|end| end < t))
        };
        let due: Vec<JobId> =
            self.jobs.iter().filter(|(_, live)| old(live)).map(|(&id, _)| id).collect();
        let left = due.len().saturating_sub(ARCHIVED_PER_COMMIT_MAX);
        let mut archived = 0;
        for id in due.into_iter().take(ARCHIVED_PER_COMMIT_MAX) {
            archived += u64::from(self.archive(id, effects));
        }
        AutoArchived { archived, left: u64::try_from(left).unwrap_or(u64::MAX) }
    }
}
