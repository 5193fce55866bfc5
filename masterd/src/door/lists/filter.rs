//! Core: fields of the queue's filter rules.

use std::sync::Arc;

use jobs::filter::Rule;

use crate::units::list::{Cell, Field, fields, json};

#[derive(Debug, Clone)]
pub(crate) struct FilterRow(pub Arc<Rule>);

/// The table.
pub(crate) const FIELDS: &[Field<FilterRow>] = fields! {
    "action", "Action", Other, "What becomes of the jobs", |r| json(&r.0.document.action);
    "predicates", "Predicates", Other, "Conditions on jobs, which must all hold",
        |r| json(&r.0.document.predicates);
    "priority", "Priority", Other, "Place in the order of rules, lowest first",
        |r| Cell::normal(r.0.document.priority);
    "reason_trail", "ReasonTrail", Other, "Who asked for the rule and why",
        |r| json(&r.0.document.reason_trail);
    "uuid", "UUID", Other, "Identity of the rule", |r| Cell::normal(r.0.document.uuid.as_str());
    "watermark", "Watermark", Other, "Last job id when the rule was made",
        |r| Cell::normal(r.0.document.watermark);
};
