//! Core: what an export says of itself, first and last.

use std::collections::BTreeMap;

use model::{NodeName, Timestamp};
use queue_format::digest::GroupDigest;
use queue_format::{Group, Position};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the file that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The first frame: where the rest is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the file; every future one keeps this in its place.
    pub format: u32,
    pub cluster_name: NodeName,
    /// Identity of the cluster.
    pub cluster_uuid: Uuid,
    /// The version that wrote the file.
    pub software: String,
    /// When it was written.
    pub made: Timestamp,
    /// The last entry that is in it.
    pub position: Position,
    /// The certificate of the cluster's authority, PEM.
    pub authority: String,
    /// The state of the secrets.
    pub secrets: Secrets,
}

/// Whether and how the file has the secrets of its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secrets {
    /// They are not in the file.
    Purged,
    /// They are in it, sealed with a key that comes of a passphrase.
    Sealed(Derivation),
}

/// How the key comes of the passphrase: Argon2id, RFC 9106.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivation {
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    pub lanes: u32,
    /// The salt; no other file has it.
    pub salt: Uuid,
}

/// The last frame but one: what was in those before, as far as it is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// How many secrets there are.
    pub secrets: u64,
    /// Number of keys and checksum of each group.
    pub groups: BTreeMap<Group, GroupDigest>,
}
