//! Core: what should pass by itself and does not: each such state is an alarm from its deadline until
//! it has passed.

use std::collections::BTreeMap;

use membership::pool::{Pool, PoolNode, Step, VOTERS_MIN, if_lost, next_step};
use model::node::NodeRole;
use model::node::role::Gap;

use super::machines::Trouble;
use super::rules::Seen;
use super::silence::Held;
use crate::agents::master_address::Missing;
use crate::health::alarm::{Alarm, Subject};
use crate::role::replica_audit::Differ;

pub mod agents;

use agents::AgentsSeen;

/// A state that is or could become an alarm.
#[derive(Debug)]
struct Pending {
    /// When it was seen first, in seconds since the watcher began.
    seen: u64,
    is_told: bool,
    alarm: Alarm,
}

/// All that are seen.
#[derive(Debug, Default)]
pub struct States(BTreeMap<Subject, Pending>);

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
                    Pending { alarm: Alarm { since, ..alarm }, ..state }
                }
                None => Pending { seen: seen.at, is_told: false, alarm },
            };
            if !state.is_told
                && seen.at >= state.seen.saturating_add(what.kind().deadline().unwrap_or_default())
            {
                state.is_told = true;
                raised.push(state.alarm.clone());
            }
            self.0.insert(what, state);
        }
        let over = before.into_values().filter(|state| state.is_told);
        (raised, over.map(|state| state.alarm).collect())
    }

    /// The alarms that are on now.
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
    let machines = machines.chain(seen.objects.iter().cloned());
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
