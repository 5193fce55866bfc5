//! `gnt job cancel`, `archive`, `autoarchive` and `change-priority`.

use clap::Args;
use luxi::Client;
use luxi::limits::WAIT_SECONDS_MAX;
use luxi::method::{
    ArchiveJob, AutoArchiveJobs, CancelJob, ChangeJobPriority, Query, QueryJobs, What,
};
use luxi::query::Filter;
use model::JobId;
use serde_json::Value;

use super::{FINISHED, PENDING};
use crate::error::CliError;
use crate::session::{Session, confirm, say, warn};

/// Which jobs are meant.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// Their numbers.
    #[arg(required_unless_present_any = ["pending", "queued", "waiting"])]
    ids: Vec<JobId>,
    /// All jobs that have not begun.
    #[arg(long, conflicts_with = "ids")]
    pending: bool,
    /// All jobs that are queued.
    #[arg(long, conflicts_with = "ids")]
    queued: bool,
    /// All jobs that wait for locks.
    #[arg(long, conflicts_with = "ids")]
    waiting: bool,
    /// Do not ask.
    #[arg(short = 'f', long = "yes", visible_alias = "force")]
    yes: bool,
}

impl Chosen {
    /// The jobs, after the operator confirmed those that were not named one by one.
    fn ids(&self, client: &mut Client, verb: &str) -> Result<Vec<JobId>, CliError> {
        let words: &[&str] = match self {
            Self { pending: true, .. } => PENDING,
            Self { queued: true, waiting: true, .. } => &["queued", "waiting"],
            Self { queued: true, .. } => &["queued"],
            Self { waiting: true, .. } => &["waiting"],
            _ => return Ok(self.ids.clone()),
        };
        let filter = Some(Filter::any_of("status", words.iter().copied()));
        let table = client.call(&Query { what: What::Job, fields: ["id"].into(), filter })?;
        let id = |row: &Vec<luxi::query::Cell>| row.first()?.value().and_then(Value::as_u64);
        let ids: Vec<JobId> = table.data.iter().filter_map(id).map(JobId).collect();
        if !ids.is_empty() {
            let list: Vec<String> = ids.iter().map(JobId::to_string).collect();
            confirm(&format!("{verb} job(s) {}?", list.join(", ")), self.yes)?;
        }
        Ok(ids)
    }
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    chosen: Chosen,
    /// Kill jobs that cannot be canceled; what they were doing is left as it is.
    #[arg(long, requires = "yes_do_it")]
    kill: bool,
    /// Say that --kill is meant.
    #[arg(long, visible_alias = "ya-rly", requires = "kill")]
    yes_do_it: bool,
}

/// Cancels jobs.
pub(super) fn cancel(arguments: &CancelArguments, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let ids = arguments.chosen.ids(&mut client, "Cancel")?;
    each(&ids, |&job_id| Ok(client.call(&CancelJob { job_id, kill: arguments.kill })?))
}

/// Arguments of `change-priority`.
#[derive(Debug, Args)]
pub(crate) struct PriorityArguments {
    /// low, normal, high, or a number from -20 (first) to 19 (last).
    #[arg(long, value_name = "PRIORITY", allow_hyphen_values = true, value_parser = priority_number)]
    priority: i32,
    #[command(flatten)]
    chosen: Chosen,
}

fn priority_number(text: &str) -> Result<i32, String> {
    use clap::ValueEnum as _;
    if let Ok(word) = crate::submit::Priority::from_str(text, true) {
        return Ok(word.number());
    }
    let number = text.parse().ok().filter(|number| (-20..=19).contains(number));
    number.ok_or_else(|| "it must be low, normal, high, or -20 to 19".to_owned())
}

/// Changes the priority of jobs.
pub(super) fn priority(arguments: &PriorityArguments, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let ids = arguments.chosen.ids(&mut client, "Change the priority of")?;
    let priority = arguments.priority;
    each(&ids, |&job_id| Ok(client.call(&ChangeJobPriority { job_id, priority })?))
}

/// Does something with each job and tells how it went.
fn each(
    ids: &[JobId],
    mut change: impl FnMut(&JobId) -> Result<(bool, String), CliError>,
) -> Result<(), CliError> {
    let mut all_well = true;
    for id in ids {
        let (well, message) = change(id)?;
        let told = if well { say(message) } else { warn(message) };
        told?;
        all_well &= well;
    }
    if all_well { Ok(()) } else { Err(CliError::Told) }
}

/// Archives jobs.
pub(super) fn archive(ids: &[JobId], session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let mut all_well = true;
    for &job_id in ids {
        if !client.call(&ArchiveJob { job_id })? {
            let why = unarchived(&mut client, job_id)?;
            warn(format_args!("Failed to archive job with ID '{job_id}': {why}"))?;
            all_well = false;
        }
    }
    if all_well { Ok(()) } else { Err(CliError::Told) }
}

/// Why a job was not archived: the master's answer is only that it was not.
fn unarchived(client: &mut Client, id: JobId) -> Result<String, CliError> {
    let fields = ["status", "archived"].into();
    let jobs = client.call(&QueryJobs { job_ids: Some(vec![id]), fields })?;
    let job = jobs.into_iter().next().flatten().unwrap_or_default();
    let status = job.first().and_then(Value::as_str);
    let archived = job.get(1).and_then(Value::as_bool).unwrap_or_default();
    Ok(match status {
        None => format!("job {id} does not exist"),
        Some(_) if archived => format!("job {id} is archived already"),
        // It may have ended since.
        Some(status) if FINISHED.contains(&status) => {
            format!("job {id} had not ended, or was just archived; try again")
        }
        Some(status) => format!("job {id} is {status}, and only jobs that ended are archived"),
    })
}

/// Archives jobs by age.
pub(super) fn autoarchive(age: i64, session: &Session) -> Result<(), CliError> {
    let call = AutoArchiveJobs { age, timeout: WAIT_SECONDS_MAX };
    let (archived, unchecked) = session.ask(&call)?;
    say(format_args!("Archived {archived} jobs, {unchecked} unchecked left"))
}

/// An age in seconds: a number with a unit; −1 for `all`.
pub(super) fn age(text: &str) -> Result<i64, String> {
    if text == "all" {
        return Ok(-1);
    }
    let (number, factor) = match text.char_indices().last() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => {
            let factor = match unit {
                's' => 1,
                'm' => 60,
                'h' => 3_600,
                'd' => 86_400,
                'w' => 604_800,
                _ => 0,
            };
            (&text[..at], factor)
        }
        _ => (text, 1),
    };
    let number: Option<i64> = number.parse().ok().filter(|number| *number >= 0);
    let seconds = number.filter(|_| factor > 0).and_then(|number| number.checked_mul(factor));
    seconds.ok_or_else(|| "it must be `all`, or a number with s, m, h, d or w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds) in
            [("all", Some(-1)), ("90", Some(90)), ("30m", Some(1_800)), ("2w", Some(1_209_600))]
        {
            assert_eq!(age(text).ok(), seconds, "{text}");
        }
        for wrong in ["", "-1", "x", "1y", "h", "99999999999999999w", "5é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn priorities() {
        assert_eq!(priority_number("high"), Ok(-10));
        assert_eq!(priority_number("-20"), Ok(-20));
        for wrong in ["", "20", "-21", "urgent"] {
            assert!(priority_number(wrong).is_err(), "{wrong}");
        }
    }
}
