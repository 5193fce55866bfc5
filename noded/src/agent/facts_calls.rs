//! Calls that tell of the machine, and of what the agent holds.

use model::Timestamp;
use rpc::Failure;
use rpc::calls::{NodeFacts, NodeHeld, TROUBLES_MAX};
use stdx::daemon::chain;

use super::Agent;
use crate::facts;

impl Agent {
    pub(super) async fn facts(&self) -> Result<NodeFacts, Failure> {
        let (data, exports, systems) =
            (self.layout.node_data(), self.exports.clone(), self.systems.clone());
        let gather =
            move || facts::gather(&data, exports.names().unwrap_or_default(), systems.found());
        let gathered = tokio::task::spawn_blocking(gather).await;
        let gathered =
            gathered.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
        gathered.map_err(|error| Failure::failed(chain(&error)))
    }

    pub(super) async fn held(&self) -> Result<NodeHeld, Failure> {
        let facts = self.facts().await?;
        let ends = self.identity.ends().map_err(|error| Failure::failed(chain(&error)))?;
        let mut faults = self.racks.faults();
        faults.truncate(TROUBLES_MAX);
        Ok(NodeHeld {
            version: self.version(),
            time: Timestamp::from_micros(self.clock.now_micros()),
            fingerprint: self.identity.fingerprint(),
            certificate_ends: ends,
            callers: self.allowed.current().as_ref().clone(),
            racks: self.racks.held(),
            disk_total_mib: facts.disk_total_mib,
            disk_free_mib: facts.disk_free_mib,
            faults,
        })
    }
}
