//! Core: node groups. Each node is in one.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use crate::instance::group::GroupSettings;
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

/// A document below `config/groups`. A cluster whose groups were never changed has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
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
    /// Its own settings for instances and nodes.
    #[serde(default, skip_serializing_if = "GroupSettings::is_empty")]
    pub settings: GroupSettings,
}

impl Group {
    /// The default group as a cluster begins with it: with the cluster's age, and an identity that
    /// follows from the cluster's.
    pub fn initial(cluster_uuid: &str, ctime: Timestamp) -> Self {
        Self {
            name: DEFAULT_GROUP.to_owned(),
            uuid: derived(cluster_uuid),
            alloc_policy: AllocPolicy::default(),
            serial_no: 1,
            ctime,
            mtime: ctime,
            tags: Vec::new(),
            settings: GroupSettings::default(),
        }
    }

    /// Whether it is the one that its cluster began with, whatever it is called by now.
    pub fn is_first(&self) -> bool {
        is_first(&self.uuid)
    }

    /// The name of its document.
    pub fn key(&self) -> String {
        Self::key_of(&self.uuid)
    }

    /// The name of the document of the group with this UUID.
    pub fn key_of(uuid: &str) -> String {
        if is_first(uuid) { DEFAULT_GROUP.to_owned() } else { uuid.to_owned() }
    }
}

fn is_first(uuid: &str) -> bool {
    uuid.parse::<Uuid>().is_ok_and(|uuid| uuid.get_version_num() == FIRST_VERSION)
}

/// Version of the UUID of a cluster's first group; others are random, of version 4.
const FIRST_VERSION: usize = 8;

/// The UUID (RFC 9562, version 8) of the default group of a cluster.
fn derived(cluster_uuid: &str) -> String {
    let hash = Sha256::new().chain_update(DEFAULT_GROUP).chain_update(cluster_uuid).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_group_has_an_identity_of_its_own() {
        let cluster = "0d7bb7f5-0a3e-4a3c-9d63-5a0b2cf7e6a1";
        let group = Group::initial(cluster, Timestamp::from_micros(0));
        let uuid: uuid::Uuid = group.uuid.parse().unwrap();
        assert_eq!(uuid.get_version_num(), FIRST_VERSION);
        assert_eq!(group.key(), "default");
        let other = Group { uuid: Uuid::new_v4().to_string(), ..group.clone() };
        assert_eq!(other.key(), other.uuid);
        assert_eq!(group.uuid, Group::initial(cluster, Timestamp::from_micros(5)).uuid);
        assert_ne!(group.uuid, cluster);
    }
}
