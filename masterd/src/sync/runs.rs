//! Has agents end what lives on their nodes and must not: what is committed says which runs a node has.
//!
//! A job commits a run before it begins. So what lives and is not committed is left over: of a master that
//! was cut off, of a node that was taken for dead, or of a record that is gone.

use std::time::Duration;

use model::instance::launch::Sight;
use model::node::Node;
use rpc::calls::RunSet;
use stdx::daemon::chain;
use tokio::time::Instant;

use super::AgentSync;
use crate::instances::owned;

/// Between two such calls to one agent: what the first one ended is told by then.
const AGAIN: Duration = Duration::from_secs(5);

/// The last order to an agent.
#[derive(Debug, Default)]
pub(super) struct RunsSync {
    /// When it was told last.
    told: Option<Instant>,
}

impl AgentSync {
    /// Tells an agent which runs its node is to have, where something else lives there.
    pub(super) async fn end_unowned(&self, node: &Node, state: &mut RunsSync) {
        let alive = self.contacts.instances.alive_at(&node.name);
        if alive.is_empty() || state.told.is_some_and(|last| last.elapsed() < AGAIN) {
            return;
        }
        // Newer than what the agent saw: a run that began meanwhile was committed before.
        let config = self.published.snapshot().config;
        let owned = owned(&config, &node.name);
        let is_owned = |sight: &Sight| {
            owned.iter().any(|own| {
                own.uuid == sight.uuid && (own.run == Some(sight.run) || own.highest < sight.run)
            })
        };
        if alive.iter().all(is_owned) {
            return;
        }
        state.told = Some(Instant::now());
        match self.agents.call(node, RunSet { owned }, None).await {
            Ok(ended) if ended.ended.is_empty() => {}
            Ok(ended) => {
                let names = ended.ended.join(", ");
                tracing::warn!(node = %node.name, names, "instances that are not to be there were ended");
            }
            Err(error) => {
                let why = chain(&error);
                tracing::warn!(node = %node.name, why, "an agent was not told which runs it is to have");
            }
        }
    }
}
