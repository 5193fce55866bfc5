//! The end of a node's life in its cluster.

use std::sync::Arc;

use rpc::Failure;
use rpc::calls::Leave;
use stdx::daemon::chain;

use super::Agent;

impl Agent {
    /// Forgets the identity first: from then on the machine is no node, whatever comes between.
    pub(super) async fn leave(&self, call: Leave) -> Result<(), Failure> {
        let ours = self.membership.cluster_uuid;
        if call.cluster_uuid != ours {
            let message =
                format!("this node belongs to cluster {ours}, not to {}", call.cluster_uuid);
            return Err(Failure::failed(message));
        }
        let layout = self.layout.clone();
        if layout.data().join(model::document::CLUSTER).exists() {
            let text = "this node holds the cluster's store, which its masterd wipes first: start it there";
            return Err(Failure::failed(text));
        }
        let turn = self.renewal.clone();
        let forgetting = move || turn.take(|| rpc::identity::forget(&layout));
        let forgotten = tokio::task::spawn_blocking(forgetting).await;
        forgotten
            .unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
            .map_err(|error| Failure::failed(chain(&error)))?;
        let ended =
            self.instances.set(&[]).await.map_err(|error| Failure::failed(chain(&error)))?;
        if !ended.is_empty() {
            tracing::warn!(instances = ended.join(", "), "ended, as this node leaves its cluster");
        }
        let racks: Vec<u32> = self.racks.held().iter().map(|held| held.rack).collect();
        self.racks.clear();
        let files = Arc::clone(&self.ssconf);
        let unlinked = tokio::task::spawn_blocking(move || files.wipe()).await;
        let unlinked =
            unlinked.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        let wiped = self.ledger.wipe(&racks).await;
        tracing::warn!(cluster = %self.membership.cluster_name, "this node has left its cluster");
        self.left.notify_one();
        wiped.map_err(|error| Failure::failed(chain(&error)))?;
        unlinked.map_err(|error| Failure::failed(chain(&error)))
    }
}
