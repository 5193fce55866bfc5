//! The boot side: HTTP for machines that boot. Served from the rack documents alone, so it goes on
//! without a master.
//!
//! Firmware loads iPXE, iPXE loads [`script`] by the URL that DHCP told it, and from there the
//! script of its machine by serial number.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower::Service as _;

use blobs::Blobs;
use stdx::admission::Limits;
use stdx::metrics::Counter;
use stdx::net::{Connection, Places};
use stdx::{Clock, Tasks};

use crate::ledger::Ledger;
use crate::rack::Racks;

mod files;
mod routes;
pub mod script;

/// What a boot request was answered with.
#[derive(Debug, Default)]
pub struct BootAnswers {
    /// The script that asks again with the machine's serial.
    pub first: Counter,
    /// The script of a machine.
    pub script: Counter,
    /// That the machine is not known.
    pub unknown: Counter,
    /// That the serial is none, or that nothing is there.
    pub refused: Counter,
}

/// Connections at the same time: every machine of some racks, twice; and those of one machine, whose
/// firmware has a few.
const CONNECTIONS: Limits = Limits { total: 512, of_peer: 32 };
/// Time for the head of a request, and between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// Life of a connection: scripts are small, and nobody may hold a place for longer.
const CONNECTION: Duration = Duration::from_secs(300);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long connections may take to end when the agent stops.
const GRACE: Duration = Duration::from_secs(2);

/// What the routes need.
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
}

/// Both ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    ours: SocketAddr,
    theirs: SocketAddr,
}

/// Serves on `listener` until `stopped`.
pub async fn serve(listener: TcpListener, rack: Rack, mut stopped: watch::Receiver<bool>) {
    let router = routes::router(rack);
    let places = Places::new(listener, "boot", CONNECTIONS);
    let connections = Tasks::new();
    while let Some(stream) = places.accept(&mut stopped).await {
        let (router, stopped) = (router.clone(), stopped.clone());
        connections.spawn("boot connection", async move {
            let place = stream.place();
            tokio::select! {
                () = place.shed() => tracing::debug!("connection is shed"),
                ended = connection(stream, router, stopped) => {
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

async fn connection(
    stream: Connection,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tcp = stream.stream();
    let ends = Ends { ours: tcp.local_addr()?, theirs: tcp.peer_addr()? };
    let service = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ends);
        let mut router = router.clone();
        async move {
            Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(service);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = serving.as_mut() => return ended,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(CONNECTION) => {}
    }
    serving.as_mut().graceful_shutdown();
    tokio::time::timeout(GRACE, serving).await.map_err(|_elapsed| {
        io::Error::new(io::ErrorKind::TimedOut, "the connection did not end in time")
    })?
}

#[cfg(test)]
mod tests;
