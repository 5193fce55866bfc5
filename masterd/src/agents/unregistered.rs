//! Core: machines that are not registered and were seen in a rack: they got a lease, or asked for a boot
//! script. These records may be lost; leases are in the configuration as well.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::rack::{Event, GUEST_LEASE_SECONDS, LEASE_SECONDS, Lease, LeaseState, Observation};
use model::{MacAddress, NodeName, Serial, Timestamp};
use parking_lot::Mutex;

use crate::config::Config;

/// Machines that are kept: a row of racks that wait to be registered. The one that was seen longest ago
/// goes first.
pub const STRANGERS_MAX: usize = 1_000;

/// One such machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnregisteredMachine {
    pub rack: u32,
    /// Its Ethernet address, if one is known.
    pub mac: Option<MacAddress>,
    /// The serial number that it told when it asked for its script.
    pub serial: Option<Serial>,
    pub address: Ipv4Addr,
    /// The agent that saw it last.
    pub agent: Option<NodeName>,
    /// When it was seen first.
    pub first: Timestamp,
    /// When it was seen last.
    pub last: Timestamp,
    /// How often it was seen.
    pub count: u64,
}

/// A machine is known by its Ethernet address, and where that is not known by its serial number.
type Key = (u32, Option<MacAddress>, Option<Serial>);

/// All of them.
#[derive(Debug, Default)]
pub struct UnregisteredMachines(Mutex<BTreeMap<Key, UnregisteredMachine>>);

impl UnregisteredMachines {
    /// Takes what an agent saw.
    pub(crate) fn see(&self, agent: &NodeName, config: &Config, events: &[Event]) {
        for event in events {
            let (rack, mac, serial, address) = match &event.observation {
                Observation::Lease(Lease { rack, mac, address, state, .. }) => match state {
                    LeaseState::Bound => (*rack, Some(*mac), None, *address),
                    LeaseState::Released | LeaseState::Declined => continue,
                },
                Observation::Unknown { rack, serial, address, mac } => {
                    (*rack, *mac, Some(serial.clone()), *address)
                }
                Observation::Boot { .. }
                | Observation::Ramdisk { .. }
                | Observation::Inspected { .. } => continue,
            };
            let (first, last) = (event.at, event.at);
            let agent = Some(agent.clone());
            let seen =
                UnregisteredMachine { rack, mac, serial, address, agent, first, last, count: 1 };
            if !is_registered(&seen, config) {
                self.add(seen);
            }
        }
    }

    fn add(&self, seen: UnregisteredMachine) {
        let mut all = self.0.lock();
        let by_serial = seen.serial.clone().filter(|_| seen.mac.is_none());
        let key = (seen.rack, seen.mac, by_serial);
        if let Some(known) = all.get_mut(&key) {
            let (first, last) = (known.first.min(seen.first), known.last.max(seen.last));
            let count = known.count.saturating_add(1);
            // An agent may tell late what it saw before another one did.
            let (newer, older) = match seen.last >= known.last {
                true => (seen, known.clone()),
                false => (known.clone(), seen),
            };
            let serial = newer.serial.clone().or(older.serial);
            *known = UnregisteredMachine { serial, first, last, count, ..newer };
            return;
        }
        if all.len() >= STRANGERS_MAX {
            let oldest = all.iter().min_by_key(|(_, known)| known.last).map(|(key, _)| key.clone());
            oldest.map(|key| all.remove(&key));
        }
        all.insert(key, seen);
    }

    /// The unregistered that are not registered now, and all other holders of a lease that are no machines.
    pub fn all(&self, config: &Config, now: Timestamp) -> Vec<UnregisteredMachine> {
        let mut all = self.0.lock();
        all.retain(|_, known| !is_registered(known, config));
        let mut found: Vec<UnregisteredMachine> = all.values().cloned().collect();
        let live = |lease: &&std::sync::Arc<Lease>| {
            lease.state == LeaseState::Bound
                && lease.until > now
                && config.machine_of(lease.mac).is_none()
                && !all.contains_key(&(lease.rack, Some(lease.mac), None))
        };
        found.extend(config.leases.values().filter(live).take(STRANGERS_MAX).map(|lease| {
            let begun = lease.until.plus_seconds(-lease_seconds(config, lease.rack));
            UnregisteredMachine {
                rack: lease.rack,
                mac: Some(lease.mac),
                serial: None,
                address: lease.address,
                agent: None,
                first: begun,
                last: begun,
                count: 1,
            }
        }));
        found.sort_by_key(|one| (one.rack, std::cmp::Reverse(one.last)));
        found
    }
}

/// How long a lease of an unknown card lasts.
fn lease_seconds(config: &Config, rack: u32) -> i64 {
    let has_known_cards = config.machines_in(rack).any(|machine| !machine.mac.is_empty());
    i64::from(if has_known_cards { GUEST_LEASE_SECONDS } else { LEASE_SECONDS })
}

fn is_registered(seen: &UnregisteredMachine, config: &Config) -> bool {
    let by_mac = seen.mac.is_some_and(|mac| config.machine_of(mac).is_some());
    by_mac || seen.serial.as_ref().is_some_and(|serial| config.machines.contains_key(serial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, spec};

    fn lease(mac: u16) -> Observation {
        let [high, low] = mac.to_be_bytes();
        Observation::Lease(Lease {
            rack: 1,
            mac: MacAddress::new([2, 0, 0, 0, high, low]),
            address: [10, 69, 0, 40].into(),
            state: LeaseState::Bound,
            until: NOW.plus_seconds(3_600),
        })
    }

    fn asked(serial: &str, mac: u16) -> Observation {
        let Observation::Lease(Lease { rack, mac, address, .. }) = lease(mac) else { panic!() };
        let serial = serial.parse().unwrap();
        Observation::Unknown { rack, serial, address, mac: Some(mac) }
    }

    fn see(
        unregistered: &UnregisteredMachines,
        config: &Config,
        seen: impl IntoIterator<Item = Observation>,
    ) {
        let event = |(number, observation)| {
            let at = NOW.plus_seconds(i64::try_from(number).unwrap());
            Event { number, at, observation }
        };
        let events: Vec<Event> = (1..).zip(seen).map(event).collect();
        unregistered.see(&"n2.example".parse().unwrap(), config, &events);
    }

    #[test]
    fn a_stranger_is_one_until_it_is_registered() {
        let (unregistered, mut config) = (UnregisteredMachines::default(), config(&[]));
        see(&unregistered, &config, [lease(1), asked("s1", 1), lease(1)]);
        let all = unregistered.all(&config, NOW);
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((one.count, one.first, one.last), (3, NOW.plus_seconds(1), NOW.plus_seconds(3)));
        assert_eq!(one.serial.as_ref().map(Serial::as_str), Some("s1"));
        let machines = register(&config, &[spec("s1", 1, "worker")], NOW).unwrap();
        config.apply(machines.into_iter().map(ConfigChange::Machine));
        assert_eq!(unregistered.all(&config, NOW), []);
        see(&unregistered, &config, [asked("s1", 1)]);
        assert_eq!(unregistered.all(&config, NOW), []);
    }

    #[test]
    fn what_is_told_late_was_seen_before() {
        let (unregistered, config) = (UnregisteredMachines::default(), config(&[]));
        let tell = |agent: &str, seconds, observation| {
            let event = Event { number: 1, at: NOW.plus_seconds(seconds), observation };
            unregistered.see(&agent.parse().unwrap(), &config, &[event]);
            let [one] = unregistered.all(&config, NOW).try_into().unwrap();
            (one.first, one.last, one.agent.unwrap().to_string(), one.serial.is_some())
        };
        let at = |first, last, agent: &str, has_serial| {
            let times = (NOW.plus_seconds(first), NOW.plus_seconds(last));
            (times.0, times.1, agent.to_owned(), has_serial)
        };
        assert_eq!(tell("n2", 50, lease(1)), at(50, 50, "n2", false));
        assert_eq!(tell("n3", 10, asked("s1", 1)), at(10, 50, "n2", true));
        assert_eq!(tell("n3", 60, lease(1)), at(10, 60, "n3", true));
        assert_eq!(tell("n2", 55, lease(1)), at(10, 60, "n3", true));
    }

    #[test]
    fn the_newest_are_kept_and_leases_are_found_without() {
        let (unregistered, mut config) = (UnregisteredMachines::default(), config(&[]));
        see(&unregistered, &config, (0..1_003).map(lease));
        let all = unregistered.all(&config, NOW);
        assert_eq!(all.len(), STRANGERS_MAX);
        assert_eq!(all.last().unwrap().mac, Some(MacAddress::new([2, 0, 0, 0, 0, 3])));
        let Observation::Lease(held) = lease(7) else { panic!() };
        config.apply([ConfigChange::Lease(held)]);
        let anew = UnregisteredMachines::default();
        assert_eq!(anew.all(&config, NOW)[0].last, NOW);
        assert_eq!(anew.all(&config, NOW.plus_seconds(3_600)), []);
    }
}
