//! Tells agents who may call them. [`known`] decides whom.

mod known;

use std::collections::HashMap;
use std::sync::Arc;

use model::NodeName;
use model::node::Node;
use parking_lot::Mutex;
use rpc::calls::{AllowList, Caller, SetAllowList};
use stdx::daemon::chain;

use crate::agents::{Agents, Behalf};
use crate::config::queue::Published;
use known::Known;

/// Pushes the allow-list to agents, and knows which list each of them has.
#[derive(Debug)]
pub struct AllowListPush {
    published: Arc<Published>,
    agents: Agents,
    lines: Mutex<HashMap<NodeName, Arc<Line>>>,
}

/// The state of one agent's list.
#[derive(Debug, Default)]
struct Line {
    /// The turn to tell it: one after the other, or an older list could overtake a newer one.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

impl AllowListPush {
    /// Pushes the list of the `published` configuration to `agents`.
    pub fn new(published: Arc<Published>, agents: Agents) -> Self {
        Self { published, agents, lines: Mutex::default() }
    }

    fn line(&self, node: &NodeName) -> Arc<Line> {
        Arc::clone(self.lines.lock().entry(node.clone()).or_default())
    }

    /// Notes what an agent told; whether it is to be told the list of the digest `wanted`.
    pub(crate) fn reported(
        &self,
        node: &NodeName,
        reported: Option<&str>,
        was_away: bool,
        wanted: &str,
    ) -> bool {
        self.line(node).known.lock().reported(reported, was_away, wanted)
    }

    /// Why an agent has not the list of this digest, as far as is known; none if it has it.
    pub(crate) fn lacks(&self, node: &NodeName, wanted: &str) -> Option<String> {
        let line = self.lines.lock().get(node).map(Arc::clone)?;
        let known = line.known.lock();
        known.lacks(wanted)
    }

    pub(crate) fn forget(&self, node: &NodeName) {
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
