//! Why a question has no answer, as who asked sees it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use model::NodeName;

use crate::client::connect::{CertificateFault, CertificateWord, certificate_word};
use crate::peer::failure::PeerFailure;
use crate::peer::frame::FrameError;
use crate::peer::hello::PeerRefusal;
use crate::peer::stream::StreamError;

/// The meaning of an end of the connection without TLS's own farewell.
const CUT_OFF: &str =
    "masterd ended there, has no place for more connections, or the network broke";

/// A question without an answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No connection; the question was not sent.
    #[error("cannot reach masterd of node {node} at {address}")]
    Unreachable {
        node: NodeName,
        /// The address where it was expected.
        address: SocketAddr,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A certificate is not accepted; the question was not sent.
    #[error("node {node} and this one do not accept each other's certificates: {reason}")]
    Certificate {
        node: NodeName,
        /// The TLS library's words.
        reason: String,
        /// Which remedy ends it.
        fault: CertificateFault,
    },
    /// The member does not answer this side, or is not the one that was meant; nothing was done.
    #[error("node {node} refused: {refusal}")]
    Refused {
        node: NodeName,
        /// Its reason and words.
        refusal: PeerRefusal,
    },
    /// The question is longer than a frame may be; it was not sent.
    #[error("the question for node {node} is {error}")]
    TooLarge {
        node: NodeName,
        /// How long it is.
        error: FrameError,
    },
    /// No answer in time: the member may have acted, or still act.
    #[error("masterd of node {node} did not answer within {} ms", after.as_millis())]
    TimedOut {
        node: NodeName,
        /// The time that it had.
        after: Duration,
    },
    /// The connection broke, or what came is no frame: the member may have acted.
    #[error(
        "the connection to masterd of node {node} broke during a question; it is not known whether \
         it acted"
    )]
    Lost {
        node: NodeName,
        /// The error of the connection.
        #[source]
        error: io::Error,
    },
    /// The member answered that it failed, or could not begin.
    #[error("masterd of node {node}: {failure}")]
    Failed {
        node: NodeName,
        /// Its kind and words.
        failure: PeerFailure,
    },
    /// The answer is no reply to this question: the member may have acted.
    #[error("masterd of node {node} answered with something else than the reply")]
    Malformed {
        node: NodeName,
        /// The JSON reader's error.
        #[source]
        error: serde_json::Error,
    },
}

impl PeerError {
    /// A connection that broke in the middle of an exchange.
    pub(super) fn broken(node: NodeName, error: StreamError) -> Self {
        Self::Lost { node, error: plain(error) }
    }

    /// A connection that did not come about.
    pub(super) fn not_open(node: NodeName, address: SocketAddr, error: StreamError) -> Self {
        let error = plain(error);
        match certificate_word(&error) {
            Some(CertificateWord { reason, fault }) => Self::Certificate { node, reason, fault },
            None => Self::Unreachable { node, address, error },
        }
    }

    /// Every kind of failure in one word.
    pub const WORDS: [&str; 8] = [
        "unreachable",
        "certificate",
        "refused",
        "too-large",
        "timed-out",
        "lost",
        "failed",
        "malformed",
    ];

    /// The kind of failure: one of [`Self::WORDS`], for who counts.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Certificate { .. } => "certificate",
            Self::Refused { .. } => "refused",
            Self::TooLarge { .. } => "too-large",
            Self::TimedOut { .. } => "timed-out",
            Self::Lost { .. } => "lost",
            Self::Failed { .. } => "failed",
            Self::Malformed { .. } => "malformed",
        }
    }

    /// Whether the member certainly did nothing, so that the question may be asked again as it is.
    pub const fn certainly_not_done(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. } => true,
            Self::Failed { failure, .. } => failure.certainly_not_done(),
            Self::TimedOut { .. } | Self::Lost { .. } | Self::Malformed { .. } => false,
        }
    }
}

/// `error` in our words, where the TLS library tells of its own documentation.
fn plain(error: StreamError) -> io::Error {
    match error {
        StreamError::Frame(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        StreamError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), CUT_OFF)
        }
        StreamError::Io(error) => error,
    }
}
