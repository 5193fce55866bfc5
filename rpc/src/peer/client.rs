//! The asking side: a link is one connection to one member, made when it is needed and again after
//! it failed. The caller does the work: there is no task behind a link.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use uuid::Uuid;

use model::NodeName;
use model::enrol::Fingerprint;

use super::PEER_PROTOCOL;
use super::forwarding::PassLink;
use super::hello::{Hello, Purpose, Speaker, StoreId};
use crate::certificate::server_name;
use crate::client::CertificateFault;
use crate::identity::NodeIdentity;
use crate::secured::Dialer;
use crate::shown::Shown;
use crate::tls::{self, ALPN_PEER};

mod error;
mod link;
mod open;

pub use error::PeerError;
pub use link::{ControlLink, Link};

/// Times of the asking side; the defaults are right for a cluster, tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerTimes {
    /// Time to connect, TLS handshake and hello included.
    pub connect: Duration,
    /// How long a connection that is not used is kept: half of what the other side does, so that
    /// no question meets its farewell.
    pub idle: Duration,
}

impl Default for PeerTimes {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), idle: Duration::from_secs(60) }
    }
}

/// A node whose `masterd` is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerTarget {
    /// Its name, which its certificate must carry.
    pub name: NodeName,
    /// The address where its `masterd` listens for members.
    pub address: SocketAddr,
    /// Its certificate, where it is known.
    pub fingerprint: Option<Fingerprint>,
    /// The one that it is about to show instead, if it is being renewed.
    pub renewing: Option<Fingerprint>,
}

/// Makes links to `masterd` of one node. A clone makes links to the same.
#[derive(Debug, Clone)]
pub struct PeerClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The node that asks.
    node: NodeName,
    cluster_uuid: Uuid,
    target: PeerTarget,
    dialer: Dialer,
    config: Arc<ClientConfig>,
    /// The certificate that the asking side shows.
    shown: Shown,
    server: ServerName<'static>,
    times: PeerTimes,
}

impl PeerClient {
    /// Shared `target` as `identity`, in the cluster `cluster_uuid`. Nothing is sent yet.
    ///
    /// # Errors
    /// The identity, or the target's name, is of no use for TLS.
    pub fn new(
        identity: &NodeIdentity,
        cluster_uuid: Uuid,
        target: PeerTarget,
    ) -> Result<Self, PeerError> {
        Self::with(identity, cluster_uuid, target, PeerTimes::default())
    }

    /// The same with other times.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with(
        identity: &NodeIdentity,
        cluster_uuid: Uuid,
        target: PeerTarget,
        times: PeerTimes,
    ) -> Result<Self, PeerError> {
        let of_no_use = |error: rustls::Error| PeerError::Certificate {
            node: target.name.clone(),
            reason: error.to_string(),
            fault: CertificateFault::NotAccepted,
        };
        let server = server_name(&target.name).map_err(of_no_use)?;
        let pins = target.fingerprint.into_iter().chain(target.renewing).collect();
        let config = tls::client_config(identity, pins, ALPN_PEER).map_err(of_no_use)?;
        let (node, config) = (identity.name().clone(), Arc::new(config));
        let (dialer, shown) = (identity.dialer(), identity.shown());
        let shared = Shared { node, cluster_uuid, target, dialer, config, shown, server, times };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The member that it asks.
    pub fn target(&self) -> &PeerTarget {
        &self.shared.target
    }

    /// A link for the engine, from the store `from` to the store `to`; both name their member.
    pub fn engine(&self, from: StoreId, to: StoreId) -> Link {
        self.link(from, to, Purpose::Engine)
    }

    /// A link for questions about the member itself; [`StoreId::NONE`] means any store, or none.
    pub fn control(&self, from: StoreId, to: StoreId) -> ControlLink {
        ControlLink::new(self.link(from, to, Purpose::Control))
    }

    /// A link for requests of clients, to the master whose store is `to`.
    pub fn pass(&self, from: StoreId, to: StoreId) -> PassLink {
        PassLink::new(self.link(from, to, Purpose::Luxi))
    }

    pub(super) fn link(&self, store: StoreId, to: StoreId, purpose: Purpose) -> Link {
        let shared = Arc::clone(&self.shared);
        let hello = Hello {
            protocol: PEER_PROTOCOL,
            cluster_uuid: shared.cluster_uuid,
            from: Speaker { node: shared.node.clone(), store },
            to,
            purpose,
            acknowledged: queue_format::Position::default(),
        };
        Link::new(shared, hello)
    }
}
