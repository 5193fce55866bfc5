//! `gnt job`.

mod change;
mod info;
mod list;

pub(crate) use change::exists;
use clap::Subcommand;
use luxi::ClientError;
use luxi::method::What;
use luxi::response::Failure;
use model::JobId;
use model::error::ExceptionKind;

use crate::error::CliError;
use crate::explain::exception_words;
use crate::follow::{follow, wait};
use crate::interrupt;
use crate::list::ListFieldsArguments;
use crate::output::{say, warn_lines};
use crate::selection::job_id;
use crate::session::Session;

/// Statuses of jobs that have not begun, or were asked to end.
const PENDING: &[&str] = &["queued", "waiting", "canceling"];
/// Statuses of jobs that have ended.
const FINISHED: &[&str] = &["success", "canceled", "error"];

/// The verbs of `gnt job`.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// List jobs.
    ///
    /// On a terminal, colours tell how jobs fare, and columns with their age, duration and owner
    /// are added where no fields are chosen.
    List(list::JobListArguments),
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about jobs, and what they wait for.
    #[command(visible_alias = "show")]
    Info {
        /// Their numbers.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Show what a job says until it ends.
    Watch {
        /// Its number.
        id: String,
    },
    /// Wait until a job ends, in silence.
    Wait {
        /// Its number.
        id: String,
    },
    /// Cancel jobs.
    Cancel(change::CancelArguments),
    /// Move jobs that have ended into the archive.
    Archive {
        /// Their numbers.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Move all jobs that ended long ago into the archive.
    Autoarchive {
        /// How long ago at least, as 90, 30m, 12h, 7d or 2w; `all` takes all that have ended.
        age: String,
    },
    /// Change the priority of jobs that have not ended.
    ChangePriority(change::PriorityArguments),
}

/// Carries out one verb.
pub(crate) fn run(verb: Job, session: &Session) -> Result<(), CliError> {
    match verb {
        Job::List(arguments) => list::run(&arguments, session),
        Job::ListFields(arguments) => arguments.print(What::Job, session),
        Job::Info { ids, json } => info::run(&ids, json, session),
        Job::Watch { id } => watch(&id, session),
        Job::Wait { id } => silently(&id, session),
        Job::Cancel(arguments) => change::cancel(&arguments, session),
        Job::Archive { ids } => change::archive(&ids, session),
        Job::Autoarchive { age } => change::autoarchive(&age, session),
        Job::ChangePriority(arguments) => change::priority(&arguments, session),
    }
}

fn watch(text: &str, session: &Session) -> Result<(), CliError> {
    let header = format!("Output from job {text} follows");
    say(&header)?;
    say("-".repeat(header.len()))?;
    let id = job_id(text)?;
    let outcome = follow(session, &mut session.connect()?, id);
    told(id, outcome.map(luxi::client::JobOutcome::into_result), session)
}

fn silently(text: &str, session: &Session) -> Result<(), CliError> {
    let id = job_id(text)?;
    let mut client = session.connect()?;
    let _announced = interrupt::announce(interrupt::hold()?, id, None)?;
    let outcome = wait(session, &mut client, id);
    told(id, outcome.map(luxi::client::JobOutcome::into_result), session)
}

/// Tells of a job that failed, or is not there, and gives its exit status.
fn told<T>(
    id: JobId,
    outcome: Result<Result<T, model::Exception>, CliError>,
    session: &Session,
) -> Result<(), CliError> {
    let exception = match outcome {
        Ok(Ok(_results)) => return Ok(()),
        Ok(Err(exception)) => exception,
        Err(CliError::Client(ClientError::Failure(Failure::Exception(exception)))) => {
            match exception.kind {
                _ if session.is_as_ganeti() => exception,
                ExceptionKind::JobLost => {
                    return Err(CliError::Missing { what: What::Job, names: id.to_string() });
                }
                _ => return Err(ClientError::Failure(Failure::Exception(exception)).into()),
            }
        }
        Err(error) => return Err(error),
    };
    let (words, exit) = exception_words(&exception, session);
    warn_lines(&format!("Job {id} failed: {words}"))?;
    Err(CliError::Ended(exit))
}
