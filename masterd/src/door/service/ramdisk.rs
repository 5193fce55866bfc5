//! Ironic's API for agents in ramdisks, as far as the front door hears them. The store answers in the
//! order of its changes, so that a token is told once whatever others ask.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use ironic::{Answer, Asked, Effect, Machines, Node, Origin, Several};
use jobs::locks::{Level, LockName};
use luxi::Caller;
use luxi::method::GantryRamdisk;
use model::machine::{Machine, node_uuid};
use model::rack::{LeaseState, Observation};
use model::{Exception, MacAddress, Serial, Timestamp, Uuid};

use super::{LuxiService, for_door};
use crate::config::{Config, ConfigChange};
use crate::machines::observe;
use crate::machines::rack::document::expected_ramdisk;

impl LuxiService {
    /// Answers, once what was told is durable. While a job has the machine for itself, nothing is heard, as
    /// in Ironic: the agent asks again, and what is known of it stays.
    pub(super) async fn ramdisk(
        &self,
        call: GantryRamdisk,
        caller: &Caller,
    ) -> Result<Answer, Exception> {
        for_door(caller, "Ramdisks ask at the front door or their rack's agents")?;
        let GantryRamdisk { asked, from } = call;
        let now = self.now();
        let config = self.sources.published.snapshot().config;
        // Most heartbeats say nothing new, and wait for nothing.
        let outcome = ironic::answer(&asked, &Known::new(&config, from, now), now);
        match outcome.effect {
            Effect::Nothing => return Ok(outcome.answer),
            Effect::Several(Several(serials)) => {
                let serials: Vec<String> = serials.iter().map(ToString::to_string).collect();
                let serials = serials.join(", ");
                tracing::warn!(%from, serials, "a ramdisk has the cards of several machines");
                return Ok(outcome.answer);
            }
            Effect::Outlived(serial) => {
                tracing::warn!(%from, %serial, "a ramdisk shows the token of an earlier boot");
                return Ok(outcome.answer);
            }
            Effect::Heard { .. } => {}
        }
        let locks = self.sources.locks.clone();
        let is_locked = move |serial: &Serial| {
            locks.is_exclusive(&LockName::member(Level::Machine, serial.as_str()))
        };
        let decide = move |config: &Config| Ok(decided(config, (&asked, from), now, is_locked));
        self.sources.writer.transact(None, decide).await
    }
}

fn decided(
    config: &Config,
    (asked, from): (&Asked, IpAddr),
    now: Timestamp,
    is_locked: impl Fn(&Serial) -> bool,
) -> (Vec<ConfigChange>, Answer) {
    let outcome = ironic::answer(asked, &Known::new(config, from, now), now);
    let Effect::Heard { observation, .. } = outcome.effect else {
        return (Vec::new(), outcome.answer);
    };
    let (Observation::Ramdisk { serial, .. } | Observation::Inspected { serial, .. }) =
        &*observation
    else {
        return (Vec::new(), outcome.answer);
    };
    if is_locked(serial) {
        let why = format!(
            "Node {serial} is locked by host {}, please retry after the current operation is completed.",
            config.role.master
        );
        return (Vec::new(), asked.refused(StatusCode::CONFLICT, &why));
    }
    tracing::info!(%serial, %from, "a ramdisk is heard at the front door");
    (observe::heard(config, now, *observation), outcome.answer)
}

/// The machines, as far as the store knows them.
struct Known<'a> {
    config: &'a Config,
    /// The cards that have the lease of the client's address.
    holders: Vec<MacAddress>,
}

impl<'a> Known<'a> {
    fn new(config: &'a Config, from: IpAddr, now: Timestamp) -> Self {
        let IpAddr::V4(from) = from.to_canonical() else {
            return Self { config, holders: Vec::new() };
        };
        let racks: BTreeSet<u32> = config.nodes.values().filter_map(|node| node.rack).collect();
        let leases = racks.into_iter().flat_map(|rack| config.leases.by.address.of((rack, from)));
        let held = leases.filter(|lease| lease.state == LeaseState::Bound && lease.until > now);
        Self { config, holders: held.map(|lease| lease.mac).collect() }
    }

    fn node(&self, machine: &Machine) -> Node {
        let cycle = self.config.power_cycles.get(&machine.serial);
        Node {
            rack: machine.rack,
            serial: machine.serial.clone(),
            uuid: node_uuid(machine.uuid, &machine.serial),
            registered: Some(machine.register_date),
            cycle: cycle.map_or(0, |cycle| cycle.number),
            ramdisk: expected_ramdisk(self.config, machine),
        }
    }
}

impl Machines for Known<'_> {
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node> {
        self.config.machines.by.node.of(uuid).map(|machine| self.node(machine)).collect()
    }

    fn by_macs(&self, macs: &[MacAddress]) -> Vec<Node> {
        let machines = macs.iter().filter_map(|mac| self.config.machine_of(*mac));
        machines.map(|machine| self.node(machine)).collect()
    }

    fn by_serial(&self, serial: &Serial) -> Vec<Node> {
        self.config.machines.get(serial).map(|machine| self.node(machine)).into_iter().collect()
    }

    /// Requests reach a front door from other networks, too, so that nothing is known of most addresses.
    fn origin(&self, node: &Node) -> Origin {
        let holders = self.holders.iter().filter_map(|mac| self.config.machine_of(*mac));
        let serials: Vec<&Serial> = holders.map(|machine: &Arc<Machine>| &machine.serial).collect();
        let is_another = !serials.is_empty() && !serials.contains(&&node.serial);
        if is_another { Origin::AnotherMachine } else { Origin::Itself }
    }
}

#[cfg(test)]
mod tests;
