//! Core: fields of templates of what machines boot with.

use std::sync::Arc;

use model::boot_template::BootTemplate;

use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// A template with what is to be told of its use.
#[derive(Debug, Clone)]
pub(crate) struct BootTemplateRow {
    pub template: Arc<BootTemplate>,
    /// Which machines have its role.
    pub config: Arc<Config>,
}

impl BootTemplateRow {
    /// Whether machines get this version.
    fn is_newest(&self) -> bool {
        let template = &self.template;
        let newest = self.config.boot_templates_of(template.kind, &template.role).next_back();
        newest.is_some_and(|newest| newest.id == template.id)
    }

    fn machines(&self) -> usize {
        let role = Arc::from(self.template.role.as_str());
        self.config.machines.by.role.of(role).filter(|_| self.is_newest()).count()
    }
}

pub(crate) fn rows(config: &Arc<Config>) -> Vec<BootTemplateRow> {
    let templates = config.boot_templates.values();
    let row =
        |template| BootTemplateRow { template: Arc::clone(template), config: Arc::clone(config) };
    templates.map(row).collect()
}

/// The table.
pub(crate) const FIELDS: &[Field<BootTemplateRow>] = fields! {
    "template", "Template", Text, "Kind, role and version",
        |r| Cell::normal(r.template.key().to_string());
    "kind", "Kind", Text, "What it makes", |r| Cell::normal(r.template.kind.as_str());
    "role", "Role", Text, "The role of its machines", |r| Cell::normal(r.template.role.as_str());
    "version", "Version", Text, "Its version", |r| Cell::normal(r.template.id.to_string());
    "spec", "Spec", Text, "Version of Ignition's specification",
        |r| Cell::normal(r.template.spec.as_str());
    "newest", "Newest", Bool, "Whether machines get this version", |r| Cell::normal(r.is_newest());
    "machines", "Machines", Number, "Machines that get this version",
        |r| Cell::normal(r.machines());
    "text", "Text", Other, "The text", |r| Cell::normal(r.template.text.as_str());
    "ctime", "CTime", Timestamp, "When it was uploaded", |r| json(&r.template.ctime);
};
