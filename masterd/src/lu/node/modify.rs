//! Changes a node's role, rack or parameters.

use model::Exception;
use model::error::ErrorCode;
use model::node::role::{Around, Flags, Gap, Illegal, SeveralAtOnce, Standing};
use model::node::{Node, NodeRole};
use model::opcode::NodeSetParams;
use serde_json::{Value, json};

use super::{candidates, pool_has_room, tell_callers};
use crate::config::{Config, ConfigChange};
use crate::locks::{Level, LockName, Mode};
use crate::lu::{Context, Failure, LogicalUnit, Wanted, rack};

type Changes = Vec<(String, Value)>;

impl LogicalUnit for NodeSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Node {
            return Ok(Vec::new());
        }
        if self.auto_promote {
            return Ok(vec![(LockName::set(Level::Node), Mode::Exclusive)]);
        }
        let node = config.node(&self.node_name)?;
        Ok(vec![(LockName::member(Level::Node, node.name.as_str()), Mode::Exclusive)])
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        modified(self, &config)?;
        let node = config.node(&self.node_name)?;
        if node.role == NodeRole::Offline && self.offline == Some(false) {
            let (job, op) = (context.job(), context.op());
            let mut back = node.as_ref().clone();
            back.role = NodeRole::Regular;
            let answer = context.agents().await?.version(&back, (job, op)).await;
            if let Err(error) = answer {
                return Err(Exception::prereq(
                    format!("{} does not answer: {}", node.name, stdx::daemon::chain(&error)),
                    ErrorCode::EnvironmentError,
                )
                .into());
            }
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Changes, Failure> {
        let before = context.config();
        let old = before.node(&self.node_name)?.as_ref().clone();
        let now = context.now();
        let asked = self.clone();
        context
            .transact(move |config| {
                let (mut node, changes) = modified(&asked, config)?;
                if changes.is_empty() {
                    return Ok(Vec::new());
                }
                let followers = successors(&asked, &node, config).into_iter().map(promoted);
                let mut nodes: Vec<Node> = followers.collect();
                node.serial_no += 1;
                nodes.push(node);
                let touched = nodes.into_iter().map(|node| Node { mtime: now, ..node });
                Ok(touched.map(ConfigChange::Node).collect())
            })
            .await?;
        let (changed, changes) = modified(&self, &before)?;
        if changed.role == NodeRole::Candidate
            && self.master_candidate.is_none()
            && old.role != changed.role
        {
            context.say("Auto-promoting node to master candidate").await;
        }
        for follower in successors(&self, &changed, &before) {
            context.say(format!("Promoted node {} to master candidate", follower.name)).await;
        }
        let after = context.config();
        let node = after.node(&self.node_name)?;
        let was_caller = old.role == NodeRole::Candidate;
        if was_caller != (node.role == NodeRole::Candidate) || old.role == NodeRole::Offline {
            tell_callers(context, None).await?;
        }
        if old.rack != node.rack {
            move_rack(context, node, old.rack).await?;
        } else if old.role == NodeRole::Offline && node.role != NodeRole::Offline {
            rack::push(context, &node.rack.into_iter().collect()).await?;
        }
        if old.rack != node.rack || node.role == NodeRole::Offline {
            rack::tell_if_unserved(context, old.rack).await;
        }
        Ok(changes)
    }
}

/// The node as it is to be, and what changes, in the words of Ganeti's clients.
fn modified(asked: &NodeSetParams, config: &Config) -> Result<(Node, Changes), Exception> {
    let refuse = |text: String, code| Err(Exception::prereq(text, code));
    let old = config.node(&asked.node_name)?;
    let mut node = old.as_ref().clone();
    let mut changes = Changes::new();
    // Ganeti's client sends empty ones when none is given.
    let given = |p: &&Option<Value>| p.as_ref().is_some_and(|p| *p != json!({}));
    if [&asked.ndparams, &asked.hv_state, &asked.disk_state].iter().any(given) {
        let text = "this version cannot set ndparams, hv_state or disk_state; leave them out";
        return refuse(text.to_owned(), ErrorCode::WrongInput);
    }
    let standing = Standing::of(old.role, config.is_master(old));
    let flags =
        Flags { candidate: asked.master_candidate, drained: asked.drained, offline: asked.offline };
    let several =
        |error: SeveralAtOnce| Exception::prereq(error.to_string(), ErrorCode::WrongInput);
    if let Some(event) = flags.event(standing).map_err(several)? {
        let next = standing.next(event, &around(asked, old, config));
        let role = next.map_err(|illegal| forbidden(old, illegal))?.role();
        node.role = role;
        let flag = |role: NodeRole, wanted: NodeRole| Value::from(role == wanted);
        for (name, wanted) in [
            ("master_candidate", NodeRole::Candidate),
            ("drained", NodeRole::Drained),
            ("offline", NodeRole::Offline),
        ] {
            if (old.role == wanted) != (role == wanted) {
                changes.push((name.to_owned(), flag(role, wanted)));
            }
        }
    }
    set(&mut node.master_capable, asked.master_capable, "master_capable", &mut changes);
    set(&mut node.vm_capable, asked.vm_capable, "vm_capable", &mut changes);
    set(&mut node.powered, asked.powered, "powered", &mut changes);
    if let Some(address) = asked.secondary_ip.filter(|&a| a != node.secondary_ip) {
        node.secondary_ip = address;
        changes.push(("secondary_ip".to_owned(), json!(address)));
    }
    if let Some(rack) = asked.rack {
        let rack = asked_rack(rack, config)?;
        if rack != node.rack {
            node.rack = rack;
            changes.push(("rack".to_owned(), json!(rack)));
        }
    }
    Ok((node, changes))
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

/// Takes a rack away from an agent and gives it another.
async fn move_rack(context: &mut Context, node: &Node, from: Option<u32>) -> Result<(), Failure> {
    let (job, op) = (context.job(), context.op());
    if let Some(rack) = from
        && node.role != NodeRole::Offline
        && let Err(error) = context.agents().await?.rack_withdraw(node, rack, (job, op)).await
    {
        let (name, why) = (&node.name, stdx::daemon::chain(&error));
        context.say(format!("{name} was not told that it serves rack {rack} no more: {why}")).await;
    }
    match node.rack {
        Some(rack) => rack::push(context, &std::collections::BTreeSet::from([rack])).await,
        None => Ok(()),
    }
}

fn set(field: &mut bool, asked: Option<bool>, name: &str, changes: &mut Changes) {
    if let Some(value) = asked.filter(|value| value != field) {
        *field = value;
        changes.push((name.to_owned(), Value::from(value)));
    }
}

fn promoted(mut node: Node) -> Node {
    node.role = NodeRole::Candidate;
    node.serial_no += 1;
    node
}

/// The nodes that become candidates in place of `node`, as it will be: as many as the pool lacks, in
/// the order of their names.
fn successors(asked: &NodeSetParams, node: &Node, config: &Config) -> Vec<Node> {
    let was = config.nodes.get(&node.name).map(|old| old.role);
    if !asked.auto_promote || was != Some(NodeRole::Candidate) || node.role == NodeRole::Candidate {
        return Vec::new();
    }
    let pool = usize::try_from(config.cluster.candidate_pool_size).unwrap_or(usize::MAX);
    let lacks = pool.saturating_sub(candidates(config) - 1);
    let able = |other: &&std::sync::Arc<Node>| {
        other.role == NodeRole::Regular && other.master_capable && other.name != node.name
    };
    config.nodes.values().filter(able).take(lacks).map(|other| other.as_ref().clone()).collect()
}

/// What decides on the node's role beside what it is. A node that comes back takes a place in the pool
/// of candidates that is free, unless that is excluded.
fn around(asked: &NodeSetParams, old: &Node, config: &Config) -> Around {
    let able = |n: &&std::sync::Arc<Node>| {
        n.master_capable
            && n.name != old.name
            && !matches!(n.role, NodeRole::Drained | NodeRole::Offline)
    };
    let pool = usize::try_from(config.cluster.candidate_pool_size).unwrap_or(usize::MAX);
    let possible = config.nodes.values().filter(able).count();
    let makes_up = asked.force || asked.auto_promote;
    let gap = Gap::of(candidates(config).saturating_sub(1), possible, pool);
    Around {
        master_capable: asked.master_capable.unwrap_or(old.master_capable),
        pool_has_room: asked.master_candidate.is_none() && pool_has_room(config),
        gap: gap.filter(|_| !makes_up),
        // This version has no instances.
        primary_instances: 0,
    }
}

/// The refusal in the words and with the codes of Ganeti.
fn forbidden(node: &Node, illegal: Illegal) -> Exception {
    let name = &node.name;
    let (text, code) = match illegal {
        Illegal::IsMaster => (illegal.to_string(), ErrorCode::WrongInput),
        Illegal::NotMasterCapable => {
            (format!("Node {name} is not master capable"), ErrorCode::WrongState)
        }
        Illegal::TooFewCandidates(_) => (illegal.to_string(), ErrorCode::WrongState),
        Illegal::HasPrimaryInstances(_) | Illegal::NoCandidate(_) | Illegal::Never(..) => {
            (format!("Node {name}: {illegal}"), ErrorCode::WrongState)
        }
    };
    Exception::prereq(text, code)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{config, node};

    fn asked(name: &str, fields: &str) -> NodeSetParams {
        serde_json::from_str(&format!(r#"{{"node_name": "{name}"{fields}}}"#)).unwrap()
    }

    #[test]
    fn roles_follow_the_flags() {
        use NodeRole::{Candidate, Drained, Offline, Regular};
        for (before, fields, after) in [
            (Regular, r#", "offline": true"#, Ok(Offline)),
            (Offline, r#", "offline": false"#, Ok(Candidate)),
            (Offline, r#", "offline": false, "master_candidate": false"#, Ok(Regular)),
            (Offline, r#", "offline": false, "master_capable": false"#, Ok(Regular)),
            (Regular, r#", "offline": false"#, Ok(Regular)),
            (Regular, r#", "drained": true"#, Ok(Drained)),
            (Drained, r#", "drained": false"#, Ok(Candidate)),
            (Drained, r#", "offline": true"#, Ok(Offline)),
            (Regular, r#", "master_candidate": true"#, Ok(Candidate)),
            (Candidate, r#", "master_candidate": false, "force": true"#, Ok(Regular)),
            (Candidate, r#", "master_candidate": false"#, Err("would remain")),
            (Regular, r#", "offline": true, "drained": true"#, Err("more than one state")),
            (Regular, r#", "ndparams": {"ovs": true}"#, Err("cannot set ndparams")),
            (Regular, r#", "hv_state": {}, "disk_state": {}, "ndparams": {}"#, Ok(Regular)),
            (Candidate, r#", "offline": true, "auto_promote": true"#, Ok(Offline)),
            (Regular, r#", "rack": -2"#, Err("is no rack")),
            (Regular, r#", "rack": 341"#, Err("beyond")),
        ] {
            let config = config(&[node("n2.example", before), node("n3.example", Regular)]);
            match (modified(&asked("n2", fields), &config), after) {
                (Ok((node, _)), Ok(role)) => assert_eq!(node.role, role, "{before:?} {fields}"),
                (Err(error), Err(told)) => {
                    assert!(error.to_string().contains(told), "{fields}: {error}");
                }
                (found, _) => panic!("{before:?} {fields}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_full_pool_takes_nobody_back() {
        let mut config = config(&[node("n2.example", NodeRole::Drained)]);
        Arc::make_mut(&mut config.cluster).candidate_pool_size = 1;
        let (node, _) = modified(&asked("n2", r#", "drained": false"#), &config).unwrap();
        assert_eq!(node.role, NodeRole::Regular);
    }

    #[test]
    fn others_take_the_place_of_a_candidate() {
        let mut incapable = node("n3.example", NodeRole::Regular);
        incapable.master_capable = false;
        let mut config = config(&[
            node("n2.example", NodeRole::Candidate),
            incapable,
            node("n4.example", NodeRole::Regular),
            node("n5.example", NodeRole::Regular),
            node("n6.example", NodeRole::Drained),
        ]);
        let names = |config: &Config, fields: &str| {
            let asked = asked("n2", fields);
            let (node, _) = modified(&asked, config).unwrap();
            let nodes = successors(&asked, &node, config).into_iter();
            nodes.map(|node| node.name.to_string()).collect::<Vec<_>>()
        };
        let drained = r#", "drained": true, "auto_promote": true"#;
        assert_eq!(names(&config, drained), ["n4.example", "n5.example"]);
        assert_eq!(names(&config, r#", "rack": 1, "auto_promote": true"#), [""; 0]);
        assert_eq!(names(&config, r#", "drained": true, "force": true"#), [""; 0]);
        Arc::make_mut(&mut config.cluster).candidate_pool_size = 2;
        assert_eq!(names(&config, drained), ["n4.example"]);
    }

    #[test]
    fn what_changes_is_told() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let (node, changes) = modified(
            &asked("n2.example", r#", "rack": 4, "drained": true, "vm_capable": true"#),
            &config,
        )
        .unwrap();
        assert_eq!(node.rack, Some(4));
        let told: Vec<String> =
            changes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(told, ["drained true", "rack 4"]);
    }

    #[test]
    fn the_master_keeps_its_role() {
        let refused = modified(&asked("n1", r#", "offline": true"#), &config(&[])).unwrap_err();
        assert!(refused.to_string().contains("master-failover"));
        assert!(modified(&asked("n9", ""), &config(&[])).is_err());
    }
}
