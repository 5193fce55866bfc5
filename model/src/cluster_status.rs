//! Core: how a cluster stands, as one process of `masterd` knows it: what `gnt cluster status` shows.
//! The master knows most of it, a standby its own part.

use serde::{Deserialize, Serialize};

use crate::cluster::Overridden;
use crate::job_id::JobId;
use crate::name::NodeName;
use crate::role_check::RoleTaken;
use crate::time::Timestamp;

/// Silence after which a member is not counted on, in milliseconds: several heartbeats, and the
/// pause before a lost connection is made anew.
pub const HEARD_WITHIN_MS: u64 = 5_000;

/// How a cluster stands at a moment. Facts that the answering process does not know are null, or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    pub cluster: Option<NodeName>,
    /// The node that answers.
    pub node: NodeName,
    /// The state of its `masterd`.
    pub state: ProcessState,
    /// When this was so, by its clock.
    pub now: Timestamp,
    /// The master, by the newest role entry that is known here.
    pub master: Option<MasterStatus>,
    /// The members that decide what is committed.
    pub quorum: Option<QuorumStatus>,
    /// Whether a candidate takes the role by itself when the master falls silent; null where that is
    /// not known.
    #[serde(default)]
    pub auto_failover: Option<bool>,
    /// The nodes that hold the store, or should, in the order of their names.
    pub candidates: Vec<CandidateStatus>,
    /// The knowledge of this process, where it follows or is to start.
    pub standby: Option<StandbyStatus>,
    /// The store that should be here; where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_missing: Option<StoreMissing>,
    /// The jobs; of a master.
    pub queue: Option<QueueStatus>,
    /// The store of the node that answers.
    pub store: Option<StoreStatus>,
    /// The agents; of a master.
    pub agents: Option<AgentsStatus>,
    /// Certificates whose end is known here.
    pub certificates: Vec<CertificateStatus>,
    /// Until when the watcher does nothing, where it is paused.
    pub watcher_paused_until: Option<Timestamp>,
    /// The override of which nobody has said yet that it was seen to; of a master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
    /// The alarms that need an action, the worst first.
    pub alarms: Vec<AlarmStatus>,
}

/// The state of a process of `masterd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessState {
    /// It has no store: no candidate, or not yet invited.
    Outside,
    /// It follows a master.
    Standby,
    Master,
    /// It was the master last, and is not confirmed yet.
    Starting,
    /// Something that a newer version added.
    #[serde(other)]
    Other,
}

/// A leadership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterStatus {
    /// The master's node.
    pub node: NodeName,
    /// The epoch: term and node id, such as `3.1`.
    pub epoch: String,
    /// When the role was taken.
    pub since: Timestamp,
}

/// Those whose word counts for a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumStatus {
    /// Nodes that vote.
    pub voters: Vec<String>,
    /// How many of them are enough.
    pub needed: usize,
    /// How many were heard within [`HEARD_WITHIN_MS`], or since the majority was lost; the master
    /// itself among them. Null where others do not answer to the process that tells.
    pub heard: Option<usize>,
    /// Whether a majority confirms the master at this moment; null as `heard`.
    pub majority: Option<bool>,
    /// Milliseconds since a majority did.
    pub heard_ms: Option<u64>,
    /// Why changes are refused, if they are.
    pub refusing: Option<String>,
}

/// A node that holds the store, or should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStatus {
    /// Its name.
    pub node: String,
    /// Its part.
    pub state: CandidateState,
    pub master: bool,
    /// Entries of the log that it lacks, as far as is known.
    pub behind: Option<u64>,
    /// Milliseconds since it answered last.
    pub heard_ms: Option<u64>,
    /// Whether it is not counted on, since it does not answer.
    pub unreachable: bool,
    /// Since when it is unreachable, or should follow and does not; where that is known.
    pub since: Option<Timestamp>,
    /// Whether its disk takes nothing, as it said last.
    #[serde(default)]
    pub disk_full: bool,
    /// Why its store is of no use, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgot: Option<String>,
    /// Whether that is an older copy, which a person puts aside; otherwise it gets a new store by
    /// itself.
    #[serde(default)]
    pub older_copy: bool,
    /// Why other candidates cannot ask it, where that is known; of the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_listening: Option<String>,
}

/// A candidate's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateState {
    /// Its word counts, and it may be the master.
    Voter,
    /// It only follows.
    Learner,
    /// Its word counts, and it cannot be the master.
    Witness,
    /// It has no copy of the store yet.
    NotYet,
    /// Something that a newer version added.
    #[serde(other)]
    Other,
}

impl CandidateState {
    /// The word for a reader.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Learner => "learner",
            Self::Witness => "witness",
            Self::NotYet => "not yet",
            Self::Other => "other",
        }
    }
}

/// The knowledge of a process that is not master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyStatus {
    /// The node that it follows; null where it knows of no leader.
    pub leader: Option<String>,
    /// Milliseconds since it heard a leader; null if it never did.
    pub heard_ms: Option<u64>,
    /// The last entry of its log: epoch and number, such as `3.1/1234`.
    pub last: String,
    /// The last one that it knows to be committed.
    pub applied: String,
    /// Why it is not the master, in a sentence.
    pub why: String,
    /// Why its store is none to vote with, as somebody told it who knows what it had; null where nobody
    /// did.
    #[serde(default)]
    pub forgot: Option<String>,
    /// Whether the last entry of its log about this node marks it offline: it is told nothing any more.
    #[serde(default)]
    pub offline: bool,
    /// The outcome of its last attempt to start as the master.
    pub attempt: Option<RoleTaken>,
}

/// A node without a store, or with none that can be opened, that should have one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreMissing {
    /// Whether it was the master, as its agent knows; otherwise it is a candidate.
    pub was_master: bool,
    /// The remains that are there all the same: a data directory without its `store.json`.
    pub headless: Option<String>,
    /// The other candidates, as its agent knows them.
    pub others: Option<String>,
}

/// The jobs that are not archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait for locks.
    pub waiting: u64,
    /// Jobs that have not begun.
    pub queued: u64,
    /// The oldest job that has not ended.
    pub oldest: Option<OldestJob>,
    /// Whether no new jobs are taken.
    pub drained: bool,
}

/// A job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldestJob {
    /// Its number.
    pub job: JobId,
    /// When it came; null where its file does not say.
    pub since: Option<Timestamp>,
}

/// Disk and journal of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    pub health: StoreHealth,
    /// The last committed entry.
    pub position: String,
    /// Free space of the file system, in MiB; null where that cannot be told.
    pub disk_free_mib: Option<u64>,
    /// The size of the file system, in MiB.
    pub disk_mib: Option<u64>,
    /// Bytes of the journal that cannot be written anew yet.
    pub journal_used_bytes: u64,
    /// Bytes of the whole journal; 0 where there is none.
    pub journal_bytes: u64,
    /// Committed documents whose file is not written yet.
    pub files_lag_keys: u64,
    pub files_lag_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum StoreHealth {
    /// Well.
    Good,
    /// The disk takes no files.
    DiskFull {
        /// Since when.
        since: Timestamp,
        /// The system's error, and its file.
        reason: String,
    },
    /// Nothing is committed any more.
    Failed {
        /// Why.
        reason: String,
    },
}

/// The agents that the master reaches, and the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsStatus {
    /// Agents that answered at the last attempt.
    pub reached: u64,
    /// Agents that did not, in the order of their names.
    pub unreached: Vec<AgentUnreached>,
    /// Nodes that are offline, which nobody calls.
    pub offline: u64,
}

/// An agent that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentUnreached {
    pub node: NodeName,
    /// Since when.
    pub since: Timestamp,
    /// Why, as far as is known.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Whose it is.
    pub owner: CertificateOwner,
    /// Until when it is valid.
    pub ends: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificateOwner {
    /// The cluster's authority, which signed all others.
    Authority,
    Node(NodeName),
}

/// How urgent an alarm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlarmSeverity {
    /// The cluster, or the node that answers, does not do its work, or data may be lost.
    Critical,
    /// The cluster does its work, and has to be looked at; also what a newer version added.
    #[default]
    #[serde(other)]
    Warning,
}

impl AlarmSeverity {
    /// The word that people and programs see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// Something that somebody should do something about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmStatus {
    /// How urgent it is.
    #[serde(default)]
    pub severity: AlarmSeverity,
    /// The kind, one word, such as `majority-lost`; docs/failover.md has them all.
    pub kind: String,
    /// Its subject, such as `candidate n2.example`.
    pub what: String,
    /// Since when it is so, where that is known.
    pub since: Option<Timestamp>,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub todo: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_version_says_is_read_as_other() {
        assert_eq!(
            serde_json::from_str::<ProcessState>("\"asleep\"").unwrap(),
            ProcessState::Other
        );
        let state = serde_json::from_str::<CandidateState>("\"observer\"").unwrap();
        assert_eq!(state, CandidateState::Other);
        assert_eq!(serde_json::to_string(&CandidateState::NotYet).unwrap(), "\"not-yet\"");
    }

    #[test]
    fn a_severity_that_is_not_known_warns() {
        for (word, severity) in [
            ("\"critical\"", AlarmSeverity::Critical),
            ("\"warning\"", AlarmSeverity::Warning),
            ("\"odd\"", AlarmSeverity::Warning),
        ] {
            assert_eq!(serde_json::from_str::<AlarmSeverity>(word).unwrap(), severity);
        }
    }

    #[test]
    fn the_store_tells_how_it_is_by_a_word() {
        let full = StoreHealth::DiskFull { since: Timestamp::from_micros(5), reason: "x".into() };
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(text, r#"{"is":"disk-full","since":[0,5],"reason":"x"}"#);
        assert_eq!(serde_json::from_str::<StoreHealth>(&text).unwrap(), full);
    }
}
