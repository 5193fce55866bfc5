//! Core: fields of templates of hosts' networks.

use std::sync::Arc;

use model::network::NetworkTemplate;

use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// A template with what is to be told of its use.
#[derive(Debug, Clone)]
pub(crate) struct TemplateRow {
    pub template: Arc<NetworkTemplate>,
    /// Which machines have it.
    pub config: Arc<Config>,
}

pub(crate) fn rows(config: &Arc<Config>) -> Vec<TemplateRow> {
    let templates = config.network_templates.values();
    let row = |template| TemplateRow { template: Arc::clone(template), config: Arc::clone(config) };
    templates.map(row).collect()
}

/// The table.
pub(crate) const FIELDS: &[Field<TemplateRow>] = fields! {
    "template", "Template", Text, "Name and version",
        |r| Cell::normal(r.template.key().to_string());
    "name", "Name", Text, "Its name: as a rule a role", |r| Cell::normal(r.template.name.as_str());
    "version", "Version", Number, "Counts the texts of this name",
        |r| Cell::normal(r.template.version);
    "networks", "Networks", Other, "Networks that it takes addresses of",
        |r| json(&r.template.networks);
    "machines", "Machines", Number, "Machines that have this version",
        |r| Cell::normal(r.config.template_users(&r.template.key()));
    "text", "Text", Other, "The text", |r| Cell::normal(r.template.text.as_str());
    "ctime", "CTime", Timestamp, "When it was uploaded", |r| json(&r.template.ctime);
};
