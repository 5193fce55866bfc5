//! Core: what the watcher makes of what it sees (docs/failover.md): jobs to submit, jobs to archive, and
//! alarms.
//!
//! - A pool of candidates that is too small or too large for a while changes by one step, which its
//!   policy names ([`next_step`]). The next step follows when that job has ended.
//! - An agent that does not hold the document of its rack for longer than the exchange with it takes
//!   to see to that gets a push.
//! - A host that drifted from its network for a while gets it again, where the cluster is to mend that.
//! - A machine that does something for longer than it may gets a job that ends it; so does one in service
//!   that fell silent ([`super::silence`]).
//! - A machine that a job switched off, and ended before it switched it on, is switched on.
//! - A job that ended long ago is archived.
//! - A state that should pass and does not within its deadline is an alarm ([`super::alarms`]).
//!
//! Times are counted on a clock that does not jump, and begin anew with each leadership.

use std::collections::{BTreeMap, BTreeSet};

use model::bmc::PowerAction;
use model::machine::life::State;
use model::node::NodeRole;
use model::opcode::{
    MachineExpire, MachinePower, NodeNetworkApply, NodeSetParams, OpCode, RackPush,
};
use model::{NodeName, Serial, Timestamp};

use super::alarms::States;
use super::alarms::agents::Agent;
use super::machines::{Machines, Stay};
use super::silence::Silence;
use crate::agents::master_address::Missing;
use crate::health::alarm::{Alarm, BEHIND_DEADLINE, OVERDUE_GRACE};
use crate::role::replica_audit::Differ;
use membership::pool::{Pool, Step, next_step};

/// Jobs that one round submits: what is left waits for the next one, and operators' jobs do not wait
/// behind a crowd.
pub const JOBS_PER_ROUND_MAX: usize = 5;
/// Seconds for which the pool must have been too small or too large: an operator who changes several
/// nodes, one after the other, is not interrupted.
pub const POOL_GRACE: u64 = 10;
/// Seconds for which a host's network must have differed: who changes it by hand, and tells Gantry then,
/// is not interrupted.
pub const DRIFT_GRACE: u64 = 30;
/// Age in seconds from which on ended jobs are archived (that of Ganeti's watcher).
pub const ARCHIVE_AGE: i64 = 6 * 3_600;
/// Seconds between two archivings (between two runs of Ganeti's watcher).
pub const ARCHIVE_EVERY: u64 = 300;
/// Seconds between two equal jobs, doubled with each further one.
pub const FIRST_PAUSE: u64 = 60;
/// Longest time between two equal jobs, in seconds.
pub const LONGEST_PAUSE: u64 = 3_600;

/// The task of one of the watcher's jobs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Make a node a candidate.
    Promote(NodeName),
    /// Make a candidate a regular node.
    Demote(NodeName),
    /// Send the document of a rack.
    Push(u32),
    /// Apply the network of a node's host again.
    Mend(NodeName),
    /// End what a machine does beyond its deadline.
    Expire(Stay),
    /// Switch a machine on that a job left off.
    SwitchOn(Serial),
    /// Make a machine unreachable whose last sign of life was then; or healthy, if it was that.
    Hear(Stay, Timestamp),
}

impl Task {
    /// The opcode that does it.
    pub fn opcode(&self) -> OpCode {
        let role = |node: &NodeName, candidate| {
            // An operator may be faster, and mean it otherwise.
            let before = if candidate { NodeRole::Regular } else { NodeRole::Candidate };
            OpCode::NodeSetParams(NodeSetParams {
                master_candidate: Some(candidate),
                expected_role: Some(before),
                ..NodeSetParams::unchanged(node.as_str())
            })
        };
        match self {
            Self::Promote(node) => role(node, true),
            Self::Demote(node) => role(node, false),
            Self::Push(rack) => OpCode::RackPush(RackPush { racks: vec![*rack] }),
            Self::Mend(node) => OpCode::NodeNetworkApply(NodeNetworkApply::again(node.as_str())),
            Self::Expire(stay) => expire(stay, None),
            Self::Hear(stay, last) => expire(stay, Some(*last)),
            Self::SwitchOn(serial) => OpCode::MachinePower(MachinePower {
                serial: serial.to_string(),
                action: Some(PowerAction::On),
                boot_once: None,
            }),
        }
    }

    /// The task of an opcode, if the watcher submits such opcodes.
    pub fn of(opcode: &OpCode) -> Option<Self> {
        match opcode {
            OpCode::NodeSetParams(op) => {
                let node = op.node_name.parse().ok()?;
                Some(if op.master_candidate? { Self::Promote(node) } else { Self::Demote(node) })
            }
            OpCode::RackPush(op) => op.racks.first().map(|rack| Self::Push(*rack)),
            OpCode::NodeNetworkApply(op) if op.again => op.node_name.parse().ok().map(Self::Mend),
            OpCode::MachineExpire(op) => {
                let stay = (op.serial.parse().ok()?, op.state, op.since);
                Some(op.last_sign.map_or(Self::Expire(stay.clone()), |last| Self::Hear(stay, last)))
            }
            OpCode::MachinePower(op) => op.serial.parse().ok().map(Self::SwitchOn),
            _ => None,
        }
    }

    /// Why, for the job's reasons.
    pub fn why(&self) -> String {
        match self {
            Self::Promote(_) => "there are too few master candidates".to_owned(),
            Self::Demote(_) => "there are more master candidates than are wanted".to_owned(),
            Self::Push(rack) => format!("an agent of rack {rack} does not hold its document"),
            Self::Mend(node) => format!("the network of {node} differs from what was applied"),
            Self::Hear((serial, State::Unreachable, _), last) => {
                format!("machine {serial} gave a sign of life at {last}")
            }
            Self::Hear((serial, ..), last) => {
                format!("machine {serial} gave no sign of life since {last}")
            }
            Self::Expire((serial, state, _)) => {
                format!("machine {serial} is {state} beyond its deadline, or no job prepares it")
            }
            Self::SwitchOn(serial) => {
                format!("a job that ended switched machine {serial} off, and not on again")
            }
        }
    }

    fn is_of_pool(&self) -> bool {
        matches!(self, Self::Promote(_) | Self::Demote(_))
    }
}

fn expire((serial, state, since): &Stay, last_sign: Option<Timestamp>) -> OpCode {
    let (serial, state, since) = (serial.to_string(), *state, *since);
    OpCode::MachineExpire(MachineExpire { serial, state, since, last_sign })
}

/// All that the watcher looks at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The time of day.
    pub now: Timestamp,
    /// Seconds since the watcher began.
    pub at: u64,
    /// Until when it is asked to do nothing.
    pub paused_until: Option<Timestamp>,
    /// Whether the queue takes no jobs.
    pub drained: bool,
    /// The candidates and who could be one.
    pub pool: Pool,
    /// The agents of all nodes.
    pub agents: Vec<Agent>,
    /// The master's node.
    pub master: NodeName,
    /// Since when that has not had the master's address, and why not.
    pub address_missing: Option<(Timestamp, Missing)>,
    /// Whether a candidate is to take the role by itself.
    pub auto_failover: bool,
    /// Whether hosts get their networks again where they drifted from them.
    pub mend_network: bool,
    /// Candidates that hold something else than the master.
    pub copies: Option<Differ>,
    /// Racks whose machines nobody serves, and why.
    pub unserved: Vec<(u32, String)>,
    /// Machines that are late or failed.
    pub machines: Machines,
    /// Machines in service that fell silent, or came back.
    pub silence: Silence,
    /// Alarms about switches, their ports, and instances.
    pub objects: Vec<Alarm>,
    /// Somebody guesses passwords.
    pub guesses: Option<Alarm>,
    /// Jobs that have ended and are not archived.
    pub ended: u64,
    /// The tasks of its own jobs that have not ended.
    pub live: BTreeSet<Task>,
}

/// The consequences of one look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Jobs to submit.
    pub jobs: Vec<Task>,
    /// Jobs that ended before this moment are to be archived.
    pub archive_before: Option<Timestamp>,
    /// Alarms that were none before.
    pub raised: Vec<Alarm>,
    /// Alarms that are over.
    pub cleared: Vec<Alarm>,
}

/// The memory of the watcher between two looks.
#[derive(Debug, Default)]
pub struct Watch {
    /// Since when the pool has had the wrong size.
    pool_wrong: Option<u64>,
    /// Since when agents have not held their documents.
    behind: BTreeMap<NodeName, u64>,
    /// Since when hosts have had another network.
    drifted: BTreeMap<NodeName, u64>,
    /// The tasks that were submitted: when they may be again, and how often they were.
    tried: BTreeMap<Task, (u64, u32)>,
    /// When jobs were archived last.
    archived: Option<u64>,
    /// The states that are an alarm, or could become one.
    pub(super) states: States,
}

impl Watch {
    /// The consequences of `seen`. It takes for granted that the jobs are submitted: a refused one is
    /// tried again after its pause.
    pub fn round(&mut self, seen: &Seen) -> Round {
        let (raised, cleared) = self.states.see(seen);
        let is_paused = seen.paused_until.is_some_and(|until| until > seen.now);
        self.tried.retain(|_, (next, _)| seen.at < next.saturating_add(LONGEST_PAUSE));
        let step = self.pool_step(seen);
        let mut jobs: Vec<Task> = step.into_iter().chain(self.pushes(seen)).collect();
        jobs.extend(self.mendings(seen));
        jobs.extend(self.endings(seen));
        if is_paused || seen.drained {
            jobs.clear();
        }
        jobs.truncate(JOBS_PER_ROUND_MAX);
        for task in &jobs {
            let times = self.tried.get(task).map_or(0, |(_, times)| *times);
            let pause = FIRST_PAUSE.saturating_mul(2_u64.saturating_pow(times)).min(LONGEST_PAUSE);
            self.tried.insert(task.clone(), (seen.at + pause, times.saturating_add(1)));
        }
        let archive_before = if is_paused { None } else { self.archiving(seen) };
        Round { jobs, archive_before, raised, cleared }
    }

    /// Whether a job would repeat one that has not ended, or was tried a short time ago.
    fn has_to_wait(&self, task: &Task, seen: &Seen) -> bool {
        let is_early = self.tried.get(task).is_some_and(|(next, _)| seen.at < *next);
        is_early || seen.live.contains(task)
    }

    /// The one job that brings the pool nearer to its size.
    fn pool_step(&mut self, seen: &Seen) -> Option<Task> {
        let Some(task) = self.next_of_pool(seen) else {
            self.pool_wrong = None;
            return None;
        };
        let since = *self.pool_wrong.get_or_insert(seen.at);
        let is_live = seen.live.iter().any(Task::is_of_pool);
        let has_to_wait = is_live || seen.at < since + POOL_GRACE;
        task.filter(|_| !has_to_wait)
    }

    /// The step of the pool that need not wait. It is none if the pool is as it should be, or can be; it
    /// is empty if every such step was tried a short time ago.
    fn next_of_pool(&self, seen: &Seen) -> Option<Option<Task>> {
        let mut pool = seen.pool.clone();
        let name = |id| seen.agents.iter().find(|agent| agent.id == id).map(|a| a.node.clone());
        let mut is_wrong = false;
        loop {
            let (id, task) = match next_step(&pool) {
                Some(Step::Promote(id)) => (id, Task::Promote(name(id)?)),
                Some(Step::Demote(id)) => (id, Task::Demote(name(id)?)),
                _ => return is_wrong.then_some(None),
            };
            if !self.has_to_wait(&task, seen) {
                return Some(Some(task));
            }
            is_wrong = true;
            // A node that it does not work with is passed over, for this time.
            let node = pool.nodes.iter_mut().find(|node| node.id == id)?;
            match task {
                Task::Promote(_) => node.reachable = false,
                _ => return Some(None),
            }
        }
    }

    /// Racks of which an agent has not held the document for too long.
    fn pushes(&mut self, seen: &Seen) -> Vec<Task> {
        let is_behind = |agent: &&Agent| agent.called && agent.behind && agent.unreached.is_none();
        let behind: Vec<&Agent> = seen.agents.iter().filter(is_behind).collect();
        let before = std::mem::take(&mut self.behind);
        let since = |agent: &Agent| before.get(&agent.node).copied().unwrap_or(seen.at);
        self.behind = behind.iter().map(|a| (a.node.clone(), since(a))).collect();
        let late = |agent: &&&Agent| seen.at >= self.behind[&agent.node] + BEHIND_DEADLINE;
        let racks: BTreeSet<u32> = behind.iter().filter(late).filter_map(|a| a.rack).collect();
        racks.into_iter().map(Task::Push).filter(|task| !self.has_to_wait(task, seen)).collect()
    }

    /// Hosts whose network has differed for too long, where they are to be mended.
    fn mendings(&mut self, seen: &Seen) -> Vec<Task> {
        let is_drifted = |agent: &&Agent| {
            agent.called && agent.unreached.is_none() && !agent.network_drift.is_empty()
        };
        let before = std::mem::take(&mut self.drifted);
        let since = |agent: &Agent| before.get(&agent.node).copied().unwrap_or(seen.at);
        let drifted = seen.agents.iter().filter(is_drifted);
        self.drifted = drifted.map(|agent| (agent.node.clone(), since(agent))).collect();
        let late = self.drifted.iter().filter(|(_, since)| seen.at >= *since + DRIFT_GRACE);
        let tasks = late.map(|(node, _)| Task::Mend(node.clone()));
        tasks.filter(|task| seen.mend_network && !self.has_to_wait(task, seen)).collect()
    }

    /// Machines whose time is over, once they had the time to call this master.
    fn endings(&self, seen: &Seen) -> Vec<Task> {
        let late = seen.machines.ended.iter().filter(|_| seen.at >= OVERDUE_GRACE);
        // Nothing calls of those that are not prepared.
        let all: BTreeSet<&Stay> = seen.machines.left.iter().chain(late).collect();
        let off = seen.machines.off.iter().cloned().map(Task::SwitchOn);
        let heard = seen.silence.moves.iter().cloned();
        let heard = heard.map(|(stay, last)| Task::Hear(stay, last));
        let tasks = all.into_iter().cloned().map(Task::Expire).chain(off).chain(heard);
        tasks.filter(|task| !self.has_to_wait(task, seen)).collect()
    }

    fn archiving(&mut self, seen: &Seen) -> Option<Timestamp> {
        // Not at once: a master that has just begun has others to serve.
        let last = *self.archived.get_or_insert(seen.at);
        if seen.at < last + ARCHIVE_EVERY {
            return None;
        }
        self.archived = Some(seen.at);
        (seen.ended > 0).then(|| seen.now.plus_seconds(-ARCHIVE_AGE))
    }
}

#[cfg(test)]
mod tests;
