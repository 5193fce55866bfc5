//! The errors of a command, and its exit status.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use blobs::BlobError;
use luxi::ClientError;
use luxi::client::JobOutcome;
use luxi::method::What;
use model::enrol::TokenError;
use model::error::ErrorCode;
use model::json::Malformed;
use model::{Code, Coded, Exception, JobId};
use serde_json::Value;

use crate::expression::ExpressionError;

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
    /// The reader of the output has gone, as shells count it.
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
        /// The reason for a rejection, which the exception leaves out.
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
    /// A file could not be staged for the master.
    #[error(transparent)]
    Staging(#[from] BlobError),
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The file of an export is there already.
    #[error("the export file `{0}` already exists; choose another name")]
    ExportExists(PathBuf),
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
    /// This is no number of a job.
    #[error("`{0}` is no job id")]
    NoJobId(String),
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
    /// The failure has been told already.
    #[error("")]
    Told,
    /// All has been said, and this is the exit status.
    #[error("")]
    Ended(Exit),
    /// A failure with nothing behind it.
    #[error("{0}")]
    Failed(String),
    /// The role was not moved, as the failover itself says.
    #[error("{message}")]
    NotMoved { code: Option<Code>, message: String },
}

impl Coded for CliError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Client(error) | Self::Lost { error, .. } => error.code(),
            Self::Silent { .. } => Some(Code::MasterSilent),
            Self::Unsure(_) => Some(Code::OutcomeUnknown),
            Self::Job { exception, .. } | Self::Refused(exception) => exception.code(),
            Self::Unknown(error) => error.code(),
            Self::NotMoved { code, .. } => *code,
            Self::ExportExists(_) => Some(Code::ExportRefused),
            Self::Output(_)
            | Self::Read { .. }
            | Self::Staging(_)
            | Self::Write { .. }
            | Self::Content { .. }
            | Self::Token(_)
            | Self::Start { .. }
            | Self::NoJobId(_)
            | Self::Filter { .. }
            | Self::Usage(_)
            | Self::NotConfirmed(_)
            | Self::Missing { .. }
            | Self::Told
            | Self::Ended(_)
            | Self::Failed(_) => None,
        }
    }
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
}

#[cfg(test)]
mod tests {
    use luxi::response::{Failure, NotMaster, Unserved};
    use model::error::ExceptionKind;

    use super::*;

    /// Exit status 11 says that nothing was done; a job that was submitted is something.
    #[test]
    fn who_is_sent_elsewhere_while_its_job_runs_has_lost_sight_of_it() {
        let wait = |failure| CliError::waiting(JobId(7), ClientError::Failure(failure));
        for outcome in [Unserved::Again, Unserved::Elsewhere, Unserved::Unknown] {
            let about = NotMaster { outcome, master: None, address: None };
            let exception = Exception::new(ExceptionKind::GenericError, "run it on n1");
            let told = wait(Failure::NotMaster { exception, about });
            assert!(matches!(told, CliError::Lost { id: JobId(7), .. }), "{told:?}");
        }
        let gone = Exception::new(ExceptionKind::JobLost, "Job 7 is lost");
        assert!(matches!(wait(Failure::Exception(gone)), CliError::Client(_)));
    }
}
