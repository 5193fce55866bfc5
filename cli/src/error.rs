//! What can go wrong, and the words and the exit status for it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use luxi::ClientError;
use luxi::client::JobOutcome;
use luxi::method::What;
use model::enrol::TokenError;
use model::error::{ErrorCode, ExceptionKind};
use model::json::Malformed;
use model::{Exception, JobId};
use serde_json::Value;
use stdx::text;

use crate::expression::ExpressionError;
use crate::hint;
use crate::session::Session;

/// How the message of a failure begins, as with Ganeti's clients.
pub(crate) const HEADING: &str = "Failure: ";
/// How the result of a job begins that a filter rule refused.
const REJECTED: &str = "Job rejected by filter rule ";

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// Something failed.
    pub(crate) const FAILURE: Self = Self(1);
    /// The configuration is broken, or the command line wrong.
    pub(crate) const CONFIGURATION: Self = Self(2);
    /// There is no cluster on this machine.
    pub(crate) const NO_CLUSTER: Self = Self(5);
    /// The cluster does not do its work, as plugins of monitoring systems say it.
    pub(crate) const CRITICAL: Self = Self(2);
    /// How the cluster stands cannot be told, as plugins of monitoring systems say it.
    pub(crate) const UNKNOWN: Self = Self(3);
    /// No master answers here, and nothing was done.
    pub(crate) const NOT_MASTER: Self = Self(11);
    /// The operator did not confirm.
    pub(crate) const NOT_CONFIRMED: Self = Self(13);
    /// A field does not exist.
    pub(crate) const UNKNOWN_FIELD: Self = Self(14);
    /// Interrupted from the keyboard, as shells count it.
    pub(crate) const INTERRUPTED: Self = Self(130);
    /// Whoever read the output has gone, as shells count it.
    pub(crate) const CLOSED_PIPE: Self = Self(141);
}

/// A command that did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The master could not be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// `masterd` on this machine was asked how it is, and says nothing.
    #[error("masterd on this machine takes connections and has said nothing for {after:?}")]
    Silent {
        #[source]
        error: ClientError,
        /// How long it was waited for.
        after: Duration,
    },
    /// It is not known what became of a submission.
    #[error("it is not known whether the job was accepted")]
    Unsure(#[source] ClientError),
    /// The master was lost while it was asked about a job.
    #[error("the master was lost while waiting for job {id}")]
    Lost {
        id: JobId,
        #[source]
        error: ClientError,
    },
    /// A job failed.
    #[error("job {id} failed")]
    Job {
        id: JobId,
        #[source]
        exception: Exception,
        /// What the exception leaves out.
        said: Option<String>,
    },
    /// Output could not be written.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
    /// A file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A file is not what it should be.
    #[error("`{path}` is not {wanted}")]
    Content {
        path: PathBuf,
        wanted: &'static str,
        #[source]
        error: Malformed,
    },
    /// The token of `noded enroll` does not read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        program: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A filter does not read.
    #[error("cannot read the filter `{text}`")]
    Filter {
        text: String,
        #[source]
        error: ExpressionError,
    },
    /// Arguments that do not go together or make no sense.
    #[error("{0}")]
    Usage(String),
    /// The operator did not confirm.
    #[error("{0}")]
    NotConfirmed(String),
    /// The request makes no sense, which Ganeti's clients find out as well.
    #[error(transparent)]
    Refused(Exception),
    /// Objects that were named do not exist; those that do have been shown.
    #[error("there is no {what} {names}")]
    Missing { what: What, names: String },
    /// How the cluster stands cannot be told.
    #[error(transparent)]
    Unknown(Box<Self>),
    /// What failed has been said already.
    #[error("")]
    Told,
    /// All has been said, and this is the exit status.
    #[error("")]
    Ended(Exit),
    /// A failure with nothing behind it.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// Arguments that Ganeti's clients refuse as an operation that cannot be begun.
    pub(crate) fn wrong_input(told: impl Into<String>) -> Self {
        Self::Refused(Exception::prereq(told, ErrorCode::WrongInput))
    }

    /// The results of the job `id` that has ended.
    ///
    /// # Errors
    /// The job did not succeed. Of one that a filter rule refused, its only result tells which.
    pub(crate) fn of_end(id: JobId, outcome: JobOutcome) -> Result<Vec<Value>, Self> {
        let said = outcome.opresult.iter().filter_map(Value::as_str);
        let said = said.filter(|text| text.starts_with(REJECTED)).map(str::to_owned).next();
        outcome.into_result().map_err(|exception| Self::Job { id, exception, said })
    }

    /// The end of a wait for the job `id` that was not answered.
    pub(crate) fn waiting(id: JobId, error: ClientError) -> Self {
        let is_told = matches!(error, ClientError::Failure(_)) && error.not_master().is_none();
        if is_told && !error.is_away() { Self::Client(error) } else { Self::Lost { id, error } }
    }

    /// The message for the operator, with what to do next, and the exit status. The reason comes
    /// first, but where the program was called by a name of Ganeti's: scripts look for its headings.
    pub(crate) fn explain(&self, session: &Session) -> (String, Exit) {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                (String::new(), Exit::CLOSED_PIPE)
            }
            Self::NotConfirmed(_) => (self.to_string(), Exit::NOT_CONFIRMED),
            Self::Ended(exit) => (String::new(), *exit),
            Self::Told => (String::new(), Exit::FAILURE),
            Self::Unknown(error) => (error.explain(session).0, Exit::UNKNOWN),
            Self::Usage(_) => (format!("error: {self}"), Exit::CONFIGURATION),
            _ if session.is_as_ganeti() => self.words(session),
            _ => {
                let (text, exit) = self.words(session);
                let reason = text.strip_prefix(HEADING).unwrap_or(&text);
                (format!("error: {reason}"), exit)
            }
        }
    }

    /// The message of an error that is one.
    fn words(&self, session: &Session) -> (String, Exit) {
        let of = |exception| exception_words(exception, session);
        match self {
            Self::Client(error) => match error.exception() {
                Some(exception) if error.not_master().is_none() => of(exception),
                _ => hint::unreachable(error, session),
            },
            Self::Silent { error, after: _ } => hint::silent(&self.to_string(), error, session),
            Self::Unsure(error) => hint::unsure(error),
            Self::Lost { id, error } => hint::lost(*id, error, session),
            Self::Job { id, exception, said } => {
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
            Self::Refused(exception) => of(exception),
            Self::Filter { text, error } => {
                let failed = match session.is_as_ganeti() {
                    true => "Error while parsing query filter: Failed to parse query filter",
                    false => "cannot read the filter",
                };
                let next = "`gnt job list --help` describes filters.";
                (format!("{failed} '{text}': {error}\n{next}"), Exit::FAILURE)
            }
            Self::Missing { what: What::Job, .. } => (self.to_string(), Exit::FAILURE),
            Self::Missing { what, names } => {
                let what = what.to_string();
                let (first, rest) = what.split_at(1);
                let told = format!("{}{rest} '{names}' not known", first.to_uppercase());
                of(&Exception::prereq(told, ErrorCode::UnknownEntity))
            }
            _ => {
                let told = stdx::daemon::chain(self);
                (format!("{HEADING}{}", text::line(&told)), Exit::FAILURE)
            }
        }
    }
}

/// What the master says, and what to do next where that is known; under Ganeti's headings for its
/// scripts.
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

/// What to do about an exception, where its kind tells.
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

#[cfg(test)]
mod tests {
    use luxi::response::{Failure, NotMaster, Outcome};

    use super::*;

    /// Exit status 11 says that nothing was done; a job that was submitted is something.
    #[test]
    fn who_is_sent_elsewhere_while_its_job_runs_has_lost_sight_of_it() {
        let wait = |failure| CliError::waiting(JobId(7), ClientError::Failure(failure));
        for outcome in [Outcome::Again, Outcome::Elsewhere, Outcome::Unknown] {
            let about = NotMaster { outcome, master: None, address: None };
            let exception = Exception::new(ExceptionKind::GenericError, "run it on n1");
            let told = wait(Failure::NotMaster { exception, about });
            assert!(matches!(told, CliError::Lost { id: JobId(7), .. }), "{told:?}");
        }
        let gone = Exception::new(ExceptionKind::JobLost, "Job 7 is lost");
        assert!(matches!(wait(Failure::Exception(gone)), CliError::Client(_)));
    }
}
