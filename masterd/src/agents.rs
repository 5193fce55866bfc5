//! The way to the agents: each call of the master under its epoch. The module [`made`] records which of
//! them changed something; [`Signed`] is a node that waits for its certificate.

pub(crate) mod allow_list;
pub mod blobs;
pub mod clock_skew;
pub mod contacts;
pub mod liveness;
pub mod made;
pub mod master_address;
pub mod metrics;
pub mod sights;
mod signed;
pub mod ssconf;
pub mod unregistered;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use jobs::majority::Majority;
use model::enrol::{EnrolSecret, Fingerprint};
use model::node::{Node, NodeRole};
use model::power_cycle::MachineToken;
use model::{JobId, NodeName, Timestamp};
use queue_format::Epoch;
use rpc::calls::{Version, WasNode};
use rpc::client::Refusal;
use rpc::enrol::{EnrolError, Enrolment, Invitation};
use rpc::identity::{Authority, IdentityError};
use rpc::{Call, Client, FailureKind, JobRef, Meta, NodeTarget, RpcError};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use stdx::{Clock, Tasks};
use uuid::Uuid;

use crate::agents::metrics::Metrics;

pub use signed::Signed;

/// A job and the place of the opcode in it, on whose behalf a call is made.
pub type Behalf = (JobId, usize);

/// The agents of all nodes; clones share their connections.
#[derive(Debug, Clone)]
pub struct Agents(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    tasks: Tasks,
    authority: Authority,
    epoch: Epoch,
    cluster_uuid: Uuid,
    cluster_name: NodeName,
    me: NodeName,
    clock: Clock,
    metrics: Arc<Metrics>,
    majority: Majority,
    made: made::Made,
}

/// As whom the master calls.
#[derive(Debug)]
pub struct Caller {
    /// Signs the certificates of new nodes.
    pub authority: Authority,
    /// The epoch of this master.
    pub epoch: Epoch,
    /// Identity of the cluster.
    pub cluster_uuid: Uuid,
    pub cluster_name: NodeName,
    pub me: NodeName,
    /// Gives the time.
    pub clock: Clock,
    /// Counts calls.
    pub metrics: Arc<Metrics>,
    /// Whether calls are started.
    pub majority: Majority,
}

impl Agents {
    /// Agents that are called through `client`; `tasks` carries the connections of enrolments.
    pub fn new(client: Client, tasks: Tasks, caller: Caller) -> Self {
        let Caller { authority, epoch, cluster_uuid, cluster_name, .. } = caller;
        let Caller { me, clock, metrics, majority, .. } = caller;
        Self(Arc::new(Inner {
            client,
            tasks,
            authority,
            epoch,
            cluster_uuid,
            cluster_name,
            me,
            clock,
            metrics,
            majority,
            made: made::Made::default(),
        }))
    }

    /// Makes a call of the table, on behalf of an opcode where one makes it.
    ///
    /// # Errors
    /// The call failed, or no majority is heard: then none is made.
    pub async fn call<C: Call>(
        &self,
        node: &Node,
        call: C,
        behalf: Option<Behalf>,
    ) -> Result<C::Reply, RpcError> {
        self.may_call(&node.name)?;
        self.call_anyway(node, call, behalf).await
    }

    fn may_call(&self, node: &NodeName) -> Result<(), RpcError> {
        let may = self.0.majority.contact().starts_calls();
        let refused = || RpcError::Refused { node: node.clone(), refusal: Refusal::CutOff };
        may.then_some(()).ok_or_else(refused)
    }

    /// The same though no majority may be heard: for what is given up.
    ///
    /// # Errors
    /// The call failed.
    pub async fn call_anyway<C: Call>(
        &self,
        node: &Node,
        call: C,
        behalf: Option<Behalf>,
    ) -> Result<C::Reply, RpcError> {
        let job = behalf.map(|(id, op)| JobRef { id, op: u32::try_from(op).unwrap_or(u32::MAX) });
        let meta = Meta { epoch: self.0.epoch, job };
        let begun = Instant::now();
        let target = NodeTarget::from(node);
        let reply = Box::pin(self.0.client.call(&target, call, meta));
        let reply = self.0.made.during(behalf, (&node.name, C::TRAITS), reply).await;
        self.0.metrics.called(C::TRAITS.name, begun.elapsed(), reply.as_ref().err());
        reply
    }

    /// The changing calls that opcodes have made.
    pub fn made(&self) -> &made::Made {
        &self.0.made
    }

    /// The certificate of the cluster's authority, PEM.
    pub fn authority_certificate(&self) -> &str {
        self.0.authority.certificate()
    }

    /// Until when the certificate of the cluster's authority is valid.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn authority_ends(&self) -> Result<Timestamp, IdentityError> {
        self.0.authority.ends()
    }

    /// Identity of the cluster.
    pub fn cluster_uuid(&self) -> Uuid {
        self.0.cluster_uuid
    }

    /// The epoch of this master.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// Signs the request (PEM) of a node that is one already; gives the certificate (PEM) and its
    /// fingerprint.
    ///
    /// # Errors
    /// The request is wrong.
    pub fn certify(
        &self,
        node: &Node,
        request: &str,
    ) -> Result<(String, Fingerprint), IdentityError> {
        let now = Timestamp::from_micros(self.0.clock.now_micros());
        let certificate = self.0.authority.sign(request, &node.name, &[node.primary_ip], now)?;
        let fingerprint = pin(&certificate)?;
        Ok((certificate, fingerprint))
    }

    /// Signs the request (PEM) of an agent for what it shows machines, which reach it at these
    /// addresses.
    ///
    /// # Errors
    /// The request is wrong.
    pub(crate) fn certify_for_machines(
        &self,
        node: &Node,
        request: &str,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<String, IdentityError> {
        let now = Timestamp::from_micros(self.0.clock.now_micros());
        let addresses: Vec<IpAddr> = addresses.iter().copied().collect();
        self.0.authority.sign(request, &node.name, &addresses, now)
    }

    /// Begins to enrol the node that waits at `address` with this certificate and secret, and
    /// signs its key.
    ///
    /// # Errors
    /// The node is not reached, is another one, does not know the secret, or its request is wrong.
    pub async fn enrol(
        &self,
        node: &NodeName,
        address: SocketAddr,
        fingerprint: Fingerprint,
        secret: EnrolSecret,
    ) -> Result<Signed, EnrolError> {
        self.may_call(node)?;
        let invitation = Invitation { node: node.clone(), address, fingerprint, secret };
        let enrolment = invitation.begin(&self.0.me, &self.0.tasks).await?;
        self.signed(node, address, enrolment)
    }

    /// The same of a machine that knows `token`, which it has from its configuration.
    ///
    /// # Errors
    /// As [`Self::enrol`], or it does not know the token.
    pub async fn enrol_machine(
        &self,
        node: &NodeName,
        address: SocketAddr,
        token: &MachineToken,
    ) -> Result<Signed, EnrolError> {
        self.may_call(node)?;
        let invitation = Invitation::of_machine(token, node.clone(), address).await?;
        let enrolment = invitation.begin(&self.0.me, &self.0.tasks).await;
        let enrolment = enrolment.map_err(|error| match error {
            EnrolError::Call(RpcError::Failed { kind: FailureKind::Secret, .. }) => {
                EnrolError::OtherToken
            }
            other => other,
        })?;
        enrolment.knows(token)?;
        self.signed(node, address, enrolment)
    }

    fn signed(
        &self,
        node: &NodeName,
        address: SocketAddr,
        enrolment: Enrolment,
    ) -> Result<Signed, EnrolError> {
        let now = Timestamp::from_micros(self.0.clock.now_micros());
        let addresses: [IpAddr; 1] = [address.ip()];
        let offer = enrolment.offer();
        let Inner { cluster_uuid, cluster_name, .. } = &*self.0;
        let meant = WasNode {
            cluster_uuid: *cluster_uuid,
            cluster_name: cluster_name.clone(),
            node: node.clone(),
        };
        // Before anything is written: a node that lives is not thrown out for another machine.
        let may_be = offer.was.as_ref().map_or(Ok(()), |was| was.may_be(&meant));
        let may_be = may_be.and_then(|()| offer.may_be_called(node));
        may_be.map_err(EnrolError::OtherNode)?;
        let request = &offer.request;
        let certificate = self.0.authority.sign(request, node, &addresses, now)?;
        Ok(Signed { agents: self.clone(), fingerprint: pin(&certificate)?, enrolment, certificate })
    }

    /// Whether the agent at the address of `node` has the identity that was made for it, although
    /// the node may be marked offline.
    pub async fn has_its_identity(&self, node: &Node, behalf: Option<Behalf>) -> bool {
        let reachable = Node { role: NodeRole::Regular, ..node.clone() };
        let version = self.call(&reachable, Version {}, behalf).await;
        version.is_ok_and(|version| version.node_id == node.id)
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.0.client.close().await;
    }
}

fn pin(certificate: &str) -> Result<Fingerprint, IdentityError> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes());
    der.map(|der| Fingerprint::of(&der))
        .map_err(|error| IdentityError::Pem { what: "the node's certificate", error })
}

#[cfg(test)]
mod tests {
    use rpc::calls::{Exchange, Facts, Leave, Powercycle, RackWithdraw, TestDelay, Verify};

    use super::*;
    use crate::testing::{NOW, node};

    fn agents() -> Agents {
        let (cluster_name, me) = ("c1.example".parse().unwrap(), "n1".parse().unwrap());
        let authority = Authority::create(&cluster_name, NOW).unwrap();
        let identity = authority.issue(&me, &[[127, 0, 0, 1].into()], NOW).unwrap();
        let caller = Caller {
            authority,
            epoch: Epoch { term: 1, node: 1 },
            cluster_uuid: Uuid::from_u128(1),
            cluster_name,
            me,
            clock: Clock::manual(NOW.micros()),
            metrics: Arc::default(),
            majority: Majority::default(),
        };
        Agents::new(Client::new(Arc::new(identity), Tasks::new()), Tasks::new(), caller)
    }

    /// Design of Ganeti 2.0: such a node is called for nothing but a vote, and says so at once.
    #[tokio::test]
    async fn an_offline_node_is_called_only_by_what_asks_all_the_same() {
        let agents = agents();
        let behalf = Some((JobId(1), 0));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let mut offline = node("n2.example", NodeRole::Offline);
        (offline.primary_ip, offline.rpc_port) = (address.ip(), address.port());
        let exchange = Exchange { incarnation: None, acknowledged: 0, wait_ms: 0, sights: None };
        let answers = [
            agents.call(&offline, Facts {}, None).await.err(),
            agents.call(&offline, Verify {}, behalf).await.err(),
            agents.call(&offline, TestDelay { seconds: 0.0 }, behalf).await.err(),
            agents.call(&offline, RackWithdraw { rack: 1 }, behalf).await.err(),
            agents.call(&offline, Leave { cluster_uuid: Uuid::nil() }, behalf).await.err(),
            agents.call(&offline, Powercycle {}, behalf).await.err(),
            agents.call(&offline, exchange, None).await.err(),
        ];
        for answer in answers {
            let is_offline =
                matches!(&answer, Some(RpcError::Offline { node }) if *node == offline.name);
            assert!(is_offline, "{answer:?}");
        }
        let asked = agents.call(&offline, Version {}, behalf).await;
        assert!(matches!(asked, Err(RpcError::Unreachable { .. })), "{asked:?}");
        let asking: Vec<&str> = rpc::Request::TABLE
            .iter()
            .filter(|line| line.offline == rpc::calls::Offline::Asks)
            .map(|line| line.name)
            .collect();
        assert_eq!(
            asking,
            ["version", "master_view"],
            "each of these is for a vote, or for coming back"
        );
    }
}
