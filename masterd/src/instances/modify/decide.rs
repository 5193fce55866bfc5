//! Core: the change of an instance that a client asks for.

use std::sync::Arc;

use model::error::ErrorCode;
use model::instance::parameters::{BACKEND, hypervisor, read};
use model::instance::settings::{Told, memory_fits, with_memory};
use model::instance::state::{AdminState, AdminStateSource};
use model::instance::{Disk, Instance};
use model::opcode::InstanceSetParams;
use model::{Exception, Timestamp};
use serde_json::Value;

use super::plug::Device;
use super::{disks, nics};
use crate::config::{Config, ConfigChange};
use crate::instances::capacity::{AllFacts, Share, broken, fits, may_host};
use crate::units::wrong;

/// The surroundings of a change.
#[derive(Debug, Clone)]
pub(in crate::instances) struct Around {
    pub(super) facts: Arc<AllFacts>,
    /// Whether the instance lives, or may.
    pub(super) is_alive: bool,
    /// Whether devices are plugged in and out while it does.
    pub(super) plugs: bool,
    pub(super) now: Timestamp,
    /// A number that nobody foresees.
    pub(super) seed: u128,
}

/// A change.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) instance: Instance,
    pub(super) added: Vec<Disk>,
    pub(super) removed: Vec<Disk>,
    /// Disks that stay, with other properties, or leave it without being removed.
    pub(super) modified: Vec<Disk>,
    /// Changes of claims on addresses.
    pub(super) claims: Vec<ConfigChange>,
    /// Disks and NICs that come, leave or look different.
    pub(super) devices: Vec<Device>,
    /// Names and new values, for the client.
    pub(super) told: Vec<(String, Value)>,
}

impl Changed {
    pub(super) fn changes(self) -> Vec<ConfigChange> {
        let mut changes = self.claims;
        let removed = self.removed.into_iter().map(|disk| ConfigChange::DiskRemoved(disk.uuid));
        changes.extend(removed);
        let set = self.added.into_iter().chain(self.modified).map(ConfigChange::Disk);
        changes.extend(set);
        changes.push(ConfigChange::Instance(self.instance));
        changes
    }

    /// Disks that are not the instance's any more.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &Disk> {
        let detached = self.modified.iter().filter(|disk| disk.instance.is_none());
        self.removed.iter().chain(detached)
    }

    fn tell(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.told.push((name.into(), value.into()));
    }
}

/// Decides on a change.
///
/// # Errors
/// It cannot be.
pub(super) fn decide(
    op: &InstanceSetParams,
    config: &Config,
    instance: &Instance,
    around: &Around,
) -> Result<Changed, Exception> {
    supported(op)?;
    let mut changed = Changed {
        instance: instance.changed(around.now),
        added: Vec::new(),
        removed: Vec::new(),
        modified: Vec::new(),
        claims: Vec::new(),
        devices: Vec::new(),
        told: Vec::new(),
    };
    parameters(op, &mut changed)?;
    marks(op, config, around, &mut changed)?;
    nics::change(op, config, around, &mut changed)?;
    disks::change(op, config, around, &mut changed)?;
    if changed.told.is_empty() && op.runtime_mem.is_none() {
        return Err(wrong("No changes submitted"));
    }
    within(op, config, around, &changed)?;
    Ok(changed)
}

/// Refuses what this version cannot do, by its name.
fn supported(op: &InstanceSetParams) -> Result<(), Exception> {
    let refused = [
        (op.disk_template.is_some(), "convert disks to another template"),
        (op.remote_node.is_some(), "give disks a secondary node"),
        (
            op.instance_communication == Some(true),
            "make a network for communication with instances",
        ),
        (!op.ext_params.is_empty(), "use external storage"),
    ];
    match refused.into_iter().find(|(asked, _)| *asked) {
        None => Ok(()),
        Some((_, what)) => Err(wrong(format!("this version does not {what}"))),
    }
}

/// Parameters of hypervisor, backend and operating system.
fn parameters(op: &InstanceSetParams, changed: &mut Changed) -> Result<(), Exception> {
    let error = |error: model::instance::ParameterError| wrong(error.to_string());
    let table = hypervisor(&changed.instance.hypervisor).unwrap_or_default();
    let hvparams = read(table, &op.hvparams, false).map_err(error)?;
    changed.instance.hvparams = hvparams.over(&changed.instance.hvparams);
    let backend = with_memory(&op.beparams);
    let beparams = read(BACKEND, &backend, false).map_err(error)?;
    changed.instance.beparams = beparams.over(&changed.instance.beparams);
    for (name, value) in &op.osparams {
        match value.is_null() || value == "default" {
            true => drop(changed.instance.osparams.remove(name)),
            false => drop(changed.instance.osparams.insert(name.clone(), value.clone())),
        }
    }
    let all: [(&str, &Told); 3] = [("hv", &op.hvparams), ("be", &backend), ("os", &op.osparams)];
    for (family, told) in all {
        for (name, value) in told {
            changed.tell(format!("{family}/{name}"), value.clone());
        }
    }
    Ok(())
}

/// Its operating system, its marks, and a node that its record had wrong.
fn marks(
    op: &InstanceSetParams,
    config: &Config,
    around: &Around,
    changed: &mut Changed,
) -> Result<(), Exception> {
    if let Some(os) = &op.os_name {
        changed.instance.os.clone_from(os);
        changed.tell("os", os.as_str());
    }
    if let Some(protected) = op.protected {
        changed.instance.protected = protected;
        changed.tell("protected", protected);
    }
    if let Some(order) = op.start_order {
        changed.instance.start_order = order.0;
        changed.tell("start_order", order.0);
    }
    if let Some(offline) = op.offline {
        let name = &changed.instance.name;
        let wish = match (offline, changed.instance.admin_state) {
            (true, _) if around.is_alive => {
                let text = format!("Instance {name} is running, cannot change state to offline");
                return Err(Exception::prereq(text, ErrorCode::WrongState));
            }
            (true, _) => AdminState::Offline,
            (false, AdminState::Offline) => AdminState::Down,
            (false, _) => {
                let text = format!("Instance {name} is not marked offline");
                return Err(Exception::prereq(text, ErrorCode::WrongState));
            }
        };
        changed.instance.admin_state = wish;
        changed.instance.admin_state_source = AdminStateSource::Admin;
        // Its node has said that nothing of it lives, or nothing was to.
        changed.instance.run = None;
        changed.tell("admin_state", wish.as_str());
    }
    if let Some(name) = &op.pnode {
        let node = config.node_with(name, op.pnode_uuid.as_deref())?;
        if around.is_alive || changed.instance.run.is_some() {
            let text = "Instance is still running, or is to run; shut it down first";
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        if config.disks_of(&changed.instance).any(|disk| !disk.nodes.is_empty()) {
            let text = "its disks are on its node, and would be left there";
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        may_host(node, "primary")?;
        changed.instance.primary_node = node.name.clone();
        changed.tell("pnode", node.name.as_str());
    }
    Ok(())
}

/// Looks whether the instance is within its policy and has room afterwards.
fn within(
    op: &InstanceSetParams,
    config: &Config,
    around: &Around,
    changed: &Changed,
) -> Result<(), Exception> {
    let instance = &changed.instance;
    let node = config.node(instance.primary_node.as_str())?;
    let settings = config.settings_on(node);
    memory_fits(&settings.backend_of(instance)).map_err(|error| wrong(error.to_string()))?;
    let size = |disk: &Disk| i64::try_from(disk.size).unwrap_or(i64::MAX);
    let staying = config.disks_of(instance).map(AsRef::as_ref);
    let sizes: Vec<i64> = staying.chain(&changed.added).map(size).collect();
    let broken = broken(instance, &settings, &sizes);
    if !broken.is_empty() && !op.ignore_ipolicy {
        let text = format!("Instance violates the policy of its group: {}", broken.join(", "));
        return Err(wrong(text));
    }
    let takes_more = !op.beparams.is_empty() || !changed.added.is_empty();
    if !takes_more || op.force {
        return Ok(());
    }
    let local = |disk: &&Disk| !disk.nodes.is_empty();
    let disk = config.disks_of(instance).map(AsRef::as_ref).chain(&changed.added);
    let disk = disk.filter(local).map(|disk| disk.size).sum();
    let facts = around.facts.get(&node.name).map(AsRef::as_ref);
    fits(config, node, facts, Share::of(instance, &settings, disk), Some(instance))
}
