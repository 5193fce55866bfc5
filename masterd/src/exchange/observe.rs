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
    let mut changes = match lease.state {
        LeaseState::Released if config.leases.contains_key(&lease.key()) => {
            vec![ConfigChange::LeaseRemoved(lease.rack, lease.mac)]
        }
        LeaseState::Released => Vec::new(),
        LeaseState::Bound | LeaseState::Declined => vec![ConfigChange::Lease(lease.clone())],
    };
    // Whatever became of the lease, the machine was seen: an outbox may tell of its end alone.
    if let Some(machine) = config.machine_of(lease.mac) {
        // A renewal is no new boot: the stage stays, and only the sight is newer.
        let known = config.boots.get(&machine.serial);
        let known = known.filter(|boot| boot.mac == Some(lease.mac));
        let boot = Boot {
            stage: known.map_or(BootStage::Lease, |boot| boot.stage),
            address: lease.address,
            mac: Some(lease.mac),
            agent: agent.to_string(),
            seen: event.at,
        };
        changes.push(ConfigChange::Boot(machine.serial.clone(), boot));
    }
    changes
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

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;
    use crate::lu::machine::register;
    use crate::testing::{NOW, config, spec};

    const MAC: &str = "52:54:00:00:00:07";

    fn event(number: u64, observation: Observation) -> Event {
        Event { number, at: Timestamp::from_micros(i64::try_from(number).unwrap()), observation }
    }

    fn lease(state: LeaseState) -> Observation {
        Observation::Lease(Lease {
            rack: 0,
            mac: MAC.parse().unwrap(),
            address: [10, 69, 0, 32].into(),
            state,
            until: NOW,
        })
    }

    fn boot(serial: &str) -> Observation {
        Observation::Boot {
            rack: 0,
            serial: serial.parse().unwrap(),
            address: [10, 69, 0, 32].into(),
            mac: Some(MAC.parse().unwrap()),
            stage: BootStage::Script,
        }
    }

    fn with_machine() -> Config {
        let mut config = config(&[]);
        for machine in register(&config, &[spec("s1", 0, "worker")], NOW).unwrap() {
            ConfigChange::Machine(machine).apply(&mut config, &mut Vec::new());
        }
        config
    }

    fn seen(config: &mut Config, observations: Vec<Observation>) {
        let events: Vec<Event> = (1..).zip(observations).map(|(n, o)| event(n, o)).collect();
        for change in changes(config, &"n2".parse().unwrap(), &events) {
            change.apply(config, &mut Vec::new());
        }
    }

    #[test]
    fn a_boot_teaches_the_machine_its_address() {
        let mut config = with_machine();
        seen(&mut config, vec![lease(LeaseState::Bound), boot("s1"), boot("s1")]);
        let machine = config.machine("s1").unwrap();
        assert_eq!(machine.mac, [MAC.parse().unwrap()]);
        assert_eq!(config.boots[&machine.serial].stage, BootStage::Script);
        assert_eq!(config.leases.len(), 1);
    }

    #[test]
    fn a_renewal_does_not_take_a_boot_back() {
        let mut config = with_machine();
        seen(&mut config, vec![boot("s1"), lease(LeaseState::Bound)]);
        let serial: Serial = "s1".parse().unwrap();
        assert_eq!(config.boots[&serial].stage, BootStage::Script);
        assert_eq!(config.boots[&serial].seen, Timestamp::from_micros(2));
        seen(&mut config, vec![lease(LeaseState::Released)]);
        assert!(config.leases.is_empty());
    }

    #[test]
    fn strangers_change_nothing() {
        let mut config = with_machine();
        seen(&mut config, vec![boot("nobody"), lease(LeaseState::Released)]);
        assert!(config.boots.is_empty() && config.leases.is_empty());
        assert!(config.machine("s1").unwrap().mac.is_empty());
    }
}
