//! Core: fields of machines that are not registered and were seen in a rack.

use crate::agents::unregistered::UnregisteredMachine;
use crate::units::list::{Cell, Field, fields, json};

/// The table.
pub const FIELDS: &[Field<UnregisteredMachine>] = fields! {
    "rack", "Rack", Number, "Rack that it was seen in", |r| Cell::normal(r.rack);
    "mac", "MAC", Text, "Ethernet address", |r| Cell::optional(r.mac.map(|mac| mac.to_string()));
    "serial", "Serial", Text, "Serial number, if it asked for its boot script",
        |r| Cell::optional(r.serial.as_ref().map(model::Serial::as_str));
    "ipv4", "IPv4", Text, "Address that it had", |r| Cell::normal(r.address.to_string());
    "agent", "Agent", Text, "Agent that saw it last",
        |r| Cell::optional(r.agent.as_ref().map(model::NodeName::as_str));
    "first", "First", Timestamp, "When it was seen first", |r| json(&r.first);
    "last", "Last", Timestamp, "When it was seen last", |r| json(&r.last);
    "count", "Count", Number, "How often it was seen", |r| Cell::normal(r.count);
};
