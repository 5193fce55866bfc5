//! A node that waits for its certificate, which the master has signed.

use model::enrol::Fingerprint;
use model::node::Node;
use model::{NodeName, Timestamp};
use rpc::calls::{AllowList, Membership};
use rpc::enrol::{EnrolError, Enrolment};

use super::Agents;

/// A node whose key is signed, and that waits for its certificate.
#[derive(Debug)]
pub struct Signed {
    pub(super) agents: Agents,
    pub(super) enrolment: Enrolment,
    pub(super) certificate: String,
    /// The certificate's fingerprint.
    pub fingerprint: Fingerprint,
}

impl Signed {
    /// The machine's own name, where that is not the name of `node`.
    pub fn other_name(&self, node: &NodeName) -> Option<&str> {
        let offer = self.enrolment.offer();
        (!offer.is_called(node)).then_some(offer.hostname.as_str())
    }

    /// Gives the node its certificate and all that it must know.
    ///
    /// # Errors
    /// The node did not take it.
    pub async fn deliver(
        self,
        node: &Node,
        callers: Vec<rpc::calls::Caller>,
    ) -> Result<(), EnrolError> {
        self.agents.may_call(&node.name)?;
        let inner = &self.agents.0;
        let membership = Membership {
            cluster_uuid: inner.cluster_uuid,
            cluster_name: inner.cluster_name.clone(),
            node: node.name.clone(),
            node_id: node.id,
            allow: AllowList { epoch: inner.epoch, callers },
            epoch: inner.epoch,
            enrolled: Timestamp::from_micros(inner.clock.now_micros()),
        };
        let authority = inner.authority.certificate();
        self.enrolment.finish(&self.certificate, authority, &membership, &inner.client).await?;
        Ok(())
    }
}
