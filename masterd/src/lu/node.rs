//! Opcodes on nodes.

pub mod add;
mod change;
mod farewell;
pub mod modify;
pub mod powercycle;
mod readd;
pub mod remove;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::NodeName;
use model::node::{Node, NodeRole};
use rpc::calls::Caller;

use super::{Context, Failure};
use crate::config::Config;
use crate::role::pool::{Pool, PoolNode};

/// Whether a node may call agents: it is a candidate.
pub(super) fn is_caller(config: &Config, node: &Node) -> bool {
    node.role == NodeRole::Candidate || config.is_master(node)
}

/// The candidates as those who may call agents.
pub(crate) fn callers(config: &Config) -> Vec<Caller> {
    let candidate = |node: &&Arc<Node>| is_caller(config, node);
    config.nodes.values().filter(candidate).flat_map(|node| Caller::of(node)).collect()
}

/// How many candidates there are, the master among them.
fn candidates(config: &Config) -> usize {
    let candidate = |node: &&Arc<Node>| is_caller(config, node);
    config.nodes.values().filter(candidate).count()
}

/// Whether the pool of candidates has room for one more.
fn pool_has_room(config: &Config) -> bool {
    candidates(config) < pool_size(config)
}

/// How many candidates the cluster tries to have.
pub(crate) fn pool_size(config: &Config) -> usize {
    usize::try_from(config.cluster.candidate_pool_size).unwrap_or(usize::MAX)
}

/// How many instances have `node` as their primary node. This version has no instances.
const fn primary_instances(_config: &Config, _node: &Node) -> u32 {
    0
}

/// The nodes as the policy of the pool sees them, for their roles alone: seats are none of it.
/// `reached` are those whose agents answer.
pub(crate) fn pool(config: &Config, reached: &BTreeSet<NodeName>) -> Pool {
    let node = |node: &Arc<Node>| PoolNode {
        id: node.id,
        role: if config.is_master(node) { NodeRole::Candidate } else { node.role },
        master_capable: node.master_capable,
        witness: node.witness,
        rack: node.rack,
        reachable: config.is_master(node) || reached.contains(&node.name),
        seat: None,
    };
    let master = config.nodes.get(&config.role.master).map_or(config.role.node, |node| node.id);
    Pool { nodes: config.nodes.values().map(node).collect(), master, size: pool_size(config) }
}

/// Tells every node that is not offline who may call it; not `knows`, which was told already. Gives
/// those that could not be told.
pub(super) async fn tell_callers(
    context: &mut Context,
    knows: Option<&NodeName>,
) -> Result<Vec<NodeName>, Failure> {
    let config = context.config();
    let callers = callers(&config);
    let (job, op) = (context.job(), context.op());
    let to_tell = |node: &&Arc<Node>| node.role != NodeRole::Offline && Some(&node.name) != knows;
    let mut untold = Vec::new();
    for node in config.nodes.values().filter(to_tell) {
        let agents = context.agents().await?;
        if let Err(error) = agents.allow_list(node, &callers, (job, op)).await {
            let why = stdx::daemon::chain(&error);
            let name = &node.name;
            context.say(format!("{name} was not told who may call it: {why}")).await;
            untold.push(name.clone());
        }
    }
    Ok(untold)
}
