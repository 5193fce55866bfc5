//! `gnt job`.

mod change;
mod info;

use clap::{Args, Subcommand};
use luxi::method::What;
use luxi::query::Filter;
use model::JobId;

use crate::chosen::Chosen;
use crate::error::CliError;
use crate::follow::{follow, wait};
use crate::interrupt;
use crate::list::{ListArguments, ListFieldsArguments};
use crate::session::{Session, say};

/// What `list` shows unless told otherwise.
const USUAL: [&str; 3] = ["id", "status", "summary"];
/// Statuses of jobs that have not begun, or were asked to end.
const PENDING: &[&str] = &["queued", "waiting", "canceling"];
/// Statuses of jobs that have ended.
const FINISHED: &[&str] = &["success", "canceled", "error"];

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// List jobs.
    List(JobListArguments),
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about jobs.
    #[command(visible_alias = "show")]
    Info {
        /// Their numbers.
        #[arg(required = true)]
        ids: Vec<JobId>,
    },
    /// Show what a job says until it ends.
    Watch {
        /// Its number.
        id: JobId,
    },
    /// Wait until a job ends, in silence.
    Wait {
        /// Its number.
        id: JobId,
    },
    /// Cancel jobs.
    Cancel(change::CancelArguments),
    /// Move jobs that have ended into the archive.
    Archive {
        /// Their numbers.
        #[arg(required = true)]
        ids: Vec<JobId>,
    },
    /// Move all jobs that ended long ago into the archive.
    Autoarchive {
        /// How long ago at least, as 90, 30m, 12h, 7d or 2w; `all` takes all that have ended.
        #[arg(value_parser = change::age)]
        age: i64,
    },
    /// Change the priority of jobs that have not ended.
    ChangePriority(change::PriorityArguments),
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct JobListArguments {
    /// Only these.
    ids: Vec<JobId>,
    /// Only jobs that have not begun.
    #[arg(long)]
    pending: bool,
    /// Only jobs that run.
    #[arg(long)]
    running: bool,
    /// Only jobs that failed.
    #[arg(long)]
    error: bool,
    /// Only jobs that have ended.
    #[arg(long)]
    finished: bool,
    /// Archived jobs too.
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    list: ListArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Job, session: &Session) -> Result<(), CliError> {
    match verb {
        Job::List(arguments) => list(&arguments, session),
        Job::ListFields(arguments) => arguments.print(What::Job, session),
        Job::Info { ids } => info::run(&ids, session),
        Job::Watch { id } => watch(id, session),
        Job::Wait { id } => {
            let mut client = session.connect()?;
            interrupt::announce(interrupt::hold()?, id, None)?;
            wait(session, &mut client, id)?
                .into_result()
                .map(drop)
                .map_err(|_exception| CliError::Told)
        }
        Job::Cancel(arguments) => change::cancel(&arguments, session),
        Job::Archive { ids } => change::archive(&ids, session),
        Job::Autoarchive { age } => change::autoarchive(age, session),
        Job::ChangePriority(arguments) => change::priority(&arguments, session),
    }
}

fn list(arguments: &JobListArguments, session: &Session) -> Result<(), CliError> {
    let mut fields = arguments.list.fields(&USUAL);
    // The master looks into the archive only for who asks whether jobs are archived.
    if arguments.archived && !fields.iter().any(|field| field == "archived") {
        fields.push("archived".to_owned());
    }
    let mut conditions = Vec::new();
    let wanted = [
        (arguments.pending, PENDING),
        (arguments.running, &["running"]),
        (arguments.error, &["error"]),
        (arguments.finished, FINISHED),
    ];
    let wanted: Vec<&str> =
        wanted.iter().filter(|(given, _)| *given).flat_map(|(_, words)| *words).copied().collect();
    if !wanted.is_empty() {
        conditions.push(Filter::any_of("status", wanted));
    }
    let chosen = Chosen::jobs(&arguments.ids).limited(conditions);
    arguments.list.print(What::Job, fields, &chosen, session)
}

fn watch(id: JobId, session: &Session) -> Result<(), CliError> {
    let header = format!("Output from job {id} follows");
    say(&header)?;
    say("-".repeat(header.len()))?;
    let outcome = follow(session, &mut session.connect()?, id)?;
    outcome.into_result().map(drop).map_err(|exception| CliError::Job { id, exception })
}
