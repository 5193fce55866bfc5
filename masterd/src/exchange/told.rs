//! Tells agents who may call them. `callers` decides whom.

use std::collections::HashMap;
use std::sync::Arc;

use model::NodeName;
use model::node::Node;
use parking_lot::Mutex;
use rpc::calls::Caller;
use stdx::daemon::chain;

use super::callers::Known;
use super::keep::Kept;
use crate::agents::Behalf;
use crate::lu::{World, node};
use crate::writer::publish::Snapshot;

/// The list that every agent should have.
#[derive(Debug)]
pub(crate) struct Callers {
    /// Its [`Caller::digest`].
    pub(super) digest: String,
}

impl Kept for Callers {
    const WHAT: &'static str = "the list of who may call it";

    fn of(snapshot: &Snapshot) -> Self {
        Self { digest: Caller::digest(&node::callers(&snapshot.config)) }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Who is no candidate any more must not call for seconds to come.
    fn must_follow(&self, newest: &Self) -> bool {
        !self.is_like(newest)
    }

    async fn push(&self, world: &World, node: &Node) -> Result<(), String> {
        tell(world, node, None, false).await
    }
}

/// What is known of the agents' lists.
#[derive(Debug, Default)]
pub struct Told(Mutex<HashMap<NodeName, Arc<Line>>>);

/// What is known of one agent's.
#[derive(Debug, Default)]
struct Line {
    /// Who tells it: one after the other, or an older list could overtake a newer one.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

impl Told {
    fn line(&self, node: &NodeName) -> Arc<Line> {
        Arc::clone(self.0.lock().entry(node.clone()).or_default())
    }

    /// Notes what an agent told; whether it is to be told `wanted`.
    pub(super) fn reported(
        &self,
        node: &NodeName,
        reported: Option<&str>,
        was_away: bool,
        wanted: &Callers,
    ) -> bool {
        self.line(node).known.lock().reported(reported, was_away, &wanted.digest)
    }

    /// Why an agent has not the list of this digest, as far as is known; none if it has it.
    pub(crate) fn lacks(&self, node: &NodeName, wanted: &str) -> Option<String> {
        let line = self.0.lock().get(node).map(Arc::clone)?;
        let known = line.known.lock();
        known.lacks(wanted)
    }

    pub(super) fn forget(&self, node: &NodeName) {
        self.0.lock().remove(node);
    }
}

/// Tells a node's agent who may call it, as it is committed, unless that is known to have this list
/// already; or `anyway`.
///
/// # Errors
/// Why the agent does not have the list now, as far as is known.
pub(crate) async fn tell(
    world: &World,
    node: &Node,
    behalf: Option<Behalf>,
    anyway: bool,
) -> Result<(), String> {
    let line = world.contacts.told.line(&node.name);
    let _turn = line.turn.lock().await;
    let callers = node::callers(&world.published.snapshot().config);
    let digest = Caller::digest(&callers);
    if !anyway && line.known.lock().has(&digest) {
        return Ok(());
    }
    let answer = world.agents.allow_list(node, &callers, behalf).await;
    let told = answer.map_err(|error| chain(&error));
    line.known.lock().told(digest, &told);
    told
}
