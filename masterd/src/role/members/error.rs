//! Why a step towards the members that there should be was not made.

use std::path::PathBuf;

use engine::MembersError;
use membership::loss::Stops;
use model::{Code, Coded, Exception};
use rpc::peer::PeerError;
use uuid::Uuid;

/// A step that was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error("{0}")]
    Refused(#[from] Exception),
    #[error("cannot ask its masterd")]
    Peer(#[from] PeerError),
    #[error("cannot change who is a member")]
    Members(#[from] MembersError),
    #[error("its vote stays for now")]
    Stops(#[from] Stops),
    #[error("it has the store {found}, and {recorded} was recorded: its disk was lost")]
    OtherStore { found: Uuid, recorded: Uuid },
    #[error("it has its store after all")]
    NotLost,
    #[error("there is nobody who could be followed")]
    NoEngine,
    #[error("the disk of this master takes nothing (`{path}`: {reason}); make room first")]
    DiskFull { path: PathBuf, reason: String },
}

impl Coded for StepError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(exception) => exception.code(),
            Self::Peer(error) => error.code(),
            Self::Stops(_) => Some(Code::VotersNeeded),
            Self::DiskFull { .. } => Some(Code::DiskFull),
            Self::OtherStore { .. } => Some(Code::CandidateForgot),
            Self::Members(_) | Self::NotLost | Self::NoEngine => None,
        }
    }
}
