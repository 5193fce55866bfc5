//! Core: fields of node groups: there is one, the default.

use std::sync::Arc;

use super::{Cell, Field, field, json};
use crate::config::Config;

/// Name of the only group.
pub const DEFAULT_GROUP: &str = "default";

/// The default group of this configuration.
#[derive(Debug, Clone)]
pub struct GroupRow(pub Arc<Config>);

/// Its identity: derived from the cluster's, which no other has.
#[must_use]
pub fn default_uuid(config: &Config) -> &str {
    &config.cluster.uuid
}

/// The table.
pub const FIELDS: &[Field<GroupRow>] = &[
    field!("name", "Group", Text, "Group name", |_| Cell::normal(DEFAULT_GROUP)),
    field!("uuid", "UUID", Text, "Group UUID", |r| Cell::normal(default_uuid(&r.0))),
    field!("node_cnt", "Nodes", Number, "Number of nodes", |r| Cell::normal(r.0.nodes.len())),
    field!("node_list", "NodeList", Other, "List of nodes", |r| {
        json(&r.0.nodes.keys().collect::<Vec<_>>())
    }),
    field!("pinst_cnt", "Instances", Number, "Number of primary instances", |_| Cell::normal(0)),
    field!("pinst_list", "InstanceList", Other, "List of primary instances", |_| {
        json(&Vec::<String>::new())
    }),
    field!("alloc_policy", "AllocPolicy", Text, "Allocation policy for group", |_| {
        Cell::normal("preferred")
    }),
    field!("ndparams", "NDParams", Other, "Node parameters", |_| json(&serde_json::json!({}))),
    field!("tags", "Tags", Other, "Tags", |_| json(&Vec::<String>::new())),
];
