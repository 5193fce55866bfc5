//! Fields of jobs.

use std::sync::Arc;

use luxi::query::CellStatus;
use model::Job;
use model::job::Op;
use serde::Serialize;

use super::{Cell, Field, field, json};
use crate::users;

/// A job with where it was found.
#[derive(Debug, Clone)]
pub struct JobRow {
    /// The job.
    pub job: Arc<Job>,
    /// Whether it is archived.
    pub archived: bool,
}

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
    field!("owner", "Owner", Text, "User who submitted the job", |r| match r.job.submitter {
        Some(uid) => Cell::normal(users::name(uid).as_ref()),
        None => Cell::without(CellStatus::Unavailable),
    }),
];

fn each<T: Serialize>(row: &JobRow, value: impl Fn(&Op) -> T) -> Cell {
    json(&row.job.ops.iter().map(value).collect::<Vec<_>>())
}
