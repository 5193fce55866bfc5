//! Core: fields of racks.

use super::{Cell, Field, field, json};
use crate::rack_status::RackStatus;

/// The table.
pub const FIELDS: &[Field<RackStatus>] = &[
    field!("rack", "Rack", Number, "Logical rack number", |r| Cell::normal(r.rack)),
    field!("agents", "Agents", Other, "Its agents: reached or not, stale or not, troubles", |r| {
        json(&r.agents)
    }),
    field!("machines", "Machines", Number, "Machines in it", |r| Cell::normal(r.machines)),
    field!("stages", "Stages", Other, "Machines by the last stage that they came to", |r| {
        json(&r.stages)
    }),
    field!("stuck", "Stuck", Other, "Machines that do not go on with their boot", |r| {
        json(&r.stuck)
    }),
    field!("unknown", "Unknown", Other, "Machines that asked to boot, unregistered", |r| {
        json(&r.unknown)
    }),
    field!("leases", "Leases", Number, "Leases in use", |r| Cell::normal(r.leases)),
    field!("range", "Range", Number, "Addresses that can be leased", |r| Cell::normal(r.range)),
    field!("warnings", "Warnings", Other, "What somebody should look at", |r| json(&r.warnings)),
];
