//! Takes what agents saw and commits it (DESIGN invariant 2: observations), and sees to it that
//! agents serve the newest document of their rack.
//!
//! This is a reconciler: it looks, and what is to be done it submits as a job.

pub mod contact;
pub mod observe;
mod push;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::node::{Node, NodeRole};
use model::{NodeName, Timestamp};
use rpc::calls::{Exchange, Exchanged};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::lu::World;

/// How long an agent holds an exchange that has nothing to tell.
const WAIT_MS: u32 = 15_000;
/// Pause after an exchange that failed: the agent is down or cut off, and is asked again soon.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Runs exchanges with all agents until `stop`.
pub async fn run(world: Arc<World>, stop: CancellationToken) {
    let mut changes = world.published.subscribe();
    let mut running: HashMap<NodeName, (Arc<Node>, CancellationToken)> = HashMap::new();
    let mut loops = JoinSet::new();
    loop {
        let config = Arc::clone(&changes.borrow_and_update().config);
        running.retain(|name, (node, token)| {
            let same = config.nodes.get(name).is_some_and(|now| same_agent(now, node));
            if !same {
                token.cancel();
                world.contacts.forget(name);
            }
            same
        });
        for (name, node) in &config.nodes {
            if node.role == NodeRole::Offline || running.contains_key(name) {
                continue;
            }
            let token = stop.child_token();
            running.insert(name.clone(), (Arc::clone(node), token.clone()));
            loops.spawn(with_agent(Arc::clone(&world), Arc::clone(node), token));
        }
        tokio::select! {
            () = stop.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Some(_ended) = loops.join_next() => {}
        }
    }
    while loops.join_next().await.is_some() {}
}

/// Whether the exchange with a node can go on after its object changed.
fn same_agent(now: &Node, before: &Node) -> bool {
    now.id == before.id
        && now.rpc_address() == before.rpc_address()
        && now.fingerprint == before.fingerprint
        && (now.role == NodeRole::Offline) == (before.role == NodeRole::Offline)
}

/// What the master remembers of one agent between exchanges.
#[derive(Debug, Default)]
struct Conversation {
    incarnation: Option<Uuid>,
    acknowledged: u64,
    reached: Option<bool>,
    push: push::State,
}

async fn with_agent(world: Arc<World>, node: Arc<Node>, stop: CancellationToken) {
    let mut talk = Conversation::default();
    loop {
        let exchange = Exchange {
            incarnation: talk.incarnation,
            acknowledged: talk.acknowledged,
            // An agent that was not reached is asked at once what it holds.
            wait_ms: if talk.reached == Some(true) { WAIT_MS } else { 0 },
        };
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = world.agents.exchange(&node, exchange) => answer,
        };
        match answer {
            Ok(exchanged) => {
                if talk.reached.replace(true) != Some(true) {
                    tracing::info!(node = %node.name, "agent is reached");
                    world.contacts.set(&node.name, now(&world), None);
                }
                take(&world, &node, &mut talk, exchanged).await;
            }
            Err(error) => {
                if talk.reached.replace(false) != Some(false) {
                    let why = stdx::daemon::chain(&error);
                    tracing::warn!(node = %node.name, why, "agent is not reached");
                    world.contacts.set(&node.name, now(&world), Some(why));
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                }
            }
        }
    }
}

fn now(world: &World) -> Timestamp {
    Timestamp::from_micros(world.clock.now_micros())
}

/// Commits what an agent saw, and only then lets it forget.
async fn take(world: &World, node: &Node, talk: &mut Conversation, exchanged: Exchanged) {
    let Exchanged { incarnation, events, racks, dropped } = exchanged;
    if talk.incarnation != Some(incarnation) {
        if talk.incarnation.is_some() {
            tracing::warn!(node = %node.name, "agent came back with another store");
        }
        talk.incarnation = Some(incarnation);
        talk.acknowledged = 0;
    }
    if dropped > 0 {
        tracing::warn!(node = %node.name, dropped, "agent gave up events: its outbox was full");
    }
    if let Some(last) = events.last().map(|event| event.number) {
        let name = node.name.clone();
        let decide = move |config: &_| Ok(observe::changes(config, &name, &events));
        match world.writer.transact(Box::new(decide)).await {
            Ok(()) => talk.acknowledged = last,
            Err(error) => tracing::warn!(node = %node.name, %error, "events were not committed"),
        }
    }
    push::if_stale(world, node, &mut talk.push, &racks).await;
}
