//! Core: the configuration: every object of the cluster but the jobs.
//!
//! [`table`] lists the kinds of objects; [`objects`] holds the objects of one kind; [`change`] applies
//! changes; [`load`] reads the configuration from its documents; `unchanged` looks whether a document is what
//! somebody saw.

mod candidates;
pub mod change;
pub(crate) mod claims;
pub mod finding;
pub mod load;
pub mod objects;
pub mod queue;
pub(crate) mod reconciler;
pub mod secrets;
pub mod table;
mod templates;
pub(crate) mod tenancy;
mod unchanged;
pub mod vault;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use model::cluster::{Cluster, Role};
use model::error::{ErrorCode, Exception};
use model::group::{DEFAULT_GROUP, Group};
use model::ipam::IpamConfig;
use model::machine::Machine;
use model::node::Node;
use model::{MacAddress, Serial};

pub use table::{Config, ConfigChange};

impl Config {
    /// A configuration without nodes or any other object.
    pub fn new(cluster: Cluster, role: Role) -> Self {
        let group = Group::initial(&cluster.uuid, cluster.ctime);
        let (cluster, role) = (Arc::new(cluster), Arc::new(role));
        let mut config =
            Self::without_objects((cluster, role, None, None, None, None, None, None, None));
        ConfigChange::Group(group).enter(&mut config);
        config
    }

    /// A node by its name, or by its first label where only one node has it.
    ///
    /// # Errors
    /// No such node, or several.
    pub fn node(&self, name: &str) -> Result<&Arc<Node>, Exception> {
        let name = name.to_ascii_lowercase();
        let mut named = self.nodes_named(&name);
        match (named.next(), named.next()) {
            (Some(node), None) => Ok(node),
            (Some(node), Some(_)) if node.name.as_str() == name => Ok(node),
            (Some(_), Some(_)) => Err(Exception::prereq(
                format!("Node name '{name}' is ambiguous; write it in full"),
                ErrorCode::WrongInput,
            )),
            (None, _) => {
                Err(Exception::prereq(format!("Node '{name}' not known"), ErrorCode::UnknownEntity))
            }
        }
    }

    /// The nodes that a name stands for: the one that has it, then those that begin with it and a
    /// dot.
    pub fn nodes_named(&self, name: &str) -> impl Iterator<Item = &Arc<Node>> {
        let name = name.to_ascii_lowercase();
        let dotted = format!("{name}.");
        let from = self.nodes.range::<_, str>((Bound::Included(dotted.as_str()), Bound::Unbounded));
        let longer = from.take_while(move |(name, _node)| name.as_str().starts_with(&dotted));
        self.nodes.get(name.as_str()).into_iter().chain(longer.map(|(_name, node)| node))
    }

    /// The node of this name, with this UUID if one is told: who asked may have meant one that had the
    /// name before (Ganeti's `node_uuid`).
    ///
    /// # Errors
    /// No such node, several, or another one.
    pub fn node_with(&self, name: &str, uuid: Option<&str>) -> Result<&Arc<Node>, Exception> {
        let node = self.node(name)?;
        match uuid {
            Some(uuid) if uuid != node.uuid => Err(Exception::prereq(
                format!(
                    "The UUID of node {} is {}, not {uuid}, which was asked for: maybe another node has \
                     its name by now",
                    node.name, node.uuid
                ),
                ErrorCode::ResourceNotUnique,
            )),
            Some(_) | None => Ok(node),
        }
    }

    /// A node group by its name or UUID.
    ///
    /// # Errors
    /// No such group.
    pub fn group(&self, name: &str) -> Result<&Arc<Group>, Exception> {
        self.groups.values().find(|group| group.name == name || group.uuid == name).ok_or_else(
            || {
                let text = format!("Node group '{name}' not found");
                Exception::prereq(text, ErrorCode::UnknownEntity)
            },
        )
    }

    /// The group that a new node is put into, of this name if one is told.
    ///
    /// # Errors
    /// There is no such group; or no name is told, and there are several.
    pub fn group_for(&self, name: Option<&str>) -> Result<&Arc<Group>, Exception> {
        let mut all = self.groups.values();
        match (name, all.next(), all.next()) {
            (Some(name), ..) => self.group(name),
            (None, Some(only), None) => Ok(only),
            (None, ..) => Err(Exception::prereq(
                "More than one node group exists. Target group must be specified explicitly.",
                ErrorCode::WrongInput,
            )),
        }
    }

    pub fn group_of(&self, node: &Node) -> &Group {
        let key = node.group.as_deref().unwrap_or(DEFAULT_GROUP);
        // No group with nodes is removed.
        self.groups.get(key).expect("a node's group is there")
    }

    /// The nodes of a group, by name.
    pub fn nodes_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Arc<Node>> {
        let is_in = |node: &&Arc<Node>| match &node.group {
            Some(uuid) => *uuid == group.uuid,
            None => group.is_first(),
        };
        self.nodes.values().filter(is_in)
    }

    /// A machine by its serial.
    ///
    /// # Errors
    /// No such machine.
    pub fn machine(&self, serial: &str) -> Result<&Arc<Machine>, Exception> {
        self.machines.get(serial).ok_or_else(|| {
            Exception::prereq(format!("Machine '{serial}' not known"), ErrorCode::UnknownEntity)
        })
    }

    /// The rules of addresses.
    ///
    /// # Errors
    /// They are not set yet.
    pub fn ipam(&self) -> Result<&Arc<IpamConfig>, Exception> {
        self.ipam.as_ref().ok_or_else(|| {
            Exception::prereq(
                "No rules of addresses are set; begin with `gnt ipam set -f FILE`",
                ErrorCode::WrongState,
            )
        })
    }

    pub fn is_master(&self, node: &Node) -> bool {
        self.role.master == node.name
    }

    /// The node that runs on a machine.
    pub fn node_on(&self, serial: &Serial) -> Option<&Arc<Node>> {
        self.nodes.by.machine.of(serial.clone()).next()
    }

    /// The nodes whose agents serve `rack`.
    pub fn agents_of(&self, rack: u32) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.by.rack.of(rack)
    }

    /// The racks that agents serve.
    pub fn served(&self) -> impl Iterator<Item = u32> {
        let racks = self.nodes.by.rack.within(0..=u32::MAX);
        racks.map(|(rack, _node)| *rack)
    }

    /// The machines of a rack, in the order of their numbers within it.
    pub fn machines_in(&self, rack: u32) -> impl Iterator<Item = &Arc<Machine>> {
        change::in_rack(&self.machines, rack).map(|(_index, machine)| machine)
    }

    /// The machine that has this Ethernet address.
    pub fn machine_of(&self, mac: MacAddress) -> Option<&Arc<Machine>> {
        self.machines.by.mac.of(mac).next()
    }

    /// The numbers of the machines of a rack.
    pub fn indices_in(&self, rack: u32) -> BTreeSet<u32> {
        change::indices(&self.machines, rack)
    }
}

#[cfg(test)]
mod tests;
