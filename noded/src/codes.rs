//! Core: the codes of errors that end `noded`.

use model::{Code, Coded};
use stdx::net::ListenError;

use crate::daemon::DaemonError;
use crate::enroll::EnrollError;
use crate::run::RunError;

impl Coded for RunError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Enroll(error) => error.code(),
            Self::Start(error) => error.code(),
            Self::Stop(error) => error.code(),
            Self::Log(_) | Self::Signals(_) => None,
        }
    }
}

impl Coded for DaemonError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Identity(error) => error.code(),
            Self::Tls(_) => Some(Code::IdentityDamaged),
            Self::Ledger(error) => error.code(),
            Self::Blobs(_) | Self::Instances(_) => Some(Code::FileAccess),
            Self::Facts(_) => None,
            Self::Listen(ListenError { error, .. }) => Code::of_port(error),
        }
    }
}

impl Coded for EnrollError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Enrolled { .. } => Some(Code::ClusterExists),
            Self::Identity(error) => error.code(),
            Self::Listen(ListenError { error, .. }) => Code::of_port(error),
            Self::Owner(_) => Some(Code::FileAccess),
            Self::Void | Self::Token { .. } | Self::Late { .. } => Some(Code::EnrolmentFailed),
            Self::TokenFile { .. } => Some(Code::FileAccess),
            Self::Name(_) | Self::Show(_) | Self::Ended { .. } => None,
        }
    }
}
