//! Core: who may do what: roles, and one decision for every door of the cluster.
//!
//! Each opcode names the least role that may submit it, in the table of [`crate::opcode`]; the other
//! verbs have theirs here. `docs/rapi.md` prints both, and a test compares.

use std::fmt;
use std::sync::Arc;

use crate::code::Code;
use crate::error::{ErrorCode, Exception};
use crate::opcode::OpCode;
pub use crate::role::Role;
use crate::serial::Serial;

/// Somebody who asks for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// Somebody who did not say who it is, with what the operator lets such do.
    Anonymous(Option<Role>),
    /// A process of this machine, which the operator lets in without a password.
    Local(Role),
    /// A user of a candidate, known by the kernel there.
    Unix {
        name: Arc<str>,
        /// The role that its groups give it, if any.
        role: Option<Role>,
    },
    /// A user of the front door who has proved it.
    User { name: Arc<str>, role: Role },
    /// A machine of the inventory, known by its address: it may keep and fetch the keys of its own
    /// disks.
    Machine(Serial),
    /// The cluster itself.
    Cluster,
}

impl Principal {
    /// Its role, if it has one.
    pub const fn role(&self) -> Option<Role> {
        match self {
            Self::Anonymous(role) | Self::Unix { role, .. } => *role,
            Self::Local(role) | Self::User { role, .. } => Some(*role),
            Self::Machine(_) => None,
            Self::Cluster => Some(Role::Administrator),
        }
    }

    /// Whether this is about a machine's own disks.
    fn is_own(&self, verb: Verb<'_>) -> bool {
        let Self::Machine(own) = self else { return false };
        match verb {
            Verb::DiskKey(serial) => serial == own.as_str(),
            Verb::Submit(OpCode::MachineDiskKeyAdd(op)) => op.serial == own.as_str(),
            Verb::Submit(_)
            | Verb::Call(..)
            | Verb::Read
            | Verb::Change
            | Verb::Wait
            | Verb::ManageJob
            | Verb::ManageFilter => false,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous(_) => f.write_str("nobody"),
            Self::Local(_) => f.write_str("local"),
            Self::Unix { name, .. } | Self::User { name, .. } => f.write_str(name),
            // A blank, which no name of a user has.
            Self::Machine(serial) => write!(f, "machine {serial}"),
            Self::Cluster => f.write_str("cluster"),
        }
    }
}

/// The kind of thing that somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub enum Verb<'a> {
    /// Look at something.
    Read,
    /// Change something; what, is looked at later.
    Change,
    /// Wait for a change of a job, which occupies the master; Ganeti asks for `write`, too.
    Wait,
    /// Cancel a job, change its priority, archive it.
    ManageJob,
    /// Add, replace or delete a filter rule.
    ManageFilter,
    /// Keep or fetch the key of a disk of the machine with this serial number.
    DiskKey(&'a str),
    /// Submit an opcode.
    Submit(&'a OpCode),
    /// Call a method of LUXI that has this name and asks for this role.
    Call(&'static str, Role),
}

impl Verb<'_> {
    /// The verbs that are no opcodes, by their words, with the least role for each.
    pub const TABLE: [(&'static str, Role); 6] = [
        ("read", Role::Read),
        ("change", Role::Operator),
        ("wait for a job", Role::Operator),
        ("manage a job", Role::Operator),
        ("manage a filter rule", Role::Operator),
        ("keep or fetch the key of a disk", Role::Operator),
    ];

    /// The word for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit(op) => op.id(),
            Self::Call(method, _) => method,
            Self::Read
            | Self::Change
            | Self::Wait
            | Self::ManageJob
            | Self::ManageFilter
            | Self::DiskKey(_) => self.row().0,
        }
    }

    /// The least role that may do it.
    pub const fn role(self) -> Role {
        match self {
            Self::Submit(op) => op.role(),
            Self::Call(_, role) => role,
            Self::Read
            | Self::Change
            | Self::Wait
            | Self::ManageJob
            | Self::ManageFilter
            | Self::DiskKey(_) => self.row().1,
        }
    }

    /// Whether a tenant may do it with what is its own. The master looks at whether it is.
    fn is_for_tenants(self) -> bool {
        match self {
            Self::Read | Self::Change | Self::Wait | Self::ManageJob => true,
            Self::Submit(op) => TENANTS_OPCODES.contains(&op.id()),
            Self::Call(method, _) => TENANTS_CALLS.contains(&method),
            Self::ManageFilter | Self::DiskKey(_) => false,
        }
    }

    const fn row(self) -> (&'static str, Role) {
        let [read, change, wait, job, filter, disk_key] = Self::TABLE;
        match self {
            Self::Read | Self::Submit(_) | Self::Call(..) => read,
            Self::Change => change,
            Self::Wait => wait,
            Self::ManageJob => job,
            Self::ManageFilter => filter,
            Self::DiskKey(_) => disk_key,
        }
    }
}

/// The opcodes that a tenant may submit, about what is its own.
pub const TENANTS_OPCODES: [&str; 6] = [
    "OP_PORT_CONFIGURATION_ADD",
    "OP_PORT_CONFIGURATION_REMOVE",
    "OP_PORT_SET_PARAMS",
    "OP_MACHINE_PROVISION",
    "OP_MACHINE_AWAIT",
    "OP_MACHINE_POWER",
];
/// The methods of LUXI that a tenant may call, about what is its own.
const TENANTS_CALLS: [&str; 6] =
    ["Query", "QueryFields", "QueryJobs", "WaitForJobChange", "CancelJob", "GantryDigest"];

/// Somebody may not do what it wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not do this on {object}: {verb} needs the role {needed}; {way}")]
pub struct Denied {
    who: String,
    object: String,
    verb: &'static str,
    /// The role that it takes.
    pub needed: Role,
    way: String,
}

impl From<&Denied> for Exception {
    fn from(denied: &Denied) -> Self {
        Self::prereq(denied.to_string(), ErrorCode::WrongInput).coded(Code::PermissionDenied)
    }
}

/// Decides whether `principal` may do `verb` on `object`, which is named for the message.
///
/// # Errors
/// It may not.
pub fn may(principal: &Principal, verb: Verb<'_>, object: &str) -> Result<(), Denied> {
    let needed = verb.role();
    let is_tenant = principal.role() == Some(Role::Tenant);
    if principal.role().is_some_and(|role| role >= needed)
        || principal.is_own(verb)
        || (is_tenant && verb.is_for_tenants())
    {
        return Ok(());
    }
    let who = match principal.role() {
        Some(role) => format!("`{principal}` with the role {role}"),
        None => format!("`{principal}`"),
    };
    let (object, way) = (object.to_owned(), way(principal, needed));
    Err(Denied { who, object, verb: verb.name(), needed, way })
}

/// How somebody gets a role.
fn way(principal: &Principal, needed: Role) -> String {
    match principal {
        Principal::Unix { name, .. } => {
            let group = needed.group().unwrap_or_default();
            format!(
                "root gives it by `usermod --append --groups {group} {name}`; then log in again"
            )
        }
        Principal::Anonymous(_)
        | Principal::Local(_)
        | Principal::User { .. }
        | Principal::Machine(_)
        | Principal::Cluster => {
            "ask an administrator of the cluster, or log in as another user".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpInput;

    fn user(role: Role) -> Principal {
        Principal::User { name: "bob".into(), role }
    }

    #[test]
    fn who_may_do_what() {
        let op = |text: &str| OpInput::parse(text).unwrap().op;
        let delay = op(r#"{"OP_ID": "OP_TEST_DELAY", "duration": 1}"#);
        let remove = op(r#"{"OP_ID": "OP_NODE_REMOVE", "node_name": "n2"}"#);
        let tags = op(r#"{"OP_ID": "OP_TAGS_GET", "kind": "cluster"}"#);
        for (verb, least) in [
            (Verb::Read, Role::Read),
            (Verb::Submit(&tags), Role::Read),
            (Verb::Change, Role::Operator),
            (Verb::Wait, Role::Operator),
            (Verb::ManageJob, Role::Operator),
            (Verb::ManageFilter, Role::Operator),
            (Verb::DiskKey("SN1"), Role::Operator),
            (Verb::Submit(&delay), Role::Operator),
            (Verb::Submit(&remove), Role::Administrator),
        ] {
            for role in Role::ALL.into_iter().filter(|role| *role != Role::Tenant) {
                assert_eq!(may(&user(role), verb, "x").is_ok(), role >= least, "{verb:?} {role}");
            }
            assert!(may(&Principal::Cluster, verb, "x").is_ok());
            assert!(may(&Principal::Anonymous(None), verb, "x").is_err());
        }
        let told = may(&user(Role::Operator), Verb::Submit(&remove), "node n2").unwrap_err();
        let told = told.to_string();
        assert!(told.contains("`bob` with the role operator may not do this on node n2"), "{told}");
        assert!(told.contains("OP_NODE_REMOVE needs the role administrator"), "{told}");
    }

    #[test]
    fn a_user_of_a_candidate_hears_which_group_it_needs() {
        let bob = |role| Principal::Unix { name: "bob".into(), role };
        let drain = Verb::Call("SetDrainFlag", Role::Administrator);
        assert!(may(&bob(Some(Role::Administrator)), drain, "x").is_ok());
        let told = may(&bob(Some(Role::Operator)), drain, "the queue").unwrap_err();
        let exception = Exception::from(&told);
        assert_eq!(exception.code(), Some(Code::PermissionDenied));
        let told = exception.to_string();
        assert!(told.contains("SetDrainFlag needs the role administrator"), "{told}");
        assert!(told.contains("usermod --append --groups gantry-admin bob"), "{told}");
        assert!(may(&bob(None), Verb::Read, "x").is_err());
    }

    #[test]
    fn a_machine_has_its_own_keys_and_nothing_else() {
        let machine = Principal::Machine("SN1".parse().unwrap());
        let add = |serial: &str| {
            let sealed = "1:AAAA";
            let op = serde_json::json!({"OP_ID": "OP_MACHINE_DISK_KEY_ADD", "serial": serial, "disk": "sda", "sealed": sealed});
            OpInput::parse(&op.to_string()).unwrap().op
        };
        let remove = r#"{"OP_ID": "OP_MACHINE_DISK_KEYS_REMOVE", "serial": "SN1"}"#;
        let remove = OpInput::parse(remove).unwrap().op;
        assert!(may(&machine, Verb::DiskKey("SN1"), "x").is_ok());
        assert!(may(&machine, Verb::Submit(&add("SN1")), "x").is_ok());
        for other in [
            Verb::DiskKey("SN2"),
            Verb::DiskKey("sn1"),
            Verb::Submit(&add("SN2")),
            Verb::Submit(&remove),
            Verb::Read,
            Verb::Change,
            Verb::Wait,
        ] {
            assert!(may(&machine, other, "x").is_err(), "{other:?}");
        }
    }

    /// Document 5's table of the scenario "infra team and consumers", a row each.
    #[test]
    fn a_tenant_links_configurations_and_does_not_touch_the_infrastructure() {
        let op = |id: &str, parameters: &str| {
            OpInput::parse(&format!(r#"{{"OP_ID": "{id}", {parameters}}}"#)).unwrap().op
        };
        let [tenant, operator] = [Role::Tenant, Role::Operator].map(user);
        let configuration = r#""configuration_name": "acme.lab""#;
        let switch = r#""switch_name": "tor-1""#;
        for (id, parameters, is_for_tenants) in [
            (
                "OP_PORT_CONFIGURATION_ADD",
                format!(r#"{configuration}, "wanted": {{"untagged": 5}}"#),
                true,
            ),
            ("OP_PORT_CONFIGURATION_REMOVE", configuration.to_owned(), true),
            ("OP_PORT_SET_PARAMS", r#""ports": ["tor-1/p1"]"#.to_owned(), true),
            ("OP_SWITCH_ADD", format!(r#"{switch}, "url": "command:x""#), false),
            ("OP_SWITCH_SET_PARAMS", switch.to_owned(), false),
            ("OP_SWITCH_REMOVE", switch.to_owned(), false),
            ("OP_SWITCH_VERIFY", switch.to_owned(), false),
            ("OP_SWITCH_SETTLE", switch.to_owned(), false),
            ("OP_PORT_POLICY_SET", r#""phases": {}"#.to_owned(), false),
            ("OP_TENANT_GIVE", r#""tenant_name": "acme", "machines": ["SN1"]"#.to_owned(), false),
        ] {
            let op = op(id, &parameters);
            let told = may(&tenant, Verb::Submit(&op), "x");
            assert_eq!(told.is_ok(), is_for_tenants, "{id}");
            assert!(
                told.is_ok() || told.unwrap_err().to_string().contains("needs the role operator")
            );
            // The operators of the first two scenarios, too: all of it.
            assert!(may(&operator, Verb::Submit(&op), "x").is_ok(), "{id}");
        }
        assert!(may(&tenant, Verb::Call("GantryIpam", Role::Read), "x").is_err());
        assert!(may(&tenant, Verb::ManageFilter, "x").is_err());
    }

    #[test]
    fn tenants_have_opcodes_that_there_are() {
        for id in TENANTS_OPCODES {
            assert!(OpCode::ROLES.iter().any(|(known, _)| *known == id), "{id}");
        }
    }

    #[test]
    fn only_reads_are_for_readers() {
        let readers = OpCode::ROLES.iter().filter(|(_, role)| *role == Role::Read);
        for (id, _) in readers {
            let looks = ["QUERY", "DIAGNOSE", "TAGS_GET", "TAGS_SEARCH"];
            assert!(looks.iter().any(|word| id.contains(word)), "{id} changes something");
        }
    }
}
