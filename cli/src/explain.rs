//! The message of a failure to the operator, and its exit status.

use std::io;
use std::time::Duration;

use luxi::method::{QueryJobs, What};
use model::error::{ErrorCode, ExceptionKind};
use model::{Code, Coded as _, Exception, JobId};
use serde_json::Value;
use stdx::text;

use crate::error::{CliError, Exit};
use crate::hint;
use crate::python;
use crate::session::Session;

/// How the message of a failure begins, as with Ganeti's clients.
const HEADING: &str = "Failure: ";
/// How long a master may take to tell the code of a job's error: the error itself is known.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The message for the operator, with what to do next, and the exit status. The reason comes
/// first, but where the program was called by a name of Ganeti's: scripts look for its headings.
pub(crate) fn explain(failed: &CliError, session: &Session) -> (String, Exit) {
    match failed {
        CliError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            (String::new(), Exit::CLOSED_PIPE)
        }
        CliError::NotConfirmed(_) => (failed.to_string(), Exit::NOT_CONFIRMED),
        CliError::Ended(exit) => (String::new(), *exit),
        CliError::Told => (String::new(), Exit::FAILURE),
        CliError::Unknown(error) => (explain(error, session).0, Exit::UNKNOWN),
        CliError::Usage(_) => (format!("error: {failed}"), Exit::CONFIGURATION),
        _ if session.is_as_ganeti() => words(failed, session),
        _ => {
            let (text, exit) = words(failed, session);
            let reason = text.strip_prefix(HEADING).unwrap_or(&text);
            match code(failed, exit, session) {
                Some(code) => (code.told(reason), exit),
                None => (format!("error: {reason}"), exit),
            }
        }
    }
}

/// The code of a failure on which an operator must act.
fn code(failed: &CliError, exit: Exit, session: &Session) -> Option<Code> {
    match failed {
        _ if exit == Exit::NO_CLUSTER => Some(Code::NotEnrolled),
        CliError::Job { id, .. } => failed.code().or_else(|| code_of_job(*id, session)),
        _ => failed.code(),
    }
}

/// The code of the first opcode of a job that has one. A master of an older version knows none.
fn code_of_job(id: JobId, session: &Session) -> Option<Code> {
    let fields = ["operror"].into();
    let asked = QueryJobs { job_ids: Some(vec![id]), fields };
    let rows = session.reach().ok()?.answered_within(ANSWER_MAX).call(&asked).ok()?;
    let codes = rows.into_iter().flatten().flatten().next()?;
    codes.as_array()?.iter().filter_map(|word| word.as_str()).find_map(Code::of_word)
}

/// The message of an error that is one.
fn words(failed: &CliError, session: &Session) -> (String, Exit) {
    let of = |exception| exception_words(exception, session);
    match failed {
        CliError::Client(error) => match error.exception() {
            Some(exception) if error.not_master().is_none() => of(exception),
            _ => hint::unreachable(error, session),
        },
        CliError::Silent { error, after: _ } => hint::silent(&failed.to_string(), error, session),
        CliError::Unsure(error) => hint::unsure(error),
        CliError::Lost { id, error } => hint::lost(*id, error, session),
        CliError::Job { id, exception, said } => {
            let (mut text, exit) = of(exception);
            if let Some(said) = said {
                text.push_str(&format!(
                    "\n{}: `gnt filter list` shows the rules.",
                    text::line(said)
                ));
            }
            let more = format!("`gnt job info {id}` shows how far it came.");
            (format!("{text}\nThis was job {id}: {more}"), exit)
        }
        CliError::Refused(exception) => of(exception),
        CliError::NoJobId(text) if session.is_as_ganeti() => {
            // Python's words, which Ganeti's clients show.
            let told = format!(
                "Invalid job ID passed: invalid literal for int() with base 10: {}",
                python::repr(&Value::from(text.as_str()))
            );
            of(&Exception::prereq(told, ErrorCode::WrongInput))
        }
        CliError::Filter { text, error } => {
            let failed = match session.is_as_ganeti() {
                true => "Error while parsing query filter: Failed to parse query filter",
                false => "cannot read the filter",
            };
            let next = "`gnt job list --help` describes filters.";
            (format!("{failed} '{text}': {error}\n{next}"), Exit::FAILURE)
        }
        CliError::Missing { what: What::Job, .. } => (failed.to_string(), Exit::FAILURE),
        CliError::Missing { what, names } => {
            let what = what.to_string();
            let (first, rest) = what.split_at(1);
            let told = format!("{}{rest} '{names}' not known", first.to_uppercase());
            of(&Exception::prereq(told, ErrorCode::UnknownEntity))
        }
        _ => {
            let told = stdx::daemon::chain(failed);
            (format!("{HEADING}{}", text::line(&told)), Exit::FAILURE)
        }
    }
}

/// The master's message, and the next step where that is known; under Ganeti's headings for its scripts.
pub(crate) fn exception_words(exception: &Exception, session: &Session) -> (String, Exit) {
    let message = exception.to_string();
    // One line: its parts come from whoever asked.
    let message = text::line(&message);
    let (text, exit) = match session.is_as_ganeti() {
        true => ganetis_words(exception, &message),
        false => own_words(exception.kind, &message),
    };
    let next = next_step(exception.kind).map(|next| format!("\n{next}")).unwrap_or_default();
    (format!("{text}{next}"), exit)
}

fn own_words(kind: ExceptionKind, message: &str) -> (String, Exit) {
    match kind {
        ExceptionKind::ConfigurationError => {
            (format!("the configuration is damaged: {message}"), Exit::CONFIGURATION)
        }
        // The master has no words for it.
        ExceptionKind::JobQueueFull => ("the job queue is full".to_owned(), Exit::FAILURE),
        // The name alone is no reason.
        ExceptionKind::ParameterError if !message.contains(' ') => {
            (format!("unknown or wrong parameter '{message}'"), Exit::FAILURE)
        }
        _ => (message.to_owned(), Exit::FAILURE),
    }
}

fn ganetis_words(exception: &Exception, message: &str) -> (String, Exit) {
    let text = match exception.kind {
        ExceptionKind::OpPrereqError => {
            let code = exception.args.get(1).and_then(|code| code.as_str());
            let kind =
                code.map_or(String::new(), |code| format!("error type: {code}, error details:\n"));
            format!("Failure: prerequisites not met for this operation:\n{kind}{message}")
        }
        ExceptionKind::OpExecError => format!("Failure: command execution error:\n{message}"),
        ExceptionKind::ConfigurationError => {
            let told = format!("Corrupt configuration file: {message}\nAborting.");
            return (told, Exit::CONFIGURATION);
        }
        ExceptionKind::JobQueueDrainError => format!(
            "Failure: the job queue is marked for drain and doesn't accept new requests\n\
             The master says: {message}"
        ),
        ExceptionKind::JobQueueFull => format!(
            "Failure: the job queue is full and doesn't accept new job submissions until old jobs \
             are archived\nThe master says: {message}"
        ),
        ExceptionKind::TagError => format!("Failure: invalid tag(s) given:\n{message}"),
        ExceptionKind::TypeEnforcementError => format!("Parameter Error: {message}"),
        // The heading is for a name alone, and makes no sense before a sentence.
        ExceptionKind::ParameterError if message.contains(' ') => format!("Failure: {message}"),
        ExceptionKind::ParameterError => {
            format!("Failure: unknown/wrong parameter name '{message}'")
        }
        ExceptionKind::JobCanceled | ExceptionKind::ProgrammerError => {
            format!("Failure: {message}")
        }
        ExceptionKind::JobLost => format!("Error checking job status: {message}"),
        kind => format!("Failure: {}: {message}", kind.name()),
    };
    (text, Exit::FAILURE)
}

/// The next step after an exception, where its kind tells.
const fn next_step(kind: ExceptionKind) -> Option<&'static str> {
    match kind {
        ExceptionKind::JobQueueDrainError => Some("`gnt cluster queue undrain` opens it again."),
        ExceptionKind::JobQueueFull => Some("`gnt job autoarchive all` makes room."),
        ExceptionKind::JobLost => Some("`gnt job list --archived` also lists archived jobs."),
        ExceptionKind::ProgrammerError => Some(
            "This is a fault of the master; its log says more: /var/log/gantry/master-daemon.log",
        ),
        _ => None,
    }
}
