//! Core: fields of nodes.

use std::sync::Arc;

use model::node::{Node, NodeRole};
use rpc::calls::NodeFacts;

use super::{Cell, CellStatus, Field, field, group, json};
use crate::config::Config;
use crate::exchange::contact::Contact;

/// A node with what its agent told.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// The node.
    pub node: Arc<Node>,
    /// The rest of the configuration.
    pub config: Arc<Config>,
    /// What its agent told, if it was asked and answered.
    pub facts: Option<Arc<NodeFacts>>,
    /// Whether its agent is reached, if that was tried.
    pub contact: Option<Contact>,
}

/// Fields whose values only the agent knows.
pub const LIVE: &[&str] = &[
    "bootid", "cnodes", "cnos", "csockets", "ctotal", "dfree", "dtotal", "mfree", "mnode", "mtotal",
];

impl NodeRow {
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

    fn live<T: Into<serde_json::Value>>(&self, value: fn(&NodeFacts) -> T) -> Cell {
        match (&self.facts, self.node.role) {
            (_, NodeRole::Offline) => Cell::without(CellStatus::Offline),
            (Some(facts), _) => Cell::normal(value(facts)),
            (None, _) => Cell::without(CellStatus::NoData),
        }
    }
}

/// The table.
pub const FIELDS: &[Field<NodeRow>] = &[
    field!("name", "Node", Text, "Node name", |r| Cell::normal(r.node.name.as_str())),
    field!("pip", "PrimaryIP", Text, "Primary IP address", |r| json(&r.node.primary_ip)),
    field!("sip", "SecondaryIP", Text, "Secondary IP address", |r| json(&r.node.secondary_ip)),
    field!("offline", "Offline", Bool, "Whether node is marked offline", |r| r
        .is(NodeRole::Offline)),
    field!("drained", "Drained", Bool, "Whether node is drained", |r| r.is(NodeRole::Drained)),
    field!("master_candidate", "MasterC", Bool, "Whether node is a master candidate", |r| {
        r.is(NodeRole::Candidate)
    }),
    field!(
        "master_capable",
        "MasterCapable",
        Bool,
        "Whether node can become a master candidate",
        |r| { Cell::normal(r.node.master_capable) }
    ),
    field!("vm_capable", "VMCapable", Bool, "Whether node can host instances", |r| {
        Cell::normal(r.node.vm_capable)
    }),
    field!("master", "IsMaster", Bool, "Whether node is master", |r| {
        Cell::normal(r.config.is_master(&r.node))
    }),
    field!(
        "role",
        "Role",
        Text,
        "Node role; \"M\" for master, \"C\" for master candidate, \"R\" for regular, \"D\" for drained, \"O\" for offline",
        |r| { Cell::normal(r.node.role.letter(r.config.is_master(&r.node))) }
    ),
    field!("group", "Group", Text, "Node group", |_| Cell::normal(group::DEFAULT_GROUP)),
    field!("group.uuid", "GroupUUID", Text, "UUID of node group", |r| {
        Cell::normal(group::default_uuid(&r.config))
    }),
    field!("ndparams", "NodeParameters", Other, "Merged node parameters", |_| {
        json(&serde_json::json!({}))
    }),
    field!("custom_ndparams", "CustomNodeParameters", Other, "Custom node parameters", |_| {
        json(&serde_json::json!({}))
    }),
    field!("pinst_cnt", "Pinst", Number, "Number of instances with this node as primary", |_| {
        Cell::normal(0)
    }),
    field!("sinst_cnt", "Sinst", Number, "Number of instances with this node as secondary", |_| {
        Cell::normal(0)
    }),
    field!(
        "pinst_list",
        "PriInstances",
        Other,
        "List of instances with this node as primary",
        |_| { json(&Vec::<String>::new()) }
    ),
    field!(
        "sinst_list",
        "SecInstances",
        Other,
        "List of instances with this node as secondary",
        |_| { json(&Vec::<String>::new()) }
    ),
    field!("powered", "Powered", Bool, "Whether node is thought to be powered on", |r| {
        Cell::normal(r.node.powered)
    }),
    field!("bootid", "BootID", Text, "Random UUID renewed for each system reboot", |r| {
        r.live(|f| f.boot_id.clone())
    }),
    field!("ctotal", "CTotal", Number, "Number of logical processors", |r| r.live(|f| f.cpus)),
    field!("cnos", "CNOs", Number, "Number of logical processors used by the node OS", |r| {
        r.live(|f| f.cpus)
    }),
    field!("cnodes", "CNodes", Number, "Number of NUMA domains on node", |r| r.live(|_| 1)),
    field!("csockets", "CSockets", Number, "Number of physical CPU sockets", |r| r.live(|_| 1)),
    field!("mtotal", "MTotal", Unit, "Total amount of memory of physical machine", |r| {
        r.live(|f| f.memory_total_mib)
    }),
    field!("mfree", "MFree", Unit, "Memory available for instance allocations", |r| {
        r.live(|f| f.memory_free_mib)
    }),
    field!("mnode", "MNode", Unit, "Amount of memory used by node", |r| {
        r.live(|f| f.memory_total_mib.saturating_sub(f.memory_free_mib))
    }),
    field!("dtotal", "DTotal", Unit, "Total disk space where instances live", |r| {
        r.live(|f| f.disk_total_mib)
    }),
    field!("dfree", "DFree", Unit, "Available disk space where instances live", |r| {
        r.live(|f| f.disk_free_mib)
    }),
    field!("rack", "Rack", Number, "Rack that its agent serves", |r| Cell::optional(r.node.rack)),
    field!("agent", "Agent", Text, "Whether its agent is reached, and if not, why", |r| {
        r.contact(|contact| match &contact.failure {
            None => "reached".to_owned(),
            Some(why) => format!("not reached: {why}"),
        })
    }),
    field!("agent_since", "AgentSince", Timestamp, "Since when its agent is reached or not", |r| {
        r.contact(|contact| seconds(contact.since))
    }),
    field!("rpc_port", "RpcPort", Number, "Port of its agent", |r| Cell::normal(r.node.rpc_port)),
    field!("fingerprint", "Fingerprint", Text, "SHA-256 of its certificate", |r| {
        Cell::normal(r.node.fingerprint.to_string())
    }),
    field!("ctime", "CTime", Timestamp, "Creation timestamp", |r| json(&seconds(r.node.ctime))),
    field!("mtime", "MTime", Timestamp, "Modification timestamp", |r| json(&seconds(r.node.mtime))),
    field!("uuid", "UUID", Text, "Node UUID", |r| Cell::normal(r.node.uuid.as_str())),
    field!(
        "serial_no",
        "SerialNo",
        Number,
        "Node object serial number, incremented on each modification",
        |r| { Cell::normal(r.node.serial_no) }
    ),
    field!("tags", "Tags", Other, "Tags", |r| json(&r.node.tags)),
];

/// Ganeti's form of an object's times: seconds as a fraction.
pub(super) fn seconds(time: model::Timestamp) -> f64 {
    let micros = u32::try_from(time.micros().rem_euclid(1_000_000)).unwrap_or(0);
    let whole = u32::try_from(time.seconds()).unwrap_or(u32::MAX);
    f64::from(whole) + f64::from(micros) / 1e6
}
