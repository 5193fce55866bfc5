//! `gnt job cancel`, `archive`, `autoarchive` and `change-priority`.

use clap::Args;
use luxi::limits::WAIT_SECONDS_MAX;
use luxi::method::{
    ArchiveJob, AutoArchiveJobs, CancelJob, ChangeJobPriority, Query, QueryJobs, What,
};
use luxi::query::Filter;
use luxi::{Client, query::Table};
use model::error::ErrorCode;
use model::{Exception, JobId};
use serde_json::Value;

use super::{FINISHED, PENDING};
use crate::error::{CliError, Exit};
use crate::list::{Format, table_lines};
use crate::output::{print, say, warn, warn_lines};
use crate::selection::job_ids;
use crate::session::{Session, confirm};
use crate::span::seconds;

/// Which jobs are meant.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Their numbers.
    ids: Vec<String>,
    /// All jobs that have not begun.
    #[arg(long)]
    pending: bool,
    /// All jobs that are queued.
    #[arg(long)]
    queued: bool,
    /// All jobs that wait for locks.
    #[arg(long)]
    waiting: bool,
    /// Do not ask.
    #[arg(short = 'f', long, visible_alias = "yes")]
    force: bool,
}

impl Selection {
    /// The jobs, after the operator confirmed those that were not named one by one.
    fn ids(&self, client: &mut Client, question: &str) -> Result<Vec<JobId>, CliError> {
        let words: &[&str] = match self {
            Self { pending: true, .. } => PENDING,
            Self { queued: true, waiting: true, .. } => &["queued", "waiting"],
            Self { queued: true, .. } => &["queued"],
            Self { waiting: true, .. } => &["waiting"],
            _ => &[],
        };
        if words.is_empty() == self.ids.is_empty() {
            let told = "Either a status filter or job ID(s) must be specified and never both";
            return Err(CliError::wrong_input(told));
        }
        if words.is_empty() {
            return job_ids(&self.ids);
        }
        let filter = Some(Filter::any_of("status", words.iter().copied()));
        let fields = ["id", "status", "summary"].into();
        let table = client.call(&Query { what: What::Job, fields, filter })?;
        if table.data.is_empty() {
            let told = "No jobs with the requested status have been found";
            return Err(CliError::Refused(Exception::prereq(told, ErrorCode::WrongState)));
        }
        if !self.force {
            let lines = table_lines(What::Job, &table, &Format::default());
            print(&lines.join("\n"))?;
            confirm(question, false)?;
        }
        Ok(ids(&table))
    }
}

fn ids(table: &Table) -> Vec<JobId> {
    let id = |row: &Vec<luxi::query::Cell>| row.first()?.value().and_then(Value::as_u64);
    table.data.iter().filter_map(id).map(JobId).collect()
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    chosen: Selection,
    /// Kill jobs that cannot be canceled; what they were doing is left as it is.
    #[arg(long)]
    kill: bool,
    /// Say that --kill is meant.
    #[arg(long, visible_alias = "ya-rly")]
    yes_do_it: bool,
}

/// Cancels jobs.
pub(super) fn cancel(arguments: &CancelArguments, session: &Session) -> Result<(), CliError> {
    let kill = arguments.kill;
    if kill && !arguments.yes_do_it {
        let told = "The --kill option must be confirmed with --yes-do-it";
        return Err(CliError::wrong_input(told));
    }
    let mut client = session.connect()?;
    let action = if kill { "KILL" } else { "Cancel" };
    let ids = arguments.chosen.ids(&mut client, &format!("{action} job(s) listed above?"))?;
    let cancel = |client: &mut Client, job_id| session.call(client, &CancelJob { job_id, kill });
    each(&ids, (session, &mut client), cancel)
}

/// Arguments of `change-priority`.
#[derive(Debug, Args)]
pub(crate) struct PriorityArguments {
    /// low, normal, high, or a number from -20 (first) to 19 (last).
    #[arg(long, value_name = "PRIORITY", allow_hyphen_values = true, value_parser = priority_number)]
    priority: Option<i32>,
    #[command(flatten)]
    chosen: Selection,
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
    let Some(priority) = arguments.priority else {
        warn("--priority option must be given.")?;
        return Err(CliError::Told);
    };
    let mut client = session.connect()?;
    let ids = arguments.chosen.ids(&mut client, "Change priority of job(s) listed above?")?;
    let change =
        |client: &mut Client, job_id| session.call(client, &ChangeJobPriority { job_id, priority });
    each(&ids, (session, &mut client), change)
}

/// Does something with each job and tells how it went.
fn each(
    ids: &[JobId],
    (session, client): (&Session, &mut Client),
    mut change: impl FnMut(&mut Client, JobId) -> Result<(bool, String), CliError>,
) -> Result<(), CliError> {
    let mut all_well = true;
    for &id in ids {
        let (well, message) = change(client, id)?;
        // Of a job that is not in the queue, the master says no more, as Ganeti's.
        let away = match well || session.is_as_ganeti() {
            true => None,
            false => match standing(client, id)? {
                Standing::Missing => Some(format!("Job {id} does not exist")),
                Standing::Archived => Some(format!("Job {id} is archived, and changes no more")),
                Standing::InQueue(_) => None,
            },
        };
        say(away.unwrap_or(message))?;
        all_well &= well;
    }
    if all_well { Ok(()) } else { Err(CliError::Ended(Exit::FAILURE)) }
}

/// Archives jobs.
pub(super) fn archive(ids: &[String], session: &Session) -> Result<(), CliError> {
    let ids = job_ids(ids)?;
    let mut client = session.connect()?;
    let mut all_well = true;
    for job_id in ids {
        if !session.call(&mut client, &ArchiveJob { job_id })? {
            let why = unarchived(&mut client, job_id)?;
            warn_lines(&format!("Failed to archive job with ID '{job_id}'\n{why}"))?;
            all_well = false;
        }
    }
    if all_well { Ok(()) } else { Err(CliError::Told) }
}

/// Refuses the number of no job.
///
/// # Errors
/// There is no such job, not even in the archive.
pub(crate) fn exists(client: &mut Client, id: JobId) -> Result<(), CliError> {
    match standing(client, id)? {
        Standing::Missing => Err(CliError::Usage(format!("job {id} does not exist"))),
        Standing::Archived | Standing::InQueue(_) => Ok(()),
    }
}

/// The place of a job.
enum Standing {
    /// Nowhere.
    Missing,
    /// In the archive.
    Archived,
    /// In the queue, with this status.
    InQueue(String),
}

fn standing(client: &mut Client, id: JobId) -> Result<Standing, CliError> {
    let fields = ["status", "archived"].into();
    let jobs = client.call(&QueryJobs { job_ids: Some(vec![id]), fields })?;
    let job = jobs.into_iter().next().flatten().unwrap_or_default();
    let archived = job.get(1).and_then(Value::as_bool).unwrap_or_default();
    Ok(match job.first().and_then(Value::as_str) {
        None => Standing::Missing,
        Some(_) if archived => Standing::Archived,
        Some(status) => Standing::InQueue(status.to_owned()),
    })
}

/// Why a job was not archived: the master's answer is only that it was not.
fn unarchived(client: &mut Client, id: JobId) -> Result<String, CliError> {
    Ok(match standing(client, id)? {
        Standing::Missing => format!("Job {id} does not exist."),
        Standing::Archived => format!("Job {id} is archived already."),
        // It may have ended since.
        Standing::InQueue(status) if FINISHED.contains(&status.as_str()) => {
            format!("Job {id} had not ended, or was just archived; try again.")
        }
        Standing::InQueue(status) => {
            format!("Job {id} is {status}, and only jobs that ended are archived.")
        }
    })
}

/// Archives jobs by age.
pub(super) fn autoarchive(age: &str, session: &Session) -> Result<(), CliError> {
    let age = if age == "all" { -1 } else { seconds(age)? };
    let call = AutoArchiveJobs { age, timeout: WAIT_SECONDS_MAX };
    let (archived, unchecked) = session.ask(&call)?;
    say(format_args!("Archived {archived} jobs, {unchecked} unchecked left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        assert_eq!(priority_number("high"), Ok(-10));
        assert_eq!(priority_number("-20"), Ok(-20));
        for wrong in ["", "20", "-21", "urgent"] {
            assert!(priority_number(wrong).is_err(), "{wrong}");
        }
    }
}
