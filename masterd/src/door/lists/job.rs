//! Core: fields of jobs.

use std::sync::Arc;

use jobs::archive::LeftOut;
use luxi::query::{FieldDefinition, FieldKind, LEFT_OUT, Table};
use model::job::{Op, Wait};
use model::{Job, JobId, Timestamp, Word};
use serde::Serialize;

use crate::units::list::{Cell, CellStatus, Field, fields, json};

/// A job with where it was found.
#[derive(Debug, Clone)]
pub struct JobRow {
    pub job: Arc<Job>,
    pub archived: bool,
    /// Why it waits; none if nobody asked.
    pub waits: Option<Vec<Wait>>,
    /// Gives the name of a user.
    pub user_name: fn(u32) -> Arc<str>,
}

impl JobRow {
    /// A job of which nobody asked why it waits.
    pub fn new(job: Arc<Job>, archived: bool, user_name: fn(u32) -> Arc<str>) -> Self {
        Self { job, archived, waits: None, user_name }
    }
}

/// The field that tells why a job waits: finding out asks the queue, so it is only done when asked.
pub(crate) const WAITS_FOR: &str = "waits_for";

/// The field that tells whether a job is archived: those that are, are read only when it is named.
pub(crate) const ARCHIVED: &str = "archived";

/// The table with a row for each of the `wanted` jobs, as Ganeti has it: one that does not exist has
/// nothing but its id. `there` are those that have a row already; both are in order.
pub(crate) fn with_missing(table: Table, wanted: &[JobId], there: &[JobId]) -> Table {
    let Table { fields, data } = table;
    let missing = |id: JobId| {
        let cell = |field: &FieldDefinition| match field.kind {
            FieldKind::Unknown => Cell::without(CellStatus::Unknown),
            _ if field.name == "id" => Cell::normal(id.0),
            _ => Cell::without(CellStatus::Unavailable),
        };
        fields.iter().map(cell).collect()
    };
    let mut found = data.into_iter();
    let row = |id: &JobId| there.binary_search(id).ok().and_then(|_at| found.next());
    let rows: Vec<_> = wanted.iter().map(row).collect();
    let data = rows.into_iter().zip(wanted).map(|(row, id)| row.unwrap_or_else(|| missing(*id)));
    let data = data.collect();
    Table { fields, data }
}

/// Tells in the description of the field `archived`, which is all that an answer has room for, that
/// archived jobs are left out.
pub(crate) fn tell_left_out(table: &mut Table, LeftOut { count, newest }: LeftOut) {
    for field in table.fields.iter_mut().filter(|field| field.name == ARCHIVED) {
        let doc = &field.doc;
        field.doc =
            format!("{doc}. {LEFT_OUT}the {count} oldest archived jobs, up to number {newest}")
                .into();
    }
}

/// The table.
pub const FIELDS: &[Field<JobRow>] = fields! {
    "archived", "Archived", Bool, "Whether job is archived", |r| Cell::normal(r.archived);
    "end_ts", "End", Other, "When the job ended: seconds and microseconds",
        |r| time(r.job.end_timestamp);
    "id", "ID", Number, "Job ID", |r| Cell::normal(r.job.id.0);
    "opend", "OpCode_end", Other, "When each opcode ended", |r| each(r, |op| op.end_timestamp);
    "opexec", "OpCode_exec", Other, "When each opcode had its locks and ran",
        |r| each(r, |op| op.exec_timestamp);
    "oplog", "OpCode_log", Other, "What each opcode said", |r| each(r, |op| op.log.clone());
    "oppriority", "OpCode_prio", Other, "Priority of each opcode", |r| each(r, |op| op.priority);
    "opresult", "OpCode_result", Other, "Result of each opcode",
        |r| each(r, |op| op.result.clone());
    "ops", "OpCodes", Other, "The opcodes with their parameters",
        |r| each(r, |op| serde_json::to_value(op.input.as_ref()).unwrap_or_default());
    "opstart", "OpCode_start", Other, "When each opcode began to wait for locks",
        |r| each(r, |op| op.start_timestamp);
    "opstatus", "OpCode_status", Other, "Status of each opcode", |r| each(r, |op| op.status);
    "priority", "Priority", Number, "Current job priority (-20 to 19)",
        |r| Cell::normal(r.job.priority());
    "received_ts", "Received", Other, "When it was received: seconds, microseconds",
        |r| time(r.job.received_timestamp);
    "start_ts", "Start", Other, "When the job began: seconds and microseconds",
        |r| time(r.job.start_timestamp);
    "status", "Status", Text, "Job status", |r| Cell::normal(r.job.status().as_str());
    "summary", "Summary", Other, "What each opcode is about", |r| each(r, |op| op.input.summary());
    "waits_for", "WaitsFor", Other, "Why the job does not go on",
        |r| r.waits.as_ref().map_or(Cell::without(CellStatus::NoData), json);
    "owner", "Owner", Text, "User of the host or of the front door who submitted the job", owner;
    "tenant", "Tenant", Text, "The tenant as which that was asked",
        |r| Cell::optional(r.job.tenant().map(Word::as_str));
    "depends", "Depends", Other, "Jobs that it begins behind", |r| {
        let behind = r.job.ops.iter().flat_map(|op| op.input.depends());
        json(&behind.map(|dependency| &dependency.0).collect::<Vec<_>>())
    };
    "operror", "OpCode_error", Other, "Code of each opcode's error, for `gnt explain`",
        |r| each(r, |op| op.code);
};

/// A job of the front door belongs to the user who logged in there, not to the user of its process.
fn owner(row: &JobRow) -> Cell {
    match (&row.job.asker, row.job.submitter) {
        (Some(asker), _) => Cell::normal(asker.user.as_ref()),
        (None, Some(uid)) => Cell::normal((row.user_name)(uid).as_ref()),
        (None, None) => Cell::without(CellStatus::Unavailable),
    }
}

/// A moment, once it has come.
fn time(moment: Option<Timestamp>) -> Cell {
    moment.map_or(Cell::without(CellStatus::Unavailable), |moment| json(&moment))
}

fn each<T: Serialize>(row: &JobRow, value: impl Fn(&Op) -> T) -> Cell {
    json(&row.job.ops.iter().map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use model::asker::{Asker, Interface};

    use super::*;

    #[test]
    fn a_job_belongs_to_its_asker_rather_than_to_the_process_that_spoke_for_it() {
        let asker = Asker {
            user: "alice".into(),
            interface: Interface::Rest,
            host: None,
            address: None,
            tenant: None,
        };
        for (asker, submitter, expected) in [
            (Some(asker), Some(0), Cell::normal("alice")),
            (None, Some(1_000), Cell::normal("bob")),
            (None, None, Cell::without(CellStatus::Unavailable)),
        ] {
            let mut job = Job::new(JobId(7), [], Timestamp::default());
            (job.asker, job.submitter) = (asker.map(Arc::new), submitter);
            assert_eq!(owner(&JobRow::new(Arc::new(job), false, |_uid| "bob".into())), expected);
        }
    }

    #[test]
    fn who_is_named_has_a_row_and_what_is_left_out_is_told() {
        let wanted = ["id", "status", "moon", "archived"].map(str::to_owned);
        let job = Arc::new(Job::new(JobId(7), [], Timestamp::default()));
        let rows = [JobRow::new(job, false, |_uid| "".into())];
        let mut listing = crate::units::list::Listing::new(FIELDS, &wanted, None).unwrap();
        rows.iter().for_each(|row| listing.add(row));
        let table = listing.table();
        let mut table = with_missing(table, &[JobId(5), JobId(7), JobId(9)], &[JobId(7)]);
        let told = serde_json::to_string(&table.data).unwrap();
        assert_eq!(
            told,
            r#"[[[0,5],[3,null],[1,null],[3,null]],[[0,7],[0,"success"],[1,null],[0,false]],[[0,9],[3,null],[1,null],[3,null]]]"#
        );
        tell_left_out(&mut table, LeftOut { count: 3, newest: JobId(4) });
        let doc = &table.fields[3].doc;
        assert_eq!(
            doc.split_once(LEFT_OUT).unwrap().1,
            "the 3 oldest archived jobs, up to number 4"
        );
    }
}
