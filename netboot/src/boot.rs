//! The boot side: HTTP for machines that boot. Served from the rack documents alone, so it goes on
//! without a master.
//!
//! Firmware loads iPXE, iPXE loads [`script`] by the URL that DHCP told it, and from there the
//! script of its machine by serial number. Keys of its disks it asks for at a port of their own, by TLS;
//! those are with the master alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use blobs::Blobs;
use stdx::admission::Limits;
use stdx::metrics::Counter;
use stdx::net::Places;
use stdx::{Clock, Tasks};

use crate::key_desk::KeyDesk;
use crate::ledger::Ledger;
use crate::rack::Racks;
use crate::token_claim::Claims;
use connection::Patience;

mod assets;
mod connection;
mod documents;
mod files;
mod identity;
mod ipxe;
mod keys;
mod origin;
mod page_cache;
mod ramdisks;
mod routes;
pub mod script;
mod up;

/// Counters of the answers to boot requests.
#[derive(Debug, Default)]
pub struct BootAnswers {
    /// The script that asks again with the machine's serial.
    pub first: Counter,
    /// The script of a machine.
    pub script: Counter,
    /// The answer that the machine is not known.
    pub unknown: Counter,
    /// Requests of ramdisks, whatever was answered.
    pub ramdisk: Counter,
    /// The answer that the serial is none, or that nothing is there.
    pub refused: Counter,
    /// Requests for keys of disks, whatever was answered.
    pub key: Counter,
}

/// Connections at the same time: every machine of some racks, twice; and those of one machine, whose
/// firmware has a few. A machine with more sheds its own idle ones, and is refused where all are downloads.
const CONNECTIONS: Limits = Limits { total: 512, of_peer: 32 };
/// The same for keys of disks, of which a machine asks one after the other.
const KEY_CONNECTIONS: Limits = Limits { total: 256, of_peer: 8 };
/// How long connections may take to end when the agent stops.
const GRACE: Duration = Duration::from_secs(2);

/// The data that the routes need.
#[derive(Debug, Clone)]
pub struct Rack {
    /// The documents.
    pub racks: Arc<Racks>,
    /// The files.
    pub blobs: Arc<Blobs>,
    /// iPXE as an EFI program.
    pub ipxe: PathBuf,
    /// Leases, and where observations go.
    pub ledger: Arc<Ledger>,
    /// The time.
    pub clock: Clock,
    /// Counts answers.
    pub answers: Arc<BootAnswers>,
    /// The port at which keys of disks are served, where machines are told of it.
    pub keys_port: u16,
    /// Has the agents of a rack agree on who tells a secret; none where there are no others.
    pub claims: Option<Arc<Claims>>,
}

/// Both ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    ours: SocketAddr,
    theirs: SocketAddr,
}

/// Serves on `listener` until `stopped`.
pub async fn serve(listener: TcpListener, rack: Rack, stopped: watch::Receiver<bool>) {
    serve_within(listener, rack, Patience::USUAL, stopped).await;
}

/// Serves keys of disks on `listener` by TLS until `stopped`: `desk` has the master answer.
pub async fn serve_keys(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    (rack, desk): (Rack, Arc<KeyDesk>),
    stopped: watch::Receiver<bool>,
) {
    let (router, tls) = (keys::router(rack, desk), Some(TlsAcceptor::from(tls)));
    let places = Places::new(listener, "keys", KEY_CONNECTIONS);
    connections(places, tls, router, Patience::USUAL, stopped).await;
}

async fn serve_within(
    listener: TcpListener,
    rack: Rack,
    patience: Patience,
    stopped: watch::Receiver<bool>,
) {
    let places = Places::new(listener, "boot", CONNECTIONS);
    connections(places, None, routes::router(rack), patience, stopped).await;
}

async fn connections(
    places: Places,
    tls: Option<TlsAcceptor>,
    router: Router,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    let connections = Tasks::new();
    while let Some(stream) = places.accept(&mut stopped).await {
        let (tls, router, stopped) = (tls.clone(), router.clone(), stopped.clone());
        connections.spawn("boot connection", async move {
            let place = stream.place();
            tokio::select! {
                () = place.shed() => tracing::debug!("connection is shed"),
                ended = connection::serve(stream, tls, router, patience, stopped) => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                }
            }
        });
    }
    if tokio::time::timeout(GRACE, connections.join()).await.is_err() {
        tracing::debug!("connections were dropped at the end");
    }
    connections.shutdown().await;
}

#[cfg(test)]
mod tests;
