//! Core: the live jobs and what each event makes of them.
//!
//! The state here runs ahead of the disk by what is being committed. Nobody outside sees it:
//! answers and the published view wait for the commit, and all commits are in one order, so
//! whatever follows from a change can never be durable without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::error::ExceptionKind;
use model::job::{LogEntry, LogType, Op, OpEvent, OpStatus};
use model::opcode::{Input, Reach};
use model::{Exception, Job, JobId, JobStatus, OpInput, Timestamp};
use serde_json::Value;

use super::depend::{Dependencies, Verdict, named};
use super::schedule::Schedule;
use super::{
    ARCHIVED_PER_COMMIT_MAX, Answer, Effects, Event, LIVE_JOBS_MAX, LOG_ENTRIES_PER_OP_MAX,
    Outcome, Start, submit,
};

/// Why an opcode behind a failed one has failed.
pub const PRECEDING_FAILED: &str = "Preceding opcode failed";
/// What a canceled opcode keeps as its result.
pub const CANCELED: &str = "Job canceled by request";

/// The queue: every job that is not archived.
#[derive(Debug)]
pub struct Queue<R> {
    jobs: BTreeMap<JobId, Live<R>>,
    schedule: Schedule,
    dependencies: Dependencies,
    /// Last job id that was given out.
    serial: u64,
    drained: bool,
}

#[derive(Debug)]
struct Live<R> {
    job: Arc<Job>,
    reach: Reach,
    phase: Phase,
    /// Asked to end; carried out when its worker reports.
    canceling: bool,
    /// Told when a job that was waiting for locks has left.
    cancelers: Vec<R>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for other jobs.
    Depends,
    /// In the schedule.
    Ready,
    /// Has a worker, or is between two opcodes.
    Started,
    /// Nothing can happen to it.
    Final,
}

impl<R> Queue<R> {
    /// A queue with the jobs that a store held, after [`super::recover`].
    #[must_use]
    pub fn new(
        jobs: impl IntoIterator<Item = Arc<Job>>,
        serial: u64,
        drained: bool,
        running_max: u32,
    ) -> Self {
        let mut queue = Self {
            jobs: BTreeMap::new(),
            schedule: Schedule::new(running_max),
            dependencies: Dependencies::default(),
            serial,
            drained,
        };
        for job in jobs {
            queue.serial = queue.serial.max(job.id.0);
            queue.jobs.insert(job.id, Live::new(job));
        }
        queue
    }

    /// Puts the jobs that a store held to work; once, before the first event.
    pub fn begin(
        &mut self,
        archived: impl Fn(JobId) -> Option<JobStatus>,
        now: Timestamp,
        effects: &mut Effects<R>,
    ) {
        effects.now = now;
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for &id in &ids {
            self.note_dependencies(id, &archived);
        }
        for id in ids {
            self.settle(id, effects);
        }
        self.start_ready(effects);
    }

    /// Whether new jobs are refused.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Last job id that was given out.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Jobs that run, on the master alone and with agents.
    #[must_use]
    pub fn running(&self) -> (usize, usize) {
        self.schedule.running()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event<R>, now: Timestamp, effects: &mut Effects<R>) {
        effects.now = now;
        match event {
            Event::Submit { jobs, to_drained, archived, reply } => {
                let taken = jobs.len();
                let mut batch: Vec<Option<JobId>> = Vec::with_capacity(taken);
                let mut answers = Vec::with_capacity(taken);
                for ops in jobs {
                    let answer = self.accept(ops, to_drained, &batch, effects);
                    batch.push(answer.as_ref().ok().copied());
                    answers.push(answer);
                }
                for &id in batch.iter().flatten() {
                    self.note_dependencies(id, |id| archived.get(&id).copied());
                    self.settle(id, effects);
                }
                effects.replies.push((reply, Answer::Submitted(answers)));
            }
            Event::Cancel { job, reply } => self.cancel(job, reply, effects),
            Event::ChangePriority { job, priority, reply } => {
                let (done, text) = self.change_priority(job, priority, effects);
                effects.replies.push((reply, Answer::Told(done, text)));
            }
            Event::Archive { job, reply } => {
                let done = self.archive(job, effects);
                effects.replies.push((reply, Answer::Archived(done)));
            }
            Event::AutoArchive { before, reply } => {
                let (archived, left) = self.auto_archive(before, effects);
                effects.replies.push((reply, Answer::AutoArchived(archived, left)));
            }
            Event::SetDrained { drained, reply } => {
                if self.drained != drained {
                    self.drained = drained;
                    effects.drained = Some(drained);
                }
                effects.replies.push((reply, Answer::Archived(true)));
            }
            Event::SetRunningMax(max) => self.schedule.set_running_max(max),
            Event::Granted { job, op, durable } => {
                self.granted(job, op, effects);
                effects.replies.extend(durable.map(|r| (r, Answer::Visible)));
            }
            Event::Log { job, op, kind, message, visible } => {
                self.log(job, op, (kind, message), effects);
                effects.replies.extend(visible.map(|r| (r, Answer::Visible)));
            }
            Event::Ended { job, op, outcome } => self.ended(job, op, outcome, effects),
        }
        self.start_ready(effects);
    }

    fn accept(
        &mut self,
        mut ops: Vec<OpInput>,
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
        if self.jobs.len() >= LIVE_JOBS_MAX {
            return Err(Exception { kind: ExceptionKind::JobQueueFull, args: Vec::new() });
        }
        submit::resolve_dependencies(&mut ops, batch, self.serial)?;
        self.serial += 1;
        effects.serial = Some(self.serial);
        let id = JobId(self.serial);
        submit::add_reason(&mut ops, id, effects.now);
        let inputs = ops.into_iter().map(|op| Arc::new(Input::Known(Box::new(op))));
        let job = Arc::new(Job::new(id, inputs, effects.now));
        effects.changed.insert(id, Arc::clone(&job));
        self.jobs.insert(id, Live::new(job));
        Ok(id)
    }

    fn note_dependencies(&mut self, id: JobId, archived: impl Fn(JobId) -> Option<JobStatus>) {
        let Some(live) = self.jobs.get(&id) else { return };
        if live.phase == Phase::Final {
            return;
        }
        let on: Vec<JobId> = live.job.ops.iter().flat_map(|op| named(op.input.depends())).collect();
        if on.is_empty() {
            return;
        }
        let jobs = &self.jobs;
        let status = |id| jobs.get(&id).map(|live| live.job.status()).or_else(|| archived(id));
        self.dependencies.add(id, on, status);
    }

    /// Puts a job whose next opcode is queued where it belongs: into the schedule, or behind the
    /// jobs that it depends on.
    fn settle(&mut self, id: JobId, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(op) = live.job.current().and_then(|place| live.job.ops.get(place)) else { return };
        match self.dependencies.verdict(op.input.depends()) {
            Verdict::Met if live.phase == Phase::Started => self.start(id, effects),
            Verdict::Met => {
                live.phase = Phase::Ready;
                self.schedule.ready(id, live.job.priority(), live.reach);
            }
            Verdict::Wait => {
                if live.phase == Phase::Started {
                    self.schedule.ended(live.reach);
                }
                live.phase = Phase::Depends;
            }
            Verdict::Cancel => self.finish(id, OpEvent::Cancel, canceled(), effects),
            Verdict::Fail(why) => {
                let failure = Exception::exec(why).to_value();
                self.finish(id, OpEvent::Fail, failure, effects);
            }
        }
    }

    fn start_ready(&mut self, effects: &mut Effects<R>) {
        while let Some(id) = self.schedule.start_next() {
            if let Some(live) = self.jobs.get_mut(&id) {
                live.phase = Phase::Started;
            }
            self.start(id, effects);
        }
    }

    fn start(&mut self, id: JobId, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(place) = live.job.current() else { return };
        if live.job.ops.get(place).is_some_and(|op| op.input.known().is_none()) {
            let failure =
                Exception::new(ExceptionKind::OpCodeUnknown, "This version knows no such opcode");
            return self.finish(id, OpEvent::Fail, failure.to_value(), effects);
        }
        let job = Arc::make_mut(&mut live.job);
        job.start_timestamp.get_or_insert(effects.now);
        let op = job.ops.get_mut(place).expect("`current` gives a place in the job");
        advance(op, OpEvent::Start);
        op.start_timestamp = Some(effects.now);
        effects.start.push(Start::new(id, place, op));
        effects.changed.insert(id, Arc::clone(&live.job));
    }

    fn granted(&mut self, id: JobId, place: usize, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
        advance(op, OpEvent::Granted);
        op.exec_timestamp = Some(effects.now);
        effects.changed.insert(id, Arc::clone(&live.job));
    }

    fn log(
        &mut self,
        id: JobId,
        place: usize,
        (kind, message): (LogType, Value),
        effects: &mut Effects<R>,
    ) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let serial = live.job.log_serial() + 1;
        let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
        let message = match op.log.len() {
            n if n < LOG_ENTRIES_PER_OP_MAX => message,
            LOG_ENTRIES_PER_OP_MAX => Value::from("Further messages of this opcode are dropped"),
            _ => return,
        };
        op.log.push(Arc::new(LogEntry(serial, effects.now, kind, message)));
        effects.changed.insert(id, Arc::clone(&live.job));
    }

    fn ended(&mut self, id: JobId, place: usize, outcome: Outcome, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        match outcome {
            Outcome::Success(result) => {
                let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
                end_op(op, OpEvent::Succeed, result, effects.now);
                effects.changed.insert(id, Arc::clone(&live.job));
                if live.job.current().is_none() {
                    self.seal(id, effects);
                } else if live.canceling {
                    self.finish(id, OpEvent::Cancel, canceled(), effects);
                } else {
                    self.settle(id, effects);
                }
            }
            Outcome::Failure(failure) => {
                self.finish(id, OpEvent::Fail, failure.to_value(), effects);
            }
            Outcome::Canceled => self.finish(id, OpEvent::Cancel, canceled(), effects),
        }
    }

    /// Ends the current opcode with `event` and all behind it with what follows from that.
    fn finish(&mut self, id: JobId, event: OpEvent, result: Value, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(place) = live.job.current() else { return };
        let follows = match event {
            OpEvent::Cancel => result.clone(),
            _ => Exception::exec(PRECEDING_FAILED).to_value(),
        };
        let job = Arc::make_mut(&mut live.job);
        for (index, op) in job.ops.iter_mut().enumerate().skip(place) {
            end_op(
                op,
                event,
                if index == place { result.clone() } else { follows.clone() },
                effects.now,
            );
        }
        self.seal(id, effects);
    }

    /// A job whose opcodes have all ended leaves schedule and dependencies.
    fn seal(&mut self, id: JobId, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        Arc::make_mut(&mut live.job).end_timestamp = Some(effects.now);
        effects.changed.insert(id, Arc::clone(&live.job));
        if live.phase == Phase::Started {
            self.schedule.ended(live.reach);
        }
        live.phase = Phase::Final;
        let status = live.job.status();
        for reply in live.cancelers.drain(..) {
            let done = status == JobStatus::Canceled;
            let text = if done {
                format!("Job {id} canceled")
            } else {
                format!("Job {id} ended as {status} before it could be canceled")
            };
            effects.replies.push((reply, Answer::Told(done, text)));
        }
        let on: Vec<JobId> = live.job.ops.iter().flat_map(|op| named(op.input.depends())).collect();
        self.dependencies.forget(id, on);
        for waiter in self.dependencies.ended(id, status) {
            if self.jobs.get(&waiter).is_some_and(|live| live.phase == Phase::Depends) {
                self.settle(waiter, effects);
            }
        }
    }

    fn cancel(&mut self, id: JobId, reply: R, effects: &mut Effects<R>) {
        let told = |done, text: String| Answer::Told(done, text);
        let Some(live) = self.jobs.get_mut(&id) else {
            effects.replies.push((reply, told(false, format!("Job {id} not found"))));
            return;
        };
        match live.phase {
            Phase::Final => {
                let text = format!("Job {id} is already {}", live.job.status());
                effects.replies.push((reply, told(false, text)));
            }
            Phase::Ready | Phase::Depends => {
                self.schedule.withdraw(id, live.job.priority(), live.reach);
                self.finish(id, OpEvent::Cancel, canceled(), effects);
                effects.replies.push((reply, told(true, format!("Dequeued job {id}"))));
            }
            Phase::Started => {
                live.canceling = true;
                effects.interrupt.push(id);
                let place = live.job.current();
                let op = place.and_then(|place| live.job.ops.get(place));
                if op.is_some_and(|op| op.status == OpStatus::Waiting) {
                    live.cancelers.push(reply);
                } else {
                    let text =
                        format!("Job {id} is running; it will be canceled at its next safe point");
                    effects.replies.push((reply, told(true, text)));
                }
            }
        }
    }

    fn change_priority(
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
            self.schedule.withdraw(id, live.job.priority(), live.reach);
        }
        let job = Arc::make_mut(&mut live.job);
        for op in job.ops.iter_mut().filter(|op| op.status < OpStatus::Running) {
            op.priority = priority;
        }
        if live.phase == Phase::Ready {
            self.schedule.ready(id, live.job.priority(), live.reach);
        }
        effects.reprioritize.push((id, priority));
        effects.changed.insert(id, Arc::clone(&live.job));
        (
            true,
            format!("Priorities of pending opcodes for job {id} have been changed to {priority}"),
        )
    }

    fn archive(&mut self, id: JobId, effects: &mut Effects<R>) -> bool {
        if self.jobs.get(&id).is_none_or(|live| live.phase != Phase::Final) {
            return false;
        }
        if let Some(live) = self.jobs.remove(&id) {
            effects.archived.insert(id, live.job);
        }
        true
    }

    fn auto_archive(&mut self, before: Option<Timestamp>, effects: &mut Effects<R>) -> (u64, u64) {
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
        (archived, u64::try_from(left).unwrap_or(u64::MAX))
    }
}

impl<R> Live<R> {
    fn new(job: Arc<Job>) -> Self {
        let far = job.ops.iter().any(|op| op.input.reach() == Reach::Agents);
        Self {
            phase: if job.current().is_none() { Phase::Final } else { Phase::Depends },
            reach: if far { Reach::Agents } else { Reach::Master },
            canceling: false,
            cancelers: Vec::new(),
            job,
        }
    }
}

fn canceled() -> Value {
    Value::from(CANCELED)
}

/// Ends an opcode with its result.
pub(super) fn end_op(op: &mut Op, event: OpEvent, result: Value, now: Timestamp) {
    advance(op, event);
    op.result = result;
    op.end_timestamp = Some(now);
}

/// A transition that does not exist is a bug of ours, and going on would spread it to the disk.
fn advance(op: &mut Op, event: OpEvent) {
    op.status = op.status.next(event).expect("the queue drives opcodes along their table");
}

#[cfg(test)]
mod tests;
