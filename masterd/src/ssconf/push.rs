//! How every node gets the files of who is master: kept by the exchange with its agent, and sent
//! again when an operator asks for it.

use model::NodeName;
use model::node::{Node, NodeRole};
use model::ssconf::{EPOCH, MASTER_IP, MASTER_NODE, PEERS, Ssconf};

use super::nodes::compile;
use crate::agents::Behalf;
use crate::exchange::keep::Kept;
use crate::lu::{Context, Failure, World};
use crate::writer::publish::Snapshot;

/// The files by which a machine finds the master: what they say, every node is told at once.
const URGENT: [&str; 4] = [MASTER_NODE, MASTER_IP, EPOCH, PEERS];

impl Kept for Ssconf {
    const WHAT: &'static str = "the files of who is master";

    fn of(snapshot: &Snapshot) -> Self {
        compile(snapshot)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.files == other.files
    }

    fn must_follow(&self, newest: &Self) -> bool {
        URGENT.iter().any(|&name| self.files.get(name) != newest.files.get(name))
    }

    async fn push(&self, world: &World, node: &Node) -> Result<(), String> {
        push_one(world, node, self, None).await
    }
}

async fn push_one(
    world: &World,
    node: &Node,
    ssconf: &Ssconf,
    behalf: Option<Behalf>,
) -> Result<(), String> {
    match world.agents.ssconf_push(node, ssconf, behalf).await {
        Ok(held) if held.digest == ssconf.digest() => Ok(()),
        Ok(held) => {
            Err(format!("it has those of version {} and takes no older ones", held.version))
        }
        Err(error) => Err(stdx::daemon::chain(&error)),
    }
}

/// Sends the files to every node that is not offline; who does not take them is told of in the job's
/// log, and gets them when it is back. Gives those.
///
/// # Errors
/// The master is ending.
pub(crate) async fn push_all(context: &mut Context) -> Result<Vec<NodeName>, Failure> {
    let snapshot = context.committed();
    let ssconf = compile(&snapshot);
    let behalf = Some((context.job(), context.op()));
    let mut without = Vec::new();
    for node in snapshot.config.nodes.values().filter(|node| node.role != NodeRole::Offline) {
        // "Running" must be durable before the first call.
        context.agents().await?;
        if let Err(why) = push_one(context.world(), node, &ssconf, behalf).await {
            let name = &node.name;
            let text = format!("{name} did not take the files of who is master ({why})");
            context.say(text).await;
            without.push(name.clone());
        }
    }
    Ok(without)
}
