//! One connection of a machine: how long it may last, and when it counts as busy.

mod progress;

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use stdx::admission::Slot;
use stdx::net::Connection;

use super::{Ends, GRACE};
use progress::{Arriving, Counted, Phase, Progress, Sent};

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long a machine is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the head of a request, and between two requests.
    pub(super) head: Duration,
    /// While nothing that was sent arrives, or the machine has no room for more. The kernel counts
    /// this, so that it holds for a machine that was switched off, too.
    pub(super) stalled: Duration,
    /// For all of a connection. An image of 50 GB takes 11 hours at 10 Mbit/s, and nothing that a rack
    /// boots takes longer. A machine that reads a byte a minute does not hold a place for days.
    pub(super) life: Duration,
    /// Between two looks at whether a download comes on.
    pub(super) progress: Duration,
}

impl Patience {
    /// The limits for real machines.
    pub(super) const USUAL: Self = Self {
        head: Duration::from_secs(10),
        stalled: Duration::from_secs(60),
        life: Duration::from_secs(12 * 3_600),
        progress: Duration::from_secs(10),
    };
}

/// Answers the requests of one connection until it ends, `patience` does, or `stopped` is true.
pub(super) async fn serve(
    stream: Connection,
    tls: Option<TlsAcceptor>,
    router: Router,
    patience: Patience,
    stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tcp = stream.stream();
    let ends = Ends { ours: tcp.local_addr()?, theirs: tcp.peer_addr()? };
    let stalled = u32::try_from(patience.stalled.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(tcp, stalled).map_err(io::Error::from)?;
    let of = (ends, stream.place());
    match tls {
        None => requests(stream, of, router, patience, stopped).await,
        Some(tls) => {
            let stream = tokio::time::timeout(patience.head, tls.accept(stream)).await??;
            requests(stream, of, router, patience, stopped).await
        }
    }
}

/// The same, once the connection is what requests come by.
async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    (ends, place): (Ends, Arc<Slot<IpAddr>>),
    router: Router,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let progress = Arc::new(Progress::new(place));
    let stream = Counted { stream, progress: Arc::clone(&progress) };
    let of_service = Arc::clone(&progress);
    let service = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (mut router, progress) = (router.clone(), Arc::clone(&of_service));
        let mut request = request.map(|body| axum::body::Body::new(Arriving::new(body, &progress)));
        request.extensions_mut().insert(ends);
        async move {
            let answer = router.call(request).await.unwrap_or_else(|never| match never {});
            progress.enter(Phase::Sends);
            let sent = Sent(progress);
            // The body has this to its end.
            let holds = move |error: axum::Error| {
                let _sent = &sent;
                error
            };
            Ok::<_, Infallible>(answer.map(|body| body.map_err(holds)))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(patience.head).max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(service);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut life = pin!(tokio::time::sleep(patience.life));
    let mut looks = tokio::time::interval(patience.progress);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            ended = serving.as_mut() => return ended,
            _ = stopped.wait_for(|stop| *stop) => break,
            () = life.as_mut() => break,
            _ = looks.tick() => progress.look(),
        }
    }
    serving.as_mut().graceful_shutdown();
    tokio::time::timeout(GRACE, serving).await.map_err(|_elapsed| {
        io::Error::new(io::ErrorKind::TimedOut, "the connection did not end in time")
    })?
}
