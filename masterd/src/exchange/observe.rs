//! Core: what agents' events change in the configuration.

use model::machine::{Boot, BootStage};
use model::rack::{Event, Lease, LeaseState, Observation};
use model::{MacAddress, NodeName, Serial};

use crate::config::{Config, ConfigChange};

/// Most Ethernet addresses that a machine is taught; real ones have fewer ports.
const MACS_PER_MACHINE_MAX: usize = 16;

/// The changes that `events` of `agent` make, in their order.
#[must_use]
pub fn changes(config: &Config, agent: &NodeName, events: &[Event]) -> Vec<ConfigChange> {
    let mut config = config.clone();
    let mut changes = Vec::new();
    for event in events {
        for change in of_event(&config, agent, event) {
            changes.push(change.clone());
            change.apply(&mut config, &mut Vec::new());
        }
    }
    changes
}

fn of_event(config: &Config, agent: &NodeName, event: &Event) -> Vec<ConfigChange> {
    match &event.observation {
        Observation::Lease(lease) => leased(config, agent, event, lease),
        Observation::Boot { rack: _, serial, address, mac, stage } => {
            let Some(machine) = config.machines.get(serial) else { return Vec::new() };
            let mut changes = learn(config, serial, *mac);
            let boot = Boot {
                stage: *stage,
                address: *address,
                mac: *mac,
                agent: agent.to_string(),
                seen: event.at,
            };
            changes.push(ConfigChange::Boot(machine.serial.clone(), boot));
            changes
        }
    }
}

fn leased(config: &Config, agent: &NodeName, event: &Event, lease: &Lease) -> Vec<ConfigChange> {
    match lease.state {
        LeaseState::Released => match config.leases.contains_key(&(lease.rack, lease.mac)) {
            true => vec![ConfigChange::LeaseRemoved(lease.rack, lease.mac)],
            false => Vec::new(),
        },
        LeaseState::Bound | LeaseState::Declined => {
            let mut changes = vec![ConfigChange::Lease(lease.clone())];
            let machine = config.machine_of(lease.mac);
            let further = |machine: &&std::sync::Arc<model::machine::Machine>| {
                config.boots.get(&machine.serial).is_none_or(|boot| boot.mac != Some(lease.mac))
            };
            if let Some(machine) = machine.filter(further) {
                let boot = Boot {
                    stage: BootStage::Lease,
                    address: lease.address,
                    mac: Some(lease.mac),
                    agent: agent.to_string(),
                    seen: event.at,
                };
                changes.push(ConfigChange::Boot(machine.serial.clone(), boot));
            }
            changes
        }
    }
}

/// Teaches a machine an Ethernet address that it booted with, unless another machine has it.
fn learn(config: &Config, serial: &Serial, mac: Option<MacAddress>) -> Vec<ConfigChange> {
    let Some(mac) = mac else { return Vec::new() };
    let Some(machine) = config.machines.get(serial) else { return Vec::new() };
    if config.machine_of(mac).is_some() || machine.mac.len() >= MACS_PER_MACHINE_MAX {
        return Vec::new();
    }
    let mut machine = machine.as_ref().clone();
    machine.mac.push(mac);
    vec![ConfigChange::Machine(machine)]
}
