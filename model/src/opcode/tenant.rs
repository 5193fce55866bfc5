//! Core: opcodes on tenants.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::switch::VlanSet;
use crate::{Serial, Word};

/// The limits that are told; those that are null stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTold {
    #[serde(default)]
    pub vlans: Option<VlanSet>,
    #[serde(default)]
    pub machines: Option<u32>,
    #[serde(default)]
    pub ports: Option<u32>,
    #[serde(default)]
    pub jobs: Option<u32>,
}

/// Parameters of `OP_TENANT_ADD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantAdd {
    /// Its name.
    pub tenant_name: Word,
    /// The users who act for it.
    #[serde(default)]
    pub members: BTreeSet<String>,
    #[serde(default)]
    pub limits: LimitsTold,
}

/// Parameters of `OP_TENANT_SET_PARAMS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSetParams {
    /// Which one.
    pub tenant_name: String,
    /// Users who act for it from now on.
    #[serde(default)]
    pub add_members: BTreeSet<String>,
    /// Users who do not any more.
    #[serde(default)]
    pub remove_members: BTreeSet<String>,
    #[serde(default)]
    pub limits: LimitsTold,
}

/// Parameters of `OP_TENANT_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantRemove {
    /// Which one.
    pub tenant_name: String,
}

/// Parameters of `OP_TENANT_GIVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantGive {
    /// To whom.
    pub tenant_name: String,
    /// The machines, which nobody has.
    pub machines: Vec<Serial>,
}

/// Parameters of `OP_TENANT_TAKE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTake {
    /// From whom.
    pub tenant_name: String,
    /// The machines, which are its own.
    pub machines: Vec<Serial>,
    /// Whether machines are taken that are in service.
    #[serde(default)]
    pub force: bool,
}
