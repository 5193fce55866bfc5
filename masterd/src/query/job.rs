//! Core: fields of jobs.

use std::sync::Arc;

use model::Job;
use model::job::{Op, Wait};
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
}

impl JobRow {
    /// A job of which nobody asked why it waits.
    #[must_use]
    pub fn new(job: Arc<Job>, archived: bool) -> Self {
        Self { job, archived, waits: None }
    }
}

/// The field that tells why a job waits: finding out asks the queue, so it is only done when asked.
pub const WAITS_FOR: &str = "waits_for";

/// The table.
pub const FIELDS: &[Field<JobRow>] = &[
    field!("id", "ID", Number, "Job ID", |r| Cell::normal(r.job.id.0)),
    field!("status", "Status", Text, "Job status", |r| Cell::normal(r.job.status().as_str())),
    field!("priority", "Priority", Number, "Current job priority (-20 to 19)", |r| {
        Cell::normal(r.job.priority())
    }),
    field!("archived", "Archived", Bool, "Whether job is archived", |r| Cell::normal(r.archived)),
    field!("ops", "OpCodes", Other, "List of all opcodes", |r| {
        each(r, |op| serde_json::to_value(op.input.as_ref()).unwrap_or_default())
    }),
    field!("opresult", "OpCode_result", Other, "List of opcodes results", |r| {
        each(r, |op| op.result.clone())
    }),
    field!("opstatus", "OpCode_status", Other, "List of opcodes status", |r| {
        each(r, |op| op.status)
    }),
    field!("oplog", "OpCode_log", Other, "List of opcode output logs", |r| {
        each(r, |op| op.log.clone())
    }),
    field!(
        "opstart",
        "OpCode_start",
        Other,
        "List of opcode start timestamps (before acquiring locks)",
        |r| { each(r, |op| op.start_timestamp) }
    ),
    field!(
        "opexec",
        "OpCode_exec",
        Other,
        "List of opcode execution start timestamps (after acquiring locks)",
        |r| { each(r, |op| op.exec_timestamp) }
    ),
    field!("opend", "OpCode_end", Other, "List of opcode execution end timestamps", |r| {
        each(r, |op| op.end_timestamp)
    }),
    field!("oppriority", "OpCode_prio", Other, "List of opcode priorities", |r| {
        each(r, |op| op.priority)
    }),
    field!("summary", "Summary", Other, "List of per-opcode summaries", |r| {
        each(r, |op| op.input.summary())
    }),
    field!("received_ts", "Received", Timestamp, "Timestamp of when job was received", |r| {
        json(&r.job.received_timestamp)
    }),
    field!("start_ts", "Start", Timestamp, "Timestamp of job start", |r| {
        json(&r.job.start_timestamp)
    }),
    field!("end_ts", "End", Timestamp, "Timestamp of job end", |r| json(&r.job.end_timestamp)),
    field!("waits_for", "WaitsFor", Other, "Why the job does not go on", |r| {
        r.waits.as_ref().map_or(Cell::without(CellStatus::NoData), json)
    }),
];

fn each<T: Serialize>(row: &JobRow, value: impl Fn(&Op) -> T) -> Cell {
    json(&row.job.ops.iter().map(value).collect::<Vec<_>>())
}
