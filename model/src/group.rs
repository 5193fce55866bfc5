//! Core: node groups. There is one, which holds every node.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Name of the group that every cluster begins with.
pub const DEFAULT_GROUP: &str = "default";

/// Whether new instances are put on the nodes of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocPolicy {
    /// Yes.
    #[default]
    Preferred,
    /// Only where no other group has room.
    LastResort,
    /// No.
    Unallocable,
}

/// The document `config/groups/default`. A cluster whose group was never changed has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// Whether new instances are put there.
    #[serde(default)]
    pub alloc_policy: AllocPolicy,
    /// Counts the changes of this document.
    pub serial_no: u64,
    /// When it was made.
    pub ctime: Timestamp,
    /// When this document last changed.
    pub mtime: Timestamp,
    /// Free words.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Group {
    /// The default group as a cluster begins with it: it has the cluster's identity, which nothing
    /// else has, and its age.
    #[must_use]
    pub fn initial(cluster_uuid: &str, ctime: Timestamp) -> Self {
        Self {
            name: DEFAULT_GROUP.to_owned(),
            uuid: cluster_uuid.to_owned(),
            alloc_policy: AllocPolicy::default(),
            serial_no: 1,
            ctime,
            mtime: ctime,
            tags: Vec::new(),
        }
    }
}
