//! Changes a node's role, rack or parameters; `change` decides.

use std::collections::BTreeSet;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::NodeSetParams;
use model::{Coded as _, Exception};
use rpc::calls::{RackWithdraw, Version};

use super::change::{Change, Changes, decide};
use super::{goes_on_if_silent, primary_instances, tell_callers, tell_if_alone, votes};
use crate::config::{Config, ConfigChange};
use crate::machines::rack;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Refuses to count a node with instances as dead whose agent answers: what lives there would live on.
async fn nothing_answers(context: &mut Context, node: &Node) -> Result<(), Failure> {
    let instances = primary_instances(&context.config(), node);
    let behalf = context.behalf();
    if instances == 0 || context.agents().await?.call(node, Version {}, behalf).await.is_err() {
        return Ok(());
    }
    let text = format!(
        "Node {}: it answers, and it is the primary node of {instances} instances; move them first (`gnt node \
         evacuate`, `gnt node failover`)",
        node.name
    );
    Err(Exception::prereq(text, ErrorCode::WrongState).into())
}

impl LogicalUnit for NodeSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Node {
            return Ok(Vec::new());
        }
        if self.auto_promote && may_demote(self) {
            return Ok(vec![(LockName::set(Level::Node), Mode::Exclusive)]);
        }
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        Ok(vec![(LockName::member(Level::Node, node.name.as_str()), Mode::Exclusive)])
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let change = decide(self, &config, &context.reached())?;
        let node = config.node_with(&self.node_name, self.node_uuid.as_deref())?;
        if node.role != NodeRole::Offline && change.node.role == NodeRole::Offline {
            goes_on_if_silent(context, node, "be taken offline").await?;
            nothing_answers(context, node).await?;
        }
        if node.peer_port != change.node.peer_port {
            goes_on_if_silent(context, node, "be expected at another port").await?;
        }
        if node.role == NodeRole::Offline && change.node.role != NodeRole::Offline {
            let behalf = context.behalf();
            let answer = context.agents().await?.call(node, Version {}, behalf).await;
            if let Err(error) = answer {
                let name = &node.name;
                let why = stdx::daemon::chain(&error);
                // Nobody told it who became a candidate, or was renewed, while it was offline.
                let unless = match error.is_of_a_stranger() {
                    true => {
                        "have it done by a candidate of before whose certificate was not renewed since: \
                         move the role there, and back; if there is none, or it lost its disk,"
                    }
                    false => "start noded there; if it lost its disk,",
                };
                let text = format!(
                    "Node {name} is being de-offlined but fails to report its version: {why}; {unless} \
                     `noded enroll --again` there and `gnt node add --readd {name} --secret -` here"
                );
                let refusal = Exception::prereq(text, ErrorCode::EnvironmentError);
                return Err(refusal.coded(error.code()).into());
            }
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Changes, Failure> {
        let config = context.config();
        let old = config.node(&self.node_name)?.as_ref().clone();
        let now = context.now();
        let reached = context.reached();
        let voted = votes(context);
        let change = context
            .transact(move |config| {
                let change = decide(&self, config, &reached)?;
                let mut nodes = change.followers.clone();
                if !change.changes.is_empty() {
                    let mut node = change.node.clone();
                    node.serial_no += 1;
                    nodes.push(node);
                }
                let touched = nodes.into_iter().map(|node| Node { mtime: now, ..node });
                Ok((touched.map(ConfigChange::Node).collect(), change))
            })
            .await?;
        let Change { node, changes, notes, .. } = change;
        for note in notes {
            context.say(note).await;
        }
        tell_if_alone(context, voted).await;
        let was_caller = old.role == NodeRole::Candidate;
        if was_caller != (node.role == NodeRole::Candidate) || old.role == NodeRole::Offline {
            tell_callers(context, None).await?;
        }
        if old.rack != node.rack {
            move_rack(context, &node, old.rack).await?;
        } else if old.role == NodeRole::Offline && node.role != NodeRole::Offline {
            rack::push(context, &node.rack.into_iter().collect()).await?;
        }
        if old.rack != node.rack || node.role == NodeRole::Offline {
            rack::tell_if_unserved(context, old.rack).await;
        }
        Ok(changes)
    }
}

/// Whether a candidate may become none by this.
fn may_demote(asked: &NodeSetParams) -> bool {
    asked.master_candidate == Some(false)
        || asked.master_capable == Some(false)
        || asked.witness == Some(true)
        || asked.drained == Some(true)
        || asked.offline == Some(true)
}

/// Takes a rack away from an agent and gives it another.
async fn move_rack(context: &mut Context, node: &Node, from: Option<u32>) -> Result<(), Failure> {
    let behalf = context.behalf();
    if let Some(rack) = from
        && node.role != NodeRole::Offline
        && let Err(error) = context.agents().await?.call(node, RackWithdraw { rack }, behalf).await
    {
        let (name, why) = (&node.name, stdx::daemon::chain(&error));
        context.say(format!("{name} was not told that it serves rack {rack} no more: {why}")).await;
    }
    match node.rack {
        Some(rack) => rack::push(context, &BTreeSet::from([rack])).await,
        None => Ok(()),
    }
}
