//! The listening side: one task for each connection, which reads a question, has it answered and
//! writes the answer, and nothing at the same time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use stdx::{Tasks, admission};

use super::control::ControlService;
use super::failure::PeerFailure;
use super::forwarding::ClientService;
use super::hello::{Hello, PeerRefusal, Purpose};
use crate::identity::NodeIdentity;
use crate::secured::Listener;
use crate::tls::{self, AllowedCallers};

mod connection;
mod places;

use places::Places;

/// The limits of a server; the defaults are right for a cluster, tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLimits {
    /// Callers that have not said who they are yet, at the same time: all candidates that come
    /// back at once. The callers that have been silent longest make room for others, so strangers never
    /// take the places of members.
    pub handshakes: usize,
    /// The same from one address.
    pub handshakes_per_address: usize,
    /// Connections of the engine at the same time, and as many of control: a pool of a dozen
    /// candidates, each with those of one peer. Apart from each other: an engine that waits for its
    /// disk keeps its questions, and the node still says how it stands.
    pub connections: usize,
    /// The same of one peer: the handful of the engine, or of control. As many again and more may be
    /// connections that it gave up, which this side has not noticed or answered yet.
    pub per_peer: usize,
    /// Connections for requests of clients at the same time: places of their own, so that clients
    /// never take those of the engine. Each holds one request and its answer.
    pub clients: usize,
    /// The same of one peer: as many as it has at the same time. Half as many again may be connections
    /// that it gave up, which this side has not noticed yet.
    pub clients_per_peer: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for the hello behind it.
    pub hello: Duration,
    /// Time for one frame, from its first byte to its last, in either direction.
    pub frame: Duration,
    /// How long a connection may wait for a question: what a dead peer holds is free then.
    pub idle: Duration,
    /// How long questions under way get to be answered when the server stops.
    pub grace: Duration,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            handshakes: 256,
            handshakes_per_address: 64,
            connections: 128,
            per_peer: 16,
            clients: 512,
            clients_per_peer: 96,
            handshake: Duration::from_secs(5),
            hello: Duration::from_secs(5),
            // The longest takes 15 s at 10 Mbit/s.
            frame: Duration::from_secs(30),
            // Twice what a client keeps a connection without using it.
            idle: Duration::from_secs(120),
            grace: Duration::from_secs(5),
        }
    }
}

impl PeerLimits {
    /// Questions at the same time: one of each connection, whatever it is for.
    fn questions(&self) -> usize {
        2 * self.connections + self.clients
    }
}

/// Whether who asks means this member. Asked at the hello and again before each question, since the
/// store may have changed hands: so it must be quick.
pub trait Gate: Send + Sync + 'static {
    /// Accepts `hello`, or says why not; [`Hello::check`] is the rule. The hello's node is the one
    /// of the certificate; whether its member lives there is for the gate to know.
    ///
    /// # Errors
    /// The refusal, which ends the connection.
    fn admit(&self, hello: &Hello) -> Result<(), PeerRefusal>;
}

/// Answers the engine's questions.
pub trait EngineService: Send + Sync + 'static {
    /// Answers one question of `kind`, whose meaning is the engine's. `from` names both members.
    ///
    /// There is no limit of time: who asked goes away when it has waited long enough. The question
    /// is carried out all the same, perhaps behind later ones that came on another connection; the
    /// peer's places bound how many of them there are.
    fn answer(
        &self,
        from: &Hello,
        kind: u8,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, PeerFailure>> + Send;
}

/// All that a server needs of the member.
pub trait PeerService: Gate + EngineService + ControlService {}

impl<S: Gate + EngineService + ControlService> PeerService for S {}

/// A server that could not start.
#[derive(Debug, thiserror::Error)]
pub enum PeerServerError {
    /// The listener is no good.
    #[error("cannot listen for other members")]
    Listener(#[source] io::Error),
    /// The node's identity does not hold together.
    #[error("cannot serve other members as node {node}; enrol it anew")]
    Identity {
        node: model::NodeName,
        /// The TLS library's error.
        #[source]
        error: rustls::Error,
    },
}

/// Serves the other members until it is stopped or dropped.
#[derive(Debug)]
pub struct PeerServer<S> {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    shared: Arc<Shared<S>>,
    accepting: Tasks,
    connections: Tasks,
}

struct Shared<S> {
    service: S,
    allowed: AllowedCallers,
    acceptor: TlsAcceptor,
    limits: PeerLimits,
    engine_places: Places,
    control_places: Places,
    /// Answers requests of clients, where that is wanted.
    clients: Option<Arc<dyn ClientService>>,
    client_places: Places,
    /// One permit for each question that is being answered; the end of the server takes them all.
    answering: Semaphore,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("service", &self.service)
            .field("limits", &self.limits)
            .field("engine_places", &self.engine_places)
            .field("control_places", &self.control_places)
            .field("client_places", &self.client_places)
            .finish_non_exhaustive()
    }
}

impl<S> Shared<S> {
    /// The places of connections for `purpose`.
    fn places(&self, purpose: Purpose) -> &Places {
        match purpose {
            Purpose::Engine => &self.engine_places,
            Purpose::Control => &self.control_places,
            Purpose::Luxi => &self.client_places,
        }
    }
}

impl<S: PeerService> PeerServer<S> {
    /// Serves `service` on `listener`, as `identity`, to those whom `allowed` names at each moment.
    ///
    /// # Errors
    /// The listener has no address, or the identity does not hold together.
    pub fn start(
        listener: impl Into<Listener>,
        identity: &NodeIdentity,
        allowed: AllowedCallers,
        service: S,
        limits: PeerLimits,
    ) -> Result<Self, PeerServerError> {
        Self::start_with_clients(listener, identity, allowed, (service, None), limits)
    }

    /// The same where requests of clients are answered too.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_clients(
        listener: impl Into<Listener>,
        identity: &NodeIdentity,
        allowed: AllowedCallers,
        (service, clients): (S, Option<Arc<dyn ClientService>>),
        limits: PeerLimits,
    ) -> Result<Self, PeerServerError> {
        let listener = listener.into();
        let address = listener.local_addr().map_err(PeerServerError::Listener)?;
        let config = tls::peer_server_config(identity, allowed.clone())
            .map_err(|error| PeerServerError::Identity { node: identity.name().clone(), error })?;
        let shared = Arc::new(Shared {
            service,
            allowed,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            limits,
            engine_places: Places::new(limits.connections, limits.per_peer),
            control_places: Places::new(limits.connections, limits.per_peer),
            clients,
            client_places: Places::new(limits.clients, limits.clients_per_peer),
            answering: Semaphore::new(limits.questions()),
        });
        let (stop, stopped) = watch::channel(false);
        let (accepting, connections) = (Tasks::new(), Tasks::new());
        let (serving, to) = (Arc::clone(&shared), connections.clone());
        accepting.spawn("peer accept", async move {
            let (total, of_peer) = (limits.handshakes, limits.handshakes_per_address);
            let limits = (admission::Limits { total, of_peer }, "handshakes");
            let take = listener.take(limits, stopped, |come, from, place| {
                let shared = Arc::clone(&serving);
                to.spawn("peer connection", connection::serve(come, from, shared, place));
            });
            take.await;
        });
        Ok(Self { address, stop, shared, accepting, connections })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The service behind it.
    pub fn service(&self) -> &S {
        &self.shared.service
    }

    /// Stops: takes nothing new, gives what is being answered [`PeerLimits::grace`], closes every
    /// connection.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        self.accepting.join().await;
        let grace = self.shared.limits.grace;
        let all = u32::try_from(self.shared.limits.questions()).unwrap_or(u32::MAX);
        let answered = tokio::time::timeout(grace, self.shared.answering.acquire_many(all)).await;
        if answered.is_err() {
            tracing::warn!(?grace, "questions of other members were dropped at the end");
        }
        self.connections.shutdown().await;
    }
}
