//! How the agent's state fails.

use std::io;
use std::path::{Path, PathBuf};

use model::{Code, Coded};
use queue_format::{CloseError, FileError, OpenError, Refusal, StartError};

/// A state that could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another agent runs on the same directory.
    #[error("`{path}` is in use by process {owner}: another noded runs on this root")]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it.
        owner: String,
    },
    /// The directory cannot be made.
    #[error("cannot make the directory `{path}`")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open the agent's store `{path}`")]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: OpenError,
    },
    /// A document cannot be read.
    #[error("cannot read the agent's store")]
    Read(#[from] FileError),
    /// A document holds something else.
    #[error(
        "`{key}` in `{path}` is damaged; restore it from a backup, or remove it: the master sends rack documents and lists again, but leases and events that are removed are lost"
    )]
    Document {
        /// The document.
        key: String,
        /// The directory.
        path: PathBuf,
        /// The JSON parser's error.
        #[source]
        error: serde_json::Error,
    },
    /// The store cannot be written.
    #[error("cannot write to the agent's store")]
    Start(#[from] StartError),
    /// The change is not taken at the moment.
    #[error("the agent's store takes no change")]
    Refused(#[source] Refusal),
    /// The store has ended before the change was durable.
    #[error("the agent's store has ended; it is not known whether the change is durable")]
    Ended,
    /// The store was not closed cleanly.
    #[error("cannot close the agent's store cleanly; nothing is lost, the next start recovers")]
    Close(#[from] CloseError),
}

impl LedgerError {
    pub(super) fn open(directory: &Path, error: OpenError) -> Self {
        let path = directory.to_owned();
        match error {
            OpenError::Locked { owner, .. } => Self::InUse { path, owner },
            error => Self::Open { path, error },
        }
    }
}

impl Coded for LedgerError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::InUse { .. } => Some(Code::AlreadyRunning),
            Self::Open { error: OpenError::Full { .. }, .. }
            | Self::Refused(Refusal::DiskFull { .. })
            | Self::Close(CloseError::DiskFull) => Some(Code::DiskFull),
            Self::Directory { error, .. } => error.code().or(Some(Code::AgentStore)),
            Self::Open { .. }
            | Self::Read(_)
            | Self::Document { .. }
            | Self::Start(_)
            | Self::Refused(_)
            | Self::Ended
            | Self::Close(_) => Some(Code::AgentStore),
        }
    }
}
