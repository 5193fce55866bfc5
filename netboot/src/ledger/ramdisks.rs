//! Records of the ramdisks of machines. A record is kept as long as a rack document expects the ramdisk.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::power_cycle::Ramdisk;
use model::rack::{Observation, RackDocument, RackMachine};
use model::{MacAddress, Serial, Timestamp};
use queue_format::Change;
use rpc::calls::RamdiskTold;
use tokio::sync::oneshot;

use super::changes::Changed;
use super::{Ledger, LedgerError, State, keys, put};
use crate::dhcp::{LeaseRecord, LeaseState};

/// Records of ramdisks, by rack and machine.
pub type Ramdisks = BTreeMap<(u32, Serial), RamdiskTold>;

/// The records that decisions are based on.
#[derive(Debug)]
pub struct Known<'a> {
    /// Records of ramdisks.
    pub ramdisks: &'a Ramdisks,
    leases: &'a BTreeMap<Ipv4Addr, LeaseRecord>,
}

impl Known<'_> {
    /// An address that one of these cards leases now.
    pub fn leased_by(&self, cards: &[MacAddress], now: Timestamp) -> Option<Ipv4Addr> {
        let is_theirs = |lease: &&LeaseRecord| {
            let is_bound =
                matches!(lease.state, LeaseState::Bound { until_us } if until_us > now.micros());
            is_bound && lease.client.mac().is_some_and(|mac| cards.contains(&mac))
        };
        self.leases.values().find(is_theirs).map(|lease| lease.address)
    }
}

/// A change that is not durable yet.
#[derive(Debug)]
pub struct Durable(oneshot::Receiver<()>);

impl Durable {
    /// Waits for it.
    ///
    /// # Errors
    /// The store has ended.
    pub async fn wait(self) -> Result<(), LedgerError> {
        self.0.await.map_err(|_ended| LedgerError::Ended)
    }
}

/// Whether a record is of this machine, as its document has it now.
pub fn is_of(record: &RamdiskTold, machine: &RackMachine) -> bool {
    record.cycle == machine.cycle && record.registered == machine.registered
}

impl Ledger {
    /// Decides by what was heard so far, and keeps and tells what comes of it: nobody else decides at the
    /// same time, so a token is told once.
    ///
    /// # Errors
    /// The store does not take it: then nothing has happened.
    pub fn hear<T>(
        &self,
        at: Timestamp,
        decide: impl FnOnce(&Known<'_>) -> (T, Option<RamdiskTold>, Option<Observation>),
    ) -> Result<(T, Option<Durable>), LedgerError> {
        let mut state = self.state.lock();
        let known = Known { ramdisks: &state.ramdisks, leases: &state.leases };
        let (decided, record, observation) = decide(&known);
        if record.is_none() && observation.is_none() {
            return Ok((decided, None));
        }
        let change = record.as_ref().map(kept);
        let observations = observation.into_iter().collect();
        let done =
            self.submit_events(&mut state, change.into_iter().collect(), at, observations)?;
        if let Some(record) = record {
            self.insert(&mut state, record);
        }
        Ok((decided, Some(Durable(done))))
    }

    /// Notes that a machine begins to boot, and tells the master: its ramdisk is another one from here on.
    ///
    /// # Errors
    /// The store does not take it.
    pub fn note_booted(
        &self,
        at: Timestamp,
        rack: u32,
        machine: &RackMachine,
    ) -> Result<(), LedgerError> {
        let boots = |known: &Known<'_>| {
            let before = known.ramdisks.get(&(rack, machine.serial.clone()));
            let before = before.filter(|before| is_of(before, machine));
            let heard = before.map_or_else(Ramdisk::default, |before| before.heard.clone());
            let expected = machine.ramdisk.as_ref().map(|expected| &expected.heard);
            let heard = expected.map_or_else(|| heard.clone(), |e| ironic::merged(e, &heard));
            let record = RamdiskTold {
                rack,
                serial: machine.serial.clone(),
                registered: machine.registered,
                cycle: machine.cycle,
                heard: ironic::booting(&heard, at),
            };
            let observation = observed(&record);
            ((), Some(record), Some(observation))
        };
        self.hear(at, boots).map(drop)
    }

    /// Takes another agent's records of the rack, as far as they are news. The other agent tells the
    /// master.
    ///
    /// # Errors
    /// The store does not take it.
    pub fn learn_ramdisks(&self, told: Vec<RamdiskTold>) -> Result<(), LedgerError> {
        let mut state = self.state.lock();
        for told in told {
            let known = state.ramdisks.get(&(told.rack, told.serial.clone()));
            let record = known.map_or_else(|| told.clone(), |known| joined(known, &told));
            if known != Some(&record) {
                drop(self.submit(vec![kept(&record)], None)?);
                self.insert(&mut state, record);
            }
        }
        Ok(())
    }

    /// Forgets what was heard of ramdisks that a rack's document expects no longer; of all where there is
    /// none.
    ///
    /// # Errors
    /// The store does not take it.
    pub fn forget_ramdisks(
        &self,
        rack: u32,
        document: Option<&RackDocument>,
    ) -> Result<(), LedgerError> {
        let machines = document.map_or(&[][..], |document| document.machines.as_slice());
        let expected = machines.iter().filter(|machine| machine.ramdisk.is_some());
        let expected: BTreeMap<&Serial, &RackMachine> =
            expected.map(|machine| (&machine.serial, machine)).collect();
        let is_wanted = |record: &RamdiskTold| {
            expected.get(&record.serial).is_some_and(|machine| {
                // Another agent may have a newer document.
                machine.registered == record.registered && record.cycle >= machine.cycle
            })
        };
        let mut state = self.state.lock();
        let gone = state.ramdisks.iter().filter(|((of, _), _)| *of == rack);
        let gone = gone.filter(|(_, record)| !is_wanted(record)).map(|(key, _)| key.clone());
        let gone: Vec<(u32, Serial)> = gone.collect();
        drop(
            self.delete(gone.iter().map(|(rack, serial)| keys::ramdisk(*rack, serial)).collect())?,
        );
        for key in gone {
            state.ramdisks.remove(&key);
        }
        Ok(())
    }

    /// An address that one of these cards leases now.
    pub fn leased_by(&self, cards: &[MacAddress], now: Timestamp) -> Option<Ipv4Addr> {
        let state = self.state.lock();
        Known { ramdisks: &state.ramdisks, leases: &state.leases }.leased_by(cards, now)
    }

    fn insert(&self, state: &mut State, record: RamdiskTold) {
        let key = (record.rack, record.serial.clone());
        state.changes.note(Changed::Ramdisk(key.0, key.1.clone()));
        state.ramdisks.insert(key, record);
        self.changed.send_replace(state.changes.last());
    }
}

/// The observation of a record, for the master.
pub fn observed(record: &RamdiskTold) -> Observation {
    let RamdiskTold { rack, serial, registered, cycle, heard } = record.clone();
    Observation::Ramdisk { rack, serial, registered, cycle, heard }
}

fn kept(record: &RamdiskTold) -> Change {
    put(keys::ramdisk(record.rack, &record.serial), record)
}

/// The record of one machine, joined from the records of two agents.
fn joined(one: &RamdiskTold, other: &RamdiskTold) -> RamdiskTold {
    let of = |record: &RamdiskTold| (record.registered, record.cycle);
    match of(one).cmp(&of(other)) {
        std::cmp::Ordering::Less => other.clone(),
        std::cmp::Ordering::Greater => one.clone(),
        std::cmp::Ordering::Equal => {
            RamdiskTold { heard: ironic::merged(&one.heard, &other.heard), ..one.clone() }
        }
    }
}

#[cfg(test)]
mod tests;
