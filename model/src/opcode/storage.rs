//! Opcodes on the storage of nodes, outside of single instances.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A kind of storage (`TStorageType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageType {
    File,
    #[serde(rename = "sharedfile")]
    SharedFile,
    LvmPv,
    LvmVg,
    Diskless,
    #[serde(rename = "blockdev")]
    BlockDevice,
    Rados,
    Ext,
    Gluster,
}

impl StorageType {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::SharedFile => "sharedfile",
            Self::LvmPv => "lvm-pv",
            Self::LvmVg => "lvm-vg",
            Self::Diskless => "diskless",
            Self::BlockDevice => "blockdev",
            Self::Rados => "rados",
            Self::Ext => "ext",
            Self::Gluster => "gluster",
        }
    }
}

/// Parameters of `OP_NODE_QUERY_STORAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeQueryStorage {
    /// The fields wanted.
    pub output_fields: Vec<String>,
    /// None stands for that of the cluster's first disk template.
    #[serde(default)]
    pub storage_type: Option<StorageType>,
    /// Which nodes; none means all.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Which storage; none means all.
    #[serde(default)]
    pub name: Option<String>,
}

/// Parameters of `OP_NODE_QUERYVOLS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeQueryvols {
    /// The fields wanted.
    pub output_fields: Vec<String>,
    /// Which nodes; none means all.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// Parameters of `OP_NODE_MODIFY_STORAGE`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeModifyStorage {
    pub node_name: String,
    #[serde(default)]
    pub node_uuid: Option<String>,
    pub storage_type: StorageType,
    #[serde(default)]
    pub name: Option<String>,
    pub changes: Map<String, Value>,
}

/// Parameters of `OP_REPAIR_NODE_STORAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairNodeStorage {
    pub node_name: String,
    #[serde(default)]
    pub node_uuid: Option<String>,
    pub storage_type: StorageType,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub ignore_consistency: bool,
}

/// Parameters of `OP_CLUSTER_REPAIR_DISK_SIZES`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRepairDiskSizes {
    /// Which instances; none means all.
    #[serde(default)]
    pub instances: Vec<String>,
}

/// A size that a record had wrongly: the instance, the index of its disk, `size`, and what it is now.
pub type RepairedSize = (String, u64, &'static str, u64);
