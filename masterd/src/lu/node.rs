//! Opcodes on nodes.

pub mod add;
pub mod modify;
pub mod remove;

use std::sync::Arc;

use model::NodeName;
use model::node::{Node, NodeRole};
use rpc::calls::Caller;

use super::{Context, Failure};
use crate::config::Config;

/// The candidates: who may call agents.
pub(crate) fn callers(config: &Config) -> Vec<Caller> {
    let candidate = |node: &&Arc<Node>| node.role == NodeRole::Candidate || config.is_master(node);
    let caller =
        |node: &Arc<Node>| Caller { name: node.name.clone(), fingerprint: node.fingerprint };
    config.nodes.values().filter(candidate).map(caller).collect()
}

/// How many candidates there are, the master among them.
fn candidates(config: &Config) -> usize {
    callers(config).len()
}

/// Whether the pool of candidates has room for one more.
fn pool_has_room(config: &Config) -> bool {
    let size = usize::try_from(config.cluster.candidate_pool_size).unwrap_or(usize::MAX);
    candidates(config) < size
}

/// Tells every node that is not offline who may call it; not `knows`, which was told already.
pub(super) async fn tell_callers(
    context: &mut Context,
    knows: Option<&NodeName>,
) -> Result<(), Failure> {
    let config = context.config();
    let callers = callers(&config);
    let (job, op) = (context.job(), context.op());
    let to_tell = |node: &&Arc<Node>| node.role != NodeRole::Offline && Some(&node.name) != knows;
    for node in config.nodes.values().filter(to_tell) {
        let agents = context.agents().await?;
        if let Err(error) = agents.allow_list(node, &callers, (job, op)).await {
            let why = stdx::daemon::chain(&error);
            let name = &node.name;
            context.say(format!("{name} was not told who may call it: {why}")).await;
        }
    }
    Ok(())
}
