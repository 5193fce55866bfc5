//! The permitted callers of agents, as a list that agents should hold.

use model::node::Node;
use rpc::calls::Caller;

use super::AgentSync;
use super::desired_state::Kept;
use crate::config::queue::Snapshot;

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

    /// A former candidate must not go on calling for seconds.
    fn must_follow(&self, newest: &Self) -> bool {
        !self.is_like(newest)
    }

    async fn push(&self, sync: &AgentSync, node: &Node) -> Result<(), String> {
        sync.allow_lists.push(node, None, false).await
    }
}
