//! Core: fields of the cluster, which only the opcodes `OP_QUERY` and `OP_CLUSTER_CONFIG_QUERY`
//! list.

use std::sync::Arc;

use crate::cluster::settings::info::{
    CONFIG_VERSION, EXPORT_VERSION, OS_API_VERSION, architecture, vcs_version,
};
use crate::config::Config;
use crate::units::list::seconds;
use crate::units::list::{Cell, CellStatus, Field, fields, json};

/// The cluster of this configuration.
#[derive(Debug, Clone)]
pub struct ClusterRow {
    /// The configuration.
    pub config: Arc<Config>,
    /// Whether the queue is drained.
    pub is_drained: bool,
}

/// The table.
pub const FIELDS: &[Field<ClusterRow>] = fields! {
    "architecture", "ArchInfo", Other, "Bits and processor of the master",
        |_| Cell::normal(architecture());
    host "cluster_name", "Name", Text, "Cluster name",
        |r| Cell::normal(r.config.cluster.cluster_name.as_str());
    "config_version", "ConfigVersion", Number, "Version of the configuration",
        |_| Cell::normal(CONFIG_VERSION);
    "ctime", "CTime", Timestamp, "When it was made", |r| json(&seconds(r.config.cluster.ctime));
    "drain_flag", "QueueDrained", Bool, "Whether the queue is drained",
        |r| Cell::normal(r.is_drained);
    "export_version", "ExportVersion", Number, "Version of exports",
        |_| Cell::normal(EXPORT_VERSION);
    host "master_node", "Master", Text, "Master node", |r| Cell::normal(r.config.role.master.as_str());
    "mtime", "MTime", Timestamp, "When it last changed", |r| json(&seconds(r.config.cluster.mtime));
    host "name", "Name", Text, "Cluster name", |r| Cell::normal(r.config.cluster.cluster_name.as_str());
    "os_api_version", "OsApiVersion", Number, "Version of the interface of OS scripts",
        |_| Cell::normal(OS_API_VERSION);
    "protocol_version", "ProtocolVersion", Number, "Version of the protocol",
        |_| Cell::normal(CONFIG_VERSION);
    "software_version", "SoftwareVersion", Text, "Version of the software",
        |_| Cell::normal(env!("CARGO_PKG_VERSION"));
    "tags", "Tags", Other, "Tags", |r| json(&r.config.cluster.tags);
    "vcs_version", "VCSVersion", Text, "Version of the source", |_| Cell::normal(vcs_version());
    "volume_group_name", "VgName", Text, "Volume group of disks",
        |_| Cell::without(CellStatus::Unavailable);
    "watcher_pause", "WatcherPause", Timestamp, "Until when the watcher pauses",
        |_| Cell::without(CellStatus::Unavailable);
};
