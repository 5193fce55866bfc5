//! Core: opcodes on assets, files that machines fetch by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::asset::{ContentType, OptionName, OptionValue};
use crate::blob::Blob;
use crate::name::Word;

/// Parameters of `OP_ASSET_SET`. The file lies in the spool of the master's machine, named by its digest, or
/// is a blob already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetSet {
    /// Its name; one that exists gets what is uploaded.
    pub name: Word,
    /// Its type of content.
    pub content_type: ContentType,
    /// What it holds.
    pub blob: Blob,
    /// Its options, in place of the earlier ones.
    #[serde(default)]
    pub options: BTreeMap<OptionName, OptionValue>,
}

/// What `OP_ASSET_SET` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetWritten {
    /// The number of the upload.
    pub id: u64,
    /// Whether there was no asset of that name.
    pub created: bool,
}

/// Parameters of `OP_ASSET_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetRemove {
    /// Its name.
    pub name: Word,
}
