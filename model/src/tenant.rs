//! Core: tenants, who use machines and ports of the cluster within limits (Metal3's consumers, each with a
//! namespace and a `SwitchResourceLimit`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::error::{ErrorCode, Exception};
use crate::serial::Serial;
use crate::switch::VlanSet;
use crate::{Timestamp, Uuid, Word};

/// Most tenants of a cluster.
pub const TENANTS_MAX: usize = 1_000;
/// Most users of one.
pub const MEMBERS_MAX: usize = 100;
/// Most machines of one.
pub const MACHINES_MAX: u32 = 10_000;
/// Most ports of one: four for each machine.
pub const PORTS_MAX: u32 = 4 * MACHINES_MAX;
/// Most jobs that one may have in the queue.
pub const JOBS_MAX: u32 = 1_000;
/// The jobs that a tenant may have in the queue where nobody says: a rack's deployments.
const JOBS: u32 = 40;
/// Longest name of a user.
const USER_CHARS_MAX: usize = 128;

/// The document `tenants/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    pub name: Word,
    pub uuid: Uuid,
    pub serial_no: u64,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    /// The users who act for it at the front door: of its file, by certificate, or a token's name.
    #[serde(default)]
    pub members: BTreeSet<String>,
    /// The machines that were given to it.
    #[serde(default)]
    pub machines: BTreeSet<Serial>,
    #[serde(default)]
    pub limits: Limits,
}

/// The limits of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The VLANs that its configurations of ports may name.
    #[serde(default)]
    pub vlans: VlanSet,
    /// Most machines, 0 to [`MACHINES_MAX`].
    pub machines: u32,
    /// Most ports of switches at its machines, 0 to [`PORTS_MAX`].
    pub ports: u32,
    /// Most jobs of its in the queue that have not ended, 1 to [`JOBS_MAX`].
    pub jobs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { vlans: VlanSet::default(), machines: MACHINES_MAX, ports: PORTS_MAX, jobs: JOBS }
    }
}

/// A fault of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// What its name begins says whose a configuration is.
    #[error("its name has a dot, which in names of configurations stands behind a tenant's name")]
    Dot,
    /// More users than anybody manages.
    #[error("it has {0} members; at most {MEMBERS_MAX} are taken")]
    Members(usize),
    /// A name that no user has.
    #[error("`{0}` is no user: 1 to {USER_CHARS_MAX} characters, without control characters")]
    Member(String),
    /// A limit out of its range.
    #[error("its limit of {what} is {given}; it is {least} to {most}")]
    Limit { what: &'static str, given: u32, least: u32, most: u32 },
}

impl Tenant {
    /// Whether it can be.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), TenantError> {
        if self.name.as_str().contains('.') {
            return Err(TenantError::Dot);
        }
        if self.members.len() > MEMBERS_MAX {
            return Err(TenantError::Members(self.members.len()));
        }
        let is_user = |name: &&String| {
            !name.is_empty()
                && name.chars().count() <= USER_CHARS_MAX
                && !name.chars().any(char::is_control)
        };
        if let Some(name) = self.members.iter().find(|name| !is_user(name)) {
            return Err(TenantError::Member(name.escape_debug().to_string()));
        }
        let Limits { machines, ports, jobs, .. } = self.limits;
        for (what, given, least, most) in [
            ("machines", machines, 0, MACHINES_MAX),
            ("ports", ports, 0, PORTS_MAX),
            ("jobs", jobs, 1, JOBS_MAX),
        ] {
            if !(least..=most).contains(&given) {
                return Err(TenantError::Limit { what, given, least, most });
            }
        }
        Ok(())
    }

    /// Whether a configuration of ports is its own, which its name says: `TENANT.NAME`.
    pub fn owns(&self, configuration: &str) -> bool {
        owner(configuration) == Some(self.name.as_str())
    }
}

/// The tenant that the name of a configuration begins with, if there is one of that name.
pub fn owner(configuration: &str) -> Option<&str> {
    configuration.split_once('.').map(|(tenant, _name)| tenant)
}

/// The refusal of what a tenant may not do or have, and who can change that.
pub fn refused(text: impl std::fmt::Display) -> Exception {
    Exception::prereq(text.to_string(), ErrorCode::WrongInput).coded(Code::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant() -> Tenant {
        Tenant {
            name: "acme".parse().unwrap(),
            uuid: Uuid::nil(),
            serial_no: 1,
            ctime: Timestamp::from_micros(0),
            mtime: Timestamp::from_micros(0),
            members: BTreeSet::from(["alice".to_owned()]),
            machines: BTreeSet::new(),
            limits: Limits::default(),
        }
    }

    #[test]
    fn what_a_tenant_can_be() {
        assert_eq!(tenant().check(), Ok(()));
        let with = |change: &dyn Fn(&mut Tenant)| {
            let mut tenant = tenant();
            change(&mut tenant);
            tenant.check().map_err(|error| error.to_string()).unwrap_err()
        };
        assert!(with(&|t| t.name = "a.b".parse().unwrap()).contains("has a dot"));
        assert!(with(&|t| t.members = [String::new()].into()).contains("is no user"));
        assert!(with(&|t| t.members = ["a\nb".to_owned()].into()).contains(r"`a\nb`"));
        assert!(with(&|t| t.members = (0..101).map(|n| n.to_string()).collect()).contains("101"));
        assert!(with(&|t| t.limits.jobs = 0).contains("it is 1 to 1000"));
        assert!(with(&|t| t.limits.machines = MACHINES_MAX + 1).contains("machines is 10001"));
    }

    #[test]
    fn a_name_says_whose_a_configuration_is() {
        assert!(tenant().owns("acme.lab"));
        for other in ["acme", "acme-lab", "acmex.lab", "lab.acme", ""] {
            assert!(!tenant().owns(other), "{other}");
        }
    }
}
