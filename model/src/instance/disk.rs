//! Core: disks of instances, which are objects of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use crate::{NodeName, Timestamp, Uuid};

/// Largest disk, in MiB: 1 PiB.
pub const DISK_MIB_MAX: u64 = 1 << 30;

/// The document `disks/UUID`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub uuid: Uuid,
    /// The instance that has it; none where it was detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub serial_no: u64,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    /// MiB.
    pub size: u64,
    #[serde(default)]
    pub mode: DiskMode,
    pub place: DiskPlace,
    /// The nodes that keep it, that of the instance first; empty where all nodes reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Those of them whose copy lacks writes, each since when. Nothing is read from such a copy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stale: BTreeMap<NodeName, Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spindles: Option<u32>,
    /// Its own parameters of storage.
    #[serde(default)]
    pub params: Parameters,
}

crate::words! {
    /// Whether the guest may write.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    DiskMode {
        /// It may.
        #[default]
        #[serde(rename = "rw", alias = "w")]
        ReadWrite = "rw",
        /// It may not.
        #[serde(rename = "ro", alias = "r")]
        ReadOnly = "ro",
    }
}

/// The place of a disk's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskPlace {
    /// A file on the node.
    File { path: String },
    /// A file that all nodes reach.
    SharedFile { path: String },
    /// A file on each of its nodes, which are written together.
    Mirror { path: String },
}

impl DiskPlace {
    /// The disk template (Ganeti's `dev_type`).
    pub const fn template(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::SharedFile { .. } => "sharedfile",
            Self::Mirror { .. } => "mirror",
        }
    }

    /// The file that it is.
    pub fn path(&self) -> &str {
        match self {
            Self::File { path } | Self::SharedFile { path } | Self::Mirror { path } => path,
        }
    }

    /// The same in another file.
    #[must_use]
    pub fn moved(&self, path: String) -> Self {
        match self {
            Self::File { .. } => Self::File { path },
            Self::SharedFile { .. } => Self::SharedFile { path },
            Self::Mirror { .. } => Self::Mirror { path },
        }
    }

    /// Its logical id, as Ganeti's clients know it.
    pub fn logical_id(&self) -> (&'static str, &str) {
        match self {
            Self::File { path } | Self::SharedFile { path } | Self::Mirror { path } => {
                ("loop", path)
            }
        }
    }
}

impl Disk {
    /// The same after a change.
    #[must_use]
    pub fn changed(&self, now: Timestamp) -> Self {
        Self { serial_no: self.serial_no + 1, mtime: now, ..self.clone() }
    }
}
