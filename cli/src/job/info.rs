//! `gnt job info`.

use luxi::method::QueryJobs;
use model::JobId;
use model::opcode::ReasonEntry;
use serde_json::Value;

use crate::cells;
use crate::error::CliError;
use crate::follow::message;
use crate::outline::Outline;
use crate::session::{Session, say, warn};

/// What is asked, in this order.
const FIELDS: [&str; 12] = [
    "id",
    "status",
    "received_ts",
    "start_ts",
    "end_ts",
    "ops",
    "opstatus",
    "opresult",
    "opstart",
    "opexec",
    "opend",
    "oplog",
];

/// Parameters that every opcode has and that say nothing when they are as usual.
const USUAL: [(&str, &str); 6] = [
    ("dry_run", "false"),
    ("debug_level", "0"),
    ("depends", "null"),
    ("comment", "null"),
    ("OP_ID", ""),
    ("reason", ""),
];

/// Prints all about the jobs.
pub(super) fn run(ids: &[JobId], session: &Session) -> Result<(), CliError> {
    let question = QueryJobs { job_ids: Some(ids.to_vec()), fields: FIELDS.into() };
    let jobs = session.ask(&question)?;
    let mut all_found = true;
    for (id, job) in ids.iter().zip(jobs) {
        match job.filter(|job| job.get(1).is_some_and(Value::is_string)) {
            Some(job) => say(describe(&Job(job)))?,
            None => {
                warn(format_args!("Job ID {id} not found"))?;
                all_found = false;
            }
        }
    }
    if all_found { Ok(()) } else { Err(CliError::Told) }
}

/// A row of [`FIELDS`].
struct Job(Vec<Value>);

impl Job {
    fn get(&self, field: &str) -> &Value {
        let at = FIELDS.iter().position(|name| *name == field);
        at.and_then(|at| self.0.get(at)).unwrap_or(&Value::Null)
    }

    /// The part of a list that belongs to the opcode `at`.
    fn of_op(&self, field: &str, at: usize) -> &Value {
        self.get(field).get(at).unwrap_or(&Value::Null)
    }
}

fn describe(job: &Job) -> String {
    let mut outline = Outline::default();
    outline.object("Job ID", cells::plain(job.get("id")));
    outline.value("Status", job.get("status"));
    for (title, field) in [
        ("Received", "received_ts"),
        ("Processing start", "start_ts"),
        ("Processing end", "end_ts"),
    ] {
        outline.entry(title, precise(job.get(field)));
    }
    if let (Some(begin), Some(end)) =
        (cells::micros(job.get("received_ts")), cells::micros(job.get("end_ts")))
    {
        outline.entry("Total processing time", span(end - begin));
    }
    outline.section("Opcodes");
    let count = job.get("ops").as_array().map_or(0, Vec::len);
    for at in 0..count {
        opcode(&mut outline, job, at);
    }
    outline.into_text()
}

fn opcode(outline: &mut Outline, job: &Job, at: usize) {
    let op = job.of_op("ops", at);
    outline.object("Opcode", op.get("OP_ID").map(cells::plain).unwrap_or_default());
    outline.value("Status", job.of_op("opstatus", at));
    for (title, field) in [
        ("Processing start", "opstart"),
        ("Execution start", "opexec"),
        ("Processing end", "opend"),
    ] {
        outline.entry(title, precise(job.of_op(field, at)));
    }
    outline.section("Input fields");
    for (key, value) in op.as_object().into_iter().flatten() {
        let usual = |(name, plain): &(&str, &str)| {
            name == key && (plain.is_empty() || *value.to_string() == **plain)
        };
        if !USUAL.iter().any(usual) {
            outline.value(key, value);
        }
    }
    outline.end();
    let reason = op.get("reason").cloned().unwrap_or_default();
    let reason: Vec<ReasonEntry> = serde_json::from_value(reason).unwrap_or_default();
    if !reason.is_empty() {
        outline.section("Reason");
        for ReasonEntry(source, text, _when) in &reason {
            outline.entry(source, text);
        }
        outline.end();
    }
    match failure(job.of_op("opstatus", at), job.of_op("opresult", at)) {
        Some(told) => outline.entry("Result", told),
        None => outline.value("Result", job.of_op("opresult", at)),
    }
    let log = job.of_op("oplog", at).as_array().map(Vec::as_slice).unwrap_or_default();
    if !log.is_empty() {
        outline.section("Execution log");
        for entry in log {
            let text = entry.get(3).map(message).unwrap_or_default();
            outline.entry(&entry.get(1).map(precise).unwrap_or_default(), text);
        }
        outline.end();
    }
    outline.end();
}

/// The exception of an opcode that did not succeed: `Error: text (class, code)`. A class that is
/// not known here is shown as well.
fn failure(status: &Value, result: &Value) -> Option<String> {
    if status == "success" {
        return None;
    }
    let [Value::String(class), Value::Array(arguments)] = result.as_array()?.as_slice() else {
        return None;
    };
    let (text, more) = match arguments.as_slice() {
        [] => ("no reason given".to_owned(), &[][..]),
        [text, more @ ..] => (message(text), more),
    };
    let classes = std::iter::once(class.clone()).chain(more.iter().map(cells::plain));
    Some(format!("Error: {text} ({})", classes.collect::<Vec<_>>().join(", ")))
}

/// A pair of seconds and microseconds with all its digits.
fn precise(time: &Value) -> String {
    match time.get(1).and_then(Value::as_i64) {
        Some(micros) => {
            let whole = cells::time(time);
            format!("{}.{micros:06} UTC", whole.trim_end_matches(" UTC"))
        }
        None => cells::plain(time),
    }
}

fn span(micros: i64) -> String {
    format!("{}.{:06} seconds", micros / 1_000_000, (micros % 1_000_000).abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures() {
        for (status, result, told) in [
            ("error", json!(["OpExecError", ["on fire"]]), Some("Error: on fire (OpExecError)")),
            (
                "error",
                json!(["OpPrereqError", ["no node `n9`", "unknown_entity"]]),
                Some("Error: no node `n9` (OpPrereqError, unknown_entity)"),
            ),
            ("canceled", json!(["JobCanceled", []]), Some("Error: no reason given (JobCanceled)")),
            ("error", json!(["NewError", ["a", 5, ["b"]]]), Some("Error: a (NewError, 5, b)")),
            ("success", json!(["OpExecError", ["on fire"]]), None),
            ("canceled", json!("Job canceled by request"), None),
            ("error", json!(["x", "y"]), None),
            ("queued", json!(null), None),
        ] {
            assert_eq!(failure(&json!(status), &result).as_deref(), told, "{status} {result}");
        }
    }
}
