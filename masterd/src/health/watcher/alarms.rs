//! Core: what should pass by itself and does not: each such state is an alarm from its deadline until
//! it has passed.

use std::collections::BTreeMap;
use std::fmt;

use model::node::NodeRole;
use model::node::role::Gap;
use model::rack_fault::RackCause;
use model::{NodeName, Serial, Timestamp};

use super::machines::{OVERDUE_GRACE, Trouble};
use super::rules::{BEHIND_DEADLINE, Seen};
use super::silence::Held;
use crate::agents::master_address::Missing;
use crate::role::replica_audit::Differ;
use membership::pool::{Pool, PoolNode, Step, VOTERS_MIN, if_lost, next_step};

pub mod agents;

use agents::AgentsSeen;

/// Seconds for which a pool may lack a candidate that nobody can become.
pub const POOL_DEADLINE: u64 = 60;
/// Seconds for which there may be fewer copies and voters than the nodes allow: time to get some.
pub const REDUNDANCY_DEADLINE: u64 = 60;
/// Seconds for which an agent may be silent: a restart of noded takes less, that of a machine is
/// worth a look.
pub const UNREACHED_DEADLINE: u64 = 60;

/// Seconds for which an agent that answers may have another list of callers: it is told at once, and
/// a few times more within them.
pub const CALLERS_DEADLINE: u64 = 60;
/// Seconds for which a rack may be unserved: a restart of its agent takes less.
pub const UNSERVED_DEADLINE: u64 = 60;
/// Seconds for which a host's network may differ from what was applied: a link that comes up takes less.
pub const DRIFT_DEADLINE: u64 = 60;
/// Seconds for which the master's node may lack the master's address: time for some attempts to take
/// it.
pub const ADDRESS_DEADLINE: u64 = 10;

/// The subject of an alarm.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The pool of candidates.
    Pool,
    /// Voters and copies beside the master.
    Redundancy,
    /// The agent of a node, which does not answer.
    Agent(NodeName),
    /// The rack document of a node's agent.
    Document(NodeName),
    /// The list of those who may call a node's agent.
    Callers(NodeName),
    /// The address that moves with the master.
    MasterAddress,
    /// What candidates hold.
    Copies,
    /// A rack that nobody serves.
    Rack(u32),
    /// A rack that the agent of a node cannot serve, for this reason.
    Serving(u32, NodeName, RackCause),
    /// The clock of a node.
    WrongClock(NodeName),
    /// The network of a node's host.
    Network(NodeName),
    /// A machine that is longer in its state than it may be.
    LateMachine(Serial),
    /// A machine that failed.
    FailedMachine(Serial),
    /// A machine that a job left off.
    MachineOff(Serial),
    /// A machine whose hardware changed.
    Hardware(Serial),
    /// A machine whose silence made it unreachable.
    SilentMachine(Serial),
    /// Machines of an agent that are silent at the same time.
    SilentMachines(NodeName),
    /// Passwords that somebody guesses.
    Guesses,
}

impl Subject {
    /// Every [`Subject::word`].
    pub const WORDS: [&str; 16] = [
        "agent",
        "callers",
        "clock-off",
        "copies",
        "document",
        "hardware-changed",
        "machine-failed",
        "machine-off",
        "machine-overdue",
        "machine-silent",
        "master-address",
        "network-drift",
        "pool",
        "rack-unserved",
        "redundancy",
        "wrong-passwords",
    ];

    /// The word in the metrics, which is the alarm's code.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Redundancy => "redundancy",
            Self::Agent(_) => "agent",
            Self::Document(_) => "document",
            Self::Callers(_) => "callers",
            Self::MasterAddress => "master-address",
            Self::Copies => "copies",
            Self::Rack(_) | Self::Serving(..) => "rack-unserved",
            Self::WrongClock(_) => "clock-off",
            Self::Network(_) => "network-drift",
            Self::LateMachine(_) => "machine-overdue",
            Self::FailedMachine(_) => "machine-failed",
            Self::MachineOff(_) => "machine-off",
            Self::Hardware(_) => "hardware-changed",
            Self::SilentMachine(_) | Self::SilentMachines(_) => "machine-silent",
            Self::Guesses => "wrong-passwords",
        }
    }

    /// Why a rack is not served, where the alarm is about that.
    #[must_use]
    pub const fn cause(&self) -> Option<RackCause> {
        match self {
            Self::Serving(_, _, cause) => Some(*cause),
            Self::Rack(_) => Some(RackCause::NoAgent),
            Self::Agent(_) => Some(RackCause::AgentSilent),
            Self::WrongClock(_) => Some(RackCause::ClockOff),
            Self::Document(_) => Some(RackCause::DocumentOld),
            _ => None,
        }
    }

    /// Seconds for which it may last. A document gets a push before it is an alarm; copies are never
    /// alike again by themselves.
    const fn deadline(&self) -> u64 {
        match self {
            Self::Pool => POOL_DEADLINE,
            Self::Redundancy => REDUNDANCY_DEADLINE,
            Self::Agent(_) | Self::WrongClock(_) => UNREACHED_DEADLINE,
            Self::Document(_) => BEHIND_DEADLINE + UNREACHED_DEADLINE,
            Self::Callers(_) => CALLERS_DEADLINE,
            Self::MasterAddress => ADDRESS_DEADLINE,
            Self::Copies
            | Self::FailedMachine(_)
            | Self::MachineOff(_)
            | Self::Hardware(_)
            | Self::SilentMachine(_)
            | Self::SilentMachines(_)
            | Self::Guesses => 0,
            Self::LateMachine(_) => OVERDUE_GRACE,
            Self::Rack(_) | Self::Serving(..) => UNSERVED_DEADLINE,
            Self::Network(_) => DRIFT_DEADLINE,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool => write!(f, "master candidates"),
            Self::Redundancy => write!(f, "redundancy"),
            Self::Agent(node) => write!(f, "agent of {node}"),
            Self::Document(node) => write!(f, "rack document of {node}"),
            Self::Callers(node) => write!(f, "callers of {node}"),
            Self::MasterAddress => write!(f, "master's address"),
            Self::Copies => write!(f, "copies of candidates"),
            Self::Rack(rack) => write!(f, "rack {rack}"),
            Self::Serving(rack, node, cause) => {
                write!(f, "rack {rack} at {node} ({})", cause.word())
            }
            Self::WrongClock(node) => write!(f, "clock of {node}"),
            Self::Network(node) => write!(f, "network of {node}"),
            Self::LateMachine(serial) => write!(f, "machine {serial}"),
            Self::FailedMachine(serial) => write!(f, "failed machine {serial}"),
            Self::MachineOff(serial) => write!(f, "machine {serial} left off"),
            Self::Hardware(serial) => write!(f, "hardware of machine {serial}"),
            Self::SilentMachine(serial) => write!(f, "silent machine {serial}"),
            Self::SilentMachines(agent) => write!(f, "machines at {agent}"),
            Self::Guesses => write!(f, "front door"),
        }
    }
}

/// Something that should have passed by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its subject; there is at most one alarm on each.
    pub what: Subject,
    /// Since when it is so.
    pub since: Timestamp,
    /// The fault.
    pub text: String,
    /// The remedy for the operator.
    pub todo: String,
}

/// A state that is or could become an alarm.
#[derive(Debug)]
struct State {
    /// When it was seen first, in seconds since the watcher began.
    seen: u64,
    is_told: bool,
    alarm: Alarm,
}

/// All such states.
#[derive(Debug, Default)]
pub struct States(BTreeMap<Subject, State>);

impl States {
    /// Notes what is to be seen; gives the alarms that begin and those that are over.
    pub fn see(&mut self, seen: &Seen) -> (Vec<Alarm>, Vec<Alarm>) {
        let mut before = std::mem::take(&mut self.0);
        let mut raised = Vec::new();
        for alarm in found(seen) {
            let what = alarm.what.clone();
            let mut state = match before.remove(&what) {
                // The newest reason counts, and the time when it began.
                Some(state) => {
                    let since = state.alarm.since;
                    State { alarm: Alarm { since, ..alarm }, ..state }
                }
                None => State { seen: seen.at, is_told: false, alarm },
            };
            if !state.is_told && seen.at >= state.seen.saturating_add(what.deadline()) {
                state.is_told = true;
                raised.push(state.alarm.clone());
            }
            self.0.insert(what, state);
        }
        let over = before.into_values().filter(|state| state.is_told);
        (raised, over.map(|state| state.alarm).collect())
    }

    /// The alarms that are on now.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        let told = self.0.values().filter(|state| state.is_told);
        told.map(|state| state.alarm.clone()).collect()
    }
}

/// The states that should pass.
fn found(seen: &Seen) -> Vec<Alarm> {
    let agents = AgentsSeen {
        now: seen.now,
        master: &seen.master,
        agents: &seen.agents,
        unserved: &seen.unserved,
    };
    let whole = [pool(seen), redundancy(seen), address(seen), copies(seen)].into_iter().flatten();
    let machines = seen.machines.told.iter().map(Trouble::alarm);
    let machines = machines.chain(seen.machines.left_off.iter().cloned());
    let machines = machines.chain(seen.machines.hardware.iter().cloned());
    let machines = machines.chain(seen.silence.held.iter().map(Held::alarm));
    let mut found = agents::of_racks(&agents);
    found.extend(agents::behind(&agents));
    found.extend(agents::callers(&agents));
    found.extend(agents::drifted(&agents));
    found.extend(whole.chain(machines).chain(seen.guesses.clone()));
    found
}

/// The master's address that its node lacks.
fn address(seen: &Seen) -> Option<Alarm> {
    let (since, Missing { why, remedy }) = seen.address_missing.as_ref()?;
    Some(Alarm {
        what: Subject::MasterAddress,
        since: *since,
        text: format!("{} does not keep the master's address: {why}", seen.master),
        todo: remedy.clone(),
    })
}

/// Files that should be the same on all candidates.
fn copies(seen: &Seen) -> Option<Alarm> {
    let Differ { since, text } = seen.copies.clone()?;
    let todo =
        "as it says; `gnt cluster verify` compares anew, and this is over once all are alike";
    Some(Alarm { what: Subject::Copies, since, text, todo: todo.to_owned() })
}

/// A pool that lacks a candidate, where nobody who answers may be one.
fn pool(seen: &Seen) -> Option<Alarm> {
    let pool = &seen.pool;
    let candidates = pool.nodes.iter().filter(|n| n.role == NodeRole::Candidate && !n.witness);
    let able = pool.nodes.iter().filter(|n| {
        n.master_capable && !n.witness && matches!(n.role, NodeRole::Candidate | NodeRole::Regular)
    });
    let Gap { left, wanted } = Gap::of(candidates.count(), able.count(), pool.size)?;
    if matches!(next_step(pool), Some(Step::Promote(_))) {
        return None;
    }
    Some(Alarm {
        what: Subject::Pool,
        since: seen.now,
        text: format!(
            "{left} master candidates where {wanted} are wanted, and no other node that may be one \
             answers"
        ),
        todo: "bring nodes back, or mark those that are away offline (`gnt node modify --offline \
               yes`), or add nodes"
            .to_owned(),
    })
}

/// Fewer copies and voters than there could be, so that too much depends on the master's disk; or than are
/// needed for what was asked for.
fn redundancy(seen: &Seen) -> Option<Alarm> {
    let (Pool { nodes, master: own, size }, master) = (&seen.pool, &seen.master);
    let others = || nodes.iter().filter(|node| node.id != *own);
    let votes = 1 + others().filter(|node| node.votes()).count();
    let has_copy = others().any(PoolNode::holds);
    // A node that is offline or drained now could be one again.
    let able = 1 + others().filter(|node| node.master_capable && !node.witness).count();
    let (able, witness) = (able.min(*size), others().any(|node| node.witness));
    let bears_loss = able >= VOTERS_MIN || able == 2 && witness;
    let text = if !has_copy && (able > 1 || witness) {
        format!(
            "no other node has a copy of the store: what is on the disk of {master} is all there is"
        )
    } else if votes < VOTERS_MIN && seen.auto_failover {
        format!("auto_failover is on and cannot be: {votes} vote, and it takes {VOTERS_MIN}")
    } else if votes == 1 && bears_loss {
        format!("only {master} votes: if it is lost, {}", if_lost(&seen.pool, PoolNode::holds))
    } else {
        return None;
    };
    let unwanted = match seen.auto_failover {
        true => "; or `gnt cluster modify --auto-failover no`",
        false => "",
    };
    let todo = format!(
        "have three candidates, or two and a witness: start masterd on candidates that have no copy, or \
         wait for it; bring back who is offline or drained, promote (`gnt node modify -C yes NODE`), add a node, \
         or `gnt node modify --witness yes NODE`. Where fewer are meant to be: `gnt node remove`, or `gnt \
         cluster modify -C N`{unwanted}"
    );
    Some(Alarm { what: Subject::Redundancy, since: seen.now, text, todo })
}
