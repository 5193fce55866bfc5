//! Core: what nodes have room for. Records of instances reserve
//! their shares, so that two that want the last room cannot both have it.

use std::collections::HashMap;
use std::sync::Arc;

use model::error::ErrorCode;
use model::instance::parameters::Parameters;
use model::instance::policy::{Measures, Policy};
use model::instance::state::AdminState;
use model::instance::{Instance, InstanceSettings};
use model::node::{Node, NodeRole};
use model::{Exception, NodeName};
use rpc::calls::NodeFacts;
use serde_json::Value;

use crate::config::Config;

/// The facts that agents told of their machines.
pub(crate) type AllFacts = HashMap<NodeName, Arc<NodeFacts>>;

/// The share of a node that an instance takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Share {
    /// MiB.
    pub(crate) memory: u64,
    pub(crate) vcpus: u64,
    pub(crate) spindles: u64,
    /// MiB on the node itself.
    pub(crate) disk: u64,
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Self) {
        self.memory += other.memory;
        self.vcpus += other.vcpus;
        self.spindles += other.spindles;
        self.disk += other.disk;
    }
}

pub(crate) fn number(parameters: &Parameters, name: &str) -> u64 {
    parameters.get(name).and_then(Value::as_u64).unwrap_or_default()
}

impl Share {
    pub(crate) fn of(instance: &Instance, settings: &InstanceSettings, disk: u64) -> Self {
        let number = |name| settings.backend_number(instance, name);
        let is_offline = instance.admin_state == AdminState::Offline;
        Self {
            memory: if is_offline { 0 } else { number("maxmem") },
            vcpus: number("vcpus"),
            spindles: number("spindle_use"),
            disk,
        }
    }
}

/// MiB that an instance's disks take on its primary node.
pub(crate) fn local_disk(config: &Config, instance: &Instance) -> u64 {
    let local = config.disks_of(instance).filter(|disk| !disk.nodes.is_empty());
    local.map(|disk| disk.size).sum()
}

/// The share of a node that its instances take, but for `except`, and copies of the disks of others.
pub(crate) fn taken(config: &Config, node: &Node, except: Option<&Instance>) -> Share {
    // Groups have no backend parameters of their own.
    let settings = config.instance_settings();
    let mut sum = Share::default();
    for instance in config.instances.by.primary.of(node.name.clone()) {
        if except.is_none_or(|except| except.uuid != instance.uuid) {
            sum += Share::of(instance, &settings, local_disk(config, instance));
        }
    }
    let copies = config.disks.by.copy.of(node.name.clone());
    sum.disk += copies.map(|disk| disk.size).sum::<u64>();
    sum
}

/// Looks whether a node may get an instance at all.
///
/// # Errors
/// It may not, in Ganeti's words; `what` is its part.
pub(crate) fn may_host(node: &Node, what: &str) -> Result<(), Exception> {
    let refuse = |why: &str| {
        let text = format!("Cannot use {why} {what} node '{}'", node.name);
        Err(Exception::prereq(text, ErrorCode::WrongState))
    };
    match node.role {
        NodeRole::Offline => refuse("offline"),
        NodeRole::Drained => refuse("drained"),
        NodeRole::Candidate | NodeRole::Regular if !node.vm_capable => refuse("non-vm_capable"),
        NodeRole::Candidate | NodeRole::Regular => Ok(()),
    }
}

/// Looks whether a node has room for a share beside what its instances take, but for `except`.
///
/// # Errors
/// It has none, or has not told what it has.
pub(crate) fn fits(
    config: &Config,
    node: &Node,
    facts: Option<&NodeFacts>,
    share: Share,
    except: Option<&Instance>,
) -> Result<(), Exception> {
    fits_beside(node, facts, share, taken(config, node, except))
}

/// Looks whether a node has room for a share beside what is taken.
///
/// # Errors
/// It has none, or has not told what it has.
pub(crate) fn fits_beside(
    node: &Node,
    facts: Option<&NodeFacts>,
    share: Share,
    taken: Share,
) -> Result<(), Exception> {
    let name = &node.name;
    let Some(facts) = facts else {
        let text = format!("Can't compute free memory on node {name}: its agent has not told yet");
        return Err(Exception::prereq(text, ErrorCode::TempInsufficientResources));
    };
    let free = facts.memory_total_mib.saturating_sub(taken.memory);
    if share.memory > free {
        let text = format!(
            "Not enough memory on node {name}: needed {} MiB, available {free} MiB",
            share.memory
        );
        return Err(Exception::prereq(text, ErrorCode::InsufficientResources));
    }
    let free = facts.disk_total_mib.saturating_sub(taken.disk);
    if share.disk > free {
        let text = format!(
            "Not enough disk space on node {name}: needed {} MiB, available {free} MiB",
            share.disk
        );
        return Err(Exception::prereq(text, ErrorCode::InsufficientResources));
    }
    Ok(())
}

/// The measures of an instance.
pub(crate) fn measures(
    instance: &Instance,
    settings: &InstanceSettings,
    disks: &[i64],
) -> Measures {
    let backend = settings.backend_of(instance);
    let number = |name: &str| i64::try_from(number(&backend, name)).unwrap_or(i64::MAX);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    Measures {
        memory_size: number("maxmem"),
        cpu_count: number("vcpus"),
        disk_size: disks.iter().copied().max().unwrap_or_default(),
        disk_count: count(disks.len()),
        nic_count: count(instance.nics.len()),
        spindle_use: number("spindle_use"),
    }
}

/// What a policy limits of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) measures: Measures,
    /// MiB of each disk.
    pub(crate) disks: Vec<i64>,
    pub(crate) template: String,
}

impl Extent {
    pub(crate) fn of(instance: &Instance, settings: &InstanceSettings, disks: &[i64]) -> Self {
        let measures = measures(instance, settings, disks);
        Self { measures, disks: disks.to_vec(), template: instance.disk_template.clone() }
    }

    /// The limits of a policy that it breaks.
    pub(crate) fn breaks(&self, policy: &Policy) -> Vec<String> {
        let (mut measures, template) = (self.measures, &self.template);
        if template == "diskless" {
            // Nothing is said of disks that it cannot have.
            measures.disk_count = policy.std.disk_count;
        }
        let mut broken = policy.broken(measures, &self.disks);
        // Policies have Ganeti's words alone, as its tools read them.
        let counts_as = if template == super::copies::rules::MIRROR { "drbd" } else { template };
        if !policy.disk_templates.iter().any(|allowed| allowed == counts_as) {
            let known = policy.disk_templates.join(", ");
            let text =
                format!("Disk template {template} is not allowed (allowed templates: {known})");
            broken.push(text);
        }
        broken
    }
}

/// The limits of its node's policy that an instance breaks.
pub(crate) fn broken(
    instance: &Instance,
    settings: &InstanceSettings,
    disks: &[i64],
) -> Vec<String> {
    Extent::of(instance, settings, disks).breaks(&settings.ipolicy)
}

/// The sizes of the disks of an instance, as policies count.
pub(crate) fn sizes(config: &Config, instance: &Instance) -> Vec<i64> {
    let sizes = config.disks_of(instance).map(|disk| disk.size);
    sizes.map(|size| i64::try_from(size).unwrap_or(i64::MAX)).collect()
}

/// The limits of its node's policy that an instance breaks as it is.
pub(crate) fn broken_policy(config: &Config, instance: &Instance) -> Vec<String> {
    broken(instance, &config.settings_of(instance), &sizes(config, instance))
}
