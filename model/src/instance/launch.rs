//! Core: what an agent is given of an instance: every parameter filled, as agents know no defaults.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::disk::{DiskMode, DiskPlace};
use super::parameters::Parameters;
use super::settings::UidRange;
use super::state::Seen;
use crate::{InstanceName, MacAddress, Timestamp, Uuid, Word};

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
