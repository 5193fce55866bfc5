//! Core: what templates are told of hosts of this cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref as _;

use model::machine::Machine;
use model::network::{Network, Owner};
use model::node::Node;

use super::Facts;
use crate::config::Config;

impl Facts {
    /// A host that there is not: it has the first address of each pool.
    pub(crate) fn sample(config: &Config) -> Self {
        let addresses =
            config.networks.values().map(|network| (network.name.clone(), first_of(network)));
        Self {
            name: "sample".to_owned(),
            role: "sample".to_owned(),
            place: Some((0, 0)),
            macs: vec!["52:54:00:00:00:01".to_owned()],
            labels: BTreeMap::new(),
            addresses: addresses.collect(),
            networks: config.networks.deref().clone(),
        }
    }

    /// A node of the cluster, with the addresses that it claimed by its name.
    pub(crate) fn of_node(config: &Config, node: &Node) -> Self {
        let owner = node.name.as_str().parse().map(Owner::Name);
        let claims = owner.into_iter().flat_map(|owner| config.claims.by.owner.of(owner));
        let addresses = claims.map(|claim| (claim.network.clone(), claim.addresses().to_vec()));
        Self {
            name: node.name.to_string(),
            role: "node".to_owned(),
            place: node.rack.map(|rack| (rack, 0)),
            macs: Vec::new(),
            labels: BTreeMap::new(),
            addresses: addresses.collect(),
            networks: config.networks.deref().clone(),
        }
    }

    /// A machine of the inventory, with the addresses that it has now.
    pub(crate) fn of_machine(config: &Config, machine: &Machine) -> Self {
        let owner = Owner::Machine(machine.serial.clone());
        let claims = config.claims.by.owner.of(owner);
        let addresses = claims.map(|claim| (claim.network.clone(), claim.addresses().to_vec()));
        let labels = machine.labels.iter();
        Self {
            name: machine.serial.to_string(),
            role: machine.role.clone(),
            place: Some((machine.rack, machine.index_in_rack)),
            macs: machine.mac.iter().map(ToString::to_string).collect(),
            labels: labels.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            addresses: addresses.collect(),
            networks: config.networks.deref().clone(),
        }
    }
}

/// An address of each family, as a claim would get one.
fn first_of(network: &Network) -> Vec<IpAddr> {
    let first = |is_ipv4: bool| {
        let mut subnets = network.subnets.iter().filter(|subnet| subnet.is_ipv4() == is_ipv4);
        subnets.find_map(|subnet| Some(subnet.pools.first()?.first()))
    };
    [first(true), first(false)].into_iter().flatten().collect()
}
