//! Core: what agents' events change in the configuration.
//!
//! The rules are those by which an agent's outbox forgets events. A lease is that of a rack's client
//! ([`LeaseKey`]), and the newest word on an address is all that is known of it. So the events are
//! folded, and what then differs from the configuration is changed once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use model::machine::life::{Observed, Phase, State};
use model::machine::{Boot, BootStage, LastBoot, Machine, StageSeen};
use model::rack::{Event, Lease, LeaseKey, LeaseState, Observation};
use model::timeline::{Timeline, has_fetched};
use model::{MacAddress, NodeName, Serial, Timestamp};

use crate::config::{Config, ConfigChange};

mod life;
mod master_time;

use life::{Lives, Of};
pub use master_time::{Clocks, EventTimes};

/// Most Ethernet addresses that a machine is taught; real ones have fewer ports.
const MACS_PER_MACHINE_MAX: usize = 16;
/// How long a lease is kept after its end: a day, so that an operator still finds who had an address
/// last night. The agent remembers for itself what it needs.
const LEASE_GRACE_US: i64 = 24 * 3_600 * 1_000_000;
/// Ended leases that are removed at a time: few enough for a small commit, and more than end between two
/// exchanges. The rest goes with the next events.
const LEASES_REMOVED_MAX: usize = 256;

/// Every Ethernet address lies between these.
const MACS: (MacAddress, MacAddress) = (MacAddress::new([0; 6]), MacAddress::new([0xFF; 6]));

/// The result of events.
#[derive(Debug, Default)]
pub struct Led {
    /// The changes that they make.
    pub changes: Vec<ConfigChange>,
    /// Ethernet addresses that machines were taught by it.
    pub learnt: Vec<(Serial, MacAddress)>,
    /// How many of them were of a rack that the agent does not serve, by rack: they change nothing.
    pub refused: BTreeMap<u32, usize>,
    /// The others.
    pub served: Vec<Event>,
}

/// The result of `events` of `agent`, whose times are [those of the master](EventTimes). Without events
/// it is nothing, and the call is cheap.
pub fn observed(config: &Config, agent: &NodeName, events: &[Event], now: Timestamp) -> Led {
    let mut observed = Led::default();
    let served = config.nodes.get(agent).and_then(|node| node.rack);
    let mut taken = Vec::with_capacity(events.len());
    for event in events {
        let rack = event.observation.rack();
        if served == Some(rack) {
            taken.push(event);
        } else {
            *observed.refused.entry(rack).or_default() += 1;
        }
    }
    let Some(rack) = served.filter(|_| !taken.is_empty()) else { return observed };
    let mut fold = Fold::new(config, agent, rack, &taken);
    for event in &taken {
        fold.event(event);
    }
    fold.remove_ended(now);
    observed.learnt = std::mem::take(&mut fold.learnt);
    observed.changes = fold.changes();
    observed.served = taken.into_iter().cloned().collect();
    observed
}

/// The changes that words of a ramdisk make which the master heard itself.
pub fn heard(config: &Config, at: Timestamp, observation: Observation) -> Vec<ConfigChange> {
    let event = Event { number: 0, at, observation };
    let mut fold = Fold::new(config, &config.role.master, event.observation.rack(), &[&event]);
    fold.event(&event);
    fold.changes()
}

/// The state after some events, as far as it may differ from the configuration.
struct Fold<'a> {
    config: &'a Config,
    agent: &'a NodeName,
    rack: u32,
    /// Leases by client; nothing where one is over.
    leases: BTreeMap<MacAddress, Option<Lease>>,
    /// The holders of the addresses that the events are about.
    holders: BTreeSet<(Ipv4Addr, MacAddress)>,
    /// The owners of the Ethernet addresses that the events are about.
    owners: BTreeMap<MacAddress, Serial>,
    machines: BTreeMap<Serial, Machine>,
    boots: BTreeMap<Serial, Boot>,
    lives: Lives<'a>,
    learnt: Vec<(Serial, MacAddress)>,
}

impl<'a> Fold<'a> {
    fn new(config: &'a Config, agent: &'a NodeName, rack: u32, events: &[&Event]) -> Self {
        let observations = || events.iter().map(|event| &event.observation);
        let macs: BTreeSet<MacAddress> = observations().filter_map(Observation::mac).collect();
        let addresses: BTreeSet<Ipv4Addr> = observations().filter_map(leased_address).collect();
        let told = addresses.iter().flat_map(|ip| config.leases.by.address.of((rack, *ip)));
        let holders = told.map(|lease| (lease.address, lease.mac)).collect();
        let owner = |mac| Some((mac, config.machine_of(mac)?.serial.clone()));
        Self {
            config,
            agent,
            rack,
            leases: BTreeMap::new(),
            holders,
            owners: macs.into_iter().filter_map(owner).collect(),
            machines: BTreeMap::new(),
            boots: BTreeMap::new(),
            lives: Lives::new(config),
            learnt: Vec::new(),
        }
    }

    fn event(&mut self, event: &Event) {
        match &event.observation {
            Observation::Lease(lease) => self.leased(event.at, lease),
            Observation::Boot { .. } => self.boot_seen(event),
            Observation::Ramdisk { serial, registered, cycle, heard, .. } => {
                let of = Of { serial, registered: *registered, cycle: *cycle };
                let Some(machine) = self.lives.speaker(of) else { return };
                let state = self.machines.get(serial).map_or(machine.life.state, |m| m.life.state);
                let seen = self.lives.ramdisk((serial, state), heard);
                self.lived(of, seen, event.at);
            }
            Observation::Inspected { serial, registered, cycle, inventory, error, .. } => {
                let of = Of { serial, registered: *registered, cycle: *cycle };
                let Some(machine) = self.lives.speaker(of) else { return };
                let seen = self.lives.inspected((serial, event.at), inventory, error.as_deref());
                let state = self.machines.get(serial).map_or(machine.life.state, |m| m.life.state);
                let seen = Some(seen).filter(|_| state == State::InspectWait);
                self.lived(of, seen, event.at);
            }
            Observation::Unknown { .. } => {}
        }
    }

    /// A machine reached a stage of its boot, or gave a sign of life.
    fn boot_seen(&mut self, event: &Event) {
        let Observation::Boot {
            serial,
            address,
            mac,
            stage,
            registered,
            cycle,
            earlier,
            fetched,
            every,
            cycle_guessed,
            ..
        } = &event.observation
        else {
            return;
        };
        let Some(machine) = self.config.machines.get(serial) else { return };
        if registered.is_some_and(|at| at != machine.register_date) {
            return;
        }
        if let Some(mac) = mac {
            self.learn(serial, *mac);
        }
        let of = Of { serial, registered: *registered, cycle: *cycle };
        let system = |seen: &StageSeen| seen.stage == BootStage::System && seen.cycle == *cycle;
        if *stage == BootStage::System || earlier.iter().any(system) {
            let is_known = !cycle_guessed
                || has_fetched(earlier, *cycle)
                || self.boot(serial).is_some_and(|boot| has_fetched(&boot.stages, *cycle));
            self.system_called(of, is_known, event.at);
        }
        let agent = self.agent.to_string();
        let last = StageSeen {
            stage: *stage,
            at: event.at,
            agent: String::new(),
            fetched: fetched.clone(),
            cycle: *cycle,
        };
        let mut timeline = self.timeline(serial);
        let by_agent = |seen: &StageSeen| StageSeen { agent: agent.clone(), ..seen.clone() };
        earlier.iter().for_each(|seen| timeline.see(by_agent(seen)));
        let was_known = timeline.is_sign(&last);
        timeline.see(by_agent(&last));
        let every = every.or_else(|| {
            // The first sign of a boot: whether others follow is not known of what boots now.
            let begins = *stage == BootStage::System && !was_known;
            self.boot(serial).and_then(|boot| boot.every).filter(|_| !begins)
        });
        let Timeline { now: stages, before } = timeline;
        let boot = Boot {
            stage: stages.last().map_or(*stage, |seen| seen.stage),
            address: *address,
            mac: *mac,
            agent,
            seen: event.at,
            stages,
            before,
            every,
        };
        self.boots.insert(serial.clone(), boot);
    }

    /// A system says that it runs. A job that waits for a new boot needs a message of its power cycle:
    /// until somebody switches the power, the old system says the same.
    fn system_called(&mut self, of: Of<'_>, is_of_cycle: bool, at: Timestamp) {
        let Some(machine) = self.lives.speaker(of) else { return };
        let state = self.machines.get(of.serial).map_or(machine.life.state, |m| m.life.state);
        if !is_of_cycle && matches!(state.phase(), Phase::Runs { .. }) {
            return;
        }
        self.lived(of, Some((life::system_called(state), String::new())), at);
    }

    /// Moves a machine by what was seen of it.
    fn lived(&mut self, of: Of<'_>, seen: Option<(Observed, String)>, at: Timestamp) {
        let (Some(machine), Some((seen, why))) = (self.lives.speaker(of), seen) else { return };
        let machine = self.machines.get(of.serial).unwrap_or(machine);
        if let Some(after) = life::after(machine, (seen, &why), at) {
            self.machines.insert(of.serial.clone(), after);
        }
    }

    fn boot(&self, serial: &Serial) -> Option<&Boot> {
        let before = || self.config.boots.get(serial).map(|last| &last.boot);
        self.boots.get(serial).or_else(before)
    }

    fn timeline(&self, serial: &Serial) -> Timeline {
        let boot = self.boot(serial);
        boot.map_or_else(Timeline::default, |boot| Timeline {
            now: boot.stages.clone(),
            before: boot.before.clone(),
        })
    }

    /// The agent is the authority: nobody else has the address, and the client has no other.
    fn leased(&mut self, at: Timestamp, lease: &Lease) {
        let of_address = (lease.address, MACS.0)..=(lease.address, MACS.1);
        let holders: Vec<_> = self.holders.range(of_address).copied().collect();
        for holder in holders {
            self.holders.remove(&holder);
            self.leases.insert(holder.1, None);
        }
        if let Some(address) = self.lease(lease.mac).map(|before| before.address) {
            self.holders.remove(&(address, lease.mac));
        }
        let held = lease.state != LeaseState::Released;
        if held {
            self.holders.insert((lease.address, lease.mac));
        }
        self.leases.insert(lease.mac, held.then(|| lease.clone()));
        // Whatever became of the lease, the machine was seen: an outbox may tell of its end alone.
        if let Some(serial) = self.owners.get(&lease.mac).cloned() {
            let registered = self.config.machines.get(&serial).map(|machine| machine.register_date);
            // It may have been seen of a machine that had the serial number before.
            if registered.is_some_and(|registered| at < registered) {
                return;
            }
            // A renewal is no new boot: the stage stays, and only the sight is newer.
            let same = |boot: &&Boot| boot.mac == Some(lease.mac) || !boot.stages.is_empty();
            let known = self.boot(&serial).filter(same);
            let stage = known.map_or(BootStage::Lease, |boot| boot.stage);
            let every = self.boot(&serial).and_then(|boot| boot.every);
            let Timeline { now: stages, before } = self.timeline(&serial);
            let boot = Boot {
                stage,
                address: lease.address,
                mac: Some(lease.mac),
                agent: self.agent.to_string(),
                seen: at,
                stages,
                before,
                every,
            };
            self.boots.insert(serial, boot);
        }
    }

    fn lease(&self, mac: MacAddress) -> Option<&Lease> {
        let key = LeaseKey { rack: self.rack, mac };
        let before = || self.config.leases.get(&key).map(AsRef::as_ref);
        self.leases.get(&mac).map_or_else(before, Option::as_ref)
    }

    /// Teaches a machine an Ethernet address that it booted with, unless another machine has it. No boot
    /// extends the list that the operator gave.
    fn learn(&mut self, serial: &Serial, mac: MacAddress) {
        let Some(machine) = self.config.machines.get(serial) else { return };
        let taught = self.machines.get(serial).map_or(&machine.mac, |machine| &machine.mac);
        if self.owners.contains_key(&mac)
            || machine.mac_told
            || taught.len() >= MACS_PER_MACHINE_MAX
        {
            return;
        }
        let machine =
            self.machines.entry(serial.clone()).or_insert_with(|| machine.as_ref().clone());
        machine.mac.push(mac);
        self.learnt.push((serial.clone(), mac));
        self.owners.insert(mac, serial.clone());
    }

    /// Removes leases that ended long before `now`.
    fn remove_ended(&mut self, now: Timestamp) {
        let kept = Timestamp::from_micros(now.micros().saturating_sub(LEASE_GRACE_US));
        for lease in self.leases.values_mut() {
            *lease = lease.take().filter(|lease| lease.until >= kept);
        }
        let first = (self.rack, Timestamp::from_micros(i64::MIN));
        let old = self.config.leases.by.end.within(first..=(self.rack, kept));
        let old = old.map(|(_end, lease)| lease).filter(|lease| lease.until < kept);
        let old = old.map(|lease| lease.mac).filter(|mac| !self.leases.contains_key(mac));
        let old: Vec<MacAddress> = old.take(LEASES_REMOVED_MAX).collect();
        self.leases.extend(old.into_iter().map(|mac| (mac, None)));
    }

    fn changes(self) -> Vec<ConfigChange> {
        let Self { config, rack, leases, machines, boots, lives, .. } = self;
        let mut changes: Vec<_> = machines.into_values().map(ConfigChange::Machine).collect();
        changes.extend(lives.changes());
        for (mac, lease) in leases {
            let key = LeaseKey { rack, mac };
            let before = config.leases.get(&key).map(AsRef::as_ref);
            match lease {
                Some(lease) if before != Some(&lease) => changes.push(ConfigChange::Lease(lease)),
                None if before.is_some() => changes.push(ConfigChange::LeaseRemoved(key)),
                Some(_) | None => {}
            }
        }
        let changed = |(serial, boot): &(Serial, Boot)| {
            config.boots.get(serial).map(|last| &last.boot) != Some(boot)
        };
        let boots = boots.into_iter().filter(changed);
        let boots = boots.map(|(serial, boot)| LastBoot { serial, boot });
        changes.extend(boots.map(ConfigChange::Boot));
        changes
    }
}

fn leased_address(observation: &Observation) -> Option<Ipv4Addr> {
    match observation {
        Observation::Lease(lease) => Some(lease.address),
        Observation::Boot { .. }
        | Observation::Ramdisk { .. }
        | Observation::Inspected { .. }
        | Observation::Unknown { .. } => None,
    }
}

#[cfg(test)]
mod tests;
