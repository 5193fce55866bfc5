//! Core: what a program for allocation is told: the cluster, and a request.

use std::sync::Arc;

use model::group::Group;
use model::instance::state::AdminState;
use model::instance::{Disk, Instance, InstanceSettings, Nic};
use model::node::{Node, NodeRole};
use model::opcode::instance::moves::EvacuationMode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::instances::blueprint::Blueprint;
use crate::instances::capacity::{AllFacts, number, taken};
use crate::instances::copies::{self, rules::MIRROR};

/// Version of the protocol.
const VERSION: u32 = 2;

/// A new instance, as far as allocators must know it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Newcomer {
    pub(crate) name: String,
    pub(crate) disk_template: String,
    pub(crate) tags: Vec<String>,
    pub(crate) os: String,
    pub(crate) hypervisor: String,
    pub(crate) vcpus: u64,
    /// MiB.
    pub(crate) memory: u64,
    pub(crate) spindle_use: u64,
    /// Each with `size` and `mode`.
    pub(crate) disks: Vec<Value>,
    /// MiB.
    pub(crate) disk_space_total: u64,
    /// As its client gave them.
    pub(crate) nics: Vec<Value>,
    /// How many nodes it needs: no template of this version has two.
    pub(crate) required_nodes: u32,
}

impl Newcomer {
    pub(in crate::instances) fn of(
        blueprint: &Blueprint,
        settings: &InstanceSettings,
        nics: &[Map<String, Value>],
    ) -> Self {
        let instance = &blueprint.instance;
        let backend = settings.backend_of(instance);
        let disk = |disk: &crate::instances::devices::WantedDisk| json!({"size": disk.size, "mode": disk.mode, "spindles": disk.spindles});
        Self {
            name: instance.name.to_string(),
            // A program chooses one node; the one with copies is chosen beside it.
            disk_template: match instance.disk_template.as_str() {
                MIRROR => "plain".to_owned(),
                template => template.to_owned(),
            },
            tags: instance.tags.clone(),
            os: instance.os.clone(),
            hypervisor: instance.hypervisor.clone(),
            vcpus: number(&backend, "vcpus"),
            memory: number(&backend, "maxmem"),
            spindle_use: number(&backend, "spindle_use"),
            disks: blueprint.disks.iter().map(disk).collect(),
            disk_space_total: blueprint.disks.iter().map(|disk| disk.size).sum(),
            nics: nics.iter().cloned().map(Value::Object).collect(),
            required_nodes: 1,
        }
    }

    fn request(&self, group: Option<&Group>) -> Value {
        let mut request = json!(self);
        if let Some(group) = group {
            request["group_name"] = json!(group.name);
        }
        request
    }
}

/// A request to an allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'r> {
    /// A node for a new instance, within a group if one is named.
    Allocate(&'r Newcomer, Option<&'r Group>),
    /// Nodes for several.
    MultiAllocate(&'r [Newcomer]),
    /// Another node for an instance whose disks every node reaches.
    Relocate(&'r Instance),
    /// Jobs that take instances from their node.
    Evacuate(&'r [Arc<Instance>], EvacuationMode),
    /// Jobs that take instances to one of these groups.
    ChangeGroup(&'r [Arc<Instance>], &'r [&'r Arc<Group>]),
}

/// The question to a program, as it stands in its file.
pub(crate) fn question(config: &Config, facts: &AllFacts, request: Request<'_>) -> Value {
    let settings = config.instance_settings();
    let groups = config.groups.values().map(|group| (group.uuid.clone(), of_group(config, group)));
    let nodes =
        config.nodes.values().map(|node| (node.name.to_string(), of_node(config, facts, node)));
    let instances = config
        .instances
        .values()
        .map(|instance| (instance.name.to_string(), of_instance(config, instance)));
    json!({
        "version": VERSION,
        "cluster_name": config.cluster.cluster_name,
        "cluster_tags": config.cluster.tags,
        "enabled_hypervisors": settings.enabled_hypervisors,
        "ipolicy": settings.ipolicy,
        "nodegroups": groups.collect::<Map<_, _>>(),
        "nodes": nodes.collect::<Map<_, _>>(),
        "instances": instances.collect::<Map<_, _>>(),
        "request": of_request(config, request),
    })
}

fn of_request(config: &Config, request: Request<'_>) -> Value {
    let names = |instances: &[Arc<Instance>]| -> Vec<String> {
        instances.iter().map(|instance| instance.name.to_string()).collect()
    };
    let (kind, mut request) = match request {
        Request::Allocate(newcomer, group) => ("allocate", newcomer.request(group)),
        Request::MultiAllocate(newcomers) => {
            let one = |newcomer: &Newcomer| {
                let mut request = newcomer.request(None);
                request["type"] = json!("allocate");
                request
            };
            ("multi-allocate", json!({"instances": newcomers.iter().map(one).collect::<Vec<_>>()}))
        }
        Request::Relocate(instance) => {
            let space: u64 = config.disks_of(instance).map(|disk| disk.size).sum();
            let from = [&instance.primary_node];
            let request = json!({"name": instance.name, "disk_space_total": space,
                "required_nodes": 1, "relocate_from": from});
            ("relocate", request)
        }
        Request::Evacuate(instances, mode) => {
            ("node-evacuate", json!({"instances": names(instances), "evac_mode": mode}))
        }
        Request::ChangeGroup(instances, groups) => {
            let groups: Vec<&str> = groups.iter().map(|group| group.uuid.as_str()).collect();
            ("change-group", json!({"instances": names(instances), "target_groups": groups}))
        }
    };
    request["type"] = json!(kind);
    request
}

fn of_group(config: &Config, group: &Group) -> Value {
    let is_connected =
        |network: &&Arc<model::network::Network>| network.groups.contains_key(&group.uuid);
    let networks = config.networks.values().filter(is_connected);
    json!({
        "name": group.name,
        "alloc_policy": group.alloc_policy,
        "networks": networks.map(|network| network.uuid.to_string()).collect::<Vec<_>>(),
        "ipolicy": config.instance_settings().in_group(&group.settings).ipolicy,
        "tags": group.tags,
    })
}

/// The standing facts of a node. Free amounts are told only where the node may get instances
/// and has told them itself.
fn of_node(config: &Config, facts: &AllFacts, node: &Node) -> Value {
    let mut told = json!({
        "tags": node.tags,
        "primary_ip": node.primary_ip,
        "secondary_ip": node.secondary_ip,
        "offline": node.role == NodeRole::Offline,
        "drained": node.role == NodeRole::Drained,
        "master_candidate": node.role == NodeRole::Candidate,
        "group": config.group_of(node).uuid,
        "master_capable": node.master_capable,
        "vm_capable": node.vm_capable,
        "ndparams": config.node_parameters(node),
        "hv_state": {},
        "disk_state": {},
    });
    let may_host = matches!(node.role, NodeRole::Candidate | NodeRole::Regular) && node.vm_capable;
    let Some(facts) = facts.get(&node.name).filter(|_| may_host) else {
        // Nobody knows what a node has that does not tell: no program is to put anything there.
        told["offline"] = json!(node.role == NodeRole::Offline || may_host);
        return told;
    };
    let taken = taken(config, node, None);
    let settings = config.settings_on(node);
    let up = config
        .instances
        .by
        .primary
        .of(node.name.clone())
        .filter(|instance| instance.admin_state == AdminState::Up)
        .map(|instance| number(&settings.backend_of(instance), "maxmem"));
    let spindles = number(&settings.node(), "spindle_count");
    let runtime = json!({
        "total_memory": facts.memory_total_mib,
        "reserved_memory": 0,
        "free_memory": facts.memory_total_mib.saturating_sub(taken.memory),
        "total_disk": facts.disk_total_mib,
        "free_disk": facts.disk_total_mib.saturating_sub(taken.disk),
        "total_spindles": spindles,
        "free_spindles": spindles.saturating_sub(taken.spindles),
        "total_cpus": facts.cpus,
        "reserved_cpus": 0,
        "i_pri_memory": taken.memory,
        "i_pri_up_memory": up.sum::<u64>(),
    });
    if let (Value::Object(told), Value::Object(runtime)) = (&mut told, runtime) {
        told.extend(runtime);
    }
    told
}

fn of_instance(config: &Config, instance: &Instance) -> Value {
    let settings = config.settings_of(instance);
    let backend = settings.backend_of(instance);
    let disk =
        |disk: &Arc<Disk>| json!({"size": disk.size, "mode": disk.mode, "spindles": disk.spindles});
    let space: u64 = config.disks_of(instance).map(|disk| disk.size).sum();
    json!({
        "tags": instance.tags,
        "minmem": number(&backend, "minmem"),
        "maxmem": number(&backend, "maxmem"),
        "memory": number(&backend, "maxmem"),
        "spindle_use": number(&backend, "spindle_use"),
        "vcpus": number(&backend, "vcpus"),
        "auto_balance": backend.get("auto_balance"),
        "admin_state": instance.admin_state,
        "os": instance.os,
        "nodes": copies::nodes(config, instance),
        "disks": config.disks_of(instance).map(disk).collect::<Vec<_>>(),
        "disk_space_total": space,
        // Programs know the templates of Ganeti alone.
        "disk_template": match instance.disk_template.as_str() {
            MIRROR => "drbd",
            template => template,
        },
        "disks_active": instance.disks_active,
        "forthcoming": instance.forthcoming,
        "hypervisor": instance.hypervisor,
        "nics": instance.nics.iter().map(|nic| of_nic(nic, &settings)).collect::<Vec<_>>(),
    })
}

fn of_nic(nic: &Nic, settings: &InstanceSettings) -> Value {
    let parameters = settings.nic_of(nic);
    json!({"mac": nic.mac, "ip": nic.ip, "mode": parameters.get("mode"),
        "link": parameters.get("link"), "bridge": parameters.get("link")})
}
