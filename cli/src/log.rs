//! `gnt log`: the audit log.

use clap::Args;
use luxi::method::GantryLog;
use model::JobId;
use model::audit::{Asker, AuditEntry, AuditFilter, ENTRIES_MAX};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::moment::{self, TimeForm};
use crate::output::{say, say_json};
use crate::selection::job_id;
use crate::session::Session;
use crate::table::{self, Column};

const MICROS_PER_SECOND: f64 = 1e6;

/// Which entries `gnt log` shows.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Not before this: today, yesterday, a day (2026-11-20) or a moment (2026-11-20 13:05) by the
    /// clock of this machine. Also 2026-11-20T13:05:09Z, or as long ago as 90, 30m, 12h, 7d or 2w.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what this user asked for: of a host, of the front door, `machine SERIAL`, or `cluster`.
    #[arg(long)]
    user: Option<String>,
    /// Only this job.
    #[arg(long, value_name = "NUMBER")]
    job: Option<String>,
    /// Only what is about this object.
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Only what was refused because of the role, or of a wrong password.
    #[arg(long)]
    refused: bool,
    /// Show no more than the newest of so many.
    #[arg(
        short = 'n',
        long,
        value_name = "NUMBER",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(ENTRIES_MAX))
    )]
    lines: u32,
    /// Print a JSON list with an object for each; times are seconds since the epoch.
    #[arg(long)]
    json: bool,
}

/// Prints the log.
pub(crate) fn run(arguments: &LogArguments, session: &Session) -> Result<(), CliError> {
    let now = session.now_micros();
    let time =
        |text: &Option<String>| text.as_deref().map(|text| moment::read(text, now)).transpose();
    let filter = AuditFilter {
        since: time(&arguments.since)?,
        until: time(&arguments.until)?,
        user: arguments.user.clone(),
        job: arguments.job.as_deref().map(job_id).transpose()?,
        object: arguments.object.clone(),
        refused: arguments.refused,
    };
    let entries = session.ask(&GantryLog { filter, limit: arguments.lines })?;
    if arguments.json {
        return say_json(&entries.iter().map(as_json).collect::<Vec<_>>());
    }
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, session.times())).collect();
    table::lines(&columns(), &rows, true, None).iter().try_for_each(say)
}

fn columns() -> [Column; 7] {
    ["Time", "User", "From", "Action", "Object", "Result", "Details"]
        .map(|title| Column { title: title.to_owned(), right: false })
}

fn row(entry: &AuditEntry, times: TimeForm) -> Vec<String> {
    let time = times.date(&json!([entry.time.seconds(), 0])).unwrap_or_default();
    let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    vec![
        time,
        entry.asker.user.as_ref().to_owned(),
        from(&entry.asker),
        entry.action.clone(),
        shown(&entry.object),
        entry.result.as_str().to_owned(),
        details(entry),
    ]
}

/// From where it was asked: the way, the address, the node.
fn from(asker: &Asker) -> String {
    let mut parts = vec![asker.interface.as_str().to_owned()];
    parts.extend(asker.address.map(|address| address.to_canonical().to_string()));
    parts.extend(asker.host.as_ref().map(|host| format!("at {host}")));
    parts.join(" ")
}

fn details(entry: &AuditEntry) -> String {
    let mut parts = Vec::new();
    parts.extend(entry.job.map(|JobId(id)| format!("job {id}")));
    if entry.times > 1 {
        parts.push(format!("{} times", entry.times));
    }
    parts.extend(entry.code.as_ref().map(|code| format!("[{code}]")));
    parts.extend(entry.reason.clone());
    parts.join(" ")
}

fn as_json(entry: &AuditEntry) -> Value {
    let mut object = serde_json::to_value(entry).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        let seconds = entry.time.micros() as f64 / MICROS_PER_SECOND;
        fields.insert("time".to_owned(), seconds.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use model::audit::{Interface, Outcome};

    use super::*;

    #[test]
    fn a_line_tells_from_where_and_how_often() {
        let asker = Asker {
            user: "alice".into(),
            interface: Interface::Rest,
            host: "n1.example".parse().ok(),
            address: "::ffff:192.0.2.7".parse().ok(),
            tenant: None,
        };
        let time = Timestamp::from_micros(1_500_000);
        let entry = AuditEntry::new(time, asker, "PUT", "/2/tags", Outcome::Refused);
        let entry =
            AuditEntry { times: 7, ..entry.because(Some("permission-denied"), "it may not") };
        let row = row(&entry, TimeForm::Ganeti);
        assert_eq!(row[2], "rest 192.0.2.7 at n1.example");
        assert_eq!(row[6], "7 times [permission-denied] it may not");
        assert_eq!(as_json(&entry)["time"], 1.5);
        assert_eq!(as_json(&entry)["user"], "alice");
    }
}
