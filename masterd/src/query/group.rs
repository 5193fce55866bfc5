//! Core: fields of node groups.

use std::sync::Arc;

use model::group::Group;
use serde_json::Map;

use super::node::seconds;
use super::{Cell, Field, field, json, params};
use crate::config::Config;

/// A group, and the configuration that it is of.
#[derive(Debug, Clone)]
pub struct GroupRow {
    /// The group.
    pub group: Arc<Group>,
    /// Where its nodes are.
    pub config: Arc<Config>,
}

/// The table.
pub const FIELDS: &[Field<GroupRow>] = &[
    field!("alloc_policy", "AllocPolicy", Text, "Whether instances are put there", |r| {
        json(&r.group.alloc_policy)
    }),
    field!("ctime", "CTime", Timestamp, "When it was made", |r| json(&seconds(r.group.ctime))),
    field!(
        "custom_diskparams",
        "CustomDiskParameters",
        Other,
        "Disk parameters of its own",
        |_| { Cell::normal(Map::new()) }
    ),
    field!("custom_ipolicy", "CustomInstancePolicy", Other, "Instance policy of its own", |_| {
        Cell::normal(Map::new())
    }),
    field!("custom_ndparams", "CustomNDParams", Other, "Node parameters of its own", |_| {
        Cell::normal(Map::new())
    }),
    field!("diskparams", "DiskParameters", Other, "Merged disk parameters", |_| {
        Cell::normal(params::disks())
    }),
    field!("ipolicy", "InstancePolicy", Other, "Merged instance policy", |_| {
        Cell::normal(params::instance_policy())
    }),
    field!("mtime", "MTime", Timestamp, "When it last changed", |r| {
        json(&seconds(r.group.mtime))
    }),
    field!("name", "Group", Text, "Group name", |r| Cell::normal(r.group.name.as_str())),
    field!("ndp/cpu_speed", "ndp/cpu_speed", Float, "Relative speed of processors", |_| {
        params::node_cell("cpu_speed")
    }),
    field!("ndp/exclusive_storage", "ExclusiveStorage", Bool, "No shared spindles", |_| {
        params::node_cell("exclusive_storage")
    }),
    field!("ndp/oob_program", "OutOfBandProgram", Other, "Program that switches power", |_| {
        params::node_cell("oob_program")
    }),
    field!("ndp/ovs", "OpenvSwitch", Bool, "Whether Open vSwitch is set up", |_| {
        params::node_cell("ovs")
    }),
    field!("ndp/ovs_link", "OpenvSwitchLink", Other, "Uplink of Open vSwitch", |_| {
        params::node_cell("ovs_link")
    }),
    field!("ndp/ovs_name", "OpenvSwitchName", Other, "Name of the virtual switch", |_| {
        params::node_cell("ovs_name")
    }),
    field!("ndp/spindle_count", "SpindleCount", Number, "Number of spindles", |_| {
        params::node_cell("spindle_count")
    }),
    field!("ndp/ssh_port", "ndp/ssh_port", Number, "Port of SSH", |_| {
        params::node_cell("ssh_port")
    }),
    field!("ndparams", "NDParams", Other, "Merged node parameters", |_| json(params::node())),
    field!("node_cnt", "Nodes", Number, "Number of nodes", |r| {
        Cell::normal(r.config.nodes_of(&r.group).count())
    }),
    field!("node_list", "NodeList", Other, "List of nodes", |r| {
        let nodes = r.config.nodes_of(&r.group);
        json(&nodes.map(|node| &node.name).collect::<Vec<_>>())
    }),
    field!("pinst_cnt", "Instances", Number, "Number of primary instances", |_| Cell::normal(0)),
    field!("pinst_list", "InstanceList", Other, "List of primary instances", |_| {
        Cell::normal(Vec::<String>::new())
    }),
    field!("serial_no", "SerialNo", Number, "Number of changes of the group object", |r| {
        Cell::normal(r.group.serial_no)
    }),
    field!("tags", "Tags", Other, "Tags", |r| json(&r.group.tags)),
    field!("uuid", "UUID", Text, "Group UUID", |r| Cell::normal(r.group.uuid.as_str())),
];
