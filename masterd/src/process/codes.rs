//! Core: the codes of errors that end `masterd`, or one of the commands that it does for `gnt cluster`.

mod store;

use jobs::load::LoadError;
use model::{Code, Coded};
use rpc::peer::PeerServerError;
use stdx::net::ListenError;

use crate::process::DaemonError;
use crate::role::load::FoundError;
use crate::store::bootstrap::InitError;
use crate::store::export::at_rest::ExportError;
use crate::store::import::ImportError;
use crate::store::import::adapt::Unfit;
use crate::store::lock::LockError;
use crate::store::upgrade::Blocked;
use crate::store::upgrade::look::LookError;

impl Coded for LockError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Locked { .. } => Some(Code::AlreadyRunning),
            Self::File { error, .. } => error.code().or(Some(Code::FileAccess)),
        }
    }
}

impl Coded for DaemonError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Identity(error) => error.code(),
            Self::Found(error) => error.code(),
            Self::Stranger(_)
            | Self::NotMaster { .. }
            | Self::OtherCluster { .. }
            | Self::OtherNode { .. } => Some(Code::WrongStore),
            Self::OlderCopy { .. } => Some(Code::OlderCopy),
            Self::Aside(_) | Self::Wipe(_) => Some(Code::StoreNotCleared),
            Self::Refused(refusal) => store::of_refusal(refusal),
            Self::RoleLost => Some(Code::RoleNotMoved),
            Self::PartEnded | Self::Vault(_) => Some(Code::Fault),
            Self::Lock(error) => error.code(),
            Self::Listen { error, .. } => error.code().or(Some(Code::FileAccess)),
            Self::Peers(ListenError { error, .. }) => Code::of_port(error),
            Self::Header(error) => store::of_header(error),
            Self::Open(error) => store::of_member(error),
            Self::EngineStopped { .. } | Self::Start(_) => Some(Code::StoreFailed),
            Self::NoAuthority => Some(Code::IdentityDamaged),
            Self::PeerServer(PeerServerError::Listener(_)) => Some(Code::AlreadyRunning),
            Self::PeerServer(PeerServerError::Identity { .. }) => Some(Code::IdentityDamaged),
            Self::Override(error) => store::of_override(error),
            Self::Close(error) => store::of_close(error),
        }
    }
}

impl Coded for FoundError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Open { error, .. } => store::of_open(error),
            Self::Read(error) | Self::Queue(LoadError::Read(error)) => store::of_file(error),
            Self::Config(_) | Self::Queue(LoadError::Job { .. } | LoadError::Queue { .. }) => {
                Some(Code::DocumentDamaged)
            }
        }
    }
}

impl Coded for InitError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Exists(_) | Self::Member { .. } => Some(Code::ClusterExists),
            Self::MasterAddress(_) => None,
            Self::Vault(_) => Some(Code::Fault),
            Self::Directory { error, .. } => error.code().or(Some(Code::FileAccess)),
            Self::Owner(_) => Some(Code::FileAccess),
            Self::Identity(error) => error.code(),
            Self::Open { error, .. } => store::of_open(error),
            Self::Start(_) | Self::Refused(_) => Some(Code::StoreFailed),
            Self::Close(error) => store::of_close(error),
        }
    }
}

impl Coded for ExportError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Owner(error) => error.code(),
            _ => Some(Code::ExportRefused),
        }
    }
}

impl Coded for ImportError {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Unfit(
                Unfit::NoNode { .. }
                | Unfit::Ambiguous(_)
                | Unfit::Incapable(_)
                | Unfit::Witness(_),
            )
            | Self::OtherNode { .. }
            | Self::Leftovers(_)
            | Self::List { .. }
            | Self::Header(_)
            | Self::Ended
            | Self::File(_) => Some(Code::ImportRefused),
            Self::Unfit(
                Unfit::Document { .. } | Unfit::Missing(_) | Unfit::OtherCluster { .. },
            )
            | Self::Open { .. }
            | Self::Read { .. }
            | Self::Passphrase(_)
            | Self::Authority
            | Self::Found(_) => Some(Code::ExportUnusable),
            Self::Running(error) => error.code(),
            Self::DiskFull { .. } => Some(Code::DiskFull),
            Self::Wipe(_) => Some(Code::StoreNotCleared),
            Self::Init(error) => error.code(),
            Self::Identity(error) => error.code(),
        }
    }
}

impl Coded for LookError {
    fn code(&self) -> Option<Code> {
        Some(Code::UpgradeBlocked)
    }
}

impl Coded for Blocked {
    fn code(&self) -> Option<Code> {
        Some(Code::UpgradeBlocked)
    }
}
