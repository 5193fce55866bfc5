//! Core: what surrounds every call and every answer.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use model::{JobId, NodeName};
use queue_format::Epoch;

/// Version of the protocol that this program speaks.
pub const PROTOCOL: u32 = 1;

/// The versions that one side understands: its own and the one before.
///
/// So the nodes of a cluster can be upgraded one after the other, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The older one.
    pub oldest: u32,
    /// The newer one, which is spoken where the other side does not ask for less.
    pub newest: u32,
}

impl Versions {
    /// The versions that this program understands.
    pub const OURS: Self = Self::up_to(PROTOCOL);

    /// `newest` and the version before it.
    pub const fn up_to(newest: u32) -> Self {
        Self { oldest: newest.saturating_sub(1), newest }
    }

    /// Whether `version` is one of them.
    pub const fn contain(self, version: u32) -> bool {
        self.oldest <= version && version <= self.newest
    }

    /// The newest version that both sides understand.
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (self.contain(newest) && other.contain(newest)).then_some(newest)
    }
}

/// The opcode on whose behalf a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobRef {
    /// Its job.
    pub id: JobId,
    /// Its place in the job, from 0.
    pub op: u32,
}

/// Body of a request: who asks, under which epoch, and the call's own parameters.
#[derive(Debug, Serialize)]
pub(crate) struct OutEnvelope<'a, C> {
    pub(crate) protocol: u32,
    pub(crate) caller: &'a NodeName,
    pub(crate) epoch: Epoch,
    pub(crate) job: Option<JobRef>,
    pub(crate) call: &'a C,
}

/// The part of a request that every version understands.
#[derive(Debug, Deserialize)]
pub(crate) struct InVersion {
    pub(crate) protocol: u32,
}

/// The same, read: the parameters are left alone until the rest is found good.
#[derive(Debug, Deserialize)]
pub(crate) struct InEnvelope<'a> {
    pub(crate) caller: NodeName,
    pub(crate) epoch: Epoch,
    #[serde(default)]
    pub(crate) job: Option<JobRef>,
    #[serde(borrow)]
    pub(crate) call: &'a RawValue,
}

/// Body of an answer: exactly one of the two.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AnswerBody {
    /// The call's own reply.
    #[serde(rename = "reply")]
    Reply(Box<RawValue>),
    /// Why there is none.
    #[serde(rename = "error")]
    Error(Failure),
}

macro_rules! failure_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, $status:literal;)+) => {
        /// Why a call has no reply.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum FailureKind {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $kind,)+
            /// A kind that a newer version added.
            #[serde(other, rename = "other")]
            Other,
        }

        impl FailureKind {
            /// Every kind as (name on the wire, HTTP status, meaning).
            pub const TABLE: &[(&'static str, u16, &'static str)] =
                &[$(($name, $status, concat!($($doc),+)),)+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ Self::Other => "other" }
            }

            /// The HTTP status that goes with it.
            pub const fn status(self) -> u16 {
                match self { $(Self::$kind => $status,)+ Self::Other => 500 }
            }
        }
    };
}

failure_kinds! {
    /// The call's name is not in the table of the side that was asked.
    UnknownCall = "unknown-call", 404;
    /// The body is no envelope, or the parameters are not the call's.
    Malformed = "malformed", 400;
    /// The body is longer than the call allows.
    TooLarge = "too-large", 413;
    /// Neither side understands the other's version; `versions` says what is understood.
    Version = "version", 505;
    /// A master of a higher epoch has called since; `epoch` says which.
    Epoch = "epoch", 409;
    /// The caller's certificate is not, or no longer, on the allow-list.
    Stranger = "stranger", 403;
    /// A limit of the agent is reached; nothing was done.
    Busy = "busy", 503;
    /// The call was begun and ended early, because of a higher epoch or the agent's shutdown.
    Interrupted = "interrupted", 410;
    /// The call took longer than its time class allows.
    Overdue = "overdue", 504;
    /// The call was begun and failed; the message says how.
    Failed = "failed", 422;
    /// A bug in the agent; its log has the details. Other calls are not touched.
    Panicked = "panicked", 500;
    /// The one-time secret of an enrolment is wrong or void.
    Secret = "secret", 401;
    /// A run did not begin, as the copy of one of its disks on another node cannot be written.
    Copy = "copy", 424;
}

/// Why a call has no reply, as it crosses the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The class.
    pub kind: FailureKind,
    /// The attempt, its object, and the reason why it failed.
    pub message: String,
    /// With [`FailureKind::Version`]: what the agent understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// With [`FailureKind::Epoch`]: the epoch that the agent obeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The command that ends it, where the agent knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Failure {
    /// A failure of `kind`.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), versions: None, epoch: None, remedy: None }
    }

    /// The call was begun and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// The caller's epoch is lower than the one that the agent obeys.
    pub fn epoch(asked: Epoch, held: Epoch) -> Self {
        Self {
            epoch: Some(held),
            ..Self::new(
                FailureKind::Epoch,
                format!("epoch {asked} is over: this node obeys epoch {held}"),
            )
        }
    }

    /// The caller's protocol version is not understood.
    pub fn version(asked: u32, ours: Versions) -> Self {
        let Versions { oldest, newest } = ours;
        Self {
            versions: Some(ours),
            ..Self::new(
                FailureKind::Version,
                format!(
                    "the caller speaks version {asked} of the node protocol, this node versions \
                     {oldest} to {newest}; upgrade the older of the two"
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_are_understood() {
        let ours = Versions::up_to(5);
        assert_eq!([3, 4, 5, 6].map(|v| ours.contain(v)), [false, true, true, false]);
        assert_eq!(ours.common(Versions::up_to(6)), Some(5));
        assert_eq!(ours.common(Versions::up_to(4)), Some(4));
        assert_eq!(ours.common(Versions::up_to(7)), None);
        assert_eq!(ours.common(Versions::up_to(3)), None);
    }

    #[test]
    fn wire_forms() {
        let failure = Failure::epoch(Epoch { term: 1, node: 2 }, Epoch { term: 2, node: 1 });
        let text = serde_json::to_string(&AnswerBody::Error(failure.clone())).unwrap();
        assert_eq!(
            text,
            r#"{"error":{"kind":"epoch","message":"epoch 1.2 is over: this node obeys epoch 2.1","epoch":{"term":2,"node":1}}}"#
        );
        let AnswerBody::Error(read) = serde_json::from_str(&text).unwrap() else { panic!() };
        assert_eq!(read, failure);
        let newer: Failure =
            serde_json::from_str(r#"{"kind":"tired","message":"m","more":1}"#).unwrap();
        assert_eq!(newer.kind, FailureKind::Other);
    }

    #[test]
    fn names_and_statuses_are_distinct() {
        for (at, (name, status, meaning)) in FailureKind::TABLE.iter().enumerate() {
            assert!(!meaning.is_empty() && (400..600).contains(status));
            assert!(
                FailureKind::TABLE.iter().skip(at + 1).all(|(n, s, _)| n != name && s != status)
            );
        }
    }
}
