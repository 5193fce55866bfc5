//! Core: what an answer says that is none.

use queue_format::Epoch;
use serde::{Deserialize, Serialize};

/// Most characters of a sentence that travels: far above any, and within the limit of a hello.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// `message`, cut to what may travel.
pub(super) fn sentence(message: impl Into<String>) -> String {
    let mut message = message.into();
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(end);
    }
    message
}

macro_rules! failure_kinds {
    ($(#[doc = $doc:literal] $kind:ident = $name:literal;)+) => {
        /// Why a question has no answer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum PeerFailureKind {
            $(#[doc = $doc] #[serde(rename = $name)] $kind,)+
            /// A kind that a newer version added.
            #[serde(other, rename = "other")]
            Other,
        }

        impl PeerFailureKind {
            /// Every kind as (name on the wire, meaning).
            pub const TABLE: &[(&'static str, &'static str)] = &[$(($name, $doc),)+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ Self::Other => "other" }
            }
        }
    };
}

failure_kinds! {
    /// The service has no question of this kind; nothing was done.
    UnknownQuestion = "unknown-question";
    /// The body does not fit the question; nothing was done.
    Malformed = "malformed";
    /// The member's state does not allow this; nothing was done.
    NotNow = "not-now";
    /// The caller is not a candidate and may not ask this; nothing was done.
    NoCandidate = "no-candidate";
    /// The caller's epoch is over; nothing was done.
    Epoch = "epoch";
    /// It was begun and failed; the message says how.
    Failed = "failed";
    /// It took longer than its time class allows.
    Overdue = "overdue";
    /// It was done, and the answer is longer than a frame may be.
    TooLarge = "too-large";
}

/// Why a question has no answer, as it crosses the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct PeerFailure {
    /// The class.
    pub kind: PeerFailureKind,
    /// The attempt, its object, and the reason why it failed.
    pub message: String,
}

impl PeerFailure {
    /// A failure of `kind`; a message that is too long to travel is cut.
    pub fn new(kind: PeerFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: sentence(message) }
    }

    /// It was begun and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(PeerFailureKind::Failed, message)
    }

    /// The member is in a state in which it does not do that.
    pub fn not_now(message: impl Into<String>) -> Self {
        Self::new(PeerFailureKind::NotNow, message)
    }

    /// The epoch `asked` of the one that asks is lower than `known`, of which this member knows.
    pub fn epoch(asked: Epoch, known: Epoch) -> Self {
        let message = format!(
            "epoch {asked} is over: this member knows of epoch {known}; another master took over"
        );
        Self::new(PeerFailureKind::Epoch, message)
    }

    /// The service has no question of kind `kind`.
    pub fn unknown_question(kind: u8) -> Self {
        Self::new(PeerFailureKind::UnknownQuestion, format!("there is no question {kind} here"))
    }

    /// Whether the member certainly did nothing.
    pub const fn certainly_not_done(&self) -> bool {
        matches!(
            self.kind,
            PeerFailureKind::UnknownQuestion
                | PeerFailureKind::Malformed
                | PeerFailureKind::NotNow
                | PeerFailureKind::NoCandidate
                | PeerFailureKind::Epoch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_a_newer_version_is_taken() {
        let read: PeerFailure =
            serde_json::from_str(r#"{"kind":"tired","message":"m","more":1}"#).unwrap();
        assert_eq!(read.kind, PeerFailureKind::Other);
        let text = serde_json::to_string(&PeerFailure::not_now("wait")).unwrap();
        assert_eq!(text, r#"{"kind":"not-now","message":"wait"}"#);
    }

    #[test]
    fn sentences_are_cut_between_characters() {
        let long = PeerFailure::failed("ä".repeat(3 * MESSAGE_CHARS_MAX));
        assert_eq!(long.message.chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(PeerFailure::failed("short").message, "short");
    }

    #[test]
    fn the_documentation_has_every_kind() {
        let text = include_str!("../../../docs/replication.md");
        for (name, meaning) in PeerFailureKind::TABLE {
            let row = format!("| `{name}` | {} |", meaning.trim());
            assert!(text.contains(&row), "docs/replication.md lacks the row\n{row}");
        }
    }
}
