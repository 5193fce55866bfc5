//! Core: the opcodes on disks of instances.

use serde::{Deserialize, Serialize};

use super::{DiskIndex, Mib, Told, yes};

/// Parameters of `OP_INSTANCE_ACTIVATE_DISKS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceActivateDisks {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub ignore_size: bool,
    #[serde(default)]
    pub wait_for_sync: bool,
}

/// Parameters of `OP_INSTANCE_DEACTIVATE_DISKS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceDeactivateDisks {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// Whether they go though it runs.
    #[serde(default)]
    pub force: bool,
}

/// Parameters of `OP_INSTANCE_DETACH_COPIES`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceDetachCopies {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
}

/// Parameters of `OP_INSTANCE_RESYNC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceResync {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
}

/// Parameters of `OP_INSTANCE_GROW_DISK`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceGrowDisk {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// Its index.
    pub disk: DiskIndex,
    /// MiB.
    pub amount: Mib,
    /// Whether the amount is the new size.
    #[serde(default)]
    pub absolute: bool,
    #[serde(default = "yes")]
    pub wait_for_sync: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
}

/// A disk that is made anew: its index, with other parameters if some are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecreatedDisk {
    Index(DiskIndex),
    With(DiskIndex, Told),
}

/// Parameters of `OP_INSTANCE_RECREATE_DISKS`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceRecreateDisks {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// None stands for all.
    #[serde(default)]
    pub disks: Vec<RecreatedDisk>,
    #[serde(default)]
    pub nodes: Vec<String>,
    #[serde(default)]
    pub node_uuids: Option<Vec<String>>,
    #[serde(default)]
    pub iallocator: Option<String>,
}

/// Parameters of `OP_INSTANCE_REPLACE_DISKS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceReplaceDisks {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    pub mode: ReplaceMode,
    #[serde(default)]
    pub disks: Vec<DiskIndex>,
    #[serde(default)]
    pub remote_node: Option<String>,
    #[serde(default)]
    pub remote_node_uuid: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub early_release: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
}

/// The copy of a disk that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplaceMode {
    #[serde(rename = "replace_on_primary")]
    OnPrimary,
    #[serde(rename = "replace_on_secondary")]
    OnSecondary,
    #[serde(rename = "replace_new_secondary")]
    NewSecondary,
    #[serde(rename = "replace_auto")]
    Auto,
}
