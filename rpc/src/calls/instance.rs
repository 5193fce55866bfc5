//! Calls on the instances of a node. Each that changes something names the run that it is about: an agent
//! refuses one below the highest that it has seen, and answers as before where it was done already.

use std::collections::BTreeMap;

use model::blob::BlobDigest;
use model::instance::launch::{
    DiskLaunch, Launch, NicLaunch, OwnedRun, Replica, ReplicaKey, Sight, SightsKnown,
};
use model::instance::os::OsScript;
use model::instance::parameters::Parameters;
use model::{InstanceName, Uuid};
use serde::{Deserialize, Serialize};

/// Most instances of one node: ten times what a large host runs.
pub const INSTANCES_PER_NODE_MAX: usize = 2_000;

/// Begins a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceStart {
    pub launch: Launch,
    /// The key by which it reaches the other copies of its disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ReplicaKey>,
}

/// Serves the copies that a node has of an instance's disks to a run that lives elsewhere. Runs below it are
/// not served any more, so that none of them writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaServe {
    pub uuid: Uuid,
    pub name: InstanceName,
    pub run: u64,
    /// The copies that are here, which are there as files.
    pub disks: Vec<DiskLaunch>,
    pub key: ReplicaKey,
}

/// The place where a node serves copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaServed {
    pub port: u16,
}

/// Serves the copies of an instance's disks no more to runs up to this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaDrop {
    pub uuid: Uuid,
    pub run: u64,
}

/// Has a run fill the other copy of one of its disks, and write both from then on. It is done when it says so:
/// the call is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaJoin {
    pub uuid: Uuid,
    pub run: u64,
    pub disk: Uuid,
    pub replica: Replica,
    pub key: ReplicaKey,
    /// Whether all of it is filled, also what it should have: it is another copy than the one that was in step,
    /// or its node ended without having written its caches.
    #[serde(default)]
    pub whole: bool,
}

/// The progress of [`ReplicaJoin`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaJoined {
    pub seen: InstanceSeen,
    /// How much of the copy is filled, in per cent.
    pub percent: u8,
    /// Why the last try ended, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Has a run go on without the other copies of these disks, which are recorded as stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaDetach {
    pub uuid: Uuid,
    pub run: u64,
    pub disks: Vec<Uuid>,
}

/// Ends whatever lives of an instance, and remembers that runs up to this one are over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceStop {
    pub uuid: Uuid,
    pub run: u64,
    /// Seconds that its guest has to shut down; then its process is killed.
    pub timeout_s: u32,
    /// Whether the node forgets it, as it is not its own any more.
    pub forget: bool,
}

/// Tells a run something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceControl {
    pub uuid: Uuid,
    pub run: u64,
    pub control: Control,
}

/// The orders that a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    Pause,
    Resume,
    /// Restarts the guest within its process.
    Reset,
    /// Gives the guest this much memory, in MiB.
    Memory(u64),
    /// Gives it so many processors.
    Processors(u32),
}

/// Changes the devices of a run; others stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstancePlug {
    pub uuid: Uuid,
    pub run: u64,
    /// Disks and cards that it is to have.
    pub disks: Vec<DiskLaunch>,
    pub nics: Vec<NicLaunch>,
    /// Disks and cards that it is not to have.
    pub without: Vec<Uuid>,
}

/// The state of a run after [`InstancePlug`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancePlugged {
    pub seen: InstanceSeen,
    /// The disks and cards that were not plugged in or out, each with the reason.
    pub failed: Vec<(Uuid, String)>,
}

/// Makes a node ready to take a run that lives elsewhere; it stands still until it is told to go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceReceive {
    pub launch: Launch,
}

/// The place where a run is awaited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceAwaited {
    /// An address of the hypervisor's own; what it means is between the two agents.
    pub place: String,
}

/// Sends a run to where it is awaited, up to the moment at which it stands still on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSend {
    pub uuid: Uuid,
    pub run: u64,
    pub place: String,
    pub live: bool,
}

/// Ends a migration on one of its sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceFinish {
    pub uuid: Uuid,
    pub run: u64,
    pub finish: Finish,
}

/// The end of one side of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// It runs, here.
    Go,
    /// It ends, here.
    Drop,
}

/// The state of a run after a call, with its place among the agent's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceSeen {
    pub known: SightsKnown,
    pub sight: Sight,
}

/// Asks what the console of an instance said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleRead {
    pub uuid: Uuid,
    /// The place from which on; none begins near its end.
    pub from: Option<u64>,
    /// Milliseconds to wait where it said nothing since, at most [`CONSOLE_WAIT_MS_MAX`].
    pub wait_ms: u32,
}

/// Longest wait for a console: below the limit of the call.
pub const CONSOLE_WAIT_MS_MAX: u32 = 20_000;

/// The words of a console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSaid {
    /// The place of the first byte among all that it ever said.
    pub offset: u64,
    /// In Base64.
    pub data: String,
}

/// Types on the console of an instance.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsoleWrite {
    pub uuid: Uuid,
    /// In Base64, at most [`CONSOLE_INPUT_MAX`] characters.
    pub input: String,
}

impl std::fmt::Debug for ConsoleWrite {
    /// Without the input: it may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleWrite").field("uuid", &self.uuid).finish_non_exhaustive()
    }
}

/// Longest input at a time: a page of pasted text.
pub const CONSOLE_INPUT_MAX: usize = 16 * 1024;

/// Tells a node which runs it has; what else lives there is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSet {
    /// At most [`INSTANCES_PER_NODE_MAX`].
    pub owned: Vec<OwnedRun>,
}

/// The outcome of [`RunSet`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsEnded {
    /// Names of instances that lived there and must not.
    pub ended: Vec<String>,
}

/// Looks whether a hypervisor takes these parameters on this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HypervisorCheck {
    pub hypervisor: String,
    pub hvparams: Parameters,
}

/// Makes disks; those that are there as wanted stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskCreate {
    pub disks: Vec<DiskLaunch>,
    /// Whether they are written over with zeros.
    pub wipe: bool,
}

/// Writes an image over all of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskImage {
    pub disk: DiskLaunch,
    /// A whole disk, raw or qcow2, which the agent has among its blobs.
    pub image: BlobDigest,
}

/// Runs a script of an operating system, to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OsRun {
    pub script: OsScript,
    /// The system, with its variant behind a `+`.
    pub os: String,
    pub instance: InstanceName,
    /// The disks of the instance, in order; the agent tells the script where they are.
    pub disks: Vec<DiskLaunch>,
    /// The facts of the instance that the script is told, by the names of variables.
    pub environment: BTreeMap<String, String>,
}

/// Removes disks; those that are not there do no harm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskRemove {
    pub disks: Vec<DiskLaunch>,
}

/// Makes a disk at least as large as this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskGrow {
    pub disk: DiskLaunch,
    /// The new size, in MiB.
    pub size: u64,
    /// Whether it is only looked whether there is room.
    pub dry_run: bool,
}

/// Takes disks to other places on the same node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskRename {
    /// Each disk with its new path.
    pub disks: Vec<(DiskLaunch, String)>,
}

/// Asks for the sizes of disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSizes {
    pub disks: Vec<DiskLaunch>,
}

/// Asks how much room there is in directories of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageList {
    pub directories: Vec<String>,
}

/// The room in a directory of disks, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageSpace {
    /// All that its file system has.
    pub total_mib: u64,
    pub free_mib: u64,
    /// The blocks of the files in it.
    pub used_mib: u64,
}
