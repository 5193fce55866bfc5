//! Core: fields of claims.

use std::sync::Arc;

use model::network::Claim;

use crate::units::list::{Cell, Field, fields, json};

/// The table.
pub(crate) const FIELDS: &[Field<Arc<Claim>>] = fields! {
    "network", "Network", Text, "The network", |c| Cell::normal(c.network.as_str());
    "owner", "Owner", Text, "Who claims: `machine:SERIAL`, or a name",
        |c| Cell::normal(c.owner.to_string());
    "state", "State", Text, "`bound`, or `waiting` while the pools are full",
        |c| Cell::normal(if c.is_waiting() { "waiting" } else { "bound" });
    "addresses", "Addresses", Other, "What it has: an address of each family",
        |c| json(&c.addresses());
    "wanted", "Wanted", Other, "The address that was asked for", |c| json(&c.wanted);
    "ctime", "CTime", Timestamp, "When it was made", |c| json(&c.ctime);
};
