//! Core: opcodes on node groups. They take Ganeti's parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Word;
use crate::group::AllocPolicy;
use crate::instance::settings::Told;

/// Parameters of `OP_GROUP_ADD`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAdd {
    /// Its name.
    pub group_name: Word,
    /// Whether new instances are put there; null means preferred.
    #[serde(default)]
    pub alloc_policy: Option<AllocPolicy>,
    /// Parameters of its nodes.
    #[serde(default)]
    pub ndparams: Option<Told>,
    /// Parameters of disks, by template.
    #[serde(default)]
    pub diskparams: Option<BTreeMap<String, Told>>,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub hv_state: Option<Value>,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub disk_state: Option<Value>,
    /// Limits of instances; parts that are left out stay.
    #[serde(default)]
    pub ipolicy: Option<Told>,
}

/// Parameters of `OP_GROUP_SET_PARAMS`. A parameter that is null stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSetParams {
    /// Its name or UUID.
    pub group_name: String,
    /// Whether new instances are put there.
    #[serde(default)]
    pub alloc_policy: Option<AllocPolicy>,
    /// Parameters of its nodes.
    #[serde(default)]
    pub ndparams: Option<Told>,
    /// Parameters of disks, by template.
    #[serde(default)]
    pub diskparams: Option<BTreeMap<String, Told>>,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub hv_state: Option<Value>,
    /// Sent by Ganeti's client; must be null or empty.
    #[serde(default)]
    pub disk_state: Option<Value>,
    /// Limits of instances; parts that are left out stay.
    #[serde(default)]
    pub ipolicy: Option<Told>,
}

/// Parameters of `OP_GROUP_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRemove {
    /// Its name or UUID; no node may be in it, and another group must be left.
    pub group_name: String,
}

/// Parameters of `OP_GROUP_RENAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRename {
    /// Its name or UUID.
    pub group_name: String,
    /// The name that it gets.
    pub new_name: Word,
}

/// Parameters of `OP_GROUP_ASSIGN_NODES`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAssignNodes {
    /// Name or UUID of the group that gets the nodes.
    pub group_name: String,
    /// The nodes.
    pub nodes: Vec<String>,
    /// Their UUIDs, which Ganeti's own daemons fill in; nothing to do here.
    #[serde(default)]
    pub node_uuids: Option<Vec<String>>,
    /// Taken for Ganeti's clients: there are no instances that could be split.
    #[serde(default)]
    pub force: bool,
}
