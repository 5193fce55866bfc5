//! A trivial job: it asks for nothing, and says when it was asked for, as every client's does.

use std::sync::Arc;

use model::OpStatus;
use model::job::RequestDigest;
use model::opcode::common::ReasonEntry;
use model::opcode::{Input, OpCode, TestDelay};
use model::{Job, JobId, OpInput, Timestamp};

/// Nanoseconds of the first request.
const ASKED_AT: i64 = 1_700_000_000_000_000_001;
/// Who asks.
pub(crate) const UID: u32 = 1_000;

/// The opcode of request `number`.
pub(crate) fn op(number: u64) -> OpInput {
    let mut input = OpInput::new(OpCode::TestDelay(TestDelay::on_master(0.0)));
    let at = ASKED_AT + i64::try_from(number).expect("a small number");
    input.common.reason.push(ReasonEntry("gnt:client:gnt-debug".into(), "delay".into(), at));
    input
}

pub(crate) fn digest(number: u64) -> RequestDigest {
    RequestDigest::of("SubmitJob", UID, &number.to_le_bytes())
}

/// A moment, `number` milliseconds behind the first.
pub(crate) fn moment(number: u64) -> Timestamp {
    let micros = ASKED_AT / 1_000 + i64::try_from(number).expect("a small number") * 1_000;
    Timestamp::from_micros(micros)
}

/// A job that has succeeded.
pub(crate) fn ended(id: u64) -> Arc<Job> {
    let input = Arc::new(Input::Known(Box::new(op(id))));
    let mut job = Job::new(JobId(id), [input], moment(id));
    job.start_timestamp = Some(moment(id));
    job.end_timestamp = Some(moment(id + 1));
    job.submitter = Some(UID);
    job.request = Some(digest(id).at(0));
    for op in &mut job.ops {
        op.status = OpStatus::Success;
        op.start_timestamp = Some(moment(id));
        op.exec_timestamp = Some(moment(id));
        op.end_timestamp = Some(moment(id + 1));
    }
    Arc::new(job)
}
