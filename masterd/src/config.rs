//! Core: the configuration: every object of the cluster but the jobs.
//!
//! [`change`] is the table of what can change; [`load`] reads it from the store.

mod candidates;
pub mod change;
pub mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::cluster::{Cluster, Role};
use model::error::{ErrorCode, Exception};
use model::group::Group;
use model::ipam::IpamConfig;
use model::machine::{Boot, Machine};
use model::name::NotMeant;
use model::node::Node;
use model::rack::Lease;
use model::{MacAddress, NodeName, Serial};

pub use change::ConfigChange;

use jobs::filter::RuleMap;

/// All objects. Cheap to clone: the maps hold references, and a snapshot is shared until the next
/// change.
#[derive(Debug, Clone)]
pub struct Config {
    /// The cluster as a whole.
    pub cluster: Arc<Cluster>,
    /// Who is master.
    pub role: Arc<Role>,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// Filter rules of the queue by their ids; shared, so that a change of them is seen by the
    /// reference alone.
    pub filters: Arc<RuleMap>,
    /// The node group, which holds every node.
    pub group: Arc<Group>,
    /// Rules of addresses; none before they are set.
    pub ipam: Option<Arc<IpamConfig>>,
    /// Machines by serial.
    pub machines: BTreeMap<Serial, Arc<Machine>>,
    /// Indices in use, by rack.
    pub indices: BTreeMap<u32, BTreeSet<u32>>,
    /// What was seen of machines' last boots.
    pub boots: BTreeMap<Serial, Arc<Boot>>,
    /// Leases by rack and Ethernet address.
    pub leases: BTreeMap<(u32, MacAddress), Arc<Lease>>,
}

impl Config {
    /// A node by its name, or by its first label where only one node has it.
    ///
    /// # Errors
    /// No such node, or several.
    pub fn node(&self, name: &str) -> Result<&Arc<Node>, Exception> {
        let name = name.to_ascii_lowercase();
        if let Some(node) = self.nodes.get(name.as_str()) {
            return Ok(node);
        }
        let written = name.parse().map_err(|_no_name| NotMeant::Unknown);
        let meant = written.and_then(|written: NodeName| written.meant(self.nodes.keys()));
        let node = meant.and_then(|meant| self.nodes.get(meant).ok_or(NotMeant::Unknown));
        node.map_err(|why| match why {
            NotMeant::Several => Exception::prereq(
                format!("Node name '{name}' is ambiguous; write it in full"),
                ErrorCode::WrongInput,
            ),
            NotMeant::Unknown => {
                Exception::prereq(format!("Node '{name}' not known"), ErrorCode::UnknownEntity)
            }
        })
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

    /// The node group by its name or UUID.
    ///
    /// # Errors
    /// No such group.
    pub fn group(&self, name: &str) -> Result<&Arc<Group>, Exception> {
        let is_meant = self.group.name == name || self.group.uuid == name;
        is_meant.then_some(&self.group).ok_or_else(|| {
            let text = format!("Node group '{name}' not found");
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })
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

    /// Whether this node is the master.
    #[must_use]
    pub fn is_master(&self, node: &Node) -> bool {
        self.role.master == node.name
    }

    /// The nodes whose agents serve `rack`.
    pub fn agents_of(&self, rack: u32) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values().filter(move |node| node.rack == Some(rack))
    }

    /// The machine that has this Ethernet address.
    #[must_use]
    pub fn machine_of(&self, mac: MacAddress) -> Option<&Arc<Machine>> {
        self.machines.values().find(|machine| machine.mac.contains(&mac))
    }
}
