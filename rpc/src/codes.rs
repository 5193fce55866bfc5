//! Core: the codes of calls and questions that were not answered, and of identities.

use model::{Code, Coded};

use crate::client::{CertificateFault, Refusal, RpcError};
use crate::identity::IdentityError;
use crate::peer::PeerError;
use crate::peer::failure::PeerFailureKind;
use crate::peer::hello::RefusalReason;
use crate::wire::FailureKind;

impl Coded for RpcError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Offline { .. } => None,
            Self::Unreachable { .. } | Self::TimedOut { .. } => Some(Code::Agent),
            Self::Lost { .. } => Some(Code::OutcomeUnknown),
            Self::Refused { refusal, .. } => refusal.code(),
            Self::Failed { kind, .. } => match kind {
                FailureKind::UnknownCall | FailureKind::Malformed | FailureKind::Version => {
                    Some(Code::ProtocolMismatch)
                }
                FailureKind::Busy => Some(Code::Overloaded),
                // The agent's words say what it could not do.
                _ => None,
            },
            Self::Malformed { .. } | Self::AnswerTooLarge { .. } => Some(Code::ProtocolMismatch),
        }
    }
}

impl Coded for Refusal {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Certificate { fault, .. } => Some(of_certificate(*fault)),
            Self::Stranger { .. } => Some(Code::NotAccepted),
            Self::Epoch { .. } => Some(Code::Fenced),
            Self::CutOff => Some(Code::MajorityLost),
            Self::Version { .. } => Some(Code::ProtocolMismatch),
        }
    }
}

impl Coded for PeerError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => Some(Code::CandidateUnreachable),
            Self::Certificate { fault, .. } => Some(of_certificate(*fault)),
            Self::Refused { refusal, .. } => match refusal.reason {
                RefusalReason::Version { .. } | RefusalReason::Malformed => {
                    Some(Code::ProtocolMismatch)
                }
                RefusalReason::WrongCluster { .. } => Some(Code::OtherCluster),
                RefusalReason::Stranger => Some(Code::NotAccepted),
                RefusalReason::NotMeant { .. } | RefusalReason::Reverted { .. } => {
                    Some(Code::CandidateForgot)
                }
                RefusalReason::Busy => Some(Code::Overloaded),
                RefusalReason::Stopping | RefusalReason::Other => None,
            },
            Self::TooLarge { .. } => Some(Code::ChangeTooLarge),
            Self::Lost { .. } => Some(Code::OutcomeUnknown),
            Self::Failed { failure, .. } => match failure.kind {
                PeerFailureKind::UnknownQuestion | PeerFailureKind::Malformed => {
                    Some(Code::ProtocolMismatch)
                }
                // The member's words say what it could not do.
                _ => None,
            },
            Self::Malformed { .. } => Some(Code::ProtocolMismatch),
        }
    }
}

const fn of_certificate(fault: CertificateFault) -> Code {
    match fault {
        CertificateFault::Foreign => Code::OtherCluster,
        CertificateFault::Dates => Code::ClockOff,
        CertificateFault::NotAccepted => Code::NotAccepted,
    }
}

impl Coded for IdentityError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::NotEnrolled { .. } => Some(Code::NotEnrolled),
            Self::Request { .. } | Self::RequestKey { .. } => Some(Code::EnrolmentFailed),
            Self::NotBegun => Some(Code::Certificate),
            Self::Make { .. } | Self::Random => Some(Code::Fault),
            Self::Read { error, .. } | Self::Write { error, .. } => {
                error.code().or(Some(Code::IdentityDamaged))
            }
            Self::Pem { .. }
            | Self::Der { .. }
            | Self::AuthorityKey { .. }
            | Self::Mismatch { .. }
            | Self::OtherNode { .. }
            | Self::OtherAuthority { .. }
            | Self::Membership { .. } => Some(Code::IdentityDamaged),
        }
    }
}
