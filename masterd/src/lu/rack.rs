//! Racks' documents on their way to the agents.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobs::locks::Level;
use model::node::{Node, NodeRole};
use model::opcode;
use model::rack::DocumentVersion;
use model::{Code, Exception, NodeName};
use rpc::calls::RackPush;

use super::{Context, Failure, LogicalUnit, Wanted};
use crate::config::Config;
use crate::rack_document::compile;

/// Sends the documents of `racks` to their agents that are not offline. An agent that is not
/// reached is told of in the job's log and gets its document when it is back; the change itself
/// stands. So is a rack that nobody serves.
///
/// # Errors
/// The master is ending.
pub(crate) async fn push(context: &mut Context, racks: &BTreeSet<u32>) -> Result<(), Failure> {
    push_racks(context, racks).await.map(drop)
}

/// The same; gives the nodes whose agents did not take their document.
async fn push_racks(
    context: &mut Context,
    racks: &BTreeSet<u32>,
) -> Result<Vec<NodeName>, Failure> {
    let mut without = Vec::new();
    for &rack in racks {
        let pushed = push_rack(context, rack).await?;
        if pushed.is_empty() && context.config().ipam.is_some() {
            context
                .say(format!(
                    "rack {rack}: no agent serves it; `gnt node modify --rack {rack} NODE` gives it one"
                ))
                .await;
        }
        for (node, result) in pushed {
            match result {
                Ok(version) => {
                    context.say(format!("rack {rack}: {node} serves version {version}")).await;
                }
                Err(why) => {
                    let text = format!(
                        "rack {rack}: {node} did not take the document ({why}); it is sent again \
                         when the agent is back"
                    );
                    context.say(text).await;
                    without.push(node);
                }
            }
        }
    }
    Ok(without)
}

/// Tells in the job's log of a rack that has lost its last agent: its machines get no address and
/// no boot from here any more.
pub(crate) async fn tell_if_unserved(context: &Context, rack: Option<u32>) {
    let config = context.config();
    let Some(rack) = rack.filter(|_| config.ipam.is_some()) else { return };
    if config.agents_of(rack).any(|node| node.role != NodeRole::Offline) {
        return;
    }
    let machines = config.machines_in(rack).count();
    context
        .say(format!(
            "rack {rack} with {machines} machines has no agent any more; \
             `gnt node modify --rack {rack} NODE` gives it one"
        ))
        .await;
}

/// Sends every rack's document to its agents; gives the nodes whose agents did not take it.
///
/// # Errors
/// As [`push`].
pub(crate) async fn push_all(context: &mut Context) -> Result<Vec<NodeName>, Failure> {
    let racks = served(&context.config());
    push_racks(context, &racks).await
}

fn served(config: &Config) -> BTreeSet<u32> {
    config.served().collect()
}

type Pushed = Vec<(NodeName, Result<DocumentVersion, String>)>;

async fn push_rack(context: &mut Context, rack: u32) -> Result<Pushed, Failure> {
    let snapshot = context.committed();
    let Some(document) = compile(&snapshot, rack)? else { return Ok(Vec::new()) };
    let digest = document.digest();
    let called = |node: &&Arc<Node>| node.role != NodeRole::Offline;
    let nodes: Vec<Arc<Node>> = snapshot.config.agents_of(rack).filter(called).cloned().collect();
    let behalf = context.behalf();
    let mut pushed = Vec::with_capacity(nodes.len());
    for node in nodes {
        let name = node.name.clone();
        let agents = context.agents().await?;
        let push = RackPush { base: None, document: document.clone() };
        let result = match agents.call(&node, push, behalf).await {
            Ok(held) if held.digest == digest => Ok(held.version),
            Ok(held) => Err(format!("it serves version {} and takes no older one", held.version)),
            Err(error) => Err(stdx::daemon::chain(&error)),
        };
        pushed.push((name, result));
    }
    Ok(pushed)
}

impl LogicalUnit for opcode::RackPush {
    type Plan = BTreeSet<u32>;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<BTreeSet<u32>, Failure> {
        let served = served(&context.config());
        if self.racks.is_empty() {
            return Ok(served);
        }
        let wanted: BTreeSet<u32> = self.racks.iter().copied().collect();
        if let Some(rack) = wanted.difference(&served).next() {
            return Err(Exception::prereq(
                format!("no node's agent serves rack {rack}; `gnt node modify --rack {rack} NODE`"),
                model::error::ErrorCode::UnknownEntity,
            )
            .coded(Code::Document)
            .into());
        }
        Ok(wanted)
    }

    async fn exec(
        self,
        racks: BTreeSet<u32>,
        context: &mut Context,
    ) -> Result<Vec<(u32, String)>, Failure> {
        let mut failed = Vec::new();
        let mut done = Vec::new();
        for rack in racks {
            for (node, result) in push_rack(context, rack).await? {
                match result {
                    Ok(_version) => done.push((rack, node.to_string())),
                    Err(why) => failed.push(format!("rack {rack}, {node}: {why}")),
                }
            }
        }
        match failed.is_empty() {
            true => Ok(done),
            false => Err(Exception::exec(failed.join("; ")).coded(Code::Document).into()),
        }
    }
}
