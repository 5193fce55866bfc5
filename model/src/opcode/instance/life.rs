//! Core: the opcodes that start, stop, change and remove instances.

use serde::{Deserialize, Serialize};

use super::{DeviceChange, Mib, StartOrder, Timeout, Told, Withheld, yes};
use crate::instance::state::AdminStateSource;

/// Parameters of `OP_INSTANCE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceRemove {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// Seconds that its guest has to shut down.
    #[serde(default)]
    pub shutdown_timeout: Timeout,
    /// Whether it goes though its node cannot remove what is there.
    #[serde(default)]
    pub ignore_failures: bool,
}

/// Parameters of `OP_INSTANCE_STARTUP`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceStartup {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// Whether it starts with disks that are not whole.
    #[serde(default)]
    pub force: bool,
    /// Whether it is marked as to run though its node is offline.
    #[serde(default)]
    pub ignore_offline_nodes: bool,
    /// Parameters of this run alone.
    #[serde(default)]
    pub hvparams: Told,
    #[serde(default)]
    pub beparams: Told,
    /// Whether the wish stays as it is.
    #[serde(default)]
    pub no_remember: bool,
    #[serde(default)]
    pub startup_paused: bool,
    #[serde(default)]
    pub shutdown_timeout: Timeout,
}

/// Parameters of `OP_INSTANCE_SHUTDOWN`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceShutdown {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// Whether one that is marked offline is stopped, too.
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub ignore_offline_nodes: bool,
    /// Seconds until its process is killed.
    #[serde(default)]
    pub timeout: Timeout,
    #[serde(default)]
    pub no_remember: bool,
    /// Who wishes it.
    #[serde(default)]
    pub admin_state_source: Option<AdminStateSource>,
}

/// How an instance is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebootType {
    /// Within its process.
    Soft,
    /// With a new process.
    Hard,
    /// With its disks attached anew.
    Full,
}

/// Parameters of `OP_INSTANCE_REBOOT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceReboot {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    pub reboot_type: RebootType,
    #[serde(default)]
    pub ignore_secondaries: bool,
    #[serde(default)]
    pub shutdown_timeout: Timeout,
}

/// Parameters of `OP_INSTANCE_REINSTALL`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceReinstall {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub os_type: Option<String>,
    #[serde(default)]
    pub force_variant: bool,
    #[serde(default)]
    pub osparams: Option<Told>,
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub osparams_private: Withheld,
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub osparams_secret: Withheld,
}

/// Parameters of `OP_INSTANCE_RENAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceRename {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    pub new_name: String,
    #[serde(default = "yes")]
    pub name_check: bool,
    #[serde(default = "yes")]
    pub ip_check: bool,
}

/// Parameters of `OP_INSTANCE_CONSOLE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceConsole {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
}

/// Parameters of `OP_INSTANCE_SET_PARAMS`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSetParams {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub force_variant: bool,
    #[serde(default)]
    pub ignore_ipolicy: bool,
    #[serde(default)]
    pub nics: Vec<DeviceChange>,
    #[serde(default)]
    pub disks: Vec<DeviceChange>,
    #[serde(default)]
    pub beparams: Told,
    /// MiB that its running guest has from now on.
    #[serde(default)]
    pub runtime_mem: Option<Mib>,
    #[serde(default)]
    pub hvparams: Told,
    #[serde(default)]
    pub disk_template: Option<String>,
    #[serde(default)]
    pub ext_params: Told,
    #[serde(default)]
    pub file_driver: Option<String>,
    #[serde(default)]
    pub file_storage_dir: Option<String>,
    /// Another node, where its record is wrong.
    #[serde(default)]
    pub pnode: Option<String>,
    #[serde(default)]
    pub pnode_uuid: Option<String>,
    #[serde(default)]
    pub remote_node: Option<String>,
    #[serde(default)]
    pub remote_node_uuid: Option<String>,
    #[serde(default)]
    pub iallocator: Option<String>,
    #[serde(default)]
    pub os_name: Option<String>,
    #[serde(default)]
    pub osparams: Told,
    #[serde(default, skip_serializing_if = "Withheld::is_empty")]
    pub osparams_private: Withheld,
    #[serde(default = "yes")]
    pub wait_for_sync: bool,
    /// Whether it is marked offline.
    #[serde(default)]
    pub offline: Option<bool>,
    #[serde(default = "yes")]
    pub conflicts_check: bool,
    #[serde(default)]
    pub hotplug: bool,
    #[serde(default)]
    pub hotplug_if_possible: bool,
    #[serde(default)]
    pub instance_communication: Option<bool>,
    /// Whether removal is refused.
    #[serde(default)]
    pub protected: Option<bool>,
    /// Its place among those that a node starts after its boot.
    #[serde(default)]
    pub start_order: Option<StartOrder>,
}
