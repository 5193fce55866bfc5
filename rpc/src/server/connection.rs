//! One connection after its handshake.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use stdx::admission::Slot;
use tokio::sync::watch;

use crate::secured::Answered;
use crate::server::Shared;
use crate::server::request;
use crate::service::Service;
use crate::tls::ALPN_H2;

/// Bytes of all header fields of one request: ours have a few dozen.
const HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// Read buffer of an HTTP/1.1 connection, which also bounds the head of a request.
const HTTP1_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes that one HTTP/2 stream, and the whole connection, may have on the way to us.
const WINDOW_BYTES: u32 = 1024 * 1024;

pub(super) async fn serve<S: Service>(
    (stream, place): (Answered, Arc<Slot<IpAddr>>),
    shared: Arc<Shared<S>>,
    mut stopped: watch::Receiver<bool>,
) {
    let peer = stream.peer();
    let http2 = stream.protocol() == Some(ALPN_H2);
    let builder = builder(&shared, http2);
    let asked = Arc::new(AtomicBool::new(false));
    let service = {
        let (shared, asked) = (Arc::clone(&shared), Arc::clone(&asked));
        service_fn(move |http| {
            if !asked.swap(true, Ordering::Relaxed) {
                place.set_busy(true);
            }
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(request::respond(shared, peer, http).await) }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut first = pin!(tokio::time::sleep(shared.limits.head));
    let mut watching = true;
    let mut stopping = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => break ended,
            () = first.as_mut(), if watching => {
                watching = false;
                if !asked.load(Ordering::Relaxed) {
                    tracing::info!("no request came in time");
                    return;
                }
            }
            _ = stopped.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

fn builder<S>(shared: &Shared<S>, http2: bool) -> Builder<TokioExecutor> {
    let limits = shared.limits;
    let builder = Builder::new(TokioExecutor::new());
    // The client chose in the handshake: nothing is left to guess from the first bytes.
    let mut builder = if http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.pong)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    builder
}
