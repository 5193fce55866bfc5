//! Why a call has no reply, as the caller sees it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use model::NodeName;
use queue_format::Epoch;

use super::connect::{CertificateFault, NOT_LISTED};
use crate::wire::{FailureKind, Versions};

/// A call without a reply.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The node is marked offline; nothing was sent.
    #[error("node {node} is marked offline")]
    Offline { node: NodeName },
    /// No connection; nothing was sent.
    #[error("cannot reach the agent of node {node} at {address}")]
    Unreachable {
        node: NodeName,
        /// The address where it was expected.
        address: SocketAddr,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The connection broke while the answer was awaited: the node may have acted.
    #[error(
        "the connection to node {node} broke during `{call}`; it is not known whether the node acted"
    )]
    Lost {
        node: NodeName,
        call: &'static str,
        /// The HTTP library's error.
        #[source]
        error: hyper::Error,
    },
    /// One side does not accept the other; nothing was done.
    #[error("node {node} and this one do not accept each other: {refusal}")]
    Refused {
        node: NodeName,
        /// Why.
        refusal: Refusal,
    },
    /// No answer in time: the node may have acted, or still act.
    #[error("node {node} did not answer `{call}` within {} s", after.as_secs())]
    TimedOut {
        node: NodeName,
        call: &'static str,
        /// The limit of its class.
        after: Duration,
    },
    /// The agent answered that it failed, or could not begin.
    #[error("node {node}, `{call}`: {message}{}", ended_by(remedy.as_deref()))]
    Failed {
        node: NodeName,
        call: &'static str,
        /// The class of the failure.
        kind: FailureKind,
        /// The agent's words.
        message: String,
        /// The command that ends it, where the agent knows one.
        remedy: Option<String>,
    },
    /// The answer is no reply to this call.
    #[error("node {node} answered `{call}` with something else than its reply")]
    Malformed {
        node: NodeName,
        call: &'static str,
        /// The JSON reader's error.
        #[source]
        error: serde_json::Error,
    },
    /// The answer is longer than the carriage allows.
    #[error("node {node} answered `{call}` with more than {limit} bytes")]
    AnswerTooLarge { node: NodeName, call: &'static str, limit: usize },
}

impl RpcError {
    /// Every word of [`Self::word`].
    pub const WORDS: [&str; 8] = [
        "offline",
        "unreachable",
        "lost",
        "refused",
        "timed-out",
        "failed",
        "malformed",
        "too-large",
    ];

    /// The kind of failure in one word, for who counts.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Offline { .. } => "offline",
            Self::Unreachable { .. } => "unreachable",
            Self::Lost { .. } => "lost",
            Self::Refused { .. } => "refused",
            Self::TimedOut { .. } => "timed-out",
            Self::Failed { .. } => "failed",
            Self::Malformed { .. } => "malformed",
            Self::AnswerTooLarge { .. } => "too-large",
        }
    }
}

fn ended_by(remedy: Option<&str>) -> String {
    remedy.map_or_else(String::new, |remedy| format!("; {remedy}"))
}

/// Why one side does not accept the other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A certificate is not good: wrong cluster, wrong node, wrong fingerprint, expired.
    #[error("certificate: {reason}")]
    Certificate {
        /// The TLS library's words.
        reason: String,
        /// Which remedy ends it.
        fault: CertificateFault,
    },
    /// The node's allow-list does not name this caller.
    #[error("{message}")]
    Stranger {
        /// The node's words.
        message: String,
    },
    /// The node obeys a higher epoch: this master is one no longer.
    #[error(
        "{message}; another master took over, or an old copy was restored here (see Backup in \
         install.md)"
    )]
    Epoch {
        /// The epoch that the node obeys.
        held: Epoch,
        /// The node's words, which name both epochs.
        message: String,
    },
    /// This master hears no majority of the voters, and starts no call.
    #[error("this master hears no majority of the voters, and starts no call until it does")]
    CutOff,
    /// There is no version of the protocol that both understand.
    #[error("{message}")]
    Version {
        /// The versions that the node understands.
        node_versions: Versions,
        /// The node's words.
        message: String,
    },
}

impl RpcError {
    /// Whether no call was made, since this master hears no majority of the voters.
    pub fn is_of_being_cut_off(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::CutOff, .. })
    }

    /// Whether the node answers, and does not let this one call because its list lacks it.
    pub fn is_of_a_stranger(&self) -> bool {
        match self {
            Self::Refused { refusal: Refusal::Stranger { .. }, .. } => true,
            Self::Refused { refusal: Refusal::Certificate { reason, .. }, .. } => {
                reason == NOT_LISTED
            }
            _ => false,
        }
    }

    /// Whether the node obeys a later epoch than this master's.
    pub fn is_of_an_epoch(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::Epoch { .. }, .. })
    }

    /// Whether the node certainly did nothing, so that the call may be made again as it is.
    pub fn certainly_not_done(&self) -> bool {
        match self {
            Self::Offline { .. } | Self::Unreachable { .. } | Self::Refused { .. } => true,
            Self::Failed { kind, .. } => matches!(
                kind,
                FailureKind::Busy
                    | FailureKind::Malformed
                    | FailureKind::TooLarge
                    | FailureKind::UnknownCall
                    | FailureKind::Secret
            ),
            Self::Lost { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. }
            | Self::AnswerTooLarge { .. } => false,
        }
    }
}
