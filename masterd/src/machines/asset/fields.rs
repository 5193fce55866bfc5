//! Core: fields of assets.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::NodeName;
use model::asset::Asset;

use crate::units::list::{Cell, Field, fields, json};

#[derive(Debug, Clone)]
pub struct AssetRow {
    pub asset: Arc<Asset>,
    /// Nodes whose agents have its file, as they said last.
    pub held_by: BTreeSet<NodeName>,
}

/// The table.
pub const FIELDS: &[Field<AssetRow>] = fields! {
    "name", "Asset", Text, "Name", |r| Cell::normal(r.asset.name.as_str());
    "id", "ID", Number, "Number of the upload, higher than of any before",
        |r| Cell::normal(r.asset.id);
    "content_type", "ContentType", Text, "Type of content",
        |r| Cell::normal(r.asset.content_type.as_str());
    "size", "Size", Number, "Bytes", |r| Cell::normal(r.asset.blob.size);
    "sha256", "SHA256", Text, "SHA-256 of what it holds",
        |r| Cell::normal(r.asset.blob.sha256.to_string());
    "options", "Options", Other, "What else is told of it", |r| json(&r.asset.options);
    "held_by", "HeldBy", Other, "Nodes that have its file", |r| json(&r.held_by);
    "ctime", "CTime", Timestamp, "When it was uploaded", |r| json(&r.asset.ctime);
};
