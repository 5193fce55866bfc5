//! The listening side: connections within their limits, TLS, HTTP/1.1 and HTTP/2. On loopback there may be a
//! listener without TLS.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use stdx::Tasks;
use stdx::admission::{Limits, Slot};
use stdx::net::{Connection, Places};

use crate::clients::ClientCertificate;
use crate::shares::{Holder, Place, SharedPlaces};
use crate::state::{Peer, PlainHttp};
use crate::tls::Tls;

/// Connections at the same time, some 50 KiB each, and those of one address: a browser has six, a controller
/// that watches many jobs one for each.
const CONNECTIONS: Limits = Limits { total: 1_024, of_peer: 256 };
/// Time for the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Time for the head of a request, and between two of them on a connection of HTTP/1.1.
const HEAD_TIME: Duration = Duration::from_secs(20);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// The same of HTTP/2, which says so to the client.
const HEADERS_BYTES_MAX: u32 = 32 << 10;
/// Requests at the same time on one connection of HTTP/2.
const STREAMS_MAX: u32 = 64;
/// How often a silent client of HTTP/2 is asked whether it lives, and how long it has for an answer.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));
/// While nothing that was sent arrives. The kernel counts this.
const STALLED_TIME: Duration = Duration::from_secs(60);
/// For all of a connection: after it, a new one sees a new certificate.
const LIFE: Duration = Duration::from_secs(3_600);
/// How long requests may go on after the server was asked to stop: a wait for a job is cut, and its client
/// asks again.
const GRACE: Duration = Duration::from_secs(5);

/// Serves on `listener` until `stopped`; without `tls`, as plain HTTP.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Places::new(listener, "front door", CONNECTIONS);
    let connections = Tasks::new();
    while let Some(stream) = places.accept(&mut stopped).await {
        let (tls, router, stopped) = (tls.clone(), router.clone(), stopped.clone());
        connections.spawn("connection of the front door", async move {
            let place = stream.place();
            tokio::select! {
                () = place.shed() => tracing::debug!("connection is shed"),
                ended = connection(stream, tls, router, stopped) => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                }
            }
        });
    }
    if tokio::time::timeout(GRACE, connections.join()).await.is_err() {
        tracing::info!("requests were dropped at the end");
    }
    connections.shutdown().await;
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn connection(
    stream: Connection,
    tls: Option<Arc<Tls>>,
    router: Router,
    stopped: watch::Receiver<bool>,
) -> Ended {
    let peer = Peer(stream.stream().peer_addr()?);
    let stalled = u32::try_from(STALLED_TIME.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream.stream(), stalled)
        .map_err(io::Error::from)?;
    stream.stream().set_nodelay(true)?;
    let requests = Arc::new(Requests {
        place: stream.place(),
        counted: Mutex::default(),
        cut_off: Arc::new(Notify::new()),
    });
    let cut_off = Arc::clone(&requests.cut_off);
    let builder = builder();
    let answering = async {
        let Some(tls) = tls else {
            let origin = Origin { peer, certificate: None, is_plain: true };
            // The other version has no limit for the time until its first byte.
            return answer(stream, &builder.http1_only(), (router, requests, origin), stopped)
                .await;
        };
        let accept = TlsAcceptor::from(tls.config()).accept(stream);
        let accepted = tokio::time::timeout(HANDSHAKE_TIME, accept).await?;
        let stream = accepted.inspect_err(|error| tls.note(peer.0, error))?;
        let certificate = tls.shown(stream.get_ref().1);
        let origin = Origin { peer, certificate, is_plain: false };
        answer(stream, &builder, (router, requests, origin), stopped).await
    };
    tokio::select! {
        ended = answering => ended,
        () = cut_off.notified() => Err("its client reads too slowly, and others need the room".into()),
    }
}

#[derive(Clone)]
struct Origin {
    peer: Peer,
    certificate: Option<Arc<ClientCertificate>>,
    is_plain: bool,
}

impl Origin {
    fn note(&self, request: &mut hyper::Request<hyper::body::Incoming>) {
        request.extensions_mut().insert(self.peer);
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(Arc::clone(certificate));
        }
        if self.is_plain {
            request.extensions_mut().insert(PlainHttp);
        }
    }
}

/// A builder with the limits of both versions of HTTP.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let http2 = &mut builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    http2.max_header_list_size(HEADERS_BYTES_MAX);
    http2.keep_alive_interval(PING.0).keep_alive_timeout(PING.1);
    builder
}

/// Answers the requests of a connection until its end.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    builder: &Builder<TokioExecutor>,
    (router, requests, origin): (Router, Arc<Requests>, Origin),
    mut stopped: watch::Receiver<bool>,
) -> Ended {
    let service = tower::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        origin.note(&mut request);
        let mut router = router.clone();
        let running = Arc::new(Running { of: Arc::clone(&requests), counts: Mutex::default() });
        request.extensions_mut().insert(Arc::clone(&running));
        async move {
            // The body has this to its end, and its request runs so long.
            let holds = move |error: axum::Error| {
                let _running = &running;
                error
            };
            let answer = router.call(request).await.unwrap_or_else(|never| match never {});
            Ok::<_, Infallible>(answer.map(|body| body.map_err(holds)))
        }
    });
    let mut serving =
        pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    tokio::select! {
        ended = serving.as_mut() => return ended,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(LIFE) => {}
    }
    serving.as_mut().graceful_shutdown();
    serving.await
}

/// The requests of a connection that count: it is not shed while there are any.
#[derive(Debug)]
struct Requests {
    place: Arc<Slot<IpAddr>>,
    counted: Mutex<Counted>,
    /// Notified when an answer is read so slowly that others get its room.
    cut_off: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Counted {
    requests: usize,
    /// Of the share of the user who came first.
    busy: Option<Place>,
}

/// A request that is being answered. It counts once all of it has come, as far as its user has a share
/// left. So a client that sends slowly, or asks for much at once, keeps nobody else out.
#[derive(Debug)]
pub struct Running {
    of: Arc<Requests>,
    counts: Mutex<bool>,
}

impl Running {
    /// The connection is not shed from here on, where `holder` has a place left in `busy`.
    pub fn counts(&self, busy: &SharedPlaces, holder: &Holder) {
        if std::mem::replace(&mut *self.counts.lock(), true) {
            return;
        }
        let mut counted = self.of.counted.lock();
        counted.requests += 1;
        if counted.busy.is_none() {
            counted.busy = busy.try_acquire(holder, 1);
        }
        self.of.place.set_busy(counted.busy.is_some());
    }

    /// The connection may be shed again.
    pub fn rests(&self) {
        if !std::mem::take(&mut *self.counts.lock()) {
            return;
        }
        let mut counted = self.of.counted.lock();
        counted.requests -= 1;
        if counted.requests == 0 {
            counted.busy = None;
            self.of.place.set_busy(false);
        }
    }

    /// The signal that ends the connection where an answer is read too slowly.
    pub fn cut_off(&self) -> &Arc<Notify> {
        &self.of.cut_off
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.rests();
    }
}
