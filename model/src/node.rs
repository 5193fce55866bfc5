//! Core: a node, a host of the cluster. [`role`] says what becomes of what it is.

pub mod role;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use uuid::Uuid;

use crate::enrol::Fingerprint;
use crate::layout::PEER_PORT;
use crate::name::NodeName;
use crate::serial::Serial;
use crate::time::Timestamp;

/// The role of a node in the cluster, apart from the master's; exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Holds copies of queue and configuration, and may become the master.
    Candidate,
    /// Neither of the others.
    Regular,
    /// Gets nothing new; to be emptied.
    Drained,
    /// Is not called at all.
    Offline,
}

impl NodeRole {
    /// Ganeti's letter; the master's is `M`.
    pub const fn letter(self, is_master: bool) -> &'static str {
        match self {
            _ if is_master => "M",
            Self::Candidate => "C",
            Self::Regular => "R",
            Self::Drained => "D",
            Self::Offline => "O",
        }
    }
}

/// The document `config/nodes/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its host name.
    pub name: NodeName,
    /// Its identity for Ganeti's clients.
    pub uuid: String,
    /// Its identity in epochs; never used twice, changes when the node is added anew.
    pub id: u64,
    /// Its role in the cluster.
    pub role: NodeRole,
    /// The address of its agent.
    pub primary_ip: IpAddr,
    /// Port of its agent.
    pub rpc_port: u16,
    /// Port on which its `masterd` talks with that of other candidates.
    #[serde(default = "peer_port")]
    pub peer_port: u16,
    /// Its part in replication, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
    /// Address for replication traffic; the primary one where there is no other.
    pub secondary_ip: IpAddr,
    /// Its certificate's: the pin by which callers and agents know each other.
    pub fingerprint: Fingerprint,
    /// The fingerprint of the certificate that is to take its place: as long as it is here, both are
    /// good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewing: Option<Fingerprint>,
    /// Rack that its agent serves.
    pub rack: Option<u32>,
    /// The machine of the inventory that it runs on, where a job made a node of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Serial>,
    /// UUID of its node group; none means the one that the cluster began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether it may become the master.
    pub master_capable: bool,
    /// Whether it is there to vote: it holds a copy of the store, is no candidate and never the
    /// master.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub witness: bool,
    /// Whether it may run instances.
    pub vm_capable: bool,
    /// Whether it is known to be powered, for nodes with out-of-band control.
    pub powered: bool,
    /// Counts the changes of this document.
    pub serial_no: u64,
    /// When it was added.
    pub ctime: Timestamp,
    /// When this document last changed.
    pub mtime: Timestamp,
    /// Free words.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A node's part in replication: the store that it should have (decision 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its identity among members, from the same counter as [`Node::id`] and never used twice:
    /// another one each time the node becomes a candidate.
    pub id: u64,
    /// Identity of its store, which another disk does not have; none until it has made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Uuid>,
    /// The last committed entry that its store had made durable when it fell silent: one that ends
    /// before it is an older copy. None where nobody noted any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
}

/// The place of an entry of the log, as a document has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// First part of the epoch in which it was written.
    pub term: u64,
    /// Second part.
    pub node: u64,
    /// Its running number.
    pub index: u64,
}

/// The port of nodes that were added before there was a choice.
const fn peer_port() -> u16 {
    PEER_PORT
}

impl Node {
    /// Whether it may be a candidate, and the master.
    pub const fn may_be_master(&self) -> bool {
        self.master_capable && !self.witness
    }

    /// Whether the master answers requests of the node's clients. The node is meant to hold the whole
    /// store, so that its word on who they are gives it nothing (decision 7).
    pub fn may_pass_on(&self) -> bool {
        match self.role {
            NodeRole::Candidate => true,
            NodeRole::Regular => self.witness,
            NodeRole::Drained | NodeRole::Offline => false,
        }
    }

    /// The certificates that it may show.
    pub fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        std::iter::once(self.fingerprint).chain(self.renewing)
    }

    /// The address of its `masterd` for that of other candidates.
    pub fn peer_address(&self) -> SocketAddr {
        SocketAddr::new(self.primary_ip, self.peer_port)
    }

    /// The address and port of its agent.
    pub fn rpc_address(&self) -> SocketAddr {
        SocketAddr::new(self.primary_ip, self.rpc_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_the_store_may_pass_on() {
        let node = |role: &str, witness: bool| -> Node {
            let node = serde_json::json!({
                "name": "n1", "uuid": "0d0b", "id": 1, "role": role, "witness": witness,
                "primary_ip": "10.0.0.1", "rpc_port": 1811, "secondary_ip": "10.0.0.1",
                "fingerprint": "a7".repeat(32), "rack": null, "master_capable": true,
                "vm_capable": true, "powered": true, "serial_no": 1, "ctime": [1, 0],
                "mtime": [1, 0],
            });
            serde_json::from_value(node).unwrap()
        };
        for (role, witness, may) in [
            ("candidate", false, true),
            ("regular", true, true),
            ("regular", false, false),
            ("drained", true, false),
            ("offline", true, false),
        ] {
            assert_eq!(node(role, witness).may_pass_on(), may, "{role}, witness {witness}");
        }
    }
}
