//! Core: what machines' words mean for where they stand. Words of another power cycle than the newest one
//! mean nothing: what said them does not run any more. Nor do words while a job prepares the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::bmc::{Inspection, Source};
use model::inventory::Inventory;
use model::machine::Machine;
use model::machine::life::{Event, Observed, State};
use model::power_cycle::{AgentStatus, PowerCycle, Ramdisk};
use model::{Serial, Timestamp};

use crate::config::{Config, ConfigChange};

/// Which machine words are about, and of when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) serial: &'a Serial,
    pub(super) registered: Option<Timestamp>,
    pub(super) cycle: u64,
}

/// The changes of machines by their own messages.
#[derive(Debug)]
pub(super) struct Lives<'a> {
    config: &'a Config,
    cycles: BTreeMap<Serial, PowerCycle>,
    inspections: BTreeMap<Serial, Inspection>,
}

impl<'a> Lives<'a> {
    pub(super) const fn new(config: &'a Config) -> Self {
        Self { config, cycles: BTreeMap::new(), inspections: BTreeMap::new() }
    }

    /// The machine that speaks, if it speaks of its newest power cycle.
    pub(super) fn speaker(&self, of: Of<'_>) -> Option<&'a Arc<Machine>> {
        let machine = self.config.machines.get(of.serial)?;
        let newest = self.config.power_cycles.get(of.serial).map_or(0, |cycle| cycle.number);
        let is_it = of.registered.is_none_or(|at| at == machine.register_date);
        (is_it && of.cycle == newest).then_some(machine)
    }

    /// Takes in what was heard of the ramdisk; how that ends what the machine is doing.
    pub(super) fn ramdisk(
        &mut self,
        (serial, state): (&Serial, State),
        told: &Ramdisk,
    ) -> Option<(Observed, String)> {
        let known = self.config.power_cycles.get(serial)?;
        let cycle = self.cycles.entry(serial.clone()).or_insert_with(|| known.as_ref().clone());
        cycle.ramdisk = ironic::merged(&cycle.ramdisk, told);
        // The last word of a ramdisk of an earlier boot is known.
        let agent = cycle.ramdisk.agent.as_ref().filter(|_| ironic::is_told(&cycle.ramdisk))?;
        let (ends, text) = (agent.status, agent.status_message.clone());
        match (state, ends) {
            (
                State::InspectWait
                | State::CleanWait
                | State::DeployWait
                | State::RescueWait
                | State::EraseWait,
                Some(AgentStatus::Error),
            ) => Some((Observed::Failed, format!("its ramdisk says: {text}"))),
            (State::CleanWait | State::EraseWait, Some(AgentStatus::End))
            | (State::RescueWait, _) => Some((Observed::Done, text)),
            _ => None,
        }
    }

    /// Keeps what the ramdisk found; how that ends the inspection.
    pub(super) fn inspected(
        &mut self,
        (serial, at): (&Serial, Timestamp),
        inventory: &Inventory,
        error: Option<&str>,
    ) -> (Observed, String) {
        if let Some(error) = error {
            return (Observed::Failed, format!("its ramdisk says: {error}"));
        }
        let known = self.config.inspections.get(serial).map(AsRef::as_ref);
        let before = self.inspections.get(serial).or(known);
        let told = (Source::Ramdisk, inventory.clone());
        let after = Inspection::after(before, serial.clone(), at, told);
        self.inspections.insert(serial.clone(), after);
        (Observed::Done, String::new())
    }

    /// The changes that they make.
    pub(super) fn changes(self) -> impl Iterator<Item = ConfigChange> {
        let Self { config, cycles, inspections } = self;
        let is_new = |cycle: &PowerCycle| {
            config.power_cycles.get(&cycle.serial).map(AsRef::as_ref) != Some(cycle)
        };
        let cycles: Vec<_> = cycles.into_values().filter(is_new).collect();
        let cycles = cycles.into_iter().map(ConfigChange::PowerCycle);
        cycles.chain(inspections.into_values().map(ConfigChange::Inspection))
    }
}

/// The meaning of a message that the machine's own system runs.
pub(super) const fn system_called(state: State) -> Observed {
    match state {
        State::RescueWait => Observed::Done,
        _ => Observed::SystemCalled,
    }
}

/// A machine after what was seen of it; none where it stays as it is.
pub(super) fn after(
    machine: &Machine,
    (seen, why): (Observed, &str),
    now: Timestamp,
) -> Option<Machine> {
    if machine.life.preparing().is_some() {
        return None;
    }
    let why = (!why.is_empty() && seen == Observed::Failed).then_some(why);
    let life = machine.life.after(Event::Observed(seen), why, now).ok()?;
    (life != machine.life).then(|| Machine { life, ..machine.clone() })
}

#[cfg(test)]
mod tests;
