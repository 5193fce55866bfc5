//! Core: fields of node groups.

use std::sync::Arc;

use model::group::Group;
use serde_json::Map;

use crate::cluster::params;
use crate::config::Config;
use crate::units::list::seconds;
use crate::units::list::{Cell, Field, fields, json};

/// A group, and the configuration that it is of.
#[derive(Debug, Clone)]
pub struct GroupRow {
    pub group: Arc<Group>,
    /// The configuration with its nodes.
    pub config: Arc<Config>,
}

/// The table.
pub const FIELDS: &[Field<GroupRow>] = fields! {
    "alloc_policy", "AllocPolicy", Text, "Whether instances are put there",
        |r| json(&r.group.alloc_policy);
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&seconds(r.group.ctime));
    "custom_diskparams", "CustomDiskParameters", Other, "Disk parameters of its own",
        |_| Cell::normal(Map::new());
    "custom_ipolicy", "CustomInstancePolicy", Other, "Instance policy of its own",
        |_| Cell::normal(Map::new());
    "custom_ndparams", "CustomNDParams", Other, "Node parameters of its own",
        |_| Cell::normal(Map::new());
    "diskparams", "DiskParameters", Other, "Merged disk parameters",
        |_| Cell::normal(params::disks());
    "ipolicy", "InstancePolicy", Other, "Merged instance policy",
        |_| Cell::normal(params::instance_policy());
    "mtime", "MTime", Timestamp, "When it last changed", |r| json(&seconds(r.group.mtime));
    "name", "Group", Text, "Group name", |r| Cell::normal(r.group.name.as_str());
    "ndp/cpu_speed", "ndp/cpu_speed", Float, "Relative speed of processors",
        |_| params::node_cell("cpu_speed");
    "ndp/exclusive_storage", "ExclusiveStorage", Bool, "No shared spindles",
        |_| params::node_cell("exclusive_storage");
    "ndp/oob_program", "OutOfBandProgram", Other, "Program that switches power",
        |_| params::node_cell("oob_program");
    "ndp/ovs", "OpenvSwitch", Bool, "Whether Open vSwitch is set up", |_| params::node_cell("ovs");
    "ndp/ovs_link", "OpenvSwitchLink", Other, "Uplink of Open vSwitch",
        |_| params::node_cell("ovs_link");
    "ndp/ovs_name", "OpenvSwitchName", Other, "Name of the virtual switch",
        |_| params::node_cell("ovs_name");
    "ndp/spindle_count", "SpindleCount", Number, "Number of spindles",
        |_| params::node_cell("spindle_count");
    "ndp/ssh_port", "ndp/ssh_port", Number, "Port of SSH", |_| params::node_cell("ssh_port");
    "ndparams", "NDParams", Other, "Merged node parameters", |_| json(params::node());
    "node_cnt", "Nodes", Number, "Number of nodes",
        |r| Cell::normal(r.config.nodes_of(&r.group).count());
    "node_list", "NodeList", Other, "List of nodes", |r| {
        let nodes = r.config.nodes_of(&r.group);
        json(&nodes.map(|node| &node.name).collect::<Vec<_>>())
    };
    "pinst_cnt", "Instances", Number, "Number of primary instances", |_| Cell::normal(0);
    "pinst_list", "InstanceList", Other, "List of primary instances",
        |_| Cell::normal(Vec::<String>::new());
    "serial_no", "SerialNo", Number, "Number of changes of the group object",
        |r| Cell::normal(r.group.serial_no);
    "tags", "Tags", Other, "Tags", |r| json(&r.group.tags);
    "uuid", "UUID", Text, "Group UUID", |r| Cell::normal(r.group.uuid.as_str());
};
