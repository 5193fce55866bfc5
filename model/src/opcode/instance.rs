//! Core: opcodes on instances. [`create`] makes them, [`backup`] exports them, [`life`] starts, stops and changes them, [`disks`] are
//! those on their disks, and [`moves`] those that take them to other nodes.

pub mod backup;
pub mod create;
pub mod disks;
pub mod life;
pub mod moves;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::instance::disk::DISK_MIB_MAX;
use crate::instance::record::DISKS_MAX;

pub use backup::{BackupExport, BackupPrepare, BackupRemove};
pub use create::{
    CreateMode, CreateParameters, InstanceCreate, InstanceMultiAlloc, MultiAllocated, TestAllocator,
};
pub use disks::{
    InstanceActivateDisks, InstanceDeactivateDisks, InstanceDetachCopies, InstanceGrowDisk,
    InstanceRecreateDisks, InstanceReplaceDisks, InstanceResync,
};
pub use life::{
    InstanceConsole, InstanceReboot, InstanceReinstall, InstanceRemove, InstanceRename,
    InstanceSetParams, InstanceShutdown, InstanceStartup, RebootType,
};
pub use moves::{
    GroupEvacuate, InstanceChangeGroup, InstanceFailover, InstanceMigrate, InstanceMove,
    NodeEvacuate, NodeMigrate,
};

/// Parameters by name, as a client sends them.
pub type Told = Map<String, Value>;

/// A number of an opcode that says itself what it may be.
macro_rules! bounded {
    ($($(#[$doc:meta])+ $name:ident($of:ty) = $least:expr, $most:expr;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub struct $name(pub $of);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (least, most): ($of, $of) = ($least, $most);
                let value = <$of>::deserialize(deserializer)?;
                if (least..=most).contains(&value) {
                    return Ok(Self(value));
                }
                let text = format!("{value} is not a number from {least} to {most}");
                Err(serde::de::Error::custom(text))
            }
        }
    )+};
}

bounded! {
    /// Seconds that a guest has to shut down: at most what a slow call has, less some for the rest.
    Timeout(u32) = 0, 3_300;
    /// MiB of memory or of a disk.
    Mib(u64) = 0, DISK_MIB_MAX;
    /// The place of a disk among those of its instance.
    DiskIndex(usize) = 0, DISKS_MAX - 1;
    /// The place of an instance among those that a node starts after its boot.
    StartOrder(i32) = -1_000, 1_000;
}

impl Default for Timeout {
    /// Ganeti's.
    fn default() -> Self {
        Self(120)
    }
}

const fn yes() -> bool {
    true
}

/// Parameters that no store may keep: this version takes none, so that none is ever in a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Withheld;

impl<'de> Deserialize<'de> for Withheld {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<Told>::deserialize(deserializer)? {
            Some(told) if !told.is_empty() => Err(serde::de::Error::custom(
                "private and secret parameters of operating systems are not taken by this version",
            )),
            Some(_) | None => Ok(Self),
        }
    }
}

impl Withheld {
    /// Whether nothing is withheld, which is always so.
    #[expect(clippy::unused_self, reason = "serde calls it as a method")]
    pub(crate) const fn is_empty(&self) -> bool {
        true
    }
}

/// A change of a NIC or disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceVerb {
    Add,
    Attach,
    Modify,
    Detach,
    Remove,
}

/// A change of a NIC or disk: `[VERB, WHICH, PARAMETERS]`; Ganeti's older form has `[VERB, PARAMETERS]` or
/// `[INDEX, PARAMETERS]`, which stand for the last one, or for a modification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceChange(
    pub DeviceVerb,
    /// Its index, −1 for the last one, its UUID or its name.
    pub Value,
    pub Told,
);

impl<'de> Deserialize<'de> for DeviceChange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a list of add, attach, modify, detach or remove, then an index, UUID or name, \
                         then parameters"
        )]
        enum Form {
            Three(DeviceVerb, Value, Told),
            Verb(DeviceVerb, Told),
            Index(i64, Told),
        }
        let wrong = || serde::de::Error::custom("a device is meant by an index, a UUID or a name");
        match Form::deserialize(deserializer)? {
            Form::Three(verb, which, told) if which.is_i64() || which.is_string() => {
                Ok(Self(verb, which, told))
            }
            Form::Three(..) => Err(wrong()),
            Form::Verb(verb, told) => Ok(Self(verb, (-1).into(), told)),
            Form::Index(index, told) => Ok(Self(DeviceVerb::Modify, index.into(), told)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_devices_are_read_in_each_form() {
        let read = |text: &str| {
            serde_json::from_str::<DeviceChange>(text)
                .map(|change| serde_json::to_string(&change).unwrap())
                .map_err(|error| error.to_string())
        };
        for (text, wanted) in [
            (r#"["add", -1, {"size": 1}]"#, r#"["add",-1,{"size":1}]"#),
            (r#"["remove", "my-disk", {}]"#, r#"["remove","my-disk",{}]"#),
            (r#"["add", {}]"#, r#"["add",-1,{}]"#),
            (r#"[2, {"mode": "ro"}]"#, r#"["modify",2,{"mode":"ro"}]"#),
        ] {
            assert_eq!(read(text), Ok(wanted.to_owned()), "{text}");
        }
        for text in [r#"["drop", 0, {}]"#, r#"["add", [], {}]"#, r#"["add", 1.5, {}]"#, "[]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
