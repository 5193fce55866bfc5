//! Core: the opcodes that take instances to other nodes.

use serde::{Deserialize, Serialize};

use super::{Timeout, yes};

/// Parameters of `OP_INSTANCE_MIGRATE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceMigrate {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// The hypervisor's own way where nothing is told.
    #[serde(default)]
    pub mode: Option<MigrationMode>,
    /// The older way to tell the mode.
    #[serde(default)]
    pub live: Option<bool>,
    #[serde(default)]
    pub target_node: Option<String>,
    #[serde(default)]
    pub target_node_uuid: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    /// Whether its memory may shrink so that it has room.
    #[serde(default = "yes")]
    pub allow_runtime_changes: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    /// Whether a migration that ended halfway is brought to its end, or taken back.
    #[serde(default)]
    pub cleanup: bool,
    /// Whether one that does not run is failed over.
    #[serde(default)]
    pub allow_failover: bool,
    #[serde(default)]
    pub ignore_hvversions: bool,
}

/// Whether a guest runs while it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationMode {
    Live,
    NonLive,
}

/// Parameters of `OP_INSTANCE_FAILOVER`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceFailover {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub shutdown_timeout: Timeout,
    /// Whether it goes though its old node does not say that it stopped it.
    #[serde(default)]
    pub ignore_consistency: bool,
    #[serde(default)]
    pub target_node: Option<String>,
    #[serde(default)]
    pub target_node_uuid: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    #[serde(default)]
    pub cleanup: bool,
}

/// Parameters of `OP_INSTANCE_MOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceMove {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    pub target_node: String,
    #[serde(default)]
    pub target_node_uuid: Option<String>,
    #[serde(default)]
    pub shutdown_timeout: Timeout,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    #[serde(default)]
    pub compress: Option<String>,
    #[serde(default)]
    pub ignore_consistency: bool,
}

/// Parameters of `OP_INSTANCE_CHANGE_GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceChangeGroup {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub early_release: bool,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub target_groups: Option<Vec<String>>,
}

/// Which instances of a node go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvacuationMode {
    PrimaryOnly,
    SecondaryOnly,
    All,
}

/// Parameters of `OP_NODE_EVACUATE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEvacuate {
    pub node_name: String,
    #[serde(default)]
    pub node_uuid: Option<String>,
    pub mode: EvacuationMode,
    #[serde(default)]
    pub early_release: bool,
    #[serde(default)]
    pub remote_node: Option<String>,
    #[serde(default)]
    pub remote_node_uuid: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub ignore_soft_errors: Option<bool>,
}

/// Parameters of `OP_NODE_MIGRATE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeMigrate {
    pub node_name: String,
    #[serde(default)]
    pub node_uuid: Option<String>,
    #[serde(default)]
    pub mode: Option<MigrationMode>,
    #[serde(default)]
    pub live: Option<bool>,
    #[serde(default)]
    pub target_node: Option<String>,
    #[serde(default)]
    pub target_node_uuid: Option<String>,
    #[serde(default = "yes")]
    pub allow_runtime_changes: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    #[serde(default)]
    pub iallocator: Option<String>,
}

/// Parameters of `OP_GROUP_EVACUATE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEvacuate {
    pub group_name: String,
    #[serde(default)]
    pub early_release: bool,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub target_groups: Option<Vec<String>>,
    #[serde(default)]
    pub sequential: bool,
    #[serde(default)]
    pub force_failover: bool,
}
