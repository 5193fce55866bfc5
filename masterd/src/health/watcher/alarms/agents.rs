//! Core: alarms of agents and of the racks that they serve. Status pages show those of [`of_racks`] at
//! once; the watcher raises all of them after their deadlines.

use std::collections::BTreeMap;

use model::rack_fault::{RackCause, RackFault};
use model::{NodeName, Timestamp};

use crate::agents::clock_skew::{ClockSkew, fault_of_master};
use crate::health::alarm::{Alarm, Subject};

/// An agent, as it was found last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub node: NodeName,
    /// The node's id.
    pub id: u64,
    pub called: bool,
    /// The rack that it should serve.
    pub rack: Option<u32>,
    /// Since when it does not answer, and why not.
    pub unreached: Option<(Timestamp, String)>,
    /// Whether that is because its list of callers lacks this master.
    pub is_stranger: bool,
    /// Whether it does not hold the document that it should.
    pub behind: bool,
    /// How its clock differs from the master's.
    pub clock: Option<ClockSkew>,
    /// Why it has another list of callers than the master's, if it answers and has another one.
    pub other_callers: Option<String>,
    /// The faults that keep it from serving its rack, as it says itself.
    pub faults: Vec<RackFault>,
    /// Steps that would mend the network of its host, as it says itself.
    pub network_drift: Vec<String>,
}

/// All agents at a moment, and the racks that have none.
#[derive(Debug, Clone, Copy)]
pub struct AgentsSeen<'a> {
    /// The time of day.
    pub now: Timestamp,
    /// The master's node.
    pub master: &'a NodeName,
    /// The agents of all nodes.
    pub agents: &'a [Agent],
    /// Racks whose machines nobody serves, and why.
    pub unserved: &'a [(u32, String)],
}

impl AgentsSeen<'_> {
    fn called(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|agent| agent.called)
    }

    fn reached(&self) -> impl Iterator<Item = &Agent> {
        self.called().filter(|agent| agent.unreached.is_none())
    }

    /// The fault of the master's node, where its clock is the one that is wrong.
    fn master_is_wrong(&self) -> Option<RackFault> {
        let others = self.reached().filter(|agent| agent.node != *self.master);
        fault_of_master(&others.map(|agent| agent.clock).collect::<Vec<_>>())
    }
}

/// Agents that do not answer, wrong clocks, racks without an agent, and what agents cannot serve.
pub fn of_racks(seen: &AgentsSeen<'_>) -> Vec<Alarm> {
    let mut alarms: Vec<Alarm> = seen.called().filter_map(|agent| unreached(seen, agent)).collect();
    match seen.master_is_wrong() {
        Some(fault) => alarms.push(clock(seen.master, fault, seen.now)),
        None => alarms.extend(seen.reached().filter_map(|agent| {
            let fault = agent.clock?.fault(seen.master.as_str());
            Some(clock(&agent.node, fault, seen.now))
        })),
    }
    alarms.extend(seen.reached().flat_map(|agent| cannot_serve(agent, seen.now)));
    alarms.extend(seen.unserved.iter().map(|(rack, why)| {
        let text = format!("{why}: they get no address and no boot from here");
        let RackFault { text, remedy, .. } = RackCause::NoAgent.fault(text, &[]).at("", *rack);
        Alarm { what: Subject::Rack(*rack), since: seen.now, text, todo: remedy }
    }));
    alarms
}

fn clock(node: &NodeName, fault: RackFault, since: Timestamp) -> Alarm {
    let RackFault { text, remedy, .. } = fault.at(node.as_str(), 0);
    Alarm { what: Subject::WrongClock(node.clone()), since, text, todo: remedy }
}

fn unreached(seen: &AgentsSeen<'_>, agent: &Agent) -> Option<Alarm> {
    let (since, why) = agent.unreached.as_ref()?;
    let (node, master) = (&agent.node, seen.master);
    if let Some(skew) = agent.clock {
        let RackFault { cause, text, remedy } = skew.fault(master.as_str());
        let fault = RackFault { cause, text: format!("{text}: {why}"), remedy };
        return Some(clock(node, fault, *since));
    }
    let (what, since) = (Subject::Agent(node.clone()), *since);
    if agent.is_stranger {
        let text = format!(
            "its agent does not know {master} as a candidate, and obeys it in nothing: it was away when \
             {master} became one"
        );
        let todo = format!(
            "`gnt cluster master-failover --to` a candidate that was one before {master}: as the \
             master it tells {node} by itself, and then the role may come back. Or `noded enroll --again` \
             on {node} and `gnt node add --readd {node} --secret -` here"
        );
        return Some(Alarm { what, since, text, todo });
    }
    let fault = RackCause::AgentSilent.fault(format!("its agent does not answer: {why}"), &[]);
    let RackFault { text, remedy, .. } = fault.at(node.as_str(), 0);
    Some(Alarm { what, since, text, todo: remedy })
}

/// The faults of an agent that answers, one alarm for each cause.
fn cannot_serve(agent: &Agent, since: Timestamp) -> Vec<Alarm> {
    let Some(rack) = agent.rack else { return Vec::new() };
    let node = &agent.node;
    let mut by_cause: BTreeMap<RackCause, RackFault> = BTreeMap::new();
    for fault in &agent.faults {
        let RackFault { cause, text, remedy } = fault.clone().at(node.as_str(), rack);
        by_cause
            .entry(cause)
            .and_modify(|known| {
                known.text = format!("{}; {text}", known.text);
                known.remedy = format!("{}; {remedy}", known.remedy);
            })
            .or_insert(RackFault { cause, text, remedy });
    }
    let alarm = |(cause, RackFault { text, remedy, .. })| {
        let what = Subject::Serving(rack, node.clone(), cause);
        Alarm { what, since, text, todo: remedy }
    };
    by_cause.into_iter().map(alarm).collect()
}

/// Agents that answer and do not serve the newest document.
pub(super) fn behind(seen: &AgentsSeen<'_>) -> Vec<Alarm> {
    let behind = seen.reached().filter(|agent| agent.behind);
    let alarm = |agent: &Agent| {
        let text = "its agent does not serve the newest document of its rack, though it was sent";
        let fault = RackCause::DocumentOld.fault(text, &[]);
        let RackFault { text, remedy, .. } = fault.at(agent.node.as_str(), agent.rack.unwrap_or(0));
        Alarm { what: Subject::Document(agent.node.clone()), since: seen.now, text, todo: remedy }
    };
    behind.map(alarm).collect()
}

/// Hosts whose network is no longer what was applied.
pub(super) fn drifted(seen: &AgentsSeen<'_>) -> Vec<Alarm> {
    let drifted = seen.reached().filter(|agent| !agent.network_drift.is_empty());
    let alarm = |agent: &Agent| {
        let node = &agent.node;
        Alarm {
            what: Subject::Network(node.clone()),
            since: seen.now,
            text: format!(
                "its host is not what was applied; it would take: {}",
                agent.network_drift.join("; ")
            ),
            todo: format!(
                "`gnt node network apply --again {node}` brings it back; or apply what it is to be from now on"
            ),
        }
    };
    drifted.map(alarm).collect()
}

/// Agents that answer and have another list of who may call them.
pub(super) fn callers(seen: &AgentsSeen<'_>) -> Vec<Alarm> {
    let alarm = |agent: &Agent| {
        let (node, why) = (&agent.node, agent.other_callers.as_ref()?);
        Some(Alarm {
            what: Subject::Callers(node.clone()),
            since: seen.now,
            text: format!(
                "its agent has another list of the candidates that may call it, and did not take the \
                 master's: {why}"
            ),
            todo: format!(
                "see the log of noded on {node}; `gnt cluster redist-conf` sends the list again, and fails \
                 with the reason. Until it has it, move the role to no candidate that is new"
            ),
        })
    };
    seen.called().filter_map(alarm).collect()
}
