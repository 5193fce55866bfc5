//! Core: fields of racks.

use crate::machines::rack::status::RackStatus;
use crate::units::list::{Cell, Field, fields, json};

/// The table.
pub const FIELDS: &[Field<RackStatus>] = fields! {
    "rack", "Rack", Number, "Logical rack number", |r| Cell::normal(r.rack);
    "agents", "Agents", Other, "Its agents: reached or not, stale or not, faults",
        |r| json(&r.agents);
    "machines", "Machines", Number, "Machines in it", |r| Cell::normal(r.machines);
    "stages", "Stages", Other, "Machines by the last stage that they came to", |r| json(&r.stages);
    "stuck", "Stuck", Other, "Machines that do not go on with their boot", |r| json(&r.stuck);
    "unknown", "Unknown", Other, "Machines that asked to boot, unregistered", |r| json(&r.unknown);
    "leases", "Leases", Number, "Leases in use", |r| Cell::normal(r.leases);
    "range", "Range", Number, "Addresses that can be leased", |r| Cell::normal(r.range);
    "switches", "Switches", Other, "Its switches, reached or not", |r| json(&r.switches);
    "warnings", "Warnings", Other, "What somebody should look at", |r| json(&r.warnings);
};
