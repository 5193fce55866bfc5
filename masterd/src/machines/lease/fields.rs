//! Core: fields of leases.

use std::sync::Arc;

use model::Timestamp;
use model::rack::{Lease, LeaseState};

use crate::agents::unregistered::UnregisteredMachine;
use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

#[derive(Debug, Clone)]
pub struct LeaseRow {
    pub lease: Arc<Lease>,
    /// Machines, and what was seen of them.
    pub config: Arc<Config>,
    /// The stranger that has it, if no machine does.
    pub stranger: Option<UnregisteredMachine>,
    /// The time of the question: a lease ends by itself.
    pub now: Timestamp,
}

impl LeaseRow {
    fn serial(&self) -> Option<&str> {
        let machine = self.config.machine_of(self.lease.mac).map(|machine| &machine.serial);
        let told = || self.stranger.as_ref().and_then(|stranger| stranger.serial.as_ref());
        machine.or_else(told).map(model::Serial::as_str)
    }

    fn state(&self) -> &'static str {
        match self.lease.state {
            LeaseState::Bound if self.lease.until <= self.now => "ended",
            LeaseState::Bound => "bound",
            LeaseState::Released => "released",
            LeaseState::Declined => "declined",
        }
    }

    fn agent(&self) -> Option<&str> {
        let machine = self.config.machine_of(self.lease.mac);
        let boot = machine.and_then(|machine| self.config.boots.get(&machine.serial));
        let of_stranger = || Some(self.stranger.as_ref()?.agent.as_ref()?.as_str());
        boot.map(|last| last.boot.agent.as_str()).or_else(of_stranger)
    }
}

/// The table.
pub const FIELDS: &[Field<LeaseRow>] = fields! {
    "rack", "Rack", Number, "Rack", |r| Cell::normal(r.lease.rack);
    "ipv4", "IPv4", Text, "Address", |r| Cell::normal(r.lease.address.to_string());
    "mac", "MAC", Text, "Ethernet address that has it", |r| Cell::normal(r.lease.mac.to_string());
    "serial", "Serial", Text, "Serial number of who has it, if known",
        |r| Cell::optional(r.serial());
    "registered", "Registered", Bool, "Whether that is a machine of the inventory",
        |r| Cell::normal(r.config.machine_of(r.lease.mac).is_some());
    "state", "State", Text, "`bound`, `ended`, or `declined`: in use by another host",
        |r| Cell::normal(r.state());
    "until", "Until", Timestamp, "When it ends by itself", |r| json(&r.lease.until);
    "agent", "Agent", Text, "Agent that last saw who has it", |r| Cell::optional(r.agent());
};
