//! Core: what an agent is given of an instance, every parameter filled.

use std::sync::Arc;

use model::NodeName;
use model::instance::launch::{DiskLaunch, Launch, NicLaunch, OwnedRun};
use model::instance::{Disk, Instance, InstanceSettings};

use super::seed::seed;
use crate::config::Config;

/// A disk, filled.
pub(super) fn disk(disk: &Disk, settings: &InstanceSettings) -> DiskLaunch {
    let mut params = settings.template(disk.place.template());
    params.extend(disk.params.clone());
    DiskLaunch {
        uuid: disk.uuid,
        place: disk.place.clone(),
        size: disk.size,
        mode: disk.mode,
        params,
        replica: None,
    }
}

/// The disks of an instance, filled.
pub(super) fn disks(config: &Config, instance: &Instance) -> Vec<DiskLaunch> {
    let settings = config.settings_of(instance);
    config.disks_of(instance).map(|one| disk(one, &settings)).collect()
}

/// Everything that the highest run of an instance needs, on the node that it is for.
pub(super) fn launch(config: &Config, instance: &Instance) -> Launch {
    let settings = config.settings_of(instance);
    let nics = instance.nics.iter().map(|nic| NicLaunch {
        uuid: nic.uuid,
        mac: nic.mac,
        ip: nic.ip,
        network: nic.network.clone(),
        nicparams: settings.nic_of(nic),
    });
    let hvparams = settings.hypervisor_of(instance);
    let has_own_user = hvparams.get("security_model").is_some_and(|model| model == "pool");
    let seed = seed(config, instance, &hvparams, &settings.system_of(instance));
    Launch {
        uuid: instance.uuid,
        name: instance.name.clone(),
        run: instance.runs,
        hypervisor: instance.hypervisor.clone(),
        hvparams,
        beparams: settings.backend_of(instance),
        nics: nics.collect(),
        disks: disks(config, instance),
        paused: false,
        seed,
        users: if has_own_user { settings.uid_pool.clone() } else { Vec::new() },
        network_port: instance.network_port,
    }
}

/// The runs that a node is to have.
pub(crate) fn owned(config: &Config, node: &NodeName) -> Vec<OwnedRun> {
    use model::instance::Phase;
    let involves = |instance: &&Arc<Instance>| match &instance.phase {
        Phase::Moving { from, to, .. } => from.node == *node || to == node,
        Phase::Ready | Phase::Creating { .. } | Phase::Copying { .. } | Phase::Removing { .. } => {
            false
        }
    };
    let primary = config.instances.by.primary.of(node.clone());
    // Few instances move, and one that does may have another primary node by now.
    let moving = config.instances.by.moving.of(node.clone()).filter(involves);
    let mut owned: Vec<OwnedRun> = primary
        .chain(moving)
        .map(|instance| OwnedRun {
            uuid: instance.uuid,
            run: instance.run_on(node),
            highest: instance.runs,
        })
        .collect();
    owned.sort_by_key(|run| run.uuid);
    owned.dedup_by_key(|run| run.uuid);
    owned
}
