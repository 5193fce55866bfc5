//! The connections of a client. Each node has one HTTP/2 connection, made when it is first needed and
//! again after it broke. Each bulk call has an HTTP/1.1 connection of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use model::NodeName;
use model::enrol::Fingerprint;
use stdx::Tasks;

use super::connect::{CertificateFault, connect};
use super::watched::{LastWord, Watched};
use super::{ClientTimes, NodeTarget, Refusal, RpcError};
use crate::calls::{Carriage, Traits};
use crate::certificate::server_name;
use crate::identity::NodeIdentity;
use crate::secured::Called;
use crate::server::PATH_PREFIX;
use crate::tls::{self, ALPN_H2, ALPN_HTTP1};

/// Bytes that one stream, and the whole connection, may have on the way to us.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// Nodes that are remembered: far above any cluster. Beyond it, everything is forgotten once.
const NODES_MAX: usize = 4_096;

/// A connection in use, and why it was refused, should it break.
type Sender = (http2::SendRequest<Full<Bytes>>, LastWord);

/// A connection that is kept, and the certificate that was shown when it was made.
type Kept = (Sender, Fingerprint);

#[derive(Debug)]
pub(super) struct Pool {
    identity: Arc<NodeIdentity>,
    tasks: Tasks,
    times: ClientTimes,
    newest: u32,
    /// In an order, which is also that in which connections end.
    slots: Mutex<BTreeMap<NodeName, (NodeTarget, Arc<Slot>)>>,
}

/// The connection to one node.
#[derive(Debug)]
struct Slot {
    /// Version of the protocol that the node is spoken to in.
    spoken: Mutex<u32>,
    /// Locked while connecting, so that a burst of calls makes one connection.
    sender: tokio::sync::Mutex<Option<Kept>>,
}

impl Pool {
    pub(super) fn new(
        identity: Arc<NodeIdentity>,
        tasks: Tasks,
        times: ClientTimes,
        newest: u32,
    ) -> Self {
        Self { identity, tasks, times, newest, slots: Mutex::default() }
    }

    fn slot(&self, target: &NodeTarget) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        // Another address or certificate of the same node is another connection.
        if let Some((known, slot)) = slots.get(&target.name)
            && known == target
        {
            return Arc::clone(slot);
        }
        if slots.len() >= NODES_MAX {
            slots.clear();
        }
        let slot = Arc::new(Slot {
            spoken: Mutex::new(self.newest),
            sender: tokio::sync::Mutex::default(),
        });
        slots.insert(target.name.clone(), (target.clone(), Arc::clone(&slot)));
        slot
    }

    pub(super) fn spoken(&self, target: &NodeTarget) -> u32 {
        *self.slot(target).spoken.lock()
    }

    pub(super) fn speak(&self, target: &NodeTarget, version: u32) {
        *self.slot(target).spoken.lock() = version;
    }

    /// Lets the next call begin with a new connection; calls under way keep theirs.
    pub(super) fn renew(&self, target: &NodeTarget) {
        if let Ok(mut sender) = self.slot(target).sender.try_lock() {
            *sender = None;
        }
    }

    pub(super) fn clear(&self) {
        self.slots.lock().clear();
    }

    /// Posts `body` on the node's shared connection.
    pub(super) async fn post(
        &self,
        target: &NodeTarget,
        call: &Traits,
        body: Bytes,
    ) -> Result<Bytes, RpcError> {
        let slot = self.slot(target);
        let (mut sender, word) = self.sender(target, &slot).await?;
        let response = match sender.send_request(request(target, call, body)).await {
            Ok(response) => response,
            Err(error) => {
                // The next call begins with a new connection.
                *slot.sender.lock().await = None;
                return Err(broken(target, call, &word, error));
            }
        };
        read(target, call, &word, response).await
    }

    /// Posts `body` on a connection of its own.
    pub(super) async fn post_bulk(
        &self,
        target: &NodeTarget,
        call: &Traits,
        body: Bytes,
    ) -> Result<Bytes, RpcError> {
        let (stream, word) = self.connect(target, ALPN_HTTP1).await?;
        let broken = |error| broken(target, call, &word, error);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        self.run(target.name.clone(), connection);
        let mut request = request(target, call, body);
        let close = header::HeaderValue::from_static("close");
        request.headers_mut().insert(header::CONNECTION, close);
        let response = sender.send_request(request).await.map_err(broken)?;
        read(target, call, &word, response).await
    }

    async fn sender(&self, target: &NodeTarget, slot: &Slot) -> Result<Sender, RpcError> {
        let mut kept = slot.sender.lock().await;
        let shown = self.identity.fingerprint();
        if let Some((sender, then)) = kept.as_ref()
            && *then == shown
            && !sender.0.is_closed()
        {
            return Ok(sender.clone());
        }
        let (stream, word) = self.connect(target, ALPN_H2).await?;
        let sender = self.begin_http2(&target.name, stream).await.map_err(|error| {
            let error = std::io::Error::other(error);
            RpcError::Unreachable { node: target.name.clone(), address: target.address, error }
        })?;
        Ok(kept.insert(((sender, word), shown)).0.clone())
    }

    async fn begin_http2<T>(
        &self,
        node: &NodeName,
        stream: T,
    ) -> hyper::Result<http2::SendRequest<Full<Bytes>>>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http2_builder(self.times).handshake(TokioIo::new(stream)).await?;
        self.run(node.clone(), connection);
        Ok(sender)
    }

    fn run(
        &self,
        node: NodeName,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
    ) {
        self.tasks.spawn("rpc connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%node, %error, "connection ended");
            }
        });
    }

    async fn connect(
        &self,
        target: &NodeTarget,
        alpn: &[u8],
    ) -> Result<(Watched<Called>, LastWord), RpcError> {
        let certificate = |error: rustls::Error| RpcError::Refused {
            node: target.name.clone(),
            refusal: Refusal::Certificate {
                reason: error.to_string(),
                fault: CertificateFault::NotAccepted,
            },
        };
        let server = server_name(&target.name).map_err(certificate)?;
        let config =
            tls::client_config(&self.identity, target.pins(), alpn).map_err(certificate)?;
        let place = (&target.name, target.address);
        let dialer = self.identity.dialer();
        connect(dialer, place, Arc::new(config), server, self.times.connect).await
    }
}

/// The times are set on every connection: without a timer the library panics, without pings a dead
/// node would hold its calls for good.
pub(crate) fn http2_builder(times: ClientTimes) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(times.ping)
        .keep_alive_timeout(times.pong)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    builder
}

pub(crate) fn request(target: &NodeTarget, call: &Traits, body: Bytes) -> Request<Full<Bytes>> {
    let path = format!("https://{}{PATH_PREFIX}{}", target.address, call.name);
    Request::post(path)
        .header(header::HOST, target.address.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .expect("an address and a name of the table make a URI")
}

pub(crate) async fn read(
    target: &NodeTarget,
    call: &Traits,
    word: &LastWord,
    response: Response<Incoming>,
) -> Result<Bytes, RpcError> {
    let limit = Carriage::Bulk.body_max();
    match Limited::new(response.into_body(), limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(RpcError::AnswerTooLarge { node: target.name.clone(), call: call.name, limit })
        }
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => Err(broken(target, call, word, *error)),
            Err(other) => Err(RpcError::Unreachable {
                node: target.name.clone(),
                address: target.address,
                error: std::io::Error::other(other),
            }),
        },
    }
}

pub(crate) fn broken(
    target: &NodeTarget,
    call: &Traits,
    word: &LastWord,
    error: hyper::Error,
) -> RpcError {
    let node = target.name.clone();
    match word.refusal() {
        Some(refusal) => RpcError::Refused { node, refusal },
        None => RpcError::Lost { node, call: call.name, error },
    }
}
