//! Core: opcodes that list objects which no LUXI method lists.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters of `OP_QUERY`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The kind of object: `cluster`, `os` or `extstorage`.
    pub what: String,
    /// Sent by Ganeti's client; these lists need no locks.
    #[serde(default)]
    pub use_locking: bool,
    /// The fields wanted.
    pub fields: Vec<String>,
    /// Which objects, in the language of LUXI's filters; null means all.
    #[serde(default)]
    pub qfilter: Option<Vec<Value>>,
}

/// Parameters of `OP_QUERY_FIELDS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryFields {
    /// The kind of object, as for [`Query`].
    pub what: String,
    /// The fields to describe; null means all.
    #[serde(default)]
    pub fields: Option<Vec<String>>,
}

/// Parameters of `OP_CLUSTER_CONFIG_QUERY`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfigQuery {
    /// The fields of the cluster that are wanted.
    pub output_fields: Vec<String>,
}

/// Parameters of `OP_INSTANCE_QUERY_DATA`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceQueryData {
    /// Which instances; none means all.
    #[serde(default)]
    pub instances: Vec<String>,
    /// Sent by Ganeti's client; this needs no locks.
    #[serde(default)]
    pub use_locking: bool,
    /// Whether to leave out what only nodes know.
    #[serde(default, rename = "static")]
    pub only_static: bool,
}

/// Parameters of `OP_OS_DIAGNOSE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OsDiagnose {
    /// The fields wanted.
    pub output_fields: Vec<String>,
    /// Which operating systems; none means all.
    #[serde(default)]
    pub names: Vec<String>,
}

/// Parameters of `OP_EXT_STORAGE_DIAGNOSE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtStorageDiagnose {
    /// The fields wanted.
    pub output_fields: Vec<String>,
    /// Which storage providers; none means all.
    #[serde(default)]
    pub names: Vec<String>,
}
