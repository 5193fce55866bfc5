//! Core: fields of exports.

use model::{InstanceName, NodeName};

use crate::units::list::{Cell, Field, fields};

/// An export, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportRow {
    pub(crate) node: NodeName,
    pub(crate) export: InstanceName,
}

/// The table.
pub(crate) const FIELDS: &[Field<ExportRow>] = fields! {
    "export", "Export", Text, "Export name", |r| Cell::normal(r.export.to_string());
    "node", "Node", Text, "Node that has it", |r| Cell::normal(r.node.to_string());
};
