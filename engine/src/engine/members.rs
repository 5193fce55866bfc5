//! The members, and how they change: one step at a time.

use std::collections::{BTreeMap, BTreeSet};

use openraft::errors::{ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers};

use super::Engine;
use crate::types::Membership;

/// The members, and which of them vote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    /// Those whose word counts for a majority. While that changes, those of both sides.
    pub voters: BTreeSet<u64>,
    /// Everyone, with the name of the node.
    pub nodes: BTreeMap<u64, String>,
    /// Both sets of voters while one is changed for the other, the new one last: a majority of each is
    /// needed.
    pub changing: Option<[BTreeSet<u64>; 2]>,
}

impl Members {
    pub(super) fn of(membership: &Membership) -> Self {
        Self {
            voters: membership.voter_ids().collect(),
            nodes: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
            changing: match membership.get_joint_config().as_slice() {
                [before, after] => Some([before.clone(), after.clone()]),
                _ => None,
            },
        }
    }

    /// Every set of voters of which a majority is needed.
    pub fn sets(&self) -> &[BTreeSet<u64>] {
        match &self.changing {
            Some(both) => both,
            None => std::slice::from_ref(&self.voters),
        }
    }

    /// The voters in whom a change ends that was begun and not ended, for `leader` to have it committed:
    /// whoever began it may be gone. The new ones, or those before where it has no vote among these.
    pub fn unsettled(&self, leader: u64) -> Option<&BTreeSet<u64>> {
        let [before, after] = self.changing.as_ref()?;
        Some(if after.contains(&leader) { after } else { before })
    }

    /// Those who only follow.
    pub fn learners(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.keys().copied().filter(|id| !self.voters.contains(id))
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembersChange {
    /// This member follows from now on.
    AddLearner {
        /// Its id, never used before.
        member: u64,
        /// Name of its node.
        node: String,
    },
    /// These vote, all of whom are members; the others follow.
    SetVoters(BTreeSet<u64>),
    /// This member, which does not vote, is none any more.
    RemoveLearner(u64),
}

/// A change of members that was not made, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    /// Nothing happened: this member does not lead, or hears no majority.
    #[error("refused: this member does not lead, or hears no majority")]
    Refused,
    /// Nothing happened: the change cannot be made.
    #[error("members cannot change so: {reason}")]
    Impossible {
        /// The engine's message.
        reason: String,
    },
    /// It was begun, and its outcome is not known.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// The engine's message.
        reason: String,
    },
}

impl Engine {
    /// Changes who is a member; returns when that is committed. Only who leads can.
    ///
    /// # Errors
    /// See [`MembersError`], which says whether anything happened.
    pub async fn change_members(&self, change: MembersChange) -> Result<(), MembersError> {
        let _alone = self.proposing.lock().await;
        let now = self.status().members;
        let impossible = |reason: &str| MembersError::Impossible { reason: reason.to_owned() };
        let change = match change {
            MembersChange::AddLearner { member, .. } if now.nodes.contains_key(&member) => {
                return Err(impossible("an id is never used twice"));
            }
            MembersChange::AddLearner { member, node } => {
                ChangeMembers::AddNodes(BTreeMap::from([(member, BasicNode { addr: node })]))
            }
            MembersChange::SetVoters(voters) if !voters.contains(&self.member) => {
                // The engine would leave a leader without a vote in its place.
                return Err(impossible("who leads votes: hand over first"));
            }
            MembersChange::SetVoters(voters) => ChangeMembers::ReplaceAllVoters(voters),
            MembersChange::RemoveLearner(member) if now.voters.contains(&member) => {
                return Err(impossible("it votes: make it a learner first"));
            }
            MembersChange::RemoveLearner(member) => ChangeMembers::RemoveNodes([member].into()),
        };
        self.change(change).await
    }

    pub(super) async fn change(
        &self,
        change: ChangeMembers<u64, BasicNode>,
    ) -> Result<(), MembersError> {
        match self.raft.change_membership(change, true).await {
            Ok(_applied) => Ok(()),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(MembersError::Refused)
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(MembersError::Impossible { reason: error.to_string() })
            }
            Err(error) => Err(MembersError::Unknown { reason: error.to_string() }),
        }
    }
}
