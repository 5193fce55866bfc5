//! Core: the table of changes to the configuration: what each does in memory, and what it writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobs::Document;
use jobs::filter::Rule;
use model::cluster::{Cluster, Role};
use model::group::Group;
use model::ipam::IpamConfig;
use model::machine::{Boot, Machine};
use model::node::Node;
use model::rack::Lease;
use model::{MacAddress, NodeName, Serial, document};

use super::Config;

/// One object that is set or taken away.
#[derive(Debug, Clone)]
pub enum ConfigChange {
    /// The cluster as a whole.
    Cluster(Cluster),
    /// Who is master.
    Role(Role),
    /// A node is new or changed.
    Node(Node),
    /// A node is gone.
    NodeRemoved(NodeName),
    /// A filter rule of the queue is new or changed.
    Filter(Rule),
    /// A filter rule is gone.
    FilterRemoved(String),
    /// The node group is changed.
    Group(Group),
    /// The rules of addresses.
    Ipam(IpamConfig),
    /// A machine is new or changed; its index is in use.
    Machine(Machine),
    /// A machine is gone; its index is free.
    MachineRemoved(Serial),
    /// A machine was seen booting.
    Boot(Serial, Boot),
    /// A lease is new or changed.
    Lease(Lease),
    /// A lease is over.
    LeaseRemoved(u32, MacAddress),
}

impl ConfigChange {
    /// Changes `config` and adds what must be written to `documents`.
    pub fn apply(self, config: &mut Config, documents: &mut Vec<Document>) {
        match self {
            Self::Cluster(cluster) => {
                documents.push(Document::put(document::CLUSTER, &cluster));
                config.cluster = Arc::new(cluster);
            }
            Self::Role(role) => {
                documents.push(Document::put(document::ROLE, &role));
                config.role = Arc::new(role);
            }
            Self::Node(node) => {
                documents.push(Document::put(document::node(&node.name), &node));
                config.nodes.insert(node.name.clone(), Arc::new(node));
            }
            Self::NodeRemoved(name) => {
                documents.push(Document::delete(document::node(&name)));
                config.nodes.remove(&name);
            }
            Self::Filter(rule) => {
                let uuid = rule.document.uuid.clone();
                documents.push(Document::put(document::filter(&uuid), &rule.document));
                Arc::make_mut(&mut config.filters).insert(uuid, Arc::new(rule));
            }
            Self::FilterRemoved(uuid) => {
                documents.push(Document::delete(document::filter(&uuid)));
                Arc::make_mut(&mut config.filters).remove(&uuid);
            }
            Self::Group(group) => {
                documents.push(Document::put(document::group(&group.name), &group));
                config.group = Arc::new(group);
            }
            Self::Ipam(ipam) => {
                documents.push(Document::put(document::IPAM, &ipam));
                config.ipam = Some(Arc::new(ipam));
            }
            Self::Machine(machine) => {
                documents.push(Document::put(document::machine(&machine.serial), &machine));
                let taken = config.indices.entry(machine.rack).or_default();
                if taken.insert(machine.index_in_rack) {
                    documents.push(Document::put(document::node_indices(machine.rack), taken));
                }
                config.machines.insert(machine.serial.clone(), Arc::new(machine));
            }
            Self::MachineRemoved(serial) => remove_machine(&serial, config, documents),
            Self::Boot(serial, boot) => {
                documents.push(Document::put(document::boot(&serial), &boot));
                config.boots.insert(serial, Arc::new(boot));
            }
            Self::Lease(lease) => {
                documents.push(Document::put(document::lease(lease.rack, lease.mac), &lease));
                config.leases.insert(lease.key(), Arc::new(lease));
            }
            Self::LeaseRemoved(rack, mac) => {
                documents.push(Document::delete(document::lease(rack, mac)));
                config.leases.remove(&(rack, mac));
            }
        }
    }

    /// The racks whose documents may differ after this change of `config`.
    #[must_use]
    pub fn racks(&self, config: &Config) -> BTreeSet<u32> {
        match self {
            Self::Cluster(_)
            | Self::Role(_)
            | Self::NodeRemoved(_)
            | Self::Group(_)
            | Self::Filter(_)
            | Self::FilterRemoved(_) => BTreeSet::new(),
            Self::Node(node) => {
                let before = config.nodes.get(&node.name).and_then(|node| node.rack);
                node.rack.into_iter().chain(before).collect()
            }
            Self::Ipam(_) => config.nodes.values().filter_map(|node| node.rack).collect(),
            Self::Machine(machine) => BTreeSet::from([machine.rack]),
            Self::MachineRemoved(serial) => {
                config.machines.get(serial).map(|machine| machine.rack).into_iter().collect()
            }
            Self::Boot(..) | Self::Lease(_) | Self::LeaseRemoved(..) => BTreeSet::new(),
        }
    }
}

fn remove_machine(serial: &Serial, config: &mut Config, documents: &mut Vec<Document>) {
    let Some(machine) = config.machines.remove(serial) else { return };
    documents.push(Document::delete(document::machine(serial)));
    if config.boots.remove(serial).is_some() {
        documents.push(Document::delete(document::boot(serial)));
    }
    if let Some(taken) = config.indices.get_mut(&machine.rack) {
        taken.remove(&machine.index_in_rack);
        documents.push(Document::put(document::node_indices(machine.rack), taken));
    }
}
