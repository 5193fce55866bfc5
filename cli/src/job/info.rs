//! `gnt job info`, in the form of Ganeti's; what a job waits for and whose it is are ours.

use luxi::method::{Query, What};
use luxi::query::{Cell, FieldKind, Table};
use model::job::Wait;
use serde_json::Value;

use crate::details::{self, Detail, Entry};
use crate::error::CliError;
use crate::list::as_json;
use crate::moment::{self, TimeForm};
use crate::output::{say_json, say_lines, warn};
use crate::python;
use crate::selection::{Selection, job_ids};
use crate::session::Session;

/// The fields to ask for, in this order; a master that does not know the last two says so of each.
const FIELDS: [&str; 14] = [
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
    "waits_for",
    "owner",
];

/// Prints all about the jobs.
pub(super) fn run(ids: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let ids = job_ids(ids)?;
    let chosen = Selection::jobs(&ids);
    let question = Query { what: What::Job, fields: FIELDS.into(), filter: chosen.filter() };
    let table = session.ask(&question)?;
    if json {
        say_json(&as_json(&with_some(&table)))?;
        return chosen.all_in(What::Job, &table).or_else(warn);
    }
    let fields = &table.fields;
    let known = |at: usize| fields.get(at).is_some_and(|field| field.kind != FieldKind::Unknown);
    let mut shown = Vec::new();
    for row in &table.data {
        let mut values: Vec<Value> = Vec::new();
        for (at, cell) in row.iter().enumerate() {
            values.push(cell.value().filter(|_| known(at)).cloned().unwrap_or_default());
        }
        let job = Job { values, times: session.times() };
        shown.push(match row.get(1).and_then(Cell::value) {
            Some(_status) => Detail::Map(job.details()),
            None => format!("Job ID {} not found", python::text(job.get("id"))).into(),
        });
    }
    say_lines(&details::render(&Detail::List(shown)))?;
    chosen.all_in(What::Job, &table).or_else(warn)
}

/// The table without the rows of jobs that do not exist.
fn with_some(table: &Table) -> Table {
    let exists = |row: &&Vec<Cell>| row.get(1).is_some_and(|status| status.value().is_some());
    let data = table.data.iter().filter(exists).cloned().collect();
    Table { fields: table.fields.clone(), data }
}

/// A row of [`FIELDS`].
struct Job {
    values: Vec<Value>,
    times: TimeForm,
}

impl Job {
    fn get(&self, field: &str) -> &Value {
        let at = FIELDS.iter().position(|name| *name == field);
        at.and_then(|at| self.values.get(at)).unwrap_or(&Value::Null)
    }

    /// The part of a list that belongs to the opcode `at`.
    fn of_op(&self, field: &str, at: usize) -> &Value {
        self.get(field).get(at).unwrap_or(&Value::Null)
    }

    fn details(&self) -> Vec<Entry> {
        let status = self.get("status");
        let mut entries = vec![
            Entry::new("Job ID", self.get("id")),
            Entry::new("Status", status),
            self.moment("Received", "received_ts", None),
            self.moment("Processing start", "start_ts", Some("received_ts")),
            self.moment("Processing end", "end_ts", Some("start_ts")),
        ];
        let total = match (self.micros("received_ts"), self.micros("end_ts")) {
            (Some(begin), Some(end)) => format!("{} seconds", fraction(end - begin)),
            _ => "N/A".to_owned(),
        };
        entries.push(Entry::new("Total processing time", total));
        if let Some(owner) = self.get("owner").as_str() {
            entries.push(Entry::new("Owner", owner));
        }
        let waits: Vec<Detail> =
            self.get("waits_for").as_array().into_iter().flatten().map(wait).collect();
        if !waits.is_empty() {
            entries.push(Entry::new("Waits for", Detail::List(waits)));
        }
        let count = self.get("ops").as_array().map_or(0, Vec::len);
        let ops = (0..count).map(|at| Detail::Map(self.opcode(at))).collect();
        entries.push(Entry::new("Opcodes", Detail::List(ops)));
        entries
    }

    fn micros(&self, field: &str) -> Option<i64> {
        moment::micros(self.get(field))
    }

    fn moment(&self, title: &str, field: &str, since: Option<&str>) -> Entry {
        let told = match self.times.precise(self.get(field)) {
            None => "unknown (None)".to_owned(),
            Some(time) => {
                let before = since.and_then(|since| self.micros(since));
                let delta = self.micros(field).zip(before).map(|(at, before)| at - before);
                let delta =
                    delta.map(|delta| format!(" (delta {}s)", fraction(delta))).unwrap_or_default();
                format!("{time}{delta}")
            }
        };
        Entry::aligned(title, told)
    }

    fn opcode(&self, at: usize) -> Vec<Entry> {
        let op = self.of_op("ops", at);
        let time = |title: &str, field: &str| {
            let time = self.times.precise(self.of_op(field, at));
            Entry::aligned(title, time.unwrap_or_else(|| "N/A".to_owned()))
        };
        let log = self.of_op("oplog", at).as_array().map(Vec::as_slice).unwrap_or_default();
        vec![
            Entry::new("Opcode", op.get("OP_ID").map(python::text).unwrap_or_default()),
            Entry::new("Status", self.of_op("opstatus", at)),
            time("Processing start", "opstart"),
            time("Execution start", "opexec"),
            time("Processing end", "opend"),
            Entry::new("Input fields", op),
            Entry::new("Result", self.of_op("opresult", at)),
            Entry::new(
                "Execution log",
                Detail::List(log.iter().map(|entry| self.log_entry(entry)).collect()),
            ),
        ]
    }

    fn log_entry(&self, entry: &Value) -> Detail {
        let get = |at: usize| entry.get(at).unwrap_or(&Value::Null);
        let time = self.times.precise(get(1)).unwrap_or_else(|| "?".to_owned());
        let content = vec![python::text(get(0)), python::text(get(2)), python::text(get(3))];
        Detail::Map(vec![Entry::new("Time", time), Entry::new("Content", Detail::Inline(content))])
    }
}

/// Microseconds as seconds with all their digits.
fn fraction(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// One reason to wait. A reason that this program does not know is shown as it came.
fn wait(value: &Value) -> Detail {
    let Ok(wait) = serde_json::from_value::<Wait>(value.clone()) else {
        return value.into();
    };
    let jobs = |ids: Vec<String>| if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    match wait {
        Wait::Lock { lock, mode, at, owners, ahead } => {
            let owner = |(id, mode): &(model::JobId, String)| format!("{id} ({mode})");
            let mut entries = vec![Entry::new("Lock", format!("{lock} ({mode})"))];
            if at != lock {
                entries.push(Entry::new("Stopped at", at));
            }
            entries.push(Entry::new("Held by jobs", jobs(owners.iter().map(owner).collect())));
            let ahead = ahead.iter().map(model::JobId::to_string).collect();
            entries.push(Entry::new("Jobs ahead", jobs(ahead)));
            Detail::Map(entries)
        }
        Wait::Jobs { jobs: others } => {
            let other = |(id, good): &(model::JobId, Vec<model::JobStatus>)| {
                let good: Vec<&str> = good.iter().map(|status| status.as_str()).collect();
                let good = if good.is_empty() { "any end".to_owned() } else { good.join(" or ") };
                format!("{id} ({good})")
            };
            Detail::Map(vec![Entry::new("End of jobs", jobs(others.iter().map(other).collect()))])
        }
        Wait::Turn { limit, ahead } => Detail::Map(vec![
            Entry::new("Turn", format!("{limit} jobs run, and no more may")),
            Entry::new("Jobs ahead", ahead.to_string()),
        ]),
        Wait::Filter { uuid, action, running, why } => {
            let rule = uuid.unwrap_or_else(|| "of the job's own reason".to_owned());
            let mut entries = vec![Entry::new("Filter rule", rule), Entry::new("Action", action)];
            entries.extend(why.map(|why| Entry::new("Reason", why)));
            entries.push(Entry::new("Jobs that run under it", running.to_string()));
            Detail::Map(entries)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_to_wait() {
        let shown = [
            json!({"reason": "lock", "lock": "node/n1", "mode": "shared", "at": "node/n1",
                "owners": [[5, "exclusive"]], "ahead": [6, 7]}),
            json!({"reason": "lock", "lock": "node/*", "mode": "exclusive", "at": "node/n1",
                "owners": [], "ahead": []}),
            json!({"reason": "jobs", "jobs": [[5, ["success", "error"]], [6, []]]}),
            json!({"reason": "turn", "limit": 20, "ahead": 3}),
            json!({"reason": "filter", "uuid": null, "action": "RATE_LIMIT 2", "running": 2}),
            json!({"reason": "weather", "is": "bad"}),
        ];
        let list = Detail::List(shown.iter().map(wait).collect());
        assert_eq!(
            details::render(&list),
            "\
- Lock: node/n1 (shared)
  Held by jobs: 5 (exclusive)
  Jobs ahead: 6, 7
- Lock: node/* (exclusive)
  Stopped at: node/n1
  Held by jobs: none
  Jobs ahead: none
- End of jobs: 5 (success or error), 6 (any end)
- Turn: 20 jobs run, and no more may
  Jobs ahead: 3
- Filter rule: of the job's own reason
  Action: RATE_LIMIT 2
  Jobs that run under it: 2
- is: bad
  reason: weather"
        );
    }

    #[test]
    fn spans() {
        for (micros, text) in [(5, "0.000005"), (1_500_000, "1.500000"), (-250_000, "-0.250000")] {
            assert_eq!(fraction(micros), text);
        }
    }
}
