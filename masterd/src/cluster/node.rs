//! Opcodes on nodes.

pub mod add;
mod by_machine;
mod change;
pub mod fields;
mod member_removal;
pub mod modify;
pub mod network;
pub mod powercycle;
mod readd;
pub mod remove;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::{Code, Exception, NodeName};
use tokio::time::Instant;

use crate::config::Config;
use crate::role::members::heard_lately;
use crate::units::{Context, Failure};
use membership::loss;
use membership::pool::{Pool, PoolNode, VOTERS_MIN, if_lost, settle, votes_at_rest};

/// How long voters may take to answer that are needed when another one goes: a few heartbeats.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A line of a job's log as Ganeti writes what it does beside what was asked.
fn info(text: &str) -> String {
    format!(" - INFO: {text}")
}

/// Whether the pool of candidates has room for one more.
fn pool_has_room(config: &Config) -> bool {
    config.candidates().count() < config.pool_size()
}

/// How many instances have `node` as their primary node.
fn primary_instances(config: &Config, node: &Node) -> u32 {
    let count = config.instances.by.primary.of(node.name.clone()).count();
    u32::try_from(count).unwrap_or(u32::MAX)
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
        late: false,
        seat: None,
    };
    let master = config.nodes.get(&config.role.master).map_or(config.role.node, |node| node.id);
    Pool { nodes: config.nodes.values().map(node).collect(), master, size: config.pool_size() }
}

/// Refuses what takes a voter's answers away before another commit takes its vote. A voter that answers
/// late is waited for, up to [`ANSWERS_WITHIN`].
///
/// # Errors
/// The other voters that answer are too few then; `what` is said to be impossible.
pub(super) async fn goes_on_if_silent(
    context: &Context,
    node: &Node,
    what: &str,
) -> Result<(), Failure> {
    let engine = context.engine();
    let Some((member, engine)) = node.member.as_ref().zip(engine) else { return Ok(()) };
    let begun = Instant::now();
    loop {
        let status = engine.status();
        let heard = heard_lately(engine.member(), &status);
        let mut sets = status.members.sets().iter();
        let gone = sets.try_for_each(|voters| loss::goes_on_if_silent(member.id, voters, &heard));
        match gone {
            Ok(()) => return Ok(()),
            Err(stops) if begun.elapsed() > ANSWERS_WITHIN => {
                let text = format!("Node {} cannot {what} now: {stops}", node.name);
                let refusal = Exception::prereq(text, ErrorCode::WrongState);
                return Err(refusal.coded(Code::VotersNeeded).into());
            }
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// The nodes as they are to be, by their roles alone, once who is `reached` fills up the pool.
fn at_rest(config: &Config, reached: &BTreeSet<NodeName>) -> Pool {
    let mut pool = pool(config, reached);
    settle(&mut pool);
    pool
}

/// How many are to vote then.
pub(crate) fn votes(context: &Context) -> usize {
    votes_at_rest(&at_rest(&context.config(), &context.reached()))
}

/// Tells the operator where the loss of one voter is borne no longer, as it was when `before` voted.
pub(crate) async fn tell_if_alone(context: &mut Context, before: usize) {
    let config = context.config();
    let pool = at_rest(&config, &context.reached());
    if before < VOTERS_MIN || votes_at_rest(&pool) >= VOTERS_MIN {
        return;
    }
    let by_itself = match config.cluster.auto_failover {
        true => ", and auto_failover does nothing",
        false => "",
    };
    let text = format!(
        "Only the master votes from here on: if it is lost, {}{by_itself}. Three candidates, or two and a \
         witness, bear the loss of one",
        if_lost(&pool, |_| true)
    );
    context.say(text).await;
}

/// Tells every node that is not offline who may call it, unless it is known to know; not `knows`,
/// which was told already. Gives those that could not be told.
pub(super) async fn tell_callers(
    context: &mut Context,
    knows: Option<&NodeName>,
) -> Result<Vec<NodeName>, Failure> {
    tell(context, knows, false).await
}

/// The same, for those that are known to know, too.
pub(super) async fn tell_callers_again(context: &mut Context) -> Result<Vec<NodeName>, Failure> {
    tell(context, None, true).await
}

async fn tell(
    context: &mut Context,
    knows: Option<&NodeName>,
    anyway: bool,
) -> Result<Vec<NodeName>, Failure> {
    let (config, behalf) = (context.config(), context.behalf());
    let to_tell = |node: &&Arc<Node>| node.role != NodeRole::Offline && Some(&node.name) != knows;
    let mut untold = Vec::new();
    for node in config.nodes.values().filter(to_tell) {
        // "Running" must be durable before the first call.
        context.agents().await?;
        if let Err(why) = context.allow_lists().push(node, behalf, anyway).await {
            let name = &node.name;
            let text = format!(
                "{name} was not told who may call it: {why}; it is told as soon as it is reached, \
                 and until then obeys no candidate that is new, should that become the master"
            );
            context.say(text).await;
            untold.push(name.clone());
        }
    }
    Ok(untold)
}
