//! Racks' documents on their way to the agents.

pub mod document;
pub mod fields;
pub mod shares;
pub mod status;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jobs::locks::Level;
use model::node::{Node, NodeRole};
use model::opcode;
use model::rack::DocumentVersion;
use model::{Code, Exception, NodeName};
use rpc::calls::RackPush;

use crate::config::{Config, ConfigChange};
use crate::machines::rack::document::{compile, compile_at};
use crate::machines::rack::shares as rack_shares;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// How often a document is sent on which a restart depends: an agent that starts again is there by then.
const HELD_TRIES: u32 = 4;
/// Before it is sent again.
const HELD_AGAIN: Duration = Duration::from_secs(3);
/// Racks that a job's log names one by one: each line stores the job anew, and a job on a thousand racks
/// is large.
const RACKS_TOLD_MAX: usize = 16;

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
    let (mut without, mut unserved) = (Vec::new(), Vec::new());
    for &rack in racks {
        let pushed = push_rack(context, rack).await?;
        if pushed.is_empty() && context.config().ipam.is_some() {
            unserved.push(rack);
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
    for line in told_unserved(&unserved) {
        context.say(line).await;
    }
    Ok(without)
}

/// Sends the document of a rack until every agent that is reached holds it. Others are told of: what
/// they serve meanwhile is of before, and so is what they say of it.
///
/// # Errors
/// No agent of the rack holds it; the master is ending.
pub(crate) async fn push_until_held(context: &mut Context, rack: u32) -> Result<(), Failure> {
    for round in 1.. {
        let pushed = push_rack(context, rack).await?;
        let (held, lacking): (Vec<_>, Vec<_>) =
            pushed.into_iter().partition(|(_, result)| result.is_ok());
        let reached = context.reached();
        let waits = lacking.iter().any(|(node, _)| reached.contains(node)) || held.is_empty();
        if waits && round < HELD_TRIES {
            tokio::time::sleep(HELD_AGAIN).await;
            continue;
        }
        for (node, why) in &lacking {
            let why = why.as_ref().err().map_or("", String::as_str);
            let text = format!("rack {rack}: {node} did not take the document ({why})");
            context.say(text).await;
        }
        return match held.is_empty() {
            false => Ok(()),
            true => {
                let text = format!(
                    "no agent holds the document of rack {rack}; see `gnt rack status {rack}`"
                );
                Err(Exception::exec(text).coded(Code::Document).into())
            }
        };
    }
    Ok(())
}

fn told_unserved(racks: &[u32]) -> Vec<String> {
    let (told, more) = racks.split_at(racks.len().min(RACKS_TOLD_MAX));
    let line = |rack: &u32| {
        format!(
            "rack {rack}: no agent serves it; `gnt node modify --rack {rack} NODE` gives it one"
        )
    };
    let more = (!more.is_empty()).then(|| {
        format!("and {} more racks that no agent serves; see `gnt rack status`", more.len())
    });
    told.iter().map(line).chain(more).collect()
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

/// Sends the document. If an agent gives addresses away for another to lease, the document that says so
/// follows once the first agent took its own.
async fn push_rack(context: &mut Context, rack: u32) -> Result<Pushed, Failure> {
    settle(context, rack, Vec::new(), String::new()).await?;
    let (pushed, digest) = push_document(context, rack).await?;
    let took = pushed.iter().filter(|(_, result)| result.is_ok());
    let took = took.map(|(name, _)| name.clone()).collect();
    match settle(context, rack, took, digest).await? {
        true => Ok(push_document(context, rack).await?.0),
        false => Ok(pushed),
    }
}

/// Brings the shares of a rack's agents up to date, where these agents took the document with this
/// digest. Whether they changed.
async fn settle(
    context: &mut Context,
    rack: u32,
    took: Vec<NodeName>,
    digest: String,
) -> Result<bool, Failure> {
    let now = context.now();
    let config = context.config();
    if config.ipam.is_none() || rack_shares::settled(&config, rack, &took, now).is_none() {
        return Ok(false);
    }
    let shares = context
        .transact(move |config| {
            // It may have changed since the agents took it.
            let document = compile_at(config, rack, 0)?;
            let is_same = document.is_some_and(|document| document.digest() == digest);
            let without = if is_same { took.as_slice() } else { &[] };
            let shares = rack_shares::settled(config, rack, without, now);
            Ok((shares.clone().map(ConfigChange::Shares).into_iter().collect(), shares))
        })
        .await?;
    for line in shares.iter().flat_map(rack_shares::told) {
        context.say(line).await;
    }
    Ok(shares.is_some())
}

async fn push_document(context: &mut Context, rack: u32) -> Result<(Pushed, String), Failure> {
    let snapshot = context.committed();
    let Some(document) = stdx::aside(|| compile(&snapshot, rack))? else {
        return Ok((Vec::new(), String::new()));
    };
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
    Ok((pushed, digest))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_racks_that_nobody_serves_are_told_in_few_lines() {
        let few = told_unserved(&[7]);
        assert_eq!(
            few,
            ["rack 7: no agent serves it; `gnt node modify --rack 7 NODE` gives it one"]
        );
        let many = told_unserved(&(0..1_000).collect::<Vec<_>>());
        assert_eq!(many.len(), RACKS_TOLD_MAX + 1);
        assert_eq!(
            many.last().unwrap(),
            "and 984 more racks that no agent serves; see `gnt rack status`"
        );
        assert!(told_unserved(&[]).is_empty());
    }
}
