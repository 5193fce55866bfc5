//! Core: parameters of opcodes on templates of what machines boot with.

use serde::{Deserialize, Serialize};

use crate::boot_template::{TemplateId, TemplateKind};
use crate::name::Word;

/// Parameters of `OP_BOOT_TEMPLATE_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootTemplateAdd {
    /// What it makes.
    pub kind: TemplateKind,
    /// The role of the machines that use it.
    pub role: Word,
    /// Its version; the newest by semver.org is the one that machines get.
    pub id: TemplateId,
    /// The text, at most [`TEXT_BYTES_MAX`](crate::boot_template::TEXT_BYTES_MAX).
    pub text: String,
    /// Take it also where it declares another major version of Ignition's specification than the newest
    /// one of the role.
    #[serde(default)]
    pub other_spec: bool,
}

/// Parameters of `OP_BOOT_TEMPLATE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootTemplateRemove {
    /// What it makes.
    pub kind: TemplateKind,
    /// The role.
    pub role: Word,
    /// Which version; null removes all.
    #[serde(default)]
    pub id: Option<TemplateId>,
}
