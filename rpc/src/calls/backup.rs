//! Core: calls about exports of instances, and about the content of disks.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use model::instance::launch::DiskLaunch;
use model::{InstanceName, Uuid};

/// Most bytes of one piece of a volume: its answer is far below what a bulk call carries.
pub const VOLUME_PIECE_BYTES: usize = 4 * 1024 * 1024;

/// A disk, or a file of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Volume {
    Disk(DiskLaunch),
    Export {
        name: InstanceName,
        file: String,
        /// Whether the export is whole, or is being made.
        whole: bool,
    },
}

/// Parameters of `volume_read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRead {
    pub volume: Volume,
    /// Bytes that are known already.
    pub offset: u64,
}

/// A piece of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumePiece {
    /// Its place; before it there are only zeros.
    pub offset: u64,
    /// Its content in Base64; empty where there are only zeros up to the end.
    pub data: String,
    /// Bytes of the whole volume.
    pub size: u64,
}

/// Parameters of `volume_write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeWrite {
    pub volume: Volume,
    pub offset: u64,
    /// The piece; without one the volume is made as long as `offset`, and durable.
    #[serde(skip)]
    pub data: Bytes,
}

/// Parameters of `volume_copy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeCopy {
    pub from: Volume,
    pub to: Volume,
}

/// Parameters of `export_begin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportBegin {
    pub name: InstanceName,
}

/// Parameters of `export_finish`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportFinish {
    pub name: InstanceName,
    /// The text of its `config.ini`.
    pub description: String,
}

/// Parameters of `export_describe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportDescribe {
    pub name: InstanceName,
}

/// Parameters of `export_snapshot`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSnapshot {
    pub name: InstanceName,
    /// The instance, and its run.
    pub uuid: Uuid,
    pub run: u64,
    /// Disks, each with the name of its file in the export.
    pub disks: Vec<(Uuid, String)>,
}

/// Parameters of `export_abandon`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportAbandon {
    pub name: InstanceName,
}

/// Parameters of `export_remove`; the answer tells whether it was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRemove {
    pub name: InstanceName,
}
