//! Core: the table of calls. A call that is not in it cannot be asked; a call that is in it and not
//! answered does not compile.

use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

mod backup;
mod blob;
mod certificate;
mod enrol;
mod instance;
mod key;
mod lease;
mod master;
mod network;
mod node;
mod ramdisk;
mod switch;

pub use backup::*;
pub use blob::*;
pub use certificate::*;
pub use enrol::*;
pub use instance::*;
pub use key::*;
pub use lease::*;
pub use master::*;
pub use network::*;
pub use node::*;
pub use ramdisk::*;
pub use switch::*;

/// How long a call may take. The caller gives up after the limit; the agent ends the call then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeClass {
    /// Answered from memory; someone waits who decides on it.
    Urgent,
    /// A few disk writes, or the wait of a long poll.
    Fast,
    /// Work that takes a while.
    Normal,
    /// Work whose length the operator chose.
    Slow,
}

impl TimeClass {
    /// Every class, shortest first.
    pub const ALL: &[Self] = &[Self::Urgent, Self::Fast, Self::Normal, Self::Slow];

    /// The limit.
    pub const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Urgent => 5,
            Self::Fast => 30,
            Self::Normal => 300,
            Self::Slow => 3_600,
        })
    }

    /// The word in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Fast => "fast",
            Self::Normal => "normal",
            Self::Slow => "slow",
        }
    }
}

/// The effect of a call on the node, which decides how epochs guard it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: answered under any epoch.
    Reads,
    /// Something: refused under a lower epoch, and never run beside a call of another epoch.
    Changes,
    /// Nothing, and other agents of the rack may ask too: no master takes part.
    Shares,
}

/// The behaviour of the caller where the node is marked offline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offline {
    /// Fails at once, without a packet.
    Fails,
    /// Asks all the same: the answer is wanted if there is one.
    Asks,
}

/// How the body travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carriage {
    /// As one of many on the node's HTTP/2 connection.
    Shared,
    /// On an HTTP/1.1 connection of its own, so that small calls need not wait behind it.
    Bulk,
}

impl Carriage {
    /// Longest body, in bytes.
    pub const fn body_max(self) -> usize {
        match self {
            // A thousand machines' worth of parameters, and far below what one connection's
            // streams could pile up in memory.
            Self::Shared => 1024 * 1024,
            // A rack document with every Ignition of a rack of some dozen machines.
            Self::Bulk => 64 * 1024 * 1024,
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Name, the last part of the path.
    pub name: &'static str,
    /// How long it may take.
    pub class: TimeClass,
    /// Its effect on the node.
    pub effect: Effect,
    /// The caller's behaviour where the node is marked offline.
    pub offline: Offline,
    /// How its body travels.
    pub carriage: Carriage,
    /// Its purpose.
    pub about: &'static str,
}

/// A call: its parameters, and the type of its reply.
pub trait Call: Serialize + DeserializeOwned + Debug + Send + Sync + 'static {
    /// Its line of the table.
    const TRAITS: Traits;
    /// The agent's answer.
    type Reply: Serialize + DeserializeOwned + Debug + Send + 'static;

    /// Bytes that travel behind the parameters; few calls have any.
    fn data(&self) -> Bytes {
        Bytes::new()
    }
}

/// A call that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The table has no such call.
    #[error("there is no call `{name}`")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// Bytes follow the parameters, and the call takes none.
    #[error("{length} bytes follow the parameters of call `{name}`, which takes none")]
    Data {
        /// The call.
        name: &'static str,
        /// How many.
        length: usize,
    },
    /// The parameters are not the call's.
    #[error("cannot read the parameters of call `{name}`")]
    Parameters {
        /// The call.
        name: &'static str,
        /// The JSON reader's error.
        #[source]
        error: serde_json::Error,
    },
}

macro_rules! calls {
    ($(#[$meta:meta])* $table:ident {
        $(#[doc = $doc:literal] $name:literal $call:ident -> $reply:ty,
          $class:ident, $effect:ident, $offline:ident, $carriage:ident$(, $data:ident)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub enum $table {
            $(#[doc = $doc] $call($call),)+
        }

        $(impl Call for $call {
            const TRAITS: Traits = Traits {
                name: $name,
                class: TimeClass::$class,
                effect: Effect::$effect,
                offline: Offline::$offline,
                carriage: Carriage::$carriage,
                about: $doc.trim_ascii(),
            };
            type Reply = $reply;

            $(fn data(&self) -> Bytes {
                self.$data.clone()
            })?
        })+

        impl $table {
            /// Every call, in the order of the table.
            pub const TABLE: &[Traits] = &[$($call::TRAITS,)+];

            /// The name of the call.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$call(_) => $name,)+ }
            }

            /// The line of the call `name`.
            pub fn traits(name: &str) -> Option<&'static Traits> {
                Self::TABLE.iter().find(|line| line.name == name)
            }

            /// Reads the call `name` from its parameters and the bytes behind them.
            ///
            /// # Errors
            /// The table has no such call, or these are not its parameters.
            pub fn decode(name: &str, body: &str, data: Bytes) -> Result<Self, DecodeError> {
                match name {
                    $($name => serde_json::from_str::<$call>(body)
                        .map_err(|error| DecodeError::Parameters { name: $name, error })
                        .and_then(|call| calls!(@take $name, call, data $(, $data)?))
                        .map(Self::$call),)+
                    unknown => Err(DecodeError::Unknown { name: unknown.chars().take(64).collect() }),
                }
            }
        }
    };
    (@take $name:literal, $call:ident, $bytes:ident) => {
        match $bytes.len() {
            0 => Ok($call),
            length => Err(DecodeError::Data { name: $name, length }),
        }
    };
    (@take $name:literal, $call:ident, $bytes:ident, $data:ident) => {{
        let mut call = $call;
        call.$data = $bytes;
        Ok(call)
    }};
}

calls! {
    /// The calls that an agent answers.
    Request {
        /// Version and protocol of the node's software, and the node's name.
        "version" Version -> NodeVersion, Urgent, Reads, Asks, Shared;
        /// Epoch and master that the node obeys; part of the failover precheck.
        "master_view" MasterView -> MasterViewed, Urgent, Reads, Asks, Shared;
        /// Hardware of the machine.
        "facts" Facts -> NodeFacts, Fast, Reads, Fails, Shared;
        /// State of the node, for `gnt cluster verify`.
        "verify" Verify -> NodeHeld, Fast, Reads, Fails, Shared;
        /// Install a rack document, if it is newer than the one held.
        "rack_push" RackPush -> RackHeld, Fast, Changes, Fails, Bulk;
        /// Tell how many bytes of blobs are there.
        "blob_held" BlobHeld -> Vec<u64>, Fast, Reads, Fails, Shared;
        /// Take a piece of a blob, which shows once it is whole and has its digest.
        "blob_append" BlobAppend -> u64, Fast, Changes, Fails, Bulk, data;
        /// Remove all blobs but those that are named.
        "blob_keep" BlobKeep -> (), Fast, Changes, Fails, Bulk;
        /// Stop serving a rack.
        "rack_withdraw" RackWithdraw -> (), Fast, Changes, Fails, Shared;
        /// Acknowledge events, and wait for more.
        "exchange" Exchange -> Exchanged, Fast, Changes, Fails, Shared;
        /// Answer what a machine asked for the key of its disk, as an exchange told.
        "key_answer" KeyAnswer -> (), Fast, Changes, Fails, Shared;
        /// Show machines this certificate, as an exchange asked for it.
        "machine_certificate" SetMachineCertificate -> (), Fast, Changes, Fails, Shared;
        /// Tell another agent of the rack of leases and ramdisks, and wait for more.
        "lease_sync" LeaseSync -> LeasesTold, Fast, Shares, Fails, Shared;
        /// End the lease of an address; may be repeated.
        "lease_release" LeaseRelease -> LeaseReleased, Fast, Changes, Fails, Shared;
        /// Decide for another agent of the rack whether it may tell a secret that is told once.
        "ramdisk_claim" RamdiskClaim -> RamdiskClaimed, Urgent, Shares, Fails, Shared;
        /// Replace the allow-list.
        "allow_list" SetAllowList -> (), Fast, Changes, Fails, Shared;
        /// Take the master's address, and tell the link.
        "master_address_up" MasterAddressUp -> AddressChanged, Fast, Changes, Fails, Shared;
        /// Whether the master's address is here; asked of the master's own agent.
        "master_address_here" MasterAddressHere -> AddressHere, Fast, Reads, Fails, Shared;
        /// Give the master's address up, if it is here.
        "master_address_down" MasterAddressDown -> AddressChanged, Fast, Changes, Fails, Shared;
        /// Install the files for this node's tools, if they are newer.
        "ssconf_push" SsconfPush -> SsconfHeld, Fast, Changes, Fails, Bulk;
        /// Change the network of the host, until a commit or a deadline.
        "network_apply" NetworkApply -> NetworkApplied, Normal, Changes, Fails, Shared;
        /// Keep the change of the host's network that waits.
        "network_commit" NetworkCommit -> NetworkEnded, Fast, Changes, Fails, Shared;
        /// Undo the change of the host's network that waits.
        "network_rollback" NetworkRollback -> NetworkEnded, Fast, Changes, Fails, Shared;
        /// Read all ports of a switch.
        "switch_ports" SwitchPorts -> SwitchSeen, Normal, Reads, Fails, Bulk;
        /// Change ports of a switch; a change that is made already does no harm.
        "switch_apply" SwitchApply -> SwitchApplied, Normal, Changes, Fails, Bulk;
        /// Wait until ports of a switch are not as they are known.
        "switch_watch" SwitchWatch -> SwitchSeen, Fast, Reads, Fails, Bulk;
        /// Begin a run of an instance.
        "instance_start" InstanceStart -> InstanceSeen, Normal, Changes, Fails, Shared;
        /// End what lives of an instance; runs up to the one that is named are over.
        "instance_stop" InstanceStop -> InstanceSeen, Slow, Changes, Fails, Shared;
        /// Pause, resume or reset a run, or change its memory.
        "instance_control" InstanceControl -> InstanceSeen, Normal, Changes, Fails, Shared;
        /// Give a run other disks and cards while it lives.
        "instance_plug" InstancePlug -> InstancePlugged, Normal, Changes, Fails, Shared;
        /// Make ready to take a run that lives on another node.
        "instance_receive" InstanceReceive -> InstanceAwaited, Normal, Changes, Fails, Shared;
        /// Send a run to the node that awaits it, until it stands still on both.
        "instance_send" InstanceSend -> InstanceSeen, Slow, Changes, Fails, Shared;
        /// Let one side of a migration go on, or drop it.
        "instance_finish" InstanceFinish -> InstanceSeen, Normal, Changes, Fails, Shared;
        /// Tell the node which runs it has; what else lives there is ended.
        "run_set" RunSet -> RunsEnded, Normal, Changes, Fails, Bulk;
        /// Look whether a hypervisor takes parameters on this node.
        "hypervisor_check" HypervisorCheck -> (), Normal, Reads, Fails, Shared;
        /// Tell what the console of an instance said, or wait until it says more.
        "console_read" ConsoleRead -> ConsoleSaid, Fast, Reads, Fails, Shared;
        /// Type on the console of an instance.
        "console_write" ConsoleWrite -> (), Fast, Changes, Fails, Shared;
        /// Make disks of an instance; those that are there as wanted stay.
        "disk_create" DiskCreate -> (), Slow, Changes, Fails, Shared;
        /// Write an image over all of a disk.
        "disk_image" DiskImage -> (), Slow, Changes, Fails, Shared;
        /// Run a script of an operating system on disks of an instance.
        "os_run" OsRun -> (), Slow, Changes, Fails, Shared;
        /// Remove disks of an instance; those that are not there do no harm.
        "disk_remove" DiskRemove -> (), Normal, Changes, Fails, Shared;
        /// Serve copies of disks to a run that lives on another node, and to no run below it.
        "replica_serve" ReplicaServe -> ReplicaServed, Normal, Changes, Fails, Shared;
        /// Serve copies of disks no more.
        "replica_drop" ReplicaDrop -> (), Normal, Changes, Fails, Shared;
        /// Have a run fill the other copy of a disk, and then write both.
        "replica_join" ReplicaJoin -> ReplicaJoined, Normal, Changes, Fails, Shared;
        /// Have a run go on without other copies of its disks.
        "replica_detach" ReplicaDetach -> InstanceSeen, Normal, Changes, Fails, Shared;
        /// Make a disk larger, or look whether there is room.
        "disk_grow" DiskGrow -> (), Normal, Changes, Fails, Shared;
        /// Take disks to other paths of the same node.
        "disk_rename" DiskRename -> (), Normal, Changes, Fails, Shared;
        /// Tell the sizes of disks, in MiB; null where one is not there.
        "disk_sizes" DiskSizes -> Vec<Option<u64>>, Normal, Reads, Fails, Shared;
        /// Tell how much room there is in directories of disks; null where one is not there.
        "storage_list" StorageList -> Vec<Option<StorageSpace>>, Normal, Reads, Fails, Shared;
        /// Read a piece of a disk, or of a file of an export.
        "volume_read" VolumeRead -> VolumePiece, Normal, Reads, Fails, Bulk;
        /// Write a piece of a disk, or of a file of an export.
        "volume_write" VolumeWrite -> (), Normal, Changes, Fails, Bulk, data;
        /// Copy a disk to a file of an export, or back, within the node.
        "volume_copy" VolumeCopy -> (), Slow, Changes, Fails, Shared;
        /// Begin an export; one of the same name stays until this one is whole.
        "export_begin" ExportBegin -> (), Normal, Changes, Fails, Shared;
        /// Make an export whole.
        "export_finish" ExportFinish -> (), Normal, Changes, Fails, Bulk;
        /// Tell the description of an export.
        "export_describe" ExportDescribe -> String, Fast, Reads, Fails, Bulk;
        /// Copy disks of a run into an export that was begun, all as of one moment.
        "export_snapshot" ExportSnapshot -> (), Slow, Changes, Fails, Shared;
        /// Remove what was begun of an export.
        "export_abandon" ExportAbandon -> (), Normal, Changes, Fails, Shared;
        /// Remove an export.
        "export_remove" ExportRemove -> bool, Normal, Changes, Fails, Shared;
        /// Do nothing for a while; for tests.
        "test_delay" TestDelay -> (), Slow, Changes, Fails, Shared;
        /// Make another key and request its certificate; the current one stays in use.
        "renew_begin" RenewBegin -> RenewOffer, Fast, Changes, Fails, Shared;
        /// Take the certificate of that key and show it from the next connection on; may be repeated.
        "renew_finish" RenewFinish -> (), Fast, Changes, Fails, Shared;
        /// Forget the cluster: keys, certificates, rack documents and leases.
        "leave" Leave -> (), Fast, Changes, Fails, Shared;
        /// Restart the machine, hard, some seconds after the answer.
        "powercycle" Powercycle -> PowercycleScheduled, Fast, Changes, Fails, Shared;
    }
}

calls! {
    /// The calls that a node answers while it waits to be enrolled; it answers nothing else.
    EnrolRequest {
        /// Ask for the certificate request.
        "enrol_begin" EnrolBegin -> EnrolOffer, Fast, Reads, Asks, Shared;
        /// Hand over the identity; may be repeated.
        "enrol_finish" EnrolFinish -> (), Fast, Changes, Asks, Shared;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_over_both_tables() {
        let names: Vec<_> =
            Request::TABLE.iter().chain(EnrolRequest::TABLE).map(|line| line.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn a_long_poll_ends_within_its_class() {
        let wait = Duration::from_millis(u64::from(EXCHANGE_WAIT_MS_MAX));
        assert!(wait * 3 <= Exchange::TRAITS.class.limit() * 2);
        assert!(
            Duration::from_secs(u64::from(TEST_DELAY_SECONDS_MAX))
                < TestDelay::TRAITS.class.limit()
        );
    }

    #[test]
    fn decoding_tells_what_is_wrong() {
        let version = Request::decode("version", "{}", Bytes::new()).unwrap();
        assert!(matches!(version, Request::Version(_)) && version.name() == "version");
        assert!(matches!(
            Request::decode("version", r#"{"x":1}"#, Bytes::new()),
            Err(DecodeError::Parameters { name: "version", .. })
        ));
        for other in ["enrol_begin", ""] {
            let unknown = Request::decode(other, "{}", Bytes::new());
            assert!(matches!(unknown, Err(DecodeError::Unknown { .. })));
        }
    }

    #[test]
    fn the_documentation_has_every_line() {
        let text = include_str!("../../docs/node-rpc.md");
        for line in Request::TABLE.iter().chain(EnrolRequest::TABLE) {
            let (class, effect) = (line.class.name(), format!("{:?}", line.effect).to_lowercase());
            let row = format!(
                "| `{}` | {} | {} | {} | {} | {} |",
                line.name,
                class,
                effect,
                format!("{:?}", line.offline).to_lowercase(),
                format!("{:?}", line.carriage).to_lowercase(),
                line.about
            );
            assert!(text.contains(&row), "docs/node-rpc.md lacks the row\n{row}");
        }
        for class in TimeClass::ALL {
            let row = format!("| {} | {} s |", class.name(), class.limit().as_secs());
            assert!(text.contains(&row), "docs/node-rpc.md lacks the row\n{row}");
        }
        for (name, status, meaning) in crate::wire::FailureKind::TABLE {
            let row = format!("| `{name}` | {status} | {} |", meaning.trim());
            assert!(text.contains(&row), "docs/node-rpc.md lacks the row\n{row}");
        }
    }
}
