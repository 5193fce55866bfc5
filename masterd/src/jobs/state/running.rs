//! Core: what workers report of running opcodes, and how jobs end.

use std::sync::Arc;

use model::job::{LogEntry, LogType, OpEvent};
use model::{Exception, JobId, JobStatus};
use serde_json::Value;

use super::{PRECEDING_FAILED, Phase, Queue, advance, canceled, end_op};
use crate::jobs::depend::named;
use crate::jobs::{Answer, Effects, LOG_ENTRIES_PER_OP_MAX, Outcome};

impl<R> Queue<R> {
    pub(super) fn granted(&mut self, id: JobId, place: usize, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
        advance(op, OpEvent::Granted);
        op.exec_timestamp = Some(effects.now);
        effects.changed.insert(id, Arc::clone(&live.job));
    }

    pub(super) fn log(
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

    pub(super) fn ended(
        &mut self,
        id: JobId,
        place: usize,
        outcome: Outcome,
        effects: &mut Effects<R>,
    ) {
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
    pub(super) fn finish(
        &mut self,
        id: JobId,
        event: OpEvent,
        result: Value,
        effects: &mut Effects<R>,
    ) {
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
        self.woken.extend(self.dependencies.ended(id, status));
    }
}
