//! Core: fields of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::InstanceName;
use model::node::{Node, NodeRole};
use rpc::calls::NodeFacts;
use serde_json::Map;

use crate::agents::contacts::Contact;
use crate::config::Config;
use crate::units::list::{Cell, CellStatus, Field, fields, json, seconds};

/// A node with what its agent told.
#[derive(Debug, Clone)]
pub struct NodeRow {
    pub node: Arc<Node>,
    /// The rest of the configuration.
    pub config: Arc<Config>,
    /// The last report of its agent.
    pub facts: Option<Arc<NodeFacts>>,
    /// Whether its agent is reached, if that was tried.
    pub contact: Option<Contact>,
}

/// The nodes to which a filter is limited by name; `None` if every node has to be looked at.
pub fn limited<'a>(config: &'a Config, filter: Option<&Filter>) -> Option<Vec<&'a Arc<Node>>> {
    let names = filter?.limits("name")?.into_iter().filter_map(Operand::as_text);
    let mut nodes: Vec<_> = names.flat_map(|name| config.nodes_named(name)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.dedup_by(|a, b| a.name == b.name);
    Some(nodes)
}

impl NodeRow {
    /// The instances of which it has copies of disks.
    fn secondary_of(&self) -> Vec<InstanceName> {
        let copies = self.config.disks.by.copy.of(self.node.name.clone());
        let owners = copies.filter_map(|disk| self.config.instance_of(disk.instance?));
        owners.map(|owner| owner.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn is(&self, role: NodeRole) -> Cell {
        Cell::normal(self.node.role == role)
    }

    fn contact<T: Into<serde_json::Value>>(&self, value: fn(&Contact) -> T) -> Cell {
        match (&self.contact, self.node.role) {
            (_, NodeRole::Offline) => Cell::without(CellStatus::Offline),
            (Some(contact), _) => Cell::normal(value(contact)),
            (None, _) => Cell::without(CellStatus::NoData),
        }
    }

    /// Spindles are not counted here, on no node.
    fn spindles(&self) -> Cell {
        match (&self.facts, self.node.role) {
            (_, NodeRole::Offline) => Cell::without(CellStatus::Offline),
            (Some(_), _) => Cell::without(CellStatus::Unavailable),
            (None, _) => Cell::without(CellStatus::NoData),
        }
    }

    fn live<T: Into<serde_json::Value>>(&self, value: fn(&NodeFacts) -> T) -> Cell {
        let is_reached = self.contact.as_ref().is_none_or(|contact| contact.failure.is_none());
        match (self.facts.as_ref().filter(|_| is_reached), self.node.role) {
            (_, NodeRole::Offline) => Cell::without(CellStatus::Offline),
            (Some(facts), _) => Cell::normal(value(facts)),
            (None, _) => Cell::without(CellStatus::NoData),
        }
    }
}

/// The table.
pub const FIELDS: &[Field<NodeRow>] = fields! {
    "bootid", "BootID", Text, "Changes with each boot of the node",
        |r| r.live(|f| f.boot_id.clone());
    "cnodes", "CNodes", Number, "Number of NUMA domains on node", |r| r.live(|_| 1);
    "cnos", "CNOs", Number, "Number of logical processors used by the node OS",
        |r| r.live(|f| f.cpus);
    "csockets", "CSockets", Number, "Number of physical CPU sockets", |r| r.live(|_| 1);
    "ctime", "CTime", Timestamp, "When it was added", |r| json(&seconds(r.node.ctime));
    "ctotal", "CTotal", Number, "Number of logical processors", |r| r.live(|f| f.cpus);
    "custom_ndparams", "CustomNodeParameters", Other, "Node parameters of its own",
        |_| Cell::normal(Map::new());
    "dfree", "DFree", Unit, "Available disk space where instances live",
        |r| r.live(|f| f.disk_free_mib);
    "disk_state", "DiskState", Other, "State of its disks, where that is set",
        |_| Cell::without(CellStatus::Unavailable);
    "drained", "Drained", Bool, "Whether node is drained", |r| r.is(NodeRole::Drained);
    "dtotal", "DTotal", Unit, "Total disk space where instances live",
        |r| r.live(|f| f.disk_total_mib);
    "group", "Group", Text, "Node group",
        |r| Cell::normal(r.config.group_of(&r.node).name.as_str());
    "group.uuid", "GroupUUID", Text, "UUID of node group",
        |r| Cell::normal(r.config.group_of(&r.node).uuid.as_str());
    "hv_state", "HypervisorState", Other, "State of hypervisors, where that is set",
        |_| Cell::without(CellStatus::Unavailable);
    "master", "IsMaster", Bool, "Whether node is master",
        |r| Cell::normal(r.config.is_master(&r.node));
    "master_candidate", "MasterC", Bool, "Whether node is a master candidate",
        |r| r.is(NodeRole::Candidate);
    "master_capable", "MasterCapable", Bool, "Whether node may become a candidate",
        |r| Cell::normal(r.node.master_capable);
    "mfree", "MFree", Unit, "Memory available for instances", |r| r.live(|f| f.memory_free_mib);
    "mnode", "MNode", Unit, "Memory used by the node itself",
        |r| r.live(|f| f.memory_total_mib.saturating_sub(f.memory_free_mib));
    "mtime", "MTime", Timestamp, "When it last changed", |r| json(&seconds(r.node.mtime));
    "mtotal", "MTotal", Unit, "Total amount of memory", |r| r.live(|f| f.memory_total_mib);
    host "name", "Node", Text, "Node name", |r| Cell::normal(r.node.name.as_str());
    "ndp/cpu_speed", "ndp/cpu_speed", Float, "Relative speed of processors",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("cpu_speed"));
    "ndp/exclusive_storage", "ExclusiveStorage", Bool, "No shared spindles",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("exclusive_storage"));
    "ndp/oob_program", "OutOfBandProgram", Other, "Program that switches power",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("oob_program"));
    "ndp/ovs", "OpenvSwitch", Bool, "Whether Open vSwitch is set up", |r| Cell::optional(r.config.node_parameters(&r.node).remove("ovs"));
    "ndp/ovs_link", "OpenvSwitchLink", Other, "Uplink of Open vSwitch",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("ovs_link"));
    "ndp/ovs_name", "OpenvSwitchName", Other, "Name of the virtual switch",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("ovs_name"));
    "ndp/spindle_count", "SpindleCount", Number, "Number of spindles",
        |r| Cell::optional(r.config.node_parameters(&r.node).remove("spindle_count"));
    "ndp/ssh_port", "ndp/ssh_port", Number, "Port of SSH", |r| Cell::optional(r.config.node_parameters(&r.node).remove("ssh_port"));
    "ndparams", "NodeParameters", Other, "Merged node parameters", |r| json(&r.config.node_parameters(&r.node));
    "offline", "Offline", Bool, "Whether node is marked offline", |r| r.is(NodeRole::Offline);
    "pinst_cnt", "Pinst", Number, "Number of instances with this node as primary",
        |r| json(&r.config.instances.by.primary.of(r.node.name.clone()).count());
    "pinst_list", "PriInstances", Other, "List of instances with this node as primary", |r| {
        let instances = r.config.instances.by.primary.of(r.node.name.clone());
        json(&instances.map(|instance| instance.name.clone()).collect::<Vec<_>>())
    };
    "pip", "PrimaryIP", Text, "Primary IP address", |r| json(&r.node.primary_ip);
    // As in Ganeti where no program for out-of-band control tells.
    "powered", "Powered", Bool, "Whether node is thought to be powered on",
        |_| Cell::without(CellStatus::Unavailable);
    "role", "Role", Text,
        "M for master, C for master candidate, R for regular, D for drained, O for offline",
        |r| Cell::normal(r.node.role.letter(r.config.is_master(&r.node)));
    "serial_no", "SerialNo", Number, "Number of changes of the node object",
        |r| Cell::normal(r.node.serial_no);
    "sinst_cnt", "Sinst", Number, "Number of instances with this node as secondary",
        |r| json(&r.secondary_of().len());
    "sinst_list", "SecInstances", Other, "List of instances with this node as secondary",
        |r| json(&r.secondary_of());
    "sip", "SecondaryIP", Text, "Secondary IP address", |r| json(&r.node.secondary_ip);
    "spfree", "SpFree", Number, "Available spindles, with exclusive storage", NodeRow::spindles;
    "sptotal", "SpTotal", Number, "Total spindles, with exclusive storage", NodeRow::spindles;
    "tags", "Tags", Other, "Tags", |r| json(&r.node.tags);
    "uuid", "UUID", Text, "Node UUID", |r| Cell::normal(r.node.uuid.as_str());
    "vm_capable", "VMCapable", Bool, "Whether node can host instances",
        |r| Cell::normal(r.node.vm_capable);
    "witness", "Witness", Bool, "Whether node votes without ever being master",
        |r| Cell::normal(r.node.witness);
    "machine", "Machine", Text, "The machine of the inventory that it is",
        |r| Cell::optional(r.node.machine.as_ref().map(model::Serial::as_str));
    "rack", "Rack", Number, "Rack that its agent serves", |r| Cell::optional(r.node.rack);
    "agent", "Agent", Text, "Whether its agent is reached, and if not, why", |r| {
        r.contact(|contact| match &contact.failure {
            None => "reached".to_owned(),
            Some(why) => format!("not reached: {why}"),
        })
    };
    "agent_since", "AgentSince", Timestamp, "Since when its agent is reached or not",
        |r| r.contact(|contact| seconds(contact.since));
    "rpc_port", "RpcPort", Number, "Port of its agent", |r| Cell::normal(r.node.rpc_port);
    "peer_port", "PeerPort", Number, "Port where its masterd is asked by those of candidates",
        |r| Cell::normal(r.node.peer_port);
    "fingerprint", "Fingerprint", Text, "SHA-256 of its certificate",
        |r| Cell::normal(r.node.fingerprint.to_string());
};
