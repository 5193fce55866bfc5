//! The asking side: one client for the whole cluster, one shared connection for each node.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use model::NodeName;
use model::enrol::Fingerprint;
use model::node::{Node, NodeRole};
use model::rack::RackAgent;
use queue_format::Epoch;
use stdx::Tasks;

use crate::calls::{Call, Carriage, Offline};
use crate::identity::NodeIdentity;
use crate::wire::{AnswerBody, Failure, FailureKind, JobRef, OutEnvelope, Versions};

pub(crate) mod connect;
mod error;
pub(crate) mod pool;
pub(crate) mod watched;

pub use connect::CertificateFault;
pub use error::{Refusal, RpcError};
use pool::Pool;

/// Times of the asking side; the defaults are right for a cluster, tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTimes {
    /// Time to connect, TLS handshake included.
    pub connect: Duration,
    /// How often a connection is asked whether it lives.
    pub ping: Duration,
    /// How long it may take to say so.
    pub pong: Duration,
}

impl Default for ClientTimes {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            ping: Duration::from_secs(5),
            pong: Duration::from_secs(5),
        }
    }
}

/// A node to call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeTarget {
    /// Its name, which its certificate must carry.
    pub name: NodeName,
    /// The address of its agent.
    pub address: SocketAddr,
    /// Its certificate, where it is known.
    pub fingerprint: Option<Fingerprint>,
    /// The one that it is about to show instead, if it is being renewed.
    pub renewing: Option<Fingerprint>,
    /// Whether it is marked offline.
    pub offline: bool,
}

impl From<&RackAgent> for NodeTarget {
    fn from(agent: &RackAgent) -> Self {
        let mut fingerprints = agent.fingerprints.iter().copied();
        Self {
            name: agent.name.clone(),
            address: agent.address,
            fingerprint: fingerprints.next(),
            renewing: fingerprints.next(),
            offline: false,
        }
    }
}

impl From<&Node> for NodeTarget {
    fn from(node: &Node) -> Self {
        Self {
            name: node.name.clone(),
            address: node.rpc_address(),
            fingerprint: Some(node.fingerprint),
            renewing: node.renewing,
            offline: node.role == NodeRole::Offline,
        }
    }
}

impl NodeTarget {
    /// The certificates that it may show; any of its authority where there are none.
    pub(crate) fn pins(&self) -> Vec<Fingerprint> {
        self.fingerprint.into_iter().chain(self.renewing).collect()
    }
}

/// The data that every call brings with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// The epoch of the master that calls.
    pub epoch: Epoch,
    /// The opcode on whose behalf it calls.
    pub job: Option<JobRef>,
}

/// Calls agents. A clone shares the connections.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    identity: Arc<NodeIdentity>,
    pool: Pool,
    tasks: Tasks,
    versions: Versions,
}

impl Client {
    /// A client that calls as `identity`. Connections run in `tasks`.
    pub fn new(identity: Arc<NodeIdentity>, tasks: Tasks) -> Self {
        Self::with(identity, tasks, ClientTimes::default(), Versions::OURS)
    }

    /// The same with other times, and as a program whose protocol has other versions.
    pub fn with(
        identity: Arc<NodeIdentity>,
        tasks: Tasks,
        times: ClientTimes,
        versions: Versions,
    ) -> Self {
        let pool = Pool::new(Arc::clone(&identity), tasks.clone(), times, versions.newest);
        Self { shared: Arc::new(Shared { identity, pool, tasks, versions }) }
    }

    /// Calls one node and waits for its reply, at most as long as the call's class allows.
    ///
    /// Nothing is repeated, but for a refusal because of the protocol's version, after which the
    /// call is made once more in the version that the node asked for.
    ///
    /// # Errors
    /// See [`RpcError`]; [`RpcError::certainly_not_done`] tells whether the node may have acted.
    pub async fn call<C: Call>(
        &self,
        target: &NodeTarget,
        call: C,
        meta: Meta,
    ) -> Result<C::Reply, RpcError> {
        self.call_ref(target, &call, meta).await
    }

    async fn call_ref<C: Call>(
        &self,
        target: &NodeTarget,
        call: &C,
        meta: Meta,
    ) -> Result<C::Reply, RpcError> {
        if target.offline && C::TRAITS.offline == Offline::Fails {
            return Err(RpcError::Offline { node: target.name.clone() });
        }
        let deadline = Instant::now() + C::TRAITS.class.limit();
        let spoken = self.shared.pool.spoken(target);
        let first = self.attempt(target, call, meta, (spoken, deadline)).await;
        let Err(RpcError::Refused { refusal: Refusal::Version { node_versions, .. }, .. }) = &first
        else {
            return first;
        };
        match self.shared.versions.common(*node_versions) {
            Some(common) if common != spoken => {
                self.shared.pool.speak(target, common);
                self.attempt(target, call, meta, (common, deadline)).await
            }
            Some(_) | None => first,
        }
    }

    async fn attempt<C: Call>(
        &self,
        target: &NodeTarget,
        call: &C,
        meta: Meta,
        (protocol, deadline): (u32, Instant),
    ) -> Result<C::Reply, RpcError> {
        let envelope = OutEnvelope {
            protocol,
            caller: self.shared.identity.name(),
            epoch: meta.epoch,
            job: meta.job,
            call,
        };
        let malformed =
            |error| RpcError::Malformed { node: target.name.clone(), call: C::TRAITS.name, error };
        let mut body = serde_json::to_vec(&envelope).map_err(malformed)?;
        body.extend_from_slice(&call.data());
        let body = Bytes::from(body);
        let asked = async {
            match C::TRAITS.carriage {
                Carriage::Shared => self.shared.pool.post(target, &C::TRAITS, body).await,
                Carriage::Bulk => self.shared.pool.post_bulk(target, &C::TRAITS, body).await,
            }
        };
        let answer = tokio::time::timeout_at(deadline, asked).await.map_err(|_elapsed| {
            // The connection may be sick without knowing it: the next call gets another.
            self.shared.pool.renew(target);
            RpcError::TimedOut {
                node: target.name.clone(),
                call: C::TRAITS.name,
                after: C::TRAITS.class.limit(),
            }
        })??;
        match serde_json::from_slice(&answer).map_err(malformed)? {
            AnswerBody::Reply(reply) => serde_json::from_str(reply.get()).map_err(malformed),
            AnswerBody::Error(failure) => Err(refused(target, C::TRAITS.name, failure)),
        }
    }

    /// Drops every connection and waits for the tasks that ran them.
    pub fn close(&self) -> impl Future<Output = ()> + Send + '_ {
        self.shared.pool.clear();
        self.shared.tasks.shutdown()
    }
}

pub(crate) fn refused(target: &NodeTarget, call: &'static str, failure: Failure) -> RpcError {
    let node = target.name.clone();
    let refusal = match (failure.kind, failure.versions, failure.epoch) {
        (FailureKind::Version, Some(node_versions), _) => {
            Refusal::Version { node_versions, message: failure.message }
        }
        (FailureKind::Epoch, _, Some(held)) => Refusal::Epoch { held, message: failure.message },
        (FailureKind::Stranger, ..) => Refusal::Stranger { message: failure.message },
        (kind, ..) => {
            let Failure { message, remedy, .. } = failure;
            return RpcError::Failed { node, call, kind, message, remedy };
        }
    };
    RpcError::Refused { node, refusal }
}

#[cfg(test)]
mod tests;
