//! Core: fields of machines.

use std::sync::Arc;

use model::machine::{Boot, Machine};
use model::rack::{Lease, LeaseKey, LeaseState};
use model::{MacAddress, Timestamp};

use super::{Cell, Field, field, json};
use crate::config::Config;

/// A machine with all that is known of it.
#[derive(Debug, Clone)]
pub struct MachineRow {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Everything else.
    pub config: Arc<Config>,
    /// The time of the question: a lease ends by itself.
    pub now: Timestamp,
}

impl MachineRow {
    fn lease(&self) -> Option<&Arc<Lease>> {
        let rack = self.machine.rack;
        let of = |mac: &MacAddress| self.config.leases.get(&LeaseKey { rack, mac: *mac });
        let live = |l: &&Arc<Lease>| l.state == LeaseState::Bound && l.until > self.now;
        self.machine.mac.iter().filter_map(of).filter(live).max_by_key(|lease| lease.until)
    }

    fn boot(&self) -> Option<&Boot> {
        self.config.boots.get(&self.machine.serial).map(|last| &last.boot)
    }
}

/// The table.
pub const FIELDS: &[Field<MachineRow>] = &[
    field!("serial", "Serial", Text, "Serial number", |r| Cell::normal(r.machine.serial.as_str())),
    field!("rack", "Rack", Number, "Logical rack number", |r| Cell::normal(r.machine.rack)),
    field!("index", "Index", Number, "Number within the rack", |r| {
        Cell::normal(r.machine.index_in_rack)
    }),
    field!("role", "Role", Text, "What it is for", |r| Cell::normal(r.machine.role.as_str())),
    field!("product", "Product", Text, "Product name", |r| {
        Cell::normal(r.machine.product.as_str())
    }),
    field!("datacenter", "Datacenter", Text, "Where it stands", |r| {
        Cell::normal(r.machine.datacenter.as_str())
    }),
    field!("ipv4", "IPv4", Other, "Addresses of its operating system", |r| {
        json(&r.machine.network.values().flat_map(|a| &a.ipv4).collect::<Vec<_>>())
    }),
    field!("bmc", "BMC", Text, "Address of its management controller", |r| {
        Cell::optional(r.machine.bmc.ipv4.first().map(ToString::to_string))
    }),
    field!("mac", "MAC", Other, "Ethernet addresses, told or learnt", |r| json(&r.machine.mac)),
    field!("lease", "Lease", Text, "Address that it has a lease of", |r| {
        Cell::optional(r.lease().map(|lease| lease.address.to_string()))
    }),
    field!("stage", "Stage", Text, "How far its last boot came", |r| {
        Cell::optional(r.boot().map(|boot| boot.stage.as_str()))
    }),
    field!("seen", "Seen", Timestamp, "When it was last seen booting", |r| {
        r.boot().map_or_else(|| Cell::optional(None::<bool>), |boot| json(&boot.seen))
    }),
    field!("agent", "Agent", Text, "Agent that last saw it booting", |r| {
        Cell::optional(r.boot().map(|boot| boot.agent.as_str()))
    }),
    field!("registered", "Registered", Timestamp, "When it was registered", |r| {
        json(&r.machine.register_date)
    }),
];
