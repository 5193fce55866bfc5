//! Core: what workers report of running opcodes, and how jobs end.

use std::sync::Arc;

use model::job::{LogEntry, LogType};
use model::status::OpEvent;
use model::{Exception, JobId, JobStatus, OpStatus};
use serde_json::Value;

use super::{PRECEDING_FAILED, Phase, Queue, advance, canceled, end_op};
use crate::depend::named;
use crate::effects::Effects;
use crate::event::{Outcome, Replies, Reply};
use crate::limits::LOG_ENTRIES_PER_OP_MAX;
use crate::submit;

/// The bytes of a log entry besides its message.
const LOG_ENTRY_BYTES: usize = 64;
/// The last entry of a log that has grown too long.
const LOG_ENDED: &str = "Further messages of this opcode are dropped";
/// Characters that are kept of a failure too long to be kept.
const FAILURE_BEGIN: usize = 64;

impl<R: Replies> Queue<R> {
    pub(super) fn granted(&mut self, id: JobId, place: usize, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
        advance(op, OpEvent::Granted);
        op.exec_timestamp = Some(effects.now);
        effects.change(&live.job, live.bytes);
    }

    pub(super) fn log(
        &mut self,
        id: JobId,
        place: usize,
        (kind, message): (LogType, Value),
        effects: &mut Effects<R>,
    ) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        if live.log_ended == Some(place) {
            return;
        }
        let serial = live.job.log_serial() + 1;
        let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
        let bytes = submit::json_bytes(&message) + LOG_ENTRY_BYTES;
        let full = op.log.len() >= LOG_ENTRIES_PER_OP_MAX || live.bytes + bytes > self.bytes.logged;
        let (kind, message) = if full {
            live.log_ended = Some(place);
            (LogType::Message, Value::from(LOG_ENDED))
        } else {
            live.bytes += bytes;
            self.live_bytes += bytes;
            (kind, message)
        };
        op.log.push(Arc::new(LogEntry(serial, effects.now, kind, message)));
        effects.change(&live.job, live.bytes);
    }

    pub(super) fn withdrawn(&mut self, id: JobId, effects: &mut Effects<R>) {
        let Some(live) = self.jobs.get(&id).filter(|live| live.canceling) else { return };
        let op = live.job.current().and_then(|place| live.job.ops.get(place));
        if live.phase == Phase::Started && op.is_some_and(|op| op.status == OpStatus::Waiting) {
            self.finish(id, OpEvent::Cancel, canceled(), effects);
        }
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
                let bytes = submit::json_bytes(&result);
                if live.bytes + bytes > self.bytes.ended {
                    let why = format!(
                        "The opcode was carried out, but its result of {bytes} bytes does not fit \
                         the job's file"
                    );
                    let failure = Exception::exec(why).to_value();
                    return self.finish(id, OpEvent::Fail, failure, effects);
                }
                live.bytes += bytes;
                self.live_bytes += bytes;
                let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) else { return };
                end_op(op, OpEvent::Succeed, result, effects.now);
                effects.change(&live.job, live.bytes);
                if live.job.current().is_none() {
                    self.seal(id, effects);
                } else if live.canceling {
                    self.finish(id, OpEvent::Cancel, canceled(), effects);
                } else {
                    self.settle(id, effects);
                }
            }
            Outcome::Failure(failure) => {
                let mut result = failure.to_value();
                let bytes = submit::json_bytes(&result);
                if live.bytes + bytes > self.bytes.ended {
                    let begin: String = failure.to_string().chars().take(FAILURE_BEGIN).collect();
                    let why = format!("A failure of {bytes} bytes, which begins: {begin}");
                    result = Exception::exec(why).to_value();
                }
                if let Some(op) = Arc::make_mut(&mut live.job).ops.get_mut(place) {
                    op.code = failure.code();
                }
                self.finish(id, OpEvent::Fail, result, effects);
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
        let Some(place) = self.jobs.get(&id).and_then(|live| live.job.current()) else { return };
        if event == OpEvent::Cancel && place > 0 {
            let text = format!("Canceled; the opcodes before number {place} were carried out");
            self.log(id, place, (LogType::Message, Value::from(text)), effects);
        }
        let Some(live) = self.jobs.get_mut(&id) else { return };
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
        effects.change(&live.job, live.bytes);
        if live.phase == Phase::Started {
            self.schedule.ended(live.reach, &live.gate);
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
            effects.replies.push(Reply::Told(reply, (done, text)));
        }
        for reply in live.killers.drain(..) {
            let done = status != JobStatus::Success;
            let text = if done {
                format!("Job {id} killed")
            } else {
                format!("Job {id} ended as {status} before it could be killed")
            };
            effects.replies.push(Reply::Told(reply, (done, text)));
        }
        let on: Vec<JobId> = live.job.ops.iter().flat_map(|op| named(op.input.depends())).collect();
        self.dependencies.forget(id, on);
        self.woken.extend(self.dependencies.ended(id, status));
    }
}
