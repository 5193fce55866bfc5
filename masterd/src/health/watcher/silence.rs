//! Core: machines in service that gave signs of life, and give none any more.
//!
//! - Only a machine whose system repeats its sign is listened for.
//! - A sign counts for the power cycle and the registration that it belongs to.
//! - An agent that hears nothing may be deaf. Nothing is said of the machines of an agent that is away,
//!   and its silence counts from its return. Many machines that fall silent together are not unreachable
//!   by that.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use model::machine::life::State;
use model::machine::{Boot, BootStage, Machine};
use model::{NodeName, Serial, Timestamp};

use super::machines::Stay;
use crate::agents::liveness::LastSign;
use crate::config::Config;
use crate::health::alarm::{Alarm, Subject};

/// Machines that may fall silent together and be called unreachable: fewer than a rack has. More of them
/// have something in common.
pub const SILENT_TOGETHER_MAX: usize = 10;
/// The same of one agent's machines, where they are most of those that it hears.
pub const SILENT_OF_AGENT_MAX: usize = 2;
/// Signs that may be lost: a machine that gives one each ten minutes is not silent after five.
const SIGNS_LOST: u64 = 3;

/// The consequences of silence and of its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// Machines that are unreachable by now, or that are there again, with their last sign.
    pub moves: Vec<(Stay, Timestamp)>,
    /// Agents many of whose machines are silent at the same time.
    pub held: Vec<Held>,
}

/// An agent many of whose machines are silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub agent: NodeName,
    /// How many of them are silent.
    pub silent: usize,
    /// How many are listened for.
    pub of: usize,
    /// The last sign of any of the silent ones.
    pub since: Timestamp,
}

/// The known signs of life.
#[derive(Debug, Clone, Copy)]
pub struct Ears<'a> {
    /// The last sign of each machine.
    pub signs: &'a HashMap<Serial, LastSign>,
    /// The time on the clock of the signs.
    pub elapsed: Duration,
    /// For how many seconds this watcher has been at work.
    pub at: u64,
    /// The time of day.
    pub now: Timestamp,
}

/// A machine that is listened for.
struct Listened {
    stay: Stay,
    quiet: u64,
    limit: u64,
    last: Timestamp,
}

/// The silence of this moment; `reached` tells for how many seconds an agent has been reached, and
/// nothing of one that is not, or that has an old document of its rack.
pub fn find(
    config: &Config,
    ears: Ears<'_>,
    reached: impl Fn(&NodeName) -> Option<u64>,
) -> Silence {
    let mut silence = Silence::default();
    let mut of_agent: BTreeMap<NodeName, Vec<Listened>> = BTreeMap::new();
    for machine in config.machines.values() {
        if machine.life.silent_since.is_some() {
            silence.moves.extend(came_back(config, ears, machine));
        } else if let Some((agent, listened)) = listened(config, ears, machine) {
            let hears = reached(&agent).map(|reached| reached.min(ears.at));
            if let Some(hears) = hears {
                let quiet = listened.quiet.min(hears);
                of_agent.entry(agent).or_default().push(Listened { quiet, ..listened });
            }
        }
    }
    // Half the time is enough to see that others fall silent, too.
    let is_quiet = |machine: &&Listened| machine.quiet >= machine.limit / 2;
    let quiet: usize = of_agent.values().map(|all| all.iter().filter(is_quiet).count()).sum();
    for (agent, all) in of_agent {
        let (of, silent) = (all.len(), all.iter().filter(is_quiet).count());
        let together = silent > SILENT_OF_AGENT_MAX && 2 * silent > of;
        if silent > 0 && (together || quiet > SILENT_TOGETHER_MAX) {
            let last = all.iter().filter(is_quiet).map(|machine| machine.last).max();
            let since = last.unwrap_or(ears.now);
            silence.held.push(Held { agent, silent, of, since });
        } else {
            let late = all.into_iter().filter(|machine| machine.quiet >= machine.limit);
            silence.moves.extend(late.map(|machine| (machine.stay, machine.last)));
        }
    }
    silence
}

/// The sign of the machine as it is now.
fn sign<'a>(config: &Config, ears: Ears<'a>, machine: &Machine) -> Option<&'a LastSign> {
    let cycle = config.power_cycles.get(&machine.serial).map_or(0, |cycle| cycle.number);
    let is_its_own =
        |sign: &&LastSign| sign.registered.is_none_or(|at| at == machine.register_date);
    ears.signs.get(&machine.serial).filter(|sign| sign.cycle == cycle).filter(is_its_own)
}

fn stay(machine: &Machine) -> Stay {
    (machine.serial.clone(), machine.life.state, machine.state_since())
}

/// A machine that was unreachable by its silence, and gave a sign since.
fn came_back(config: &Config, ears: Ears<'_>, machine: &Machine) -> Option<(Stay, Timestamp)> {
    let sign = sign(config, ears, machine)?;
    (sign.at > machine.state_since()).then(|| (stay(machine), sign.at))
}

/// For how long a machine has been silent, and who listens.
fn listened(config: &Config, ears: Ears<'_>, machine: &Machine) -> Option<(NodeName, Listened)> {
    let is_in_service = matches!(machine.life.state, State::Healthy | State::Unhealthy);
    if !is_in_service || machine.maintenance.is_some() || config.cluster.silence_deadline == 0 {
        return None;
    }
    let boot = &config.boots.get(&machine.serial)?.boot;
    let repeats = boot.every?;
    let sign = sign(config, ears, machine);
    let agent = sign.map_or_else(|| boot.agent.parse().ok(), |sign| Some(sign.agent.clone()))?;
    let every = sign.and_then(|sign| sign.every).map_or(repeats, |every| every.max(repeats));
    let mut limit = u64::from(config.cluster.silence_deadline);
    limit = limit.max(SIGNS_LOST.saturating_mul(every.into()));
    let began = began(config, machine, boot);
    if began.is_some() {
        limit = limit.max(State::Rebooting.deadline().map_or(0, i64::unsigned_abs));
    }
    // Nobody knows how long ago an older one was; who listens has its own beginning.
    let by_sign = sign.map(|sign| ears.elapsed.saturating_sub(sign.heard).as_secs());
    let by_boot = began.and_then(|began| {
        u64::try_from(ears.now.micros().saturating_sub(began.micros()))
            .ok()
            .map(|us| us / 1_000_000)
    });
    let quiet = by_sign.into_iter().chain(by_boot).min().unwrap_or(u64::MAX);
    let told = boot.stages.last().map_or(boot.seen, |seen| seen.at);
    let last = sign.map(|sign| sign.at).into_iter().chain(began).max().unwrap_or(told);
    Some((agent, Listened { stay: stay(machine), quiet, limit, last }))
}

/// When its boot came on last, if that is under way: its system has not called in it.
fn began(config: &Config, machine: &Machine, boot: &Boot) -> Option<Timestamp> {
    let cycle = config.power_cycles.get(&machine.serial);
    let last = boot.stages.last().filter(|seen| seen.cycle == cycle.map_or(0, |c| c.number));
    match last {
        Some(seen) if seen.stage == BootStage::System => None,
        Some(seen) => Some(seen.at),
        None => cycle.map(|cycle| cycle.began),
    }
}

impl Held {
    /// The alarm about it.
    pub fn alarm(&self) -> Alarm {
        let Self { agent, silent, of, since } = self;
        Alarm {
            what: Subject::SilentMachines(agent.clone()),
            since: *since,
            text: format!(
                "{silent} of {of} machines that its agent hears are silent at the same time; that alone                  makes none of them unreachable"
            ),
            todo: format!(
                "see what they have in common, first their network and the agent on {agent}; `gnt machine                  set-state SERIAL unreachable` where a machine is really gone"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
