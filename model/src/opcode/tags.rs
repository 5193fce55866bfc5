//! Core: opcodes on tags.

use serde::{Deserialize, Serialize};

use crate::tag::TagKind;

/// Parameters of `OP_TAGS_GET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagsGet {
    /// The kind of object.
    pub kind: TagKind,
    /// Whether to hold the object's lock meanwhile.
    #[serde(default)]
    pub use_locking: bool,
    /// Its name; unused for the cluster.
    #[serde(default)]
    pub name: Option<String>,
}

/// Parameters of `OP_TAGS_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagsSet {
    /// The kind of object.
    pub kind: TagKind,
    /// The tags to add; those that it has already stay.
    pub tags: Vec<String>,
    /// Its name; unused for the cluster.
    #[serde(default)]
    pub name: Option<String>,
}

/// Parameters of `OP_TAGS_DEL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagsDel {
    /// The kind of object.
    pub kind: TagKind,
    /// The tags to take away; all of them must be there.
    pub tags: Vec<String>,
    /// Its name; unused for the cluster.
    #[serde(default)]
    pub name: Option<String>,
}

/// Parameters of `OP_TAGS_SEARCH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagsSearch {
    /// A regular expression, which is looked for in every tag.
    pub pattern: String,
}
