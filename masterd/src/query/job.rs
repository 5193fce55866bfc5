//! Core: fields of jobs.

use std::sync::Arc;

use model::job::{Op, Wait};
use model::{Job, Timestamp};
use serde::Serialize;

use super::{Cell, CellStatus, Field, field, json};

/// A job with where it was found.
#[derive(Debug, Clone)]
pub struct JobRow {
    /// The job.
    pub job: Arc<Job>,
    /// Whether it is archived.
    pub archived: bool,
    /// Why it waits; none if nobody asked.
    pub waits: Option<Vec<Wait>>,
    /// Gives the name of a user.
    pub user_name: fn(u32) -> Arc<str>,
}

impl JobRow {
    /// A job of which nobody asked why it waits.
    #[must_use]
    pub fn new(job: Arc<Job>, archived: bool, user_name: fn(u32) -> Arc<str>) -> Self {
        Self { job, archived, waits: None, user_name }
    }
}

/// The field that tells why a job waits: finding out asks the queue, so it is only done when asked.
pub const WAITS_FOR: &str = "waits_for";

/// The table.
pub const FIELDS: &[Field<JobRow>] = &[
    field!("archived", "Archived", Bool, "Whether job is archived", |r| Cell::normal(r.archived)),
    field!("end_ts", "End", Other, "When the job ended: seconds and microseconds", |r| {
        time(r.job.end_timestamp)
    }),
    field!("id", "ID", Number, "Job ID", |r| Cell::normal(r.job.id.0)),
    field!("opend", "OpCode_end", Other, "When each opcode ended", |r| {
        each(r, |op| op.end_timestamp)
    }),
    field!("opexec", "OpCode_exec", Other, "When each opcode had its locks and ran", |r| {
        each(r, |op| op.exec_timestamp)
    }),
    field!("oplog", "OpCode_log", Other, "What each opcode said", |r| {
        each(r, |op| op.log.clone())
    }),
    field!("oppriority", "OpCode_prio", Other, "Priority of each opcode", |r| {
        each(r, |op| op.priority)
    }),
    field!("opresult", "OpCode_result", Other, "Result of each opcode", |r| {
        each(r, |op| op.result.clone())
    }),
    field!("ops", "OpCodes", Other, "The opcodes with their parameters", |r| {
        each(r, |op| serde_json::to_value(op.input.as_ref()).unwrap_or_default())
    }),
    field!("opstart", "OpCode_start", Other, "When each opcode began to wait for locks", |r| {
        each(r, |op| op.start_timestamp)
    }),
    field!("opstatus", "OpCode_status", Other, "Status of each opcode", |r| {
        each(r, |op| op.status)
    }),
    field!("priority", "Priority", Number, "Current job priority (-20 to 19)", |r| {
        Cell::normal(r.job.priority())
    }),
    field!("received_ts", "Received", Other, "When it was received: seconds, microseconds", |r| {
        time(r.job.received_timestamp)
    }),
    field!("start_ts", "Start", Other, "When the job began: seconds and microseconds", |r| {
        time(r.job.start_timestamp)
    }),
    field!("status", "Status", Text, "Job status", |r| Cell::normal(r.job.status().as_str())),
    field!("summary", "Summary", Other, "What each opcode is about", |r| {
        each(r, |op| op.input.summary())
    }),
    field!("waits_for", "WaitsFor", Other, "Why the job does not go on", |r| {
        r.waits.as_ref().map_or(Cell::without(CellStatus::NoData), json)
    }),
    field!("owner", "Owner", Text, "User who submitted the job", |r| match r.job.submitter {
        Some(uid) => Cell::normal((r.user_name)(uid).as_ref()),
        None => Cell::without(CellStatus::Unavailable),
    }),
];

/// A moment, once it has come.
fn time(moment: Option<Timestamp>) -> Cell {
    moment.map_or(Cell::without(CellStatus::Unavailable), |moment| json(&moment))
}

fn each<T: Serialize>(row: &JobRow, value: impl Fn(&Op) -> T) -> Cell {
    json(&row.job.ops.iter().map(value).collect::<Vec<_>>())
}
