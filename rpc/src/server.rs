//! The listening side: TLS, connections, HTTP, and one task for each request, so that a panic in
//! one answers 500 and touches nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use stdx::Tasks;
use stdx::admission::{self, Slot};

use crate::secured::{Arrived, Listener};
use crate::service::Service;

mod connection;
mod request;

pub(crate) use request::PATH_PREFIX;

/// The limits of a server; the defaults are right for a cluster, tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time: all candidates, each with its shared connection and a few
    /// for bulk. The connections that have asked for nothing yet make room for others.
    pub connections: usize,
    /// The same from one address.
    pub per_address: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time from the handshake to the first request, and for the head of each HTTP/1.1 request.
    pub head: Duration,
    /// Time for the body of one request.
    pub body: Duration,
    /// Requests at the same time on one HTTP/2 connection.
    pub streams: u32,
    /// How often an HTTP/2 connection is asked whether it lives.
    pub ping: Duration,
    /// How long it may take to say so.
    pub pong: Duration,
    /// How long running calls get to end when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            per_address: 64,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            // 64 MiB need 5 s on a gigabit link.
            body: Duration::from_secs(30),
            streams: 128,
            ping: Duration::from_secs(10),
            pong: Duration::from_secs(10),
            grace: Duration::from_secs(5),
        }
    }
}

/// A server that runs until it is stopped.
#[derive(Debug)]
pub struct Server<S> {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    shared: Arc<Shared<S>>,
    accepting: Tasks,
}

#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) service: S,
    pub(crate) limits: Limits,
    pub(crate) connections: Tasks,
    pub(crate) calls: Tasks,
}

impl<S: Service> Server<S> {
    /// Serves `service` on `listener`.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: impl Into<Listener>,
        tls: ServerConfig,
        service: S,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = listener.into();
        let address = listener.local_addr()?;
        let shared = Shared { service, limits, connections: Tasks::new(), calls: Tasks::new() };
        let shared = Arc::new(shared);
        let (stop, stopped) = watch::channel(false);
        let accepting = Tasks::new();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let accept = accept(listener, acceptor, Arc::clone(&shared), stopped);
        accepting.spawn("rpc accept", accept);
        Ok(Self { address, stop, shared, accepting })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The service behind it.
    pub fn service(&self) -> &S {
        &self.shared.service
    }

    /// Stops: takes nothing new, interrupts what can be interrupted, gives the rest
    /// [`Limits::grace`], then drops it.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        self.accepting.join().await;
        self.shared.service.stop();
        let grace = self.shared.limits.grace;
        let ended = async {
            self.shared.calls.join().await;
            self.shared.connections.join().await;
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            tracing::warn!(?grace, "calls or connections were dropped at the end");
        }
        self.shared.calls.shutdown().await;
        self.shared.connections.shutdown().await;
    }
}

async fn accept<S: Service>(
    listener: Listener,
    acceptor: TlsAcceptor,
    shared: Arc<Shared<S>>,
    stopped: watch::Receiver<bool>,
) {
    let Limits { connections: total, per_address: of_peer, .. } = shared.limits;
    let limits = (admission::Limits { total, of_peer }, "connections");
    let take = listener.take(limits, stopped.clone(), |arrived, from, place| {
        let (acceptor, stopped, shared) = (acceptor.clone(), stopped.clone(), Arc::clone(&shared));
        shared.connections.clone().spawn("rpc connection", async move {
            let place = Arc::new(place);
            tokio::select! {
                () = place.shed() => tracing::debug!(%from, "connection is shed"),
                () = serve(arrived, (from, &place), acceptor, shared, stopped) => {}
            }
        });
    });
    take.await;
}

#[tracing::instrument(name = "connection", skip_all, fields(%from))]
async fn serve<S: Service>(
    arrived: Arrived,
    (from, place): (SocketAddr, &Arc<Slot<IpAddr>>),
    acceptor: TlsAcceptor,
    shared: Arc<Shared<S>>,
    stopped: watch::Receiver<bool>,
) {
    if let Some(stream) = arrived.shake_hands(&acceptor, shared.limits.handshake).await {
        connection::serve((stream, Arc::clone(place)), shared, stopped).await;
    }
}

#[cfg(test)]
mod tests;
