//! Opcodes on exports of instances.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Timeout, yes};

/// The side to which an export goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportMode {
    /// A node of this cluster.
    #[default]
    Local,
    /// Another cluster.
    Remote,
}

/// Parameters of `OP_BACKUP_PREPARE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupPrepare {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    pub mode: ExportMode,
}

/// Parameters of `OP_BACKUP_EXPORT`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupExport {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// The compression on the way; content goes as it is.
    #[serde(default)]
    pub compress: Option<String>,
    #[serde(default)]
    pub shutdown_timeout: Timeout,
    /// A node's name; places in another cluster where the mode is remote.
    pub target_node: Value,
    #[serde(default)]
    pub target_node_uuid: Option<String>,
    /// Whether a running instance is shut down meanwhile.
    #[serde(default = "yes")]
    pub shutdown: bool,
    /// Whether the instance is removed when its export is whole.
    #[serde(default)]
    pub remove_instance: bool,
    #[serde(default)]
    pub ignore_remove_failures: bool,
    #[serde(default)]
    pub mode: ExportMode,
    #[serde(default)]
    pub x509_key_name: Option<Vec<Value>>,
    #[serde(default)]
    pub destination_x509_ca: Option<String>,
    #[serde(default)]
    pub zero_free_space: bool,
    #[serde(default)]
    pub zeroing_timeout_fixed: Option<i64>,
    #[serde(default)]
    pub zeroing_timeout_per_mib: Option<f64>,
    #[serde(default)]
    pub long_sleep: bool,
}

/// Whether the export became whole, and which disks it has.
pub type Exported = (bool, Vec<bool>);

/// Parameters of `OP_BACKUP_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupRemove {
    pub instance_name: String,
    #[serde(default)]
    pub instance_uuid: Option<String>,
}
