//! Core: an instance as the configuration has it, with its network interfaces ("NICs").

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use super::state::{AdminState, AdminStateSource};
use crate::{InstanceName, JobId, MacAddress, NodeName, Timestamp, Uuid, Word};

/// Most NICs of an instance (Ganeti's).
pub const NICS_MAX: usize = 8;
/// Most disks of an instance (Ganeti's).
pub const DISKS_MAX: usize = 16;
/// Most instances of a cluster: ten times what Ganeti is known to be used with.
pub const INSTANCES_MAX: usize = 20_000;

/// The document `instances/NAME`. Only parameters that differ from a default are in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub name: InstanceName,
    pub uuid: Uuid,
    /// Counts its changes, from 1.
    pub serial_no: u64,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The node that runs it.
    pub primary_node: NodeName,
    /// Its operating system, with the variant behind a `+`; empty where it has none.
    #[serde(default)]
    pub os: String,
    pub hypervisor: String,
    pub disk_template: String,
    #[serde(default)]
    pub hvparams: Parameters,
    #[serde(default)]
    pub beparams: Parameters,
    #[serde(default)]
    pub osparams: Parameters,
    /// The wish.
    pub admin_state: AdminState,
    #[serde(default)]
    pub admin_state_source: AdminStateSource,
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Its disks, in order.
    #[serde(default)]
    pub disks: Vec<Uuid>,
    /// Whether its disks are to be active on its node.
    #[serde(default)]
    pub disks_active: bool,
    /// The port of its console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_port: Option<u16>,
    /// Whether it is only planned: it has its share of its node, and nothing there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forthcoming: bool,
    #[serde(default)]
    pub phase: Phase,
    /// The run that may live; none while nothing of it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The highest number of a run that was given.
    #[serde(default)]
    pub runs: u64,
    /// Whether removal is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// Its place among those that a node starts after its boot; the least is first.
    #[serde(default)]
    pub start_order: i32,
    /// The name that it is being given: each of its files lies below the old name or below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renaming: Option<InstanceName>,
}

/// A run: a life of an instance on one node. Numbers only rise, and a run is committed before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub number: u64,
    pub node: NodeName,
    pub since: Timestamp,
}

/// The stage of a record's life. Each stage but [`Phase::Ready`] is one job's, and *unfinished* once that
/// job has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It is whole.
    #[default]
    Ready,
    /// It has its share of its node, and its disks are being made.
    Creating { job: JobId },
    /// It goes to another node; its highest run is that of the other node.
    Moving {
        job: JobId,
        /// The run with which it began.
        from: Run,
        to: NodeName,
    },
    /// Its disks are on two nodes: those of the node that is not its own are copies that may go.
    Copying { job: JobId },
    /// Its share of its node is being removed.
    Removing {
        job: JobId,
        /// Why that did not work at the last try.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl Phase {
    /// The job that brought it here; none where it is whole.
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::Ready => None,
            Self::Creating { job }
            | Self::Moving { job, .. }
            | Self::Copying { job }
            | Self::Removing { job, .. } => Some(*job),
        }
    }

    /// The nodes between which it moves.
    pub fn nodes(&self) -> Vec<NodeName> {
        match self {
            Self::Moving { from, to, .. } => vec![from.node.clone(), to.clone()],
            Self::Ready | Self::Creating { .. } | Self::Copying { .. } | Self::Removing { .. } => {
                Vec::new()
            }
        }
    }

    /// Its word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Creating { .. } => "creating",
            Self::Moving { .. } => "moving",
            Self::Copying { .. } => "copying",
            Self::Removing { .. } => "removing",
        }
    }
}

/// A network interface of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    pub uuid: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub mac: MacAddress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// The network of which its address is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Word>,
    /// Its own mode, link and VLAN.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nicparams: Parameters,
}

impl Instance {
    /// Whether its record waits for somebody to go on: the job that brought it to its phase has ended.
    pub fn is_unfinished(&self, has_ended: impl Fn(JobId) -> bool) -> bool {
        self.phase.job().is_some_and(has_ended)
    }

    /// The run that a node is to have of it, by its number: while it moves, two nodes have one.
    pub fn run_on(&self, node: &NodeName) -> Option<u64> {
        match (&self.phase, &self.run) {
            (Phase::Moving { to, .. }, _) if to == node => Some(self.runs),
            (Phase::Moving { from, .. }, _) if from.node == *node => Some(from.number),
            (_, Some(run)) if run.node == *node => Some(run.number),
            (_, Some(_) | None) => None,
        }
    }

    /// The same after a change.
    #[must_use]
    pub fn changed(&self, now: Timestamp) -> Self {
        Self { serial_no: self.serial_no + 1, mtime: now, ..self.clone() }
    }

    /// The same with its next run, on `node`.
    #[must_use]
    pub fn with_next_run(self, node: NodeName, now: Timestamp) -> Self {
        let number = self.runs + 1;
        Self { runs: number, run: Some(Run { number, node, since: now }), ..self }
    }
}
