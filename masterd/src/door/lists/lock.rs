//! Core: fields of locks.

use jobs::locks::LockState;

use crate::units::list::{Cell, Field, fields, json};

/// The table.
pub(crate) const FIELDS: &[Field<LockState>] = fields! {
    "mode", "Mode", Other, "How it is held: exclusive or shared",
        |r| json(&r.mode.map(|mode| mode.to_string()));
    "name", "Name", Other, "Lock name", |r| Cell::normal(r.name.to_string());
    "owner", "Owner", Other, "Who holds it", |r| {
        let owners: Vec<String> = r.owners.iter().map(ToString::to_string).collect();
        json(&(!owners.is_empty()).then_some(owners))
    };
    "pending", "Pending", Other, "Who waits for it", |r| {
        let pending: Vec<(String, Vec<String>)> = r
            .pending
            .iter()
            .map(|(mode, owners)| {
                (mode.to_string(), owners.iter().map(ToString::to_string).collect())
            })
            .collect();
        json(&pending)
    };
};
