//! Core: parameters and replies of the questions about the member itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::NodeName;
use model::role_check::RoleRequest;
use queue_format::{Epoch, Position};

/// Most keys in one reply of `digest`: with the longest keys, the reply is still a frame.
pub const DIGEST_KEYS_MAX: usize = 8_192;

/// Parameters of `position`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskPosition {}

/// The position of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPosition {
    /// Its id; null outside, where there is no store.
    pub member: Option<u64>,
    /// Its store; null where there is none.
    pub incarnation: Option<Uuid>,
    pub node: NodeName,
    /// The last entry of its log; it may be on its way to the disk.
    pub last: Position,
    /// The last entry that it knows to be committed.
    pub committed: Position,
    /// The highest vote that it saw or gave.
    pub epoch: Epoch,
    /// The leadership of the leader that it follows or is; null where it knows of none.
    pub leader: Option<Epoch>,
    /// Members whose word counts, by the newest list of its log.
    #[serde(default)]
    pub voters: Vec<u64>,
    /// Both lists of voters, while one is changed for the other: a majority of each is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changing: Vec<Vec<u64>>,
    /// Members that only follow, by the same list.
    #[serde(default)]
    pub learners: Vec<u64>,
    /// The newest role entry of its log, committed or not; null where there is none.
    #[serde(default)]
    pub role: Option<PeerRole>,
    /// Whether it leads at this moment, be it only to hand over.
    #[serde(default)]
    pub leads: bool,
    /// Whether its disk takes no more.
    #[serde(default)]
    pub disk_full: bool,
    pub state: PeerState,
    /// The free space of the file system with its store, in MiB.
    pub disk_free_mib: u64,
    /// The last job id that was given, by its files; null where they do not tell.
    #[serde(default)]
    pub last_job: Option<PeerLastJob>,
}

/// The last job id that was given, by the files of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerLastJob {
    pub id: u64,
    /// The files know of all entries of the log up to this number.
    pub from: u64,
    /// And of none behind this one.
    pub upto: u64,
}

/// The entry with which a leadership begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRole {
    pub master: NodeName,
    /// The epoch of the leadership.
    pub epoch: Epoch,
}

/// The state of a node's `masterd` (decision 5, point 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum PeerState {
    /// No store: waits to be invited.
    Outside,
    /// Follows.
    Standby,
    /// Leads, and has its role entry.
    Master,
    /// Has a store that must neither vote nor acknowledge.
    Damaged {
        /// The fault and its remedy.
        why: String,
    },
    /// A state that a newer version added.
    #[serde(other)]
    Other,
}

/// Parameters of `join`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The epoch of the master that asks. A member that knows of a later one refuses.
    pub epoch: Epoch,
    /// Id of the new member. The question is a repetition where the store of this member is here
    /// already, and fails where that of another one is.
    pub member: u64,
}

/// The outcome of an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Identity of the store that was made, which the master records.
    pub incarnation: Uuid,
}

/// Parameters of `purge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// The epoch of the master that asks. A member that knows of a later one refuses.
    pub epoch: Epoch,
    /// The member whose store goes. Nothing happens where there is no store; where that of another
    /// member is here, the question fails.
    pub member: u64,
    /// Why the store is kept aside on its disk, where it is; it is wiped otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    /// Whether what was kept aside there before goes as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// Parameters of `lead_and_hand_over`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeadAndHandOver {
    /// The highest epoch of which the one that asks has heard, this member's own among them: it may
    /// be no master yet. A member that knows of a later one refuses, since a question that is older
    /// than that was answered long ago.
    pub epoch: Epoch,
    /// The member that is to lead then.
    pub to: u64,
    /// How long a master may let opcodes end that run, in seconds; then it stays the master.
    pub drain_seconds: u32,
}

/// Parameters of `take_over`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeOver {
    /// The operator's request.
    pub request: RoleRequest,
}

/// Parameters of `digest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskDigest {
    /// The moment to be compared: a member that is not there yet, or no longer, fails.
    pub position: Position,
    /// The group whose keys are asked for; null asks for the groups.
    #[serde(default)]
    pub group: Option<String>,
    /// Only names behind this one, for who goes on behind [`PeerDigest::complete`] = false.
    #[serde(default)]
    pub after: Option<String>,
}

/// The digest of a store at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerDigest {
    /// SHA-256 of each group or key, hexadecimal, at most [`DIGEST_KEYS_MAX`], the first in order.
    pub digests: BTreeMap<String, String>,
    pub complete: bool,
}

#[cfg(test)]
mod tests {
    use queue_format::key::{SEGMENT_BYTES_MAX, SEGMENTS_MAX};

    use super::*;
    use crate::peer::frame::FRAME_BYTES_MAX;

    #[test]
    fn states_on_the_wire() {
        let damaged = PeerState::Damaged { why: "no vote".to_owned() };
        let text = serde_json::to_string(&damaged).unwrap();
        assert_eq!(text, r#"{"is":"damaged","why":"no vote"}"#);
        assert_eq!(serde_json::from_str::<PeerState>(&text).unwrap(), damaged);
        let newer: PeerState = serde_json::from_str(r#"{"is":"asleep","since":3}"#).unwrap();
        assert_eq!(newer, PeerState::Other);
    }

    #[test]
    fn an_answer_of_before_there_was_more_to_say_is_read() {
        let text = r#"{"member":2,"incarnation":null,"node":"n2","last":{"epoch":{"term":3,"node":1},
            "index":9},"committed":{"epoch":{"term":3,"node":1},"index":9},
            "epoch":{"term":4,"node":1},"leader":null,"state":{"is":"standby"},"disk_free_mib":7}"#;
        let read: PeerPosition = serde_json::from_str(text).unwrap();
        assert_eq!((read.role, read.leads, read.disk_full), (None, false, false));
        assert_eq!(read.last_job, None);
    }

    #[test]
    fn a_full_digest_is_a_frame() {
        let quotes_and_digest = 64 + 8;
        let key = (SEGMENT_BYTES_MAX + 1) * SEGMENTS_MAX;
        assert!(DIGEST_KEYS_MAX * (key + quotes_and_digest) < FRAME_BYTES_MAX);
    }

    #[test]
    fn parameters_that_are_not_known_are_an_error() {
        assert!(
            serde_json::from_str::<Join>(
                r#"{"epoch":{"term":1,"node":1},"member":3,"anyway":true}"#
            )
            .is_err()
        );
        assert!(serde_json::from_str::<Join>(r#"{"member":3}"#).is_err());
        assert!(serde_json::from_str::<AskPosition>("{}").is_ok());
    }
}
