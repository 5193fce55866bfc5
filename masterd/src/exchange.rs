//! Takes what agents saw and commits it (DESIGN invariant 2: observations), and sees to it that
//! agents serve the newest document of their rack.
//!
//! This is a reconciler: it looks, and what is to be done it submits as a job.

pub mod observe;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::node::{Node, NodeRole};
use model::opcode::{OpCode, OpInput, RackPush, ReasonEntry};
use model::{JobId, MacAddress, NodeName, Serial, Timestamp};
use rpc::calls::{Exchange, Exchanged, RackHeld};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::jobs::{Answer, Event};
use crate::lu::World;
use observe::Observed;

/// How long an agent holds an exchange that has nothing to tell.
const WAIT_MS: u32 = 15_000;
/// Pause after an exchange that failed: the agent is down or cut off, and is asked again soon.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Racks of one agent whose refused events are logged: a log that names more helps nobody.
const REFUSED_RACKS_MAX: usize = 64;

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
    pushing: Option<JobId>,
    /// Racks of which events were refused, and that was told.
    refused: BTreeSet<u32>,
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
                }
                take(&world, &node, &mut talk, exchanged).await;
            }
            Err(error) => {
                if talk.reached.replace(false) != Some(false) {
                    let why = stdx::daemon::chain(&error);
                    tracing::warn!(node = %node.name, why, "agent is not reached");
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                }
            }
        }
    }
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
        let (tell, told) = tokio::sync::oneshot::channel();
        let decide = move |config: &_| {
            let Observed { changes, learnt, refused } = observe::observed(config, &name, &events);
            // Whoever asked may be gone: then nobody logs it.
            drop(tell.send((learnt, refused)));
            Ok(changes)
        };
        match world.writer.transact(Box::new(decide)).await {
            Ok(()) => {
                talk.acknowledged = last;
                if let Ok((learnt, refused)) = told.await {
                    log_observed(node, talk, learnt, refused);
                }
            }
            Err(error) => tracing::warn!(node = %node.name, %error, "events were not committed"),
        }
    }
    push_if_stale(world, node, talk, &racks).await;
}

/// Logs what events led to, but for what is seen in lists.
fn log_observed(
    node: &Node,
    talk: &mut Conversation,
    learnt: Vec<(Serial, MacAddress)>,
    refused: BTreeMap<u32, usize>,
) {
    for (serial, mac) in learnt {
        tracing::info!(node = %node.name, %serial, %mac, "machine booted with a new Ethernet address");
    }
    for (rack, events) in refused {
        if talk.refused.len() >= REFUSED_RACKS_MAX || !talk.refused.insert(rack) {
            continue;
        }
        tracing::warn!(
            node = %node.name,
            rack,
            events,
            "events of a rack that the node does not serve are left out; if it should serve it, \
             `gnt node modify --rack {rack} {}`",
            node.name
        );
    }
}

/// Submits a push where an agent serves an old document, unless one is under way.
async fn push_if_stale(world: &World, node: &Node, talk: &mut Conversation, held: &[RackHeld]) {
    let snapshot = world.published.snapshot();
    let rack = snapshot.config.nodes.get(&node.name).and_then(|node| node.rack);
    let Some(rack) = rack.filter(|_| snapshot.config.ipam.is_some()) else { return };
    let version = snapshot.rack_version(rack);
    if held.iter().any(|held| held.rack == rack && held.version >= version) {
        return;
    }
    let under_way = |id| world.published.jobs.get(id).is_some_and(|job| !job.status().is_final());
    if talk.pushing.is_some_and(under_way) || a_job_will_push(world, rack) {
        return;
    }
    let now = Timestamp::from_micros(world.clock.now_micros());
    let mut op = OpInput::new(OpCode::RackPush(RackPush { racks: vec![rack] }));
    op.common.reason.push(ReasonEntry(
        "gantry:exchange".to_owned(),
        format!("{} serves an old document of rack {rack}", node.name),
        now.micros().saturating_mul(1_000),
    ));
    let archived = HashMap::new();
    let jobs = vec![vec![op]];
    let make = |reply| Event::Submit { jobs, to_drained: true, archived, reply };
    match world.writer.ask(make).await {
        Ok(Answer::Submitted(answers)) => {
            talk.pushing = answers.into_iter().next().and_then(Result::ok);
        }
        Ok(_) | Err(_) => tracing::warn!(node = %node.name, "no push could be submitted"),
    }
}

/// Whether a job that changes a rack is running: it pushes itself when it is done.
fn a_job_will_push(world: &World, rack: u32) -> bool {
    world.published.jobs.all().iter().rev().take(RECENT_JOBS).any(|job| {
        let current = job.current().and_then(|place| job.ops.get(place));
        let op = current.and_then(|op| op.input.known()).map(|input| &input.op);
        match op {
            Some(OpCode::RackPush(op)) => op.racks.is_empty() || op.racks.contains(&rack),
            Some(OpCode::IpamSet(_) | OpCode::MachineRemove(_)) => true,
            Some(OpCode::MachineAdd(op)) => {
                let racks: BTreeSet<u32> = op.machines.iter().map(|spec| spec.rack).collect();
                racks.contains(&rack)
            }
            Some(OpCode::NodeAdd(_) | OpCode::NodeSetParams(_)) => true,
            _ => false,
        }
    })
}

/// Jobs that are looked at for one that pushes: more are not changing one rack at a time.
const RECENT_JOBS: usize = 100;
