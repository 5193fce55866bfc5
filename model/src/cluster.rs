//! Core: the cluster as a whole.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::image::BootTarget;
use crate::name::NodeName;
use crate::time::Timestamp;

pub mod master_address;

pub use master_address::{MasterAddress, MasterAddressError};

/// Nodes that hold copies of queue and configuration, unless the operator says otherwise.
pub const CANDIDATE_POOL_SIZE: u32 = 10;
/// Jobs that may call agents at the same time, unless the operator says otherwise.
pub const MAX_RUNNING_JOBS: u32 = 20;
/// Ganeti's default; kept for its clients.
pub const MAX_TRACKED_JOBS: u32 = 25;
/// First bytes of instances' Ethernet addresses, unless the operator says otherwise.
pub const MAC_PREFIX: &str = "aa:00:00";

/// Seconds of silence after which a machine is unreachable, unless the operator says otherwise: ten
/// signs of one that gives one each half minute.
pub const SILENCE_DEADLINE: u32 = 300;
/// The least number of them: twice what agents and exchanges take to pass a sign on.
pub const SILENCE_MIN: u32 = 60;

/// The document `config/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name, a host name.
    pub cluster_name: NodeName,
    /// Its identity; no other cluster ever has it.
    pub uuid: String,
    /// Counts the changes of this document.
    pub serial_no: u64,
    /// When it was made.
    pub ctime: Timestamp,
    /// When this document last changed.
    pub mtime: Timestamp,
    /// Nodes that hold copies of queue and configuration.
    pub candidate_pool_size: u32,
    /// Jobs that may call agents at the same time.
    pub max_running_jobs: u32,
    /// Kept for Ganeti's clients.
    pub max_tracked_jobs: u32,
    /// First bytes of instances' Ethernet addresses.
    pub mac_prefix: String,
    /// The master's address, which moves with the role; none where tools go to the nodes' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master_ip: Option<IpAddr>,
    /// Interface that carries the master's address.
    pub master_netdev: Option<String>,
    /// Prefix length of the master's address; all of its bits where nothing is said.
    pub master_netmask: Option<u8>,
    /// Free words.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether a candidate takes the role by itself when the master falls silent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_failover: bool,
    /// Whether the master applies a host's network again where the host drifted from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mend_network: bool,
    /// Seconds after which a machine in service that told signs of life and tells none is unreachable; 0
    /// for never.
    #[serde(default = "silence_deadline", skip_serializing_if = "is_usual_silence")]
    pub silence_deadline: u32,
    /// The image that machines boot to be inspected, cleaned or rescued, unless another one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramdisk_image: Option<BootTarget>,
    /// Until when the watcher is asked to do nothing; it may have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watcher_pause: Option<Timestamp>,
    /// The id that the next node gets; ids are never used twice.
    pub next_node_id: u64,
    /// The first term of the history here: of an import; 0 where the cluster began with this store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_term: u64,
    /// The override of which nobody has said yet that it was seen to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
}

const fn silence_deadline() -> u32 {
    SILENCE_DEADLINE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_usual_silence(seconds: &u32) -> bool {
    *seconds == SILENCE_DEADLINE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A node that became master without any vote, and what was cut by that (docs/failover.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overridden {
    /// When.
    pub at: Timestamp,
    /// The node that did.
    pub node: NodeName,
    /// The cuts, certain or possible, in a sentence each; the oldest are forgotten where overrides
    /// follow each other unseen.
    pub cut: Vec<String>,
}

/// The document `config/role`: who is master, since when, under which epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub master: NodeName,
    /// First part of the epoch; grows each time the role is taken.
    pub term: u64,
    /// Second part of the epoch: id of the master node.
    pub node: u64,
    /// When the role was taken.
    pub since: Timestamp,
}
