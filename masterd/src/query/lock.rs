//! Core: fields of locks.

use jobs::locks::LockState;

use super::{Cell, Field, field, json};

/// The table.
pub const FIELDS: &[Field<LockState>] = &[
    field!("mode", "Mode", Other, "How it is held: exclusive or shared", |r| {
        json(&r.mode.map(|mode| mode.to_string()))
    }),
    field!("name", "Name", Other, "Lock name", |r| Cell::normal(r.name.to_string())),
    field!("owner", "Owner", Other, "Who holds it", |r| {
        let owners: Vec<String> = r.owners.iter().map(ToString::to_string).collect();
        json(&(!owners.is_empty()).then_some(owners))
    }),
    field!("pending", "Pending", Other, "Who waits for it", |r| {
        let pending: Vec<(String, Vec<String>)> = r
            .pending
            .iter()
            .map(|(mode, owners)| {
                (mode.to_string(), owners.iter().map(ToString::to_string).collect())
            })
            .collect();
        json(&pending)
    }),
];
