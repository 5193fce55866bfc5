//! Core: what an agent is given of an instance: every parameter filled, as agents know no defaults.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::disk::{DiskMode, DiskPlace};
use super::parameters::Parameters;
use super::settings::UidRange;
use super::state::Seen;
use crate::{InstanceName, MacAddress, NodeName, Timestamp, Uuid, Word};

/// Everything that a run needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    pub uuid: Uuid,
    pub name: InstanceName,
    /// The number of the run.
    pub run: u64,
    pub hypervisor: String,
    pub hvparams: Parameters,
    pub beparams: Parameters,
    pub nics: Vec<NicLaunch>,
    pub disks: Vec<DiskLaunch>,
    /// Whether it stands still at first.
    #[serde(default)]
    pub paused: bool,
    /// The texts that tell its guest about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The users that its process may be, where it is to have one of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UidRange>,
    /// The port that is its own in the cluster, at which its screen may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_port: Option<u16>,
}

/// The texts that cloud-init in a guest reads (its data source NoCloud).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// Which instance this is, and its name.
    pub meta_data: String,
    /// The work for its first boot.
    pub user_data: String,
    /// Its addresses, in version 2 of cloud-init's form.
    pub network_config: String,
}

/// A network interface, filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicLaunch {
    pub uuid: Uuid,
    pub mac: MacAddress,
    #[serde(default)]
    pub ip: Option<IpAddr>,
    #[serde(default)]
    pub network: Option<Word>,
    /// Mode, link and VLAN.
    pub nicparams: Parameters,
}

/// A disk, filled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskLaunch {
    pub uuid: Uuid,
    pub place: DiskPlace,
    /// MiB.
    pub size: u64,
    pub mode: DiskMode,
    /// The parameters of its template, with its own.
    pub params: Parameters,
    /// The other copy, which is written together with this one; none where it has none, or that one is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
}

/// The copy of a disk on another node, which serves it by NBD over TLS with a key of
/// the run. The export has the disk's UUID for its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replica {
    pub node: NodeName,
    pub address: SocketAddr,
}

/// A key of a run, by which its node reaches the copies of its disks on other nodes (TLS with a pre-shared
/// key, RFC 4279). It is on tmpfs alone, and ends with the run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplicaKey(String);

impl ReplicaKey {
    /// One of 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// It in hexadecimal.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ReplicaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplicaKey(…)")
    }
}

impl Launch {
    /// The memory of its guest, in MiB.
    pub fn memory(&self) -> u64 {
        let most = self.beparams.get("maxmem").and_then(serde_json::Value::as_u64);
        most.unwrap_or_default()
    }

    /// Its processors.
    pub fn vcpus(&self) -> u32 {
        let vcpus = self.beparams.get("vcpus").and_then(serde_json::Value::as_u64);
        vcpus.and_then(|vcpus| u32::try_from(vcpus).ok()).unwrap_or(1)
    }
}

/// An agent's word on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    pub uuid: Uuid,
    pub name: InstanceName,
    /// The run that it is about.
    pub run: u64,
    pub seen: Seen,
    /// Since when it is so, by the agent's clock.
    pub since: Timestamp,
    /// Memory that it takes, in MiB; 0 where it does not live.
    #[serde(default)]
    pub memory: u64,
    #[serde(default)]
    pub vcpus: u32,
    /// Why its process ended, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// The words of its guest on itself, where it has an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestFacts>,
    /// Its disks that have copies on other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopySight>,
}

/// An agent's word on the other copy of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySight {
    pub disk: Uuid,
    pub state: CopyState,
}

/// How a run stands to the other copy of its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// It writes its own copy alone, and remembers where.
    Alone,
    /// It writes its own copy, and fills the other one.
    Filling,
    /// It writes both.
    InStep,
    /// The other one fails: the guest's writes wait until somebody says that it is stale. The text says why.
    Lost(String),
}

/// The words of a guest on itself, by its own agent. They are shown, and nothing else is done by them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFacts {
    #[serde(default)]
    pub hostname: Option<String>,
    /// Its operating system, as people call it.
    #[serde(default)]
    pub system: Option<String>,
    #[serde(default)]
    pub kernel: Option<String>,
    /// Without those of its loopback.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// The place of an agent's words among each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SightsKnown {
    /// Which life of the agent: numbers begin anew with each.
    pub life: Uuid,
    /// The number of its last word that is known.
    pub number: u64,
}

/// An agent's words on its instances: all of them, or those that changed since what was known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sights {
    pub known: SightsKnown,
    /// Whether these are all: what is not here is not there.
    pub all: bool,
    pub instances: Vec<Sight>,
}

/// A run that its node is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedRun {
    pub uuid: Uuid,
    /// The number of the run; none where nothing of the instance may live there.
    #[serde(default)]
    pub run: Option<u64>,
    /// The highest number that was given: what is below it is over.
    pub highest: u64,
}
