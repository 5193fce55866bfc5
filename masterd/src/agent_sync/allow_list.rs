//! Tells agents who may call them. [`known`] decides whom.

mod known;

use std::collections::HashMap;
use std::sync::Arc;

use model::NodeName;
use model::node::Node;
use parking_lot::Mutex;
use rpc::calls::{AllowList, Caller, SetAllowList};
use stdx::daemon::chain;

use super::AgentSync;
use super::desired_state::Kept;
use crate::agents::{Agents, Behalf};
use crate::queue::{Published, Snapshot};
use known::Known;

/// The list that every agent should have.
#[derive(Debug)]
pub(crate) struct Callers {
    /// Its [`Caller::digest`].
    pub(super) digest: String,
}

impl Kept for Callers {
    const WHAT: &'static str = "the list of who may call it";

    fn of(snapshot: &Snapshot) -> Self {
        Self { digest: Caller::digest(&snapshot.config.callers()) }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Who is no candidate any more must not call for seconds to come.
    fn must_follow(&self, newest: &Self) -> bool {
        !self.is_like(newest)
    }

    async fn push(&self, sync: &AgentSync, node: &Node) -> Result<(), String> {
        sync.allow_lists.push(node, None, false).await
    }
}

/// Pushes the allow-list to agents, and knows which list each of them has.
#[derive(Debug)]
pub struct AllowListPush {
    published: Arc<Published>,
    agents: Agents,
    lines: Mutex<HashMap<NodeName, Arc<Line>>>,
}

/// What is known of one agent's.
#[derive(Debug, Default)]
struct Line {
    /// Who tells it: one after the other, or an older list could overtake a newer one.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

impl AllowListPush {
    /// Pushes the list of the `published` configuration to `agents`.
    #[must_use]
    pub fn new(published: Arc<Published>, agents: Agents) -> Self {
        Self { published, agents, lines: Mutex::default() }
    }

    fn line(&self, node: &NodeName) -> Arc<Line> {
        Arc::clone(self.lines.lock().entry(node.clone()).or_default())
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
        let line = self.lines.lock().get(node).map(Arc::clone)?;
        let known = line.known.lock();
        known.lacks(wanted)
    }

    pub(super) fn forget(&self, node: &NodeName) {
        self.lines.lock().remove(node);
    }

    /// Tells a node's agent who may call it, as it is committed, unless that is known to have this list
    /// already; or `anyway`.
    ///
    /// # Errors
    /// Why the agent does not have the list now, as far as is known.
    pub(crate) async fn push(
        &self,
        node: &Node,
        behalf: Option<Behalf>,
        anyway: bool,
    ) -> Result<(), String> {
        let line = self.line(&node.name);
        let _turn = line.turn.lock().await;
        let callers = self.published.snapshot().config.callers();
        let digest = Caller::digest(&callers);
        if !anyway && line.known.lock().has(&digest) {
            return Ok(());
        }
        let list = AllowList { epoch: self.agents.epoch(), callers };
        let answer = self.agents.call(node, SetAllowList { list }, behalf).await;
        let told = answer.map_err(|error| chain(&error));
        line.known.lock().told(digest, &told);
        told
    }
}
