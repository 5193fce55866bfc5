//! The engine's types, and our words for them.
//!
//! Nothing of the engine's own shape goes to disk: a new version of it may change any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use openraft::vote::RaftLeaderId;
use openraft::{BasicNode, EntryPayload};
use queue_format::journal::{Entry as StoredEntry, Payload as Stored};
use queue_format::{Epoch, Position};
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// The types of the engine.
    pub(crate) TypeConfig:
        D = Proposal,
        R = Applied,
        NodeId = u64,
        Node = BasicNode,
        AsyncRuntime = crate::runtime::Runtime,
);

pub(crate) type LeaderId = openraft::type_config::alias::LeaderIdOf<TypeConfig>;
pub(crate) type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub(crate) type LogEntry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub(crate) type Payload = EntryPayload<Proposal, u64, BasicNode>;
pub(crate) type Membership = openraft::Membership<u64, BasicNode>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;

/// An encoded batch on its way through the log. Copies share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal(pub(crate) Bytes);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch of {} bytes", self.0.len())
    }
}

/// The answer to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied(pub(crate) Position);

/// Our position of an engine's entry: its first index is 0, ours is 1.
pub(crate) fn position(log_id: &LogId) -> Position {
    let leader = log_id.committed_leader_id();
    let epoch = Epoch { term: leader.term, node: leader.node_id };
    Position { epoch, index: log_id.index() + 1 }
}

/// The engine's id of our position; none for the position before the first.
pub(crate) fn log_id(position: Position) -> Option<LogId> {
    let index = position.index.checked_sub(1)?;
    Some(LogId::new(LeaderId::new(position.epoch.term, position.epoch.node), index))
}

/// An entry as it is stored and sent.
pub(crate) fn entry_to_stored(entry: &LogEntry) -> StoredEntry {
    let payload = match &entry.payload {
        Payload::Blank => Stored::Blank,
        Payload::Normal(Proposal(batch)) => Stored::Batch(batch.clone()),
        Payload::Membership(members) => Stored::Membership(Bytes::from(members_to_text(members))),
    };
    StoredEntry { position: position(&entry.log_id), payload }
}

/// An entry as the engine knows it.
pub(crate) fn entry_from_stored(entry: &StoredEntry) -> Result<LogEntry, MembersError> {
    let log_id = log_id(entry.position).ok_or(MembersError::Nowhere)?;
    let payload = match &entry.payload {
        Stored::Batch(bytes) => Payload::Normal(Proposal(bytes.clone())),
        Stored::Blank => Payload::Blank,
        Stored::Membership(text) => {
            let text = std::str::from_utf8(text).map_err(|_error| MembersError::Text)?;
            Payload::Membership(members_from_text(text)?)
        }
    };
    Ok(LogEntry { log_id, payload })
}

#[derive(Serialize, Deserialize)]
struct StoredVote {
    epoch: Epoch,
    committed: bool,
}

pub(crate) fn vote_to_text(vote: &Vote) -> String {
    let leader = vote.leader_id();
    let epoch = Epoch { term: leader.term, node: leader.node_id };
    let stored = StoredVote { epoch, committed: vote.is_committed() };
    serde_json::to_string(&stored).expect("numbers can be written")
}

pub(crate) fn vote_from_text(text: &str) -> Result<Vote, serde_json::Error> {
    let StoredVote { epoch, committed } = serde_json::from_str(text)?;
    Ok(if committed {
        Vote::new_committed(epoch.term, epoch.node)
    } else {
        Vote::new(epoch.term, epoch.node)
    })
}

/// Members as they are stored: voters, in two sets while they change, and everyone's address.
#[derive(Serialize, Deserialize)]
struct StoredMembers {
    voters: Vec<BTreeSet<u64>>,
    addresses: BTreeMap<u64, String>,
}

pub(crate) fn members_to_text(members: &Membership) -> String {
    let addresses = members.nodes().map(|(id, node)| (*id, node.addr.clone())).collect();
    let stored = StoredMembers { voters: members.get_joint_config().clone(), addresses };
    serde_json::to_string(&stored).expect("numbers and text can be written")
}

/// An entry that says nothing that can be, most likely about members.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembersError {
    #[error("an entry has the position of none")]
    Nowhere,
    #[error("the stored members are no text")]
    Text,
    #[error("the stored members are no JSON of the known shape")]
    Shape(#[from] serde_json::Error),
    #[error("the stored members contradict themselves: {0}")]
    Content(String),
}

pub(crate) fn members_from_text(text: &str) -> Result<Membership, MembersError> {
    let StoredMembers { voters, addresses } = serde_json::from_str(text)?;
    let nodes: BTreeMap<u64, BasicNode> =
        addresses.into_iter().map(|(id, addr)| (id, BasicNode { addr })).collect();
    Membership::new(voters, nodes).map_err(|error| MembersError::Content(error.to_string()))
}

/// How many of these entries are no more than `bytes_max` together: one at least.
pub(crate) fn fitting(entries: &[LogEntry], bytes_max: usize) -> usize {
    let mut together = 0;
    let fits = entries.iter().take_while(|entry| {
        together += bytes(entry);
        together <= bytes_max
    });
    fits.count().max(1)
}

/// The bytes of an entry's batch.
pub(crate) fn bytes(entry: &LogEntry) -> usize {
    match &entry.payload {
        Payload::Normal(Proposal(batch)) => batch.len(),
        Payload::Blank | Payload::Membership(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_ids_are_one_apart() {
        assert_eq!(log_id(Position::default()), None);
        let first = Position { epoch: Epoch { term: 2, node: 7 }, index: 1 };
        let id = log_id(first).unwrap();
        assert_eq!(id.index(), 0);
        assert_eq!(position(&id), first);
    }

    #[test]
    fn votes_and_members_survive_as_text() {
        for vote in [Vote::new(3, 9), Vote::new_committed(4, 1)] {
            assert_eq!(vote_from_text(&vote_to_text(&vote)).unwrap(), vote);
        }
        let nodes: BTreeMap<u64, BasicNode> =
            (1..=3).map(|id| (id, BasicNode { addr: format!("n{id}:1811") })).collect();
        let voters = vec![BTreeSet::from([1, 2]), BTreeSet::from([1])];
        let members = Membership::new(voters, nodes).unwrap();
        assert_eq!(members_from_text(&members_to_text(&members)).unwrap(), members);
        assert!(members_from_text("{").is_err());
        assert!(members_from_text(r#"{"voters":[[1]],"addresses":{}}"#).is_err());
    }

    const MAX: usize = 4 << 20;

    fn entries(bytes: &[usize]) -> Vec<LogEntry> {
        let entry = |(index, bytes): (u64, &usize)| {
            let epoch = Epoch { term: 1, node: 1 };
            let payload = Payload::Normal(Proposal(Bytes::from(vec![0; *bytes])));
            LogEntry { log_id: log_id(Position { epoch, index }).unwrap(), payload }
        };
        (1..).zip(bytes).map(entry).collect()
    }

    #[test]
    fn a_question_has_what_fits_and_one_entry_at_least() {
        assert_eq!(fitting(&entries(&[1_000; 300]), MAX), 300);
        assert_eq!(fitting(&entries(&[MAX / 2; 3]), MAX), 2);
        assert_eq!(fitting(&entries(&[MAX + 1, 1]), MAX), 1);
        assert_eq!(fitting(&entries(&[1, MAX]), MAX), 1);
    }
}
