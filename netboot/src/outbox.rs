//! Core: what the agent saw and the master has not taken yet.
//!
//! Events are numbered from 1 in the order in which they were seen. One is forgotten when the master
//! acknowledged it, or when later ones overtook it: when there is a later one of each thing that it is
//! about. The events that are left lead the master to the same state as all of them.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use model::machine::StageSeen;
use model::rack::{Event, LeaseKey, Observation};
use model::timeline::{carry, has_fetched};
use model::{MacAddress, Serial, Timestamp};

/// Events that are kept: one for each lease and machine of a hundred racks. Beyond it the oldest is
/// given up and counted, so that a master that never comes cannot fill the disk.
pub const EVENTS_MAX: usize = 10_000;

/// Inventories that are handed out at a time: half a megabyte each, and an answer has 64.
const INVENTORIES_MAX: usize = 64;

/// The document `outbox/numbers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The last number that was given.
    pub last: u64,
    /// Events that were given up because there were too many.
    pub dropped: u64,
}

/// A subject of an event. An event is overtaken when later ones are about all of its subjects. The
/// master keeps leases by [`LeaseKey`] and one for each address, so an event of a lease says the newest
/// of both. A later event of the client alone does not say who lost the address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    /// The lease of a client.
    Lease(LeaseKey),
    /// The holder of an address of a rack.
    Address(u32, Ipv4Addr),
    /// The boot of a machine of a rack.
    Machine(u32, Serial),
    /// An Ethernet address of a machine of a rack, which the master learns from its boots.
    Port(u32, Serial, MacAddress),
    /// The record of a machine's ramdisk.
    Ramdisk(u32, Serial),
    /// The parts of a machine.
    Inspected(u32, Serial),
    /// An address that asks for the boot of a machine which no rack document has: by address, so that
    /// made-up serial numbers do not fill the outbox.
    Stranger(u32, Ipv4Addr),
}

impl Subject {
    fn of(observation: &Observation) -> impl Iterator<Item = Self> + use<> {
        let (first, second) = match observation {
            Observation::Lease(lease) => {
                (Self::Lease(lease.key()), Some(Self::Address(lease.rack, lease.address)))
            }
            Observation::Boot { rack, serial, mac, .. } => (
                Self::Machine(*rack, serial.clone()),
                mac.map(|mac| Self::Port(*rack, serial.clone(), mac)),
            ),
            Observation::Ramdisk { rack, serial, .. } => {
                (Self::Ramdisk(*rack, serial.clone()), None)
            }
            Observation::Inspected { rack, serial, .. } => {
                (Self::Inspected(*rack, serial.clone()), None)
            }
            Observation::Unknown { rack, address, .. } => (Self::Stranger(*rack, *address), None),
        };
        std::iter::once(first).chain(second)
    }
}

/// The events, by number.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    numbers: Numbers,
    events: BTreeMap<u64, Event>,
    newest: HashMap<Subject, u64>,
}

/// The effects of an addition, to be made durable, then to be [applied](Outbox::apply).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The numbers afterwards.
    pub numbers: Numbers,
    /// The new events.
    pub put: Vec<Event>,
    /// Events that are overtaken or given up.
    pub forget: Vec<u64>,
}

impl Outbox {
    /// The outbox as it was kept.
    pub fn restore(numbers: Numbers, events: impl IntoIterator<Item = Event>) -> Self {
        let mut outbox = Self { numbers, ..Self::default() };
        for event in events {
            outbox.numbers.last = outbox.numbers.last.max(event.number);
            outbox.insert(event);
        }
        outbox
    }

    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// How many events are kept.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The plan to add `observations`, seen at `at`.
    pub fn plan(&self, at: Timestamp, observations: Vec<Observation>) -> Plan {
        let mut numbers = self.numbers;
        let mut put: BTreeMap<u64, Event> = BTreeMap::new();
        let mut newest: HashMap<Subject, u64> = HashMap::new();
        let mut met = Vec::new();
        for mut observation in observations {
            numbers.last += 1;
            let of_machine = Subject::of(&observation).next();
            let last =
                of_machine.as_ref().and_then(|s| newest.get(s).or_else(|| self.newest.get(s)));
            if let Some(last) =
                last.and_then(|last| put.get(last).or_else(|| self.events.get(last)))
            {
                take_along(&mut observation, last);
            }
            for subject in Subject::of(&observation) {
                let stored = self.newest.get(&subject).copied();
                met.extend(newest.insert(subject, numbers.last).or(stored));
            }
            put.insert(numbers.last, Event { number: numbers.last, at, observation });
        }
        met.sort_unstable();
        met.dedup();
        let mut forget = Vec::new();
        for number in met {
            let Some(event) = put.get(&number).or_else(|| self.events.get(&number)) else {
                continue;
            };
            let last =
                |subject| newest.get(&subject).or_else(|| self.newest.get(&subject)).copied();
            let overtaken = Subject::of(&event.observation).all(|s| last(s) != Some(number));
            if overtaken && put.remove(&number).is_none() {
                forget.push(number);
            }
        }
        let kept = self.events.len() - forget.len() + put.len();
        let oldest = self.events.keys().filter(|number| forget.binary_search(number).is_err());
        let too_many: Vec<u64> = oldest.take(kept.saturating_sub(EVENTS_MAX)).copied().collect();
        numbers.dropped += u64::try_from(too_many.len()).unwrap_or(u64::MAX);
        forget.extend(too_many);
        Plan { numbers, put: put.into_values().collect(), forget }
    }

    /// Does what `plan` says, which must be the last plan that was made.
    pub fn apply(&mut self, plan: Plan) {
        for number in plan.forget {
            self.remove(number);
        }
        for event in plan.put {
            self.insert(event);
        }
        self.numbers = plan.numbers;
    }

    /// Forgets everything up to `number`; gives the numbers that are forgotten.
    pub fn acknowledge(&mut self, number: u64) -> Vec<u64> {
        let forgotten: Vec<u64> = self.events.range(..=number).map(|(n, _)| *n).collect();
        for number in &forgotten {
            self.remove(*number);
        }
        forgotten
    }

    /// The numbers of all events that are kept.
    pub fn kept(&self) -> impl Iterator<Item = u64> + '_ {
        self.events.keys().copied()
    }

    /// Events up to `number`, oldest first, at most `most`, and as few as fit an answer.
    pub fn pending(&self, number: u64, most: usize) -> Vec<Event> {
        let mut inventories = 0;
        let fits = |event: &&Event| {
            inventories += usize::from(matches!(event.observation, Observation::Inspected { .. }));
            inventories <= INVENTORIES_MAX
        };
        let events = self.events.range(..=number).take(most).map(|(_, event)| event);
        events.take_while(fits).cloned().collect()
    }

    fn insert(&mut self, event: Event) {
        for subject in Subject::of(&event.observation) {
            let newest = self.newest.entry(subject).or_insert(event.number);
            *newest = event.number.max(*newest);
        }
        self.events.insert(event.number, event);
    }

    fn remove(&mut self, number: u64) {
        let Some(event) = self.events.remove(&number) else { return };
        for subject in Subject::of(&event.observation) {
            if self.newest.get(&subject) == Some(&number) {
                self.newest.remove(&subject);
            }
        }
    }
}

/// Has an event of a machine carry the stages of the one before it, which it overtakes: the machine
/// is the same only in the same registration.
fn take_along(observation: &mut Observation, last: &Event) {
    let Observation::Boot { registered, earlier, .. } = observation else { return };
    match &last.observation {
        Observation::Boot {
            stage,
            registered: of_last,
            cycle,
            earlier: told,
            fetched,
            cycle_guessed,
            ..
        } if of_last == registered => {
            let (agent, fetched) = (String::new(), fetched.clone());
            let (stage, at) = (*stage, last.at);
            // A stage has no mark for a guess: one that nothing bears out is of no power cycle.
            let is_borne_out = !cycle_guessed || has_fetched(told, *cycle);
            let cycle = if is_borne_out { *cycle } else { 0 };
            let last = StageSeen { stage, at, agent, fetched, cycle };
            *earlier = carry(told.iter().cloned().chain([last]));
        }
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
