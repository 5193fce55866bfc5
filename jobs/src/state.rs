//! Core: the live jobs and what each event makes of them: `asked` is what clients ask for, `running`
//! what workers report, `ruled` what filter rules say, `waits` why jobs do not go on.
//!
//! The state here runs ahead of the disk by what is being committed. Nobody outside sees it: answers and
//! the published view wait for the commit. All commits are in one order, so whatever follows from a
//! change can never be durable without it.

mod asked;
mod ruled;
mod running;
mod waits;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::error::ExceptionKind;
use model::job::Op;
use model::opcode::Reach;
use model::status::OpEvent;
use model::{Exception, Job, JobId, JobStatus, Timestamp};
use serde_json::Value;

use crate::deduplication::{REQUESTS_REMEMBERED_MAX, Remembered, Requests};
use crate::depend::{Dependencies, Verdict};
use crate::effects::{Effects, Start};
use crate::event::{Event, Replies, Reply};
use crate::filter::{Rule, RuleMap, Rules};
use crate::limits::JobBytes;
use crate::schedule::Schedule;
use crate::schedule::rate_limit::{Gate, Limit, asked};
use crate::submit;

/// Why an opcode behind a failed one has failed.
pub const PRECEDING_FAILED: &str = "Preceding opcode failed";
/// The result that a canceled opcode keeps.
pub const CANCELED: &str = "Job canceled by request";

/// The queue: every job that is not archived.
#[derive(Debug)]
pub struct Queue<R: Replies> {
    jobs: BTreeMap<JobId, Live<R>>,
    schedule: Schedule,
    rules: Rules,
    dependencies: Dependencies,
    requests: Requests,
    bytes: JobBytes,
    /// Bytes of all jobs here.
    live_bytes: usize,
    /// Jobs whose last dependency ended in this turn. A list and no recursion: chains of dependent
    /// jobs may be as long as a submission.
    woken: Vec<JobId>,
    /// Jobs that a rule rejects and that have not been canceled yet.
    rejected: VecDeque<JobId>,
    /// Last job id that was given out.
    serial: u64,
    drained: bool,
}

#[derive(Debug)]
struct Live<R: Replies> {
    job: Arc<Job>,
    reach: Reach,
    phase: Phase,
    /// The filter rule that decides on it.
    rule: Option<Arc<Rule>>,
    /// Limits that it asks for by its reasons.
    asked: Vec<Limit>,
    /// The gate that it passes or passed, while it is in the schedule or runs.
    gate: Gate,
    /// Bytes of its file, roughly and rather too many.
    bytes: usize,
    /// The opcode whose log has been ended.
    log_ended: Option<usize>,
    /// Asked to end; carried out when its worker reports.
    canceling: bool,
    /// The opcode that runs has changed something: it is carried out, and not canceled.
    irrevocable: bool,
    /// Told when the job has ended.
    cancelers: Vec<R::To<(bool, String)>>,
    /// Told when a job that was killed has ended.
    killers: Vec<R::To<(bool, String)>>,
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

impl<R: Replies> Queue<R> {
    /// A queue with the jobs that a store held, after [`super::recover`].
    pub fn new(
        jobs: impl IntoIterator<Item = Arc<Job>>,
        serial: u64,
        drained: bool,
        running_max: u32,
        bytes: JobBytes,
    ) -> Self {
        let mut queue = Self {
            jobs: BTreeMap::new(),
            schedule: Schedule::new(running_max),
            rules: Rules::default(),
            dependencies: Dependencies::default(),
            requests: Requests::new(REQUESTS_REMEMBERED_MAX),
            bytes,
            live_bytes: 0,
            woken: Vec::new(),
            rejected: VecDeque::new(),
            serial,
            drained,
        };
        for job in jobs {
            queue.serial = queue.serial.max(job.id.0);
            let bytes = submit::stored_bytes(&job);
            queue.live_bytes += bytes;
            queue.jobs.insert(job.id, Live::new(job, bytes));
        }
        queue
    }

    /// The same queue with the filter rules that a store held.
    pub fn with_rules(mut self, rules: RuleMap) -> Self {
        self.rules.set(rules);
        self
    }

    /// Takes up what stored jobs say of the requests that they came of; once, before the first
    /// event.
    pub fn recall(&mut self, mut found: Vec<Remembered>) {
        found.sort_unstable_by_key(|found| found.job);
        for found in found {
            self.requests.note(found);
        }
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
            self.judge(id);
        }
        for id in ids {
            if self.jobs.get(&id).is_some_and(|live| live.rejection().is_some()) {
                self.rejected.push_back(id);
            } else {
                self.settle(id, effects);
            }
        }
        self.reject_some(effects);
        self.go_on(effects);
    }

    /// Whether new jobs are refused.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Last job id that was given out.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Jobs that run, on the master alone and with agents.
    pub fn running(&self) -> (usize, usize) {
        self.schedule.running()
    }

    /// Takes one event.
    pub fn handle(&mut self, event: Event<R>, now: Timestamp, effects: &mut Effects<R>) {
        effects.now = now;
        match event {
            Event::Submit { jobs, to_drained, archived, reply } => {
                let answer = self.submit(jobs, to_drained, &archived, effects);
                effects.replies.push(Reply::Submitted(reply, answer));
            }
            Event::Cancel { job, reply } => self.cancel(job, reply, effects),
            Event::Kill { job, reply } => self.kill(job, reply, effects),
            Event::ChangePriority { job, priority, reply } => {
                let (done, text) = self.change_priority(job, priority, effects);
                effects.replies.push(Reply::Told(reply, (done, text)));
            }
            Event::Archive { job, reply } => {
                let done = self.archive(job, effects);
                effects.replies.push(Reply::Done(reply, done));
            }
            Event::AutoArchive { before, reply } => {
                let answer = self.auto_archive(before, effects);
                effects.replies.push(Reply::AutoArchived(reply, answer));
            }
            Event::SetDrained { drained, reply } => {
                if self.drained != drained {
                    self.drained = drained;
                    effects.drained = Some(drained);
                }
                effects.replies.push(Reply::Visible(reply));
            }
            Event::SetRunningMax(max) => self.schedule.set_running_max(max),
            Event::SetRules(rules) => self.set_rules(rules, effects),
            Event::RejectMore => self.reject_some(effects),
            Event::Granted { job, op, durable } => {
                self.granted(job, op, effects);
                effects.replies.extend(durable.map(Reply::Visible));
            }
            Event::NoReturn { job, reply } => {
                let may = self.may_change(job);
                if may {
                    self.note_change(job);
                }
                effects.replies.push(Reply::Done(reply, may));
            }
            Event::Log { job, op, kind, message, visible } => {
                self.log(job, op, (kind, message), effects);
                effects.replies.extend(visible.map(Reply::Visible));
            }
            Event::Withdrawn { job } => self.withdrawn(job, effects),
            Event::Ended { job, op, outcome } => self.ended(job, op, outcome, effects),
        }
        self.go_on(effects);
    }

    fn note_dependencies(&mut self, id: JobId, archived: impl Fn(JobId) -> Option<JobStatus>) {
        let Some(live) = self.jobs.get(&id) else { return };
        if live.phase == Phase::Final {
            return;
        }
        let job = Arc::clone(&live.job);
        let jobs = &self.jobs;
        let status = |id| jobs.get(&id).map(|live| live.job.status()).or_else(|| archived(id));
        self.dependencies.add(id, job.ops.iter().map(|op| op.input.depends()), status);
    }

    /// Puts a job whose next opcode is queued where it belongs: into the schedule, or behind the
    /// jobs that it depends on.
    fn settle(&mut self, id: JobId, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        if let Some(why) = live.rejection() {
            return self.finish(id, OpEvent::Cancel, why, effects);
        }
        let Some(op) = live.job.current().and_then(|place| live.job.ops.get(place)) else { return };
        match self.dependencies.verdict(id, op.input.depends()) {
            Verdict::Met if live.phase == Phase::Started => self.start(id, effects),
            Verdict::Met => {
                live.phase = Phase::Ready;
                live.gate = live.next_gate();
                self.schedule.ready(id, live.job.priority(), live.reach, &live.gate);
            }
            Verdict::Wait => {
                if live.phase == Phase::Started {
                    self.schedule.ended(live.reach, &live.gate);
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

    /// Settles what was woken, and starts what can start, until nothing follows any more.
    fn go_on(&mut self, effects: &mut Effects<R>) {
        loop {
            while let Some(id) = self.woken.pop() {
                if self.jobs.get(&id).is_some_and(|live| live.phase == Phase::Depends) {
                    self.settle(id, effects);
                }
            }
            self.start_ready(effects);
            if self.woken.is_empty() {
                return;
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
        live.irrevocable = false;
        if live.job.ops.get(place).is_some_and(|op| op.input.known().is_none()) {
            let failure =
                Exception::new(ExceptionKind::OpCodeUnknown, "This version knows no such opcode");
            return self.finish(id, OpEvent::Fail, failure.to_value(), effects);
        }
        let job = Arc::make_mut(&mut live.job);
        job.start_timestamp.get_or_insert(effects.now);
        let asker = job.asker.clone();
        let op = job.ops.get_mut(place).expect("`current` gives a place in the job");
        advance(op, OpEvent::Start);
        op.start_timestamp = Some(effects.now);
        effects.start.push(Start::new(id, place, op, asker));
        effects.change(&live.job, live.bytes);
    }
}

impl<R: Replies> Live<R> {
    fn new(job: Arc<Job>, bytes: usize) -> Self {
        let far = job.ops.iter().any(|op| op.input.reach() == Reach::Agents);
        Self {
            phase: if job.current().is_none() { Phase::Final } else { Phase::Depends },
            reach: if far { Reach::Agents } else { Reach::Master },
            rule: None,
            asked: asked(&job),
            gate: Gate::Open,
            bytes,
            log_ended: None,
            canceling: false,
            irrevocable: false,
            cancelers: Vec::new(),
            killers: Vec::new(),
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
