//! Core: fields of node groups.

use std::sync::Arc;

use model::group::Group;
use model::instance::{Instance, InstanceSettings};

use crate::cluster::settings::info::templates;
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

impl GroupRow {
    /// The settings that count in it.
    fn settings(&self) -> InstanceSettings {
        self.config.instance_settings().in_group(&self.group.settings)
    }

    /// The instances of its nodes.
    fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        let nodes = self.config.nodes_of(&self.group);
        nodes.flat_map(|node| self.config.instances.by.primary.of(node.name.clone()))
    }
}

/// The table.
pub const FIELDS: &[Field<GroupRow>] = fields! {
    "alloc_policy", "AllocPolicy", Text, "Whether instances are put there",
        |r| json(&r.group.alloc_policy);
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&seconds(r.group.ctime));
    "custom_diskparams", "CustomDiskParameters", Other, "Disk parameters of its own",
        |r| json(&r.group.settings.diskparams);
    "custom_ipolicy", "CustomInstancePolicy", Other, "Instance policy of its own",
        |r| json(&r.group.settings.ipolicy);
    "custom_ndparams", "CustomNDParams", Other, "Node parameters of its own",
        |r| json(&r.group.settings.ndparams);
    "diskparams", "DiskParameters", Other, "Merged disk parameters",
        |r| json(&templates(&r.settings()));
    "ipolicy", "InstancePolicy", Other, "Merged instance policy",
        |r| json(&r.settings().ipolicy);
    "mtime", "MTime", Timestamp, "When it last changed", |r| json(&seconds(r.group.mtime));
    "name", "Group", Text, "Group name", |r| Cell::normal(r.group.name.as_str());
    "ndp/cpu_speed", "ndp/cpu_speed", Float, "Relative speed of processors",
        |r| Cell::optional(r.settings().node().remove("cpu_speed"));
    "ndp/exclusive_storage", "ExclusiveStorage", Bool, "No shared spindles",
        |r| Cell::optional(r.settings().node().remove("exclusive_storage"));
    "ndp/oob_program", "OutOfBandProgram", Other, "Program that switches power",
        |r| Cell::optional(r.settings().node().remove("oob_program"));
    "ndp/ovs", "OpenvSwitch", Bool, "Whether Open vSwitch is set up", |r| Cell::optional(r.settings().node().remove("ovs"));
    "ndp/ovs_link", "OpenvSwitchLink", Other, "Uplink of Open vSwitch",
        |r| Cell::optional(r.settings().node().remove("ovs_link"));
    "ndp/ovs_name", "OpenvSwitchName", Other, "Name of the virtual switch",
        |r| Cell::optional(r.settings().node().remove("ovs_name"));
    "ndp/spindle_count", "SpindleCount", Number, "Number of spindles",
        |r| Cell::optional(r.settings().node().remove("spindle_count"));
    "ndp/ssh_port", "ndp/ssh_port", Number, "Port of SSH", |r| Cell::optional(r.settings().node().remove("ssh_port"));
    "ndparams", "NDParams", Other, "Merged node parameters", |r| json(&r.settings().node());
    "node_cnt", "Nodes", Number, "Number of nodes",
        |r| Cell::normal(r.config.nodes_of(&r.group).count());
    "node_list", "NodeList", Other, "List of nodes", |r| {
        let nodes = r.config.nodes_of(&r.group);
        json(&nodes.map(|node| &node.name).collect::<Vec<_>>())
    };
    "pinst_cnt", "Instances", Number, "Number of primary instances",
        |r| Cell::normal(r.instances().count());
    "pinst_list", "InstanceList", Other, "List of primary instances", |r| {
        let mut names: Vec<&model::InstanceName> = r.instances().map(|one| &one.name).collect();
        names.sort_unstable();
        json(&names)
    };
    "serial_no", "SerialNo", Number, "Number of changes of the group object",
        |r| Cell::normal(r.group.serial_no);
    "tags", "Tags", Other, "Tags", |r| json(&r.group.tags);
    "uuid", "UUID", Text, "Group UUID", |r| Cell::normal(r.group.uuid.as_str());
};
