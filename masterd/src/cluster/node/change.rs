//! Core: what `OP_NODE_SET_PARAMS` makes of a node (Ganeti's 2.0 design, "Node flags"), in the words and
//! with the codes of Ganeti where it has the same rule.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::error::ErrorCode;
use model::node::role::{Around, Event, Flags, Gap, Illegal, SeveralAtOnce, Standing};
use model::node::{Node, NodeRole};
use model::opcode::NodeSetParams;
use model::{Code, Exception, NodeName};
use serde_json::{Value, json};

use super::{info, pool, pool_has_room, primary_instances};
use crate::config::Config;
use membership::pool::refill;

/// The changes: names of parameters and their new values. Flags and addresses are texts, as Ganeti has
/// them.
pub(super) type Changes = Vec<(String, Value)>;

/// The result of a request.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) node: Node,
    /// The differences from before.
    pub(super) changes: Changes,
    /// The nodes that become candidates in its place.
    pub(super) followers: Vec<Node>,
    /// Notes for the operator.
    pub(super) notes: Vec<String>,
}

/// Decides on a request; `reached` are the nodes whose agents answer.
///
/// # Errors
/// A rule forbids it.
pub(super) fn decide(
    asked: &NodeSetParams,
    config: &Config,
    reached: &BTreeSet<NodeName>,
) -> Result<Change, Exception> {
    let old = config.node_with(&asked.node_name, asked.node_uuid.as_deref())?;
    acceptable(asked, old, config)?;
    let mut notes = Vec::new();
    let role = role(asked, old, config, &mut notes)?;
    let (mut node, mut changes) = (old.as_ref().clone(), Changes::new());
    set(&mut node.master_capable, asked.master_capable, "master_capable", &mut changes);
    set(&mut node.vm_capable, asked.vm_capable, "vm_capable", &mut changes);
    node.role = role;
    for (name, wanted) in [
        ("master_candidate", NodeRole::Candidate),
        ("drained", NodeRole::Drained),
        ("offline", NodeRole::Offline),
    ] {
        if (old.role == wanted) != (role == wanted) {
            changes.push((name.to_owned(), flag(role == wanted)));
        }
    }
    set(&mut node.witness, asked.witness, "witness", &mut changes);
    if let Some(address) = secondary_ip(asked)?.filter(|&a| a != node.secondary_ip) {
        node.secondary_ip = address;
        changes.push(("secondary_ip".to_owned(), json!(address)));
    }
    if let Some(port) = asked.peer_port.filter(|&port| port != node.peer_port) {
        node.peer_port = port;
        changes.push(("peer_port".to_owned(), json!(port)));
    }
    if let Some(rack) = asked.rack {
        let rack = asked_rack(rack, config)?;
        if rack != node.rack {
            node.rack = rack;
            changes.push(("rack".to_owned(), json!(rack)));
        }
    }
    let followers = followers(asked, old, &node, config, reached);
    if asked.auto_promote
        && !asked.force
        && followers.is_empty()
        && let Some(gap) = gap(old, &node, 0, config)
    {
        return Err(nobody_answers(&gap));
    }
    if !followers.is_empty() {
        let names: Vec<&str> = followers.iter().map(|node| node.name.as_str()).collect();
        let names = names.join(", ");
        notes.push(info(&format!("Promoted nodes to master candidate role: {names}")));
    }
    notes.extend(pool_notes(old, &node, followers.len(), config));
    Ok(Change { node, changes, followers, notes })
}

/// Refuses requests that are wrong whatever becomes of the role.
fn acceptable(asked: &NodeSetParams, old: &Node, config: &Config) -> Result<(), Exception> {
    let refuse = |text: String, code| Err(Exception::prereq(text, code));
    let objects = [&asked.ndparams, &asked.hv_state, &asked.disk_state];
    // Ganeti's client sends empty ones when none is given.
    if objects.into_iter().flatten().any(|object| *object != json!({})) {
        let text = "this version cannot set ndparams, hv_state or disk_state; leave them out";
        return refuse(text.to_owned(), ErrorCode::WrongInput);
    }
    let flags = [asked.master_candidate, asked.drained, asked.offline];
    let further = [asked.master_capable, asked.witness, asked.vm_capable, asked.powered];
    let any = flags.iter().chain(&further).any(Option::is_some)
        || asked.secondary_ip.is_some()
        || asked.peer_port.is_some()
        || asked.rack.is_some()
        || objects.into_iter().any(Option::is_some);
    if !any {
        let text = "Please pass at least one modification";
        return refuse(text.to_owned(), ErrorCode::WrongInput);
    }
    let name = &old.name;
    if asked.powered.is_some() {
        let text = format!(
            "Unable to change powered state for node {name} as it does not support out-of-band handling"
        );
        return refuse(text, ErrorCode::WrongState);
    }
    if asked.expected_role.is_some_and(|role| role != old.role) {
        let text = format!("Node {name} has another role by now: nothing was changed");
        return refuse(text, ErrorCode::WrongState);
    }
    if config.is_master(old) {
        if flags.iter().any(Option::is_some) {
            let text = Illegal::IsMaster.to_string();
            return refuse(text, ErrorCode::WrongInput).map_err(of_master);
        }
        if asked.master_capable == Some(false) {
            let text = "Master must remain master capable".to_owned();
            return refuse(text, ErrorCode::WrongState).map_err(of_master);
        }
        if asked.witness == Some(true) {
            let text = "The master cannot be a witness, which is never master".to_owned();
            return refuse(text, ErrorCode::WrongInput).map_err(of_master);
        }
    }
    if asked.witness == Some(true) && asked.master_candidate == Some(true) {
        let text = "A witness is no master candidate: ask for one of the two";
        return refuse(text.to_owned(), ErrorCode::WrongInput);
    }
    if asked.vm_capable == Some(false) && primary_instances(config, old) > 0 {
        let text = format!("Node {name} hosts instances, cannot unset the vm_capable flag");
        return refuse(text, ErrorCode::WrongState);
    }
    Ok(())
}

fn of_master(refusal: Exception) -> Exception {
    refusal.coded(Code::NodeIsMaster)
}

/// The role that the node is to have.
fn role(
    asked: &NodeSetParams,
    old: &Node,
    config: &Config,
    notes: &mut Vec<String>,
) -> Result<NodeRole, Exception> {
    let status = Standing::of(old.role, config.is_master(old));
    let flags =
        Flags { candidate: asked.master_candidate, drained: asked.drained, offline: asked.offline };
    let several =
        |error: SeveralAtOnce| Exception::prereq(error.to_string(), ErrorCode::WrongInput);
    for (name, flag, is) in [
        ("master_candidate", flags.candidate, old.role == NodeRole::Candidate),
        ("drained", flags.drained, old.role == NodeRole::Drained),
        ("offline", flags.offline, old.role == NodeRole::Offline),
    ] {
        if flag == Some(false) && !is {
            notes.push(info(&format!("Ignoring request to unset flag {name}, already unset")));
        }
    }
    let around = around(asked, old, config);
    let event = flags.event(status).map_err(several)?;
    let event = event.or_else(|| match status {
        // A node that may not become the master is no candidate.
        Standing::Candidate if !around.master_capable => {
            notes.push(info("Demoting from master candidate"));
            Some(Event::Demote)
        }
        Standing::Regular
            if !old.may_be_master() && around.master_capable && around.pool_has_room =>
        {
            Some(Event::Promote)
        }
        _ => None,
    });
    let Some(event) = event else { return Ok(old.role) };
    let role = status.next(event, &around).map_err(|illegal| forbidden(old, illegal))?.role();
    let self_promoted = role == NodeRole::Candidate && asked.master_candidate.is_none();
    if self_promoted && old.role != role {
        notes.push(info("Auto-promoting node to master candidate"));
    }
    if old.role == NodeRole::Offline && role != old.role {
        let text = "Transitioning node from offline to online state without using readd. Please make \
                    sure the node is healthy!";
        notes.push(format!(" - WARNING: {text}"));
    }
    Ok(role)
}

/// The rack of a request, where −1 stands for none.
fn asked_rack(rack: i64, config: &Config) -> Result<Option<u32>, Exception> {
    if rack == -1 {
        return Ok(None);
    }
    let wrong = |text: String| Exception::prereq(text, ErrorCode::WrongInput);
    let rack = u32::try_from(rack).map_err(|_negative| wrong(format!("{rack} is no rack")))?;
    if let Some(ipam) = &config.ipam {
        ipam.lease_ranges(rack).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(Some(rack))
}

fn secondary_ip(asked: &NodeSetParams) -> Result<Option<IpAddr>, Exception> {
    let parse = |text: &String| {
        let wrong = |_| format!("Secondary IP ({text}) needs to be a valid IP address");
        text.parse().map_err(wrong)
    };
    let parsed = asked.secondary_ip.as_ref().map(parse).transpose();
    parsed.map_err(|text| Exception::prereq(text, ErrorCode::WrongInput))
}

fn flag(value: bool) -> Value {
    Value::from(if value { "True" } else { "False" })
}

fn set(field: &mut bool, asked: Option<bool>, name: &str, changes: &mut Changes) {
    if let Some(value) = asked.filter(|value| value != field) {
        *field = value;
        changes.push((name.to_owned(), flag(value)));
    }
}

/// The nodes that become candidates in place of `old`, which will be `node`. The policy of the pool
/// chooses them, until it has enough or nobody is left.
fn followers(
    asked: &NodeSetParams,
    old: &Node,
    node: &Node,
    config: &Config,
    reached: &BTreeSet<NodeName>,
) -> Vec<Node> {
    if !asked.auto_promote || !demoted(old, node) {
        return Vec::new();
    }
    let mut pool = pool(config, reached);
    for other in pool.nodes.iter_mut().filter(|other| other.id == node.id) {
        // Not even as a regular node: it would take its own place.
        (other.role, other.master_capable) = (node.role, false);
    }
    let chosen = refill(&mut pool).into_iter();
    let chosen = chosen.filter_map(|id| config.nodes.by.id.of(id).next());
    let follower = |chosen: &Arc<Node>| {
        let (role, serial_no) = (NodeRole::Candidate, chosen.serial_no + 1);
        Node { role, serial_no, ..chosen.as_ref().clone() }
    };
    chosen.map(follower).collect()
}

fn demoted(old: &Node, node: &Node) -> bool {
    old.role == NodeRole::Candidate && node.role != NodeRole::Candidate
}

/// The candidates that will be missing though nodes for them are there.
fn gap(old: &Node, node: &Node, followers: usize, config: &Config) -> Option<Gap> {
    let left = config.candidates().count().saturating_sub(1) + followers;
    demoted(old, node).then(|| Gap::of(left, possible(old, config), config.pool_size())).flatten()
}

fn too_few(Gap { left, wanted }: &Gap) -> String {
    format!("Not enough master candidates (desired {wanted}, new value will be {left})")
}

fn nobody_answers(gap: &Gap) -> Exception {
    let text = format!(
        "{}: none of the nodes that could take its place answers (`gnt node list -o \
         name,role,agent`); start noded there, or use --force",
        too_few(gap)
    );
    Exception::prereq(text, ErrorCode::WrongState).coded(Code::Pool)
}

/// Notes for the operator on the pool of candidates as it will be.
fn pool_notes(old: &Node, node: &Node, followers: usize, config: &Config) -> Vec<String> {
    let (size, count) = (config.pool_size(), config.candidates().count());
    let mut notes = Vec::new();
    if demoted(old, node) {
        let left = count.saturating_sub(1) + followers;
        notes.extend(gap(old, node, followers, config).as_ref().map(too_few));
        if node.role == NodeRole::Regular && node.may_be_master() && left < size {
            notes.push(
                "The pool of candidates has room: the watcher makes this node a candidate again; \
                 --master-capable no, or a smaller pool, prevents that"
                    .to_owned(),
            );
        }
    } else if old.role != node.role && node.role == NodeRole::Candidate && count + 1 > size {
        notes.push(format!(
            "{} master candidates where {size} are wanted: the watcher makes one a regular node, \
             unless candidate_pool_size is raised",
            count + 1
        ));
    }
    notes
}

/// Nodes that could be candidates, without `old`.
fn possible(old: &Node, config: &Config) -> usize {
    let able = |n: &&std::sync::Arc<Node>| {
        n.may_be_master()
            && n.name != old.name
            && !matches!(n.role, NodeRole::Drained | NodeRole::Offline)
    };
    config.nodes.values().filter(able).count()
}

/// The circumstances that decide on the node's role beside its own state. A node that comes back takes a
/// place in the pool of candidates that is free, unless that is excluded.
fn around(asked: &NodeSetParams, old: &Node, config: &Config) -> Around {
    let makes_up = asked.force || asked.auto_promote;
    let left = config.candidates().count().saturating_sub(1);
    let gap = Gap::of(left, possible(old, config), config.pool_size());
    Around {
        master_capable: asked.master_capable.unwrap_or(old.master_capable)
            && !asked.witness.unwrap_or(old.witness),
        pool_has_room: asked.master_candidate.is_none() && pool_has_room(config),
        gap: gap.filter(|_| !makes_up),
        // Whoever forces it says that nothing lives there any more.
        primary_instances: if asked.force { 0 } else { primary_instances(config, old) },
    }
}

/// The refusal in the words and with the codes of Ganeti.
fn forbidden(node: &Node, illegal: Illegal) -> Exception {
    let name = &node.name;
    let told = match illegal {
        Illegal::IsMaster => Some(Code::NodeIsMaster),
        Illegal::TooFewCandidates(_) => Some(Code::Pool),
        _ => None,
    };
    let (text, code) = match illegal {
        Illegal::IsMaster => (illegal.to_string(), ErrorCode::WrongInput),
        Illegal::NotMasterCapable if node.witness => (
            format!(
                "Node {name} is a witness, cannot make it a master candidate; with --witness no too \
                 it may be one"
            ),
            ErrorCode::WrongState,
        ),
        Illegal::NotMasterCapable => (
            format!("Node {name} is not master capable, cannot make it a master candidate"),
            ErrorCode::WrongState,
        ),
        Illegal::TooFewCandidates(_) => (illegal.to_string(), ErrorCode::WrongState),
        Illegal::HasPrimaryInstances(_) | Illegal::NoCandidate(_) | Illegal::Never(..) => {
            (format!("Node {name}: {illegal}"), ErrorCode::WrongState)
        }
    };
    Exception::prereq(text, code).coded(told)
}

#[cfg(test)]
mod tests;
