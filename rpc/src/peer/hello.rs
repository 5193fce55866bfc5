//! Core: the first words on a connection: who asks, who is meant, and why not.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::NodeName;
use queue_format::Position;

use super::PEER_PROTOCOL;
use super::failure::sentence;
use crate::wire::Versions;

/// The purpose of a connection: it selects the service that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Messages of the replication engine.
    Engine,
    /// Questions about the member itself.
    Control,
    /// Requests of clients (LUXI) that the caller passes on to the master.
    Luxi,
}

/// One store, as far as it is known: a node has none, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct StoreId {
    /// Id of the member; null where there is no store, or none is known.
    #[serde(default)]
    pub member: Option<u64>,
    /// Identity of the store; another one after the disk was lost. Null where it is not known.
    #[serde(default)]
    pub incarnation: Option<Uuid>,
}

impl StoreId {
    /// No store, or whichever there is.
    pub const NONE: Self = Self { member: None, incarnation: None };

    /// The store `incarnation` of member `member`.
    pub const fn new(member: u64, incarnation: Uuid) -> Self {
        Self { member: Some(member), incarnation: Some(incarnation) }
    }

    /// Whether `found` is the store that this one means: what is null here is not asked for.
    pub fn means(&self, found: &Self) -> bool {
        let member = self.member.is_none() || self.member == found.member;
        member && (self.incarnation.is_none() || self.incarnation == found.incarnation)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.member, self.incarnation) {
            (None, None) => f.write_str("no member"),
            (None, Some(incarnation)) => write!(f, "store {incarnation}"),
            (Some(member), None) => write!(f, "member {member}"),
            (Some(member), Some(incarnation)) => {
                write!(f, "member {member} with store {incarnation}")
            }
        }
    }
}

/// The side that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// The node, which must be the one that the allow-list has for the certificate.
    pub node: NodeName,
    #[serde(flatten)]
    pub store: StoreId,
}

/// The first frame of a connection. Fields that are not known are passed over: a later version may
/// add some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub protocol: u32,
    /// The cluster that is meant.
    pub cluster_uuid: Uuid,
    /// The side that asks.
    pub from: Speaker,
    /// The store that is meant.
    pub to: StoreId,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The last committed entry that the store that is meant has made durable, as far as the caller
    /// knows; the default where it knows of none.
    #[serde(default)]
    pub acknowledged: Position,
}

/// The state of the side that is asked, at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Here {
    pub cluster_uuid: Uuid,
    pub store: StoreId,
    /// The end of that store.
    pub last: Position,
}

/// The part of a hello that every version understands.
#[derive(Debug, Deserialize)]
struct HelloVersion {
    protocol: u32,
}

/// The answer to a hello that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// Versions of the protocol that the other side understands.
    pub(super) versions: Versions,
}

impl Hello {
    /// Reads a hello, its version first: the rest may look otherwise in another one.
    ///
    /// # Errors
    /// The refusal that says what is wrong with it.
    pub fn read(body: &[u8]) -> Result<Self, PeerRefusal> {
        let malformed = |error: serde_json::Error| {
            PeerRefusal::new(RefusalReason::Malformed, format!("this is no hello: {error}"))
        };
        let version: HelloVersion = serde_json::from_slice(body).map_err(malformed)?;
        let ours = Versions::up_to(PEER_PROTOCOL);
        if !ours.contain(version.protocol) {
            return Err(PeerRefusal::version(version.protocol, ours));
        }
        serde_json::from_slice(body).map_err(malformed)
    }

    /// Whether `here` is meant. The engine's questions must name both members: its messages are
    /// from one member to another, and say so nowhere else.
    ///
    /// # Errors
    /// The refusal that says who is here.
    pub fn check(&self, here: &Here) -> Result<(), PeerRefusal> {
        if self.cluster_uuid != here.cluster_uuid {
            return Err(PeerRefusal::wrong_cluster(self.cluster_uuid, here.cluster_uuid));
        }
        let engine = self.purpose == Purpose::Engine;
        if engine && (self.from.store.member.is_none() || self.to.member.is_none()) {
            let message = "a hello for the engine must name the member that asks and the one meant";
            return Err(PeerRefusal::new(RefusalReason::Malformed, message));
        }
        if !self.to.means(&here.store) {
            return Err(PeerRefusal::not_meant(self.to, here.store));
        }
        if engine && here.last < self.acknowledged {
            return Err(PeerRefusal::reverted(here.last, self.acknowledged));
        }
        Ok(())
    }
}

/// Why a connection, or a question on it, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RefusalReason {
    /// The version of the protocol is not understood.
    Version {
        /// The versions that are understood.
        versions: Versions,
    },
    /// Another cluster is meant.
    WrongCluster {
        /// The cluster that is here.
        cluster_uuid: Uuid,
    },
    /// The certificate is not, or no longer, on the allow-list, or is that of another node.
    Stranger,
    /// Another member, or another store of it, is meant.
    NotMeant { here: StoreId },
    /// The store ends before a committed entry that it had made durable: an older copy was put back.
    Reverted {
        /// The end of the store.
        last: Position,
    },
    /// Too many connections, of this peer or of all.
    Busy,
    /// The first frame is no hello, or not one for this purpose.
    Malformed,
    /// `masterd` is ending.
    Stopping,
    /// A reason that a newer version added.
    #[serde(other)]
    Other,
}

impl RefusalReason {
    /// The name on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Version { .. } => "version",
            Self::WrongCluster { .. } => "wrong-cluster",
            Self::Stranger => "stranger",
            Self::NotMeant { .. } => "not-meant",
            Self::Reverted { .. } => "reverted",
            Self::Busy => "busy",
            Self::Malformed => "malformed",
            Self::Stopping => "stopping",
            Self::Other => "other",
        }
    }
}

/// A refusal, as it crosses the wire: nothing was done, and the connection ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct PeerRefusal {
    /// Why, for a program.
    pub reason: RefusalReason,
    /// Why, and what to do, for a person.
    pub message: String,
}

impl PeerRefusal {
    /// A refusal; a message that is too long to travel is cut.
    pub fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { reason, message: sentence(message) }
    }

    fn version(asked: u32, versions: Versions) -> Self {
        let Versions { oldest, newest } = versions;
        Self::new(
            RefusalReason::Version { versions },
            format!(
                "the caller speaks version {asked} of the protocol between members, this node \
                 versions {oldest} to {newest}; upgrade the older of the two"
            ),
        )
    }

    fn wrong_cluster(meant: Uuid, here: Uuid) -> Self {
        Self::new(
            RefusalReason::WrongCluster { cluster_uuid: here },
            format!("cluster {meant} is meant, and this node belongs to cluster {here}"),
        )
    }

    fn reverted(last: Position, acknowledged: Position) -> Self {
        Self::new(
            RefusalReason::Reverted { last },
            format!(
                "the store here went back in time: it ends at {last}, and had acknowledged \
                 {acknowledged}; an older copy was put back. Give it a new store"
            ),
        )
    }

    fn not_meant(meant: StoreId, here: StoreId) -> Self {
        Self::new(
            RefusalReason::NotMeant { here },
            format!(
                "{meant} is meant, and here is {here}; to a node that lost its store a master gives \
                 another one"
            ),
        )
    }
}

#[cfg(test)]
mod tests;
