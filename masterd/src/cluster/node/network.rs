//! Opcodes on the network of a node's host: apply, look whether the node is still reached, commit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::host::HostNetwork;
use model::network::Owner;
use model::node::{Node, NodeRole};
use model::opcode::{NodeNetworkApply, NodeNetworkRollback};
use model::{Coded as _, Exception, Timestamp, Uuid};
use rpc::calls::{
    NetworkApplied, NetworkApply, NetworkCommit, NetworkEnded, NetworkRollback, Version,
};
use rpc::client::RpcError;
use stdx::daemon::chain;
use tokio::time::{Instant, timeout};

use crate::config::{Config, ConfigChange};
use crate::machines::network_template::Facts;
use crate::machines::network_template::files::read;
use crate::machines::network_template::units::resolved;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Between two tries to reach a node behind its change.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Part of the time of a change in which its answer is awaited, which the change itself may have lost.
const ANSWERED: (u32, u32) = (2, 5);
/// Part of the time of a change in which the node is tried: behind it the node goes back.
const TRIED: (u32, u32) = (4, 5);

fn lock(node: &str, level: Level, config: &Config) -> Result<Wanted, Exception> {
    let node = config.node(node)?;
    Ok(match level {
        Level::Node => vec![(LockName::member(level, node.name.as_str()), Mode::Exclusive)],
        _ => Vec::new(),
    })
}

/// The network that a node is to have, and the changes of the configuration for it.
struct Wish {
    node: Arc<Node>,
    /// None: what was applied last.
    network: Option<HostNetwork>,
    changes: Vec<ConfigChange>,
}

fn wish(
    op: &NodeNetworkApply,
    config: &Config,
    now: Timestamp,
    seed: u128,
) -> Result<Wish, Exception> {
    let wrong = |text: String| Exception::prereq(text, ErrorCode::WrongInput);
    let node = Arc::clone(config.node(&op.node_name)?);
    if node.role == NodeRole::Offline {
        let text = format!("Node {} is marked offline: its agent is not called", node.name);
        return Err(Exception::prereq(text, ErrorCode::WrongState));
    }
    let (text, name) = match (&op.text, &op.template, op.again) {
        (Some(text), None, false) => {
            let network = Some(read(text).map_err(wrong)?);
            return Ok(Wish { node, network, changes: Vec::new() });
        }
        (None, None, true) => return Ok(Wish { node, network: None, changes: Vec::new() }),
        (None, Some(name), false) => (config.newest_template(name.as_str()), name),
        _ => return Err(wrong("give one of `text`, `template` and `again`".to_owned())),
    };
    let template = text.ok_or_else(|| {
        Exception::prereq(format!("Network template '{name}' not known"), ErrorCode::UnknownEntity)
    })?;
    let owner =
        node.name.as_str().parse().map(Owner::Name).map_err(|error| wrong(format!("{error}")))?;
    let mut after = config.clone();
    let facts = |config: &Config| Facts::of_node(config, &node);
    let resolved = resolved(&mut after, &owner, facts, &template, (now, seed))?;
    let network = resolved.network.ok_or_else(|| {
        let text = format!("{owner} waits for an address; see gnt network list-claims");
        Exception::prereq(text, ErrorCode::TempInsufficientResources)
    })?;
    Ok(Wish { node, network: Some(network), changes: resolved.changes })
}

impl LogicalUnit for NodeNetworkApply {
    type Plan = Planned;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock(&self.node_name, level, config)
    }

    /// The agent itself checks the change against its host, and says the steps.
    async fn check(&self, context: &mut Context) -> Result<Planned, Failure> {
        let seed = Uuid::new_v4().as_u128();
        let wish = wish(self, &context.config(), context.now(), seed)?;
        let (network, seconds) = (wish.network.clone(), self.seconds);
        let call = NetworkApply { change: Uuid::new_v4(), network, plan_only: true, seconds };
        let behalf = context.behalf();
        let planned = context.agents().await?.call(&wish.node, call, behalf).await;
        let planned = planned.map_err(|error| {
            let text =
                format!("node {} cannot have this network: {}", wish.node.name, chain(&error));
            Exception::prereq(text, ErrorCode::WrongState)
        })?;
        let NetworkApplied { steps, files_differ, unkept } = planned;
        if steps.is_empty() {
            let told = if files_differ { "is so, but its files differ" } else { "is so already" };
            context.say(format!("{} {told}", wish.node.name)).await;
        }
        for step in &steps {
            context.say(step.clone()).await;
        }
        if let Some(why) = unkept.filter(|_| !steps.is_empty()) {
            let text = format!("{} will not have it after its next start: {why}", wish.node.name);
            context.say(text).await;
        }
        Ok(Planned { wish, steps, files_differ })
    }

    async fn exec(self, plan: Planned, context: &mut Context) -> Result<Vec<String>, Failure> {
        let Planned { wish: Wish { node, network, changes }, steps, files_differ } = plan;
        if !changes.is_empty() {
            context.transact(move |_config| Ok((changes, ()))).await?;
        }
        if steps.is_empty() && !files_differ {
            return Ok(steps);
        }
        let begun = Instant::now();
        let deadline = Duration::from_secs(self.seconds.into());
        let (change, behalf) = (Uuid::new_v4(), context.behalf());
        let call = NetworkApply { change, network, plan_only: false, seconds: self.seconds };
        let made = context.agents().await?.call(&node, call, behalf);
        let answer = timeout(deadline * ANSWERED.0 / ANSWERED.1, made).await;
        // No answer may be due to the change itself: the commit tells.
        if let Ok(Err(RpcError::Failed { message, .. })) = answer {
            let text = format!("node {} refused its network: {message}", node.name);
            return Err(Exception::exec(text).into());
        }
        let ended = committed(&node, change, (begun, deadline), context).await?;
        for file in ended.files {
            context.say(format!("written: {file}")).await;
        }
        if let Some(why) = ended.unkept {
            context.say(format!("{} has it until its next start: {why}", node.name)).await;
        }
        Ok(steps)
    }
}

/// A wish with the steps that the agent told.
pub(crate) struct Planned {
    wish: Wish,
    steps: Vec<String>,
    files_differ: bool,
}

/// Whether the master reaches another node, where it is its own host that changed: it reaches itself
/// without any network. True where there is none to reach.
async fn reaches_others(
    node: &Node,
    context: &mut Context,
    left: Duration,
) -> Result<bool, Failure> {
    let config = context.config();
    let behalf = context.behalf();
    if config.role.master != node.name {
        return Ok(true);
    }
    let agents = context.agents().await?.clone();
    let others = config
        .nodes
        .values()
        .filter(|other| other.name != node.name && other.role != NodeRole::Offline);
    let mut calls: FuturesUnordered<_> =
        others.map(|other| agents.call(other, Version {}, behalf)).collect();
    if calls.is_empty() {
        return Ok(true);
    }
    let first = async {
        while let Some(answer) = calls.next().await {
            if answer.is_ok() {
                return true;
            }
        }
        false
    };
    Ok(timeout(left, first).await.unwrap_or(false))
}

/// Tries until the node is reached, and has it keep its change.
async fn committed(
    node: &Node,
    change: Uuid,
    (begun, deadline): (Instant, Duration),
    context: &mut Context,
) -> Result<NetworkEnded, Failure> {
    let (name, behalf) = (&node.name, context.behalf());
    let agents = context.agents().await?.clone();
    let mut why = "no answer".to_owned();
    loop {
        let left = (deadline * TRIED.0 / TRIED.1).saturating_sub(begun.elapsed());
        if left.is_zero() {
            let text = format!(
                "node {name} was not reached behind its change ({why}): it goes back by itself within {} s",
                deadline.as_secs()
            );
            return Err(Exception::exec(text).into());
        }
        if !reaches_others(node, context, left).await? {
            "no other node is reached from the master".clone_into(&mut why);
            tokio::time::sleep(TRY_AGAIN.min(left)).await;
            continue;
        }
        match timeout(left, agents.call(node, NetworkCommit { change }, behalf)).await {
            Ok(Ok(ended)) if ended.waited => return Ok(ended),
            Ok(Ok(_)) => {
                let text = format!("node {name} went back before the master reached it");
                return Err(Exception::exec(text).into());
            }
            Ok(Err(error)) => {
                why = chain(&error);
                tokio::time::sleep(TRY_AGAIN.min(left)).await;
            }
            Err(_elapsed) => {}
        }
    }
}

impl LogicalUnit for NodeNetworkRollback {
    type Plan = Arc<Node>;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock(&self.node_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<Arc<Node>, Failure> {
        Ok(Arc::clone(context.config().node(&self.node_name)?))
    }

    async fn exec(self, node: Arc<Node>, context: &mut Context) -> Result<bool, Failure> {
        let behalf = context.behalf();
        let ended = context.agents().await?.call(&node, NetworkRollback {}, behalf).await;
        let ended = ended.map_err(|error| {
            let text = format!("node {} did not go back: {}", node.name, chain(&error));
            Exception::exec(text).coded(error.code())
        })?;
        let told = if ended.waited { "went back" } else { "has no change that waits" };
        context.say(format!("{} {told}", node.name)).await;
        Ok(ended.waited)
    }
}
