//! Core: what the agent saw and the master has not taken yet.
//!
//! Events are numbered from 1 in the order in which they were seen. One is forgotten when the master
//! acknowledged it, or when a later one of the same subject overtook it: then only the later one
//! matters, and its number stands in its place at the end.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use model::rack::{Event, Observation};
use model::{Serial, Timestamp};

/// Events that are kept: one for each lease and machine of a hundred racks. Beyond it the oldest is
/// given up and counted, so that a master that never comes cannot fill the disk.
pub const EVENTS_MAX: usize = 10_000;

/// The document `outbox/numbers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The last number that was given.
    pub last: u64,
    /// Events that were given up because there were too many.
    pub dropped: u64,
}

/// What an event is about; a later one of the same subject overtakes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Address(Ipv4Addr),
    Machine(Serial),
}

impl Subject {
    fn of(observation: &Observation) -> Self {
        match observation {
            Observation::Lease(lease) => Self::Address(lease.address),
            Observation::Boot { serial, .. } => Self::Machine(serial.clone()),
        }
    }
}

/// The events, by number.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    numbers: Numbers,
    events: BTreeMap<u64, Event>,
    newest: HashMap<Subject, u64>,
}

/// What an addition does: to be made durable, then to be [applied](Outbox::apply).
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
    #[must_use]
    pub fn restore(numbers: Numbers, events: impl IntoIterator<Item = Event>) -> Self {
        let mut outbox = Self { numbers, ..Self::default() };
        for event in events {
            outbox.numbers.last = outbox.numbers.last.max(event.number);
            outbox.insert(event);
        }
        outbox
    }

    /// The numbers.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// What adding `observations`, seen at `at`, would do.
    #[must_use]
    pub fn plan(&self, at: Timestamp, observations: Vec<Observation>) -> Plan {
        let mut numbers = self.numbers;
        let mut put: Vec<Event> = Vec::with_capacity(observations.len());
        let mut forget = Vec::new();
        for observation in observations {
            let subject = Subject::of(&observation);
            if let Some(overtaken) = self.newest.get(&subject) {
                forget.push(*overtaken);
            }
            put.retain(|event| Subject::of(&event.observation) != subject);
            numbers.last += 1;
            put.push(Event { number: numbers.last, at, observation });
        }
        forget.sort_unstable();
        forget.dedup();
        let kept = self.events.len() - forget.len() + put.len();
        let oldest = self.events.keys().filter(|number| forget.binary_search(number).is_err());
        let too_many: Vec<u64> = oldest.take(kept.saturating_sub(EVENTS_MAX)).copied().collect();
        numbers.dropped += u64::try_from(too_many.len()).unwrap_or(u64::MAX);
        forget.extend(too_many);
        Plan { numbers, put, forget }
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

    /// Events up to `number`, oldest first, at most `most`.
    #[must_use]
    pub fn pending(&self, number: u64, most: usize) -> Vec<Event> {
        self.events.range(..=number).take(most).map(|(_, event)| event.clone()).collect()
    }

    fn insert(&mut self, event: Event) {
        let subject = Subject::of(&event.observation);
        let newest = self.newest.entry(subject).or_insert(event.number);
        *newest = event.number.max(*newest);
        self.events.insert(event.number, event);
    }

    fn remove(&mut self, number: u64) {
        let Some(event) = self.events.remove(&number) else { return };
        let subject = Subject::of(&event.observation);
        if self.newest.get(&subject) == Some(&number) {
            self.newest.remove(&subject);
        }
    }
}

#[cfg(test)]
mod tests;
