//! Shell: HTTP to one controller: one connection, one request at a time, everything bounded.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use model::bmc::{BmcProtocol, BmcUrl};
use model::enrol::Fingerprint;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::answer::{Answered, Verdict, tries};
use crate::error::BmcError;
use crate::target::Controller;
use crate::{probe, trust};

/// Longest answer: the inventory of a large machine is some hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Longest path that is followed; links come from the controller.
const PATH_BYTES_MAX: usize = 1_024;

/// Bytes both ways, with TLS or without.
trait Bidirectional: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bidirectional for T {}

type Stream = TokioIo<Box<dyn Bidirectional>>;

/// A connection, and what moves it on while somebody waits for an answer.
struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<Stream, Full<Bytes>>>>,
}

/// A request.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: Option<&'a Value>,
    /// The tag that its object must have.
    pub(crate) etag: Option<&'a str>,
}

impl<'a> Question<'a> {
    pub(crate) const fn new(method: &'a Method, path: &'a str, body: Option<&'a Value>) -> Self {
        Self { method, path, body, etag: None }
    }
}

/// Speaks HTTP with one controller.
pub(crate) struct HttpClient<'a> {
    controller: &'a Controller,
    open: Option<Open>,
    /// The header that says who asks.
    pub(crate) authorization: Option<(HeaderName, String)>,
}

impl<'a> HttpClient<'a> {
    pub(crate) fn new(controller: &'a Controller) -> Self {
        Self { controller, open: None, authorization: None }
    }

    fn url(&self) -> String {
        self.controller.url.to_string()
    }

    /// Asks, again where the controller says that it is busy, or answers oddly; the answer may be a refusal.
    pub(crate) async fn ask(&mut self, question: Question<'_>) -> Result<Answered, BmcError> {
        let mut sent = 0;
        loop {
            sent += 1;
            let asked = self.once(question).await;
            let verdict = match &asked {
                Ok(answered) => answered.verdict(question.method),
                Err(BmcError::Nonsense { .. }) => Verdict::Unreadable,
                Err(_) => return asked,
            };
            if sent >= tries(question.method, verdict) {
                return asked;
            }
            // Some are in the middle of something after each change (iDRAC10 after power off).
            sleep(self.controller.times.busy * sent).await;
        }
    }

    /// The answer, if it is a good one.
    pub(crate) fn good(
        &self,
        method: &Method,
        path: &str,
        answered: Answered,
    ) -> Result<Answered, BmcError> {
        let (url, request, reason) = (self.url(), format!("{method} {path}"), answered.reason());
        if let Some(instead) = answered.secured_elsewhere()
            && !self.controller.url.is_secured()
        {
            return Err(BmcError::Scheme { url, instead });
        }
        Err(match answered.verdict(method) {
            Verdict::Good => return Ok(answered),
            Verdict::Unreadable => {
                BmcError::Nonsense { url, request, reason: "it is no object".to_owned() }
            }
            Verdict::Unauthorized => BmcError::Login { url },
            Verdict::Forbidden => BmcError::Privilege { url, reason, has_levels: false },
            Verdict::NotReady => BmcError::NotReady { url, request, reason },
            Verdict::Failed => BmcError::Failed { url, request, reason },
            Verdict::Refused => BmcError::Refused { url, request, reason },
        })
    }

    async fn once(&mut self, question: Question<'_>) -> Result<Answered, BmcError> {
        let (url, request) = (self.url(), format!("{} {}", question.method, question.path));
        let nonsense = |reason: String| {
            let (url, request) = (url.clone(), request.clone());
            BmcError::Nonsense { url, request, reason }
        };
        if !is_path(question.path) {
            return Err(nonsense("it names a path that is none of its own".to_owned()));
        }
        let message = self.message(question).map_err(|error| nonsense(error.to_string()))?;
        let exchanged = match self.open.take() {
            None => None,
            // A kept connection may have been closed meanwhile, which is seen only when it is used.
            Some(kept) => match self.exchange(kept, message.clone(), &request).await? {
                Err(Broken { is_unsent: true, .. }) => None,
                other => Some(other),
            },
        };
        let exchanged = match exchanged {
            Some(exchanged) => exchanged,
            None => {
                let fresh = self.connect().await?;
                self.exchange(fresh, message, &request).await?
            }
        };
        let (answered, bytes, open) = exchanged.map_err(|broken| nonsense(broken.reason))?;
        self.open = open;
        // Text that is no JSON becomes null: only objects are asked for. An action needs no body.
        let body = serde_json::from_str(&model::json::lossy(&bytes)).unwrap_or(Value::Null);
        Ok(Answered { body, ..answered })
    }

    async fn exchange(
        &self,
        open: Open,
        message: Request<Full<Bytes>>,
        request: &str,
    ) -> Result<Exchanged, BmcError> {
        let limit = self.controller.times.answer;
        timeout(limit, exchange(open, message)).await.map_err(|_elapsed| BmcError::Silent {
            url: self.url(),
            request: request.to_owned(),
            limit,
        })
    }

    fn message(&self, question: Question<'_>) -> http::Result<Request<Full<Bytes>>> {
        let Question { method, path, body, etag } = question;
        let url = &self.controller.url;
        let mut builder = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("{}:{}", url.url_host(), url.port))
            .header(header::ACCEPT, "application/json")
            .header("OData-Version", "4.0");
        if let Some((name, value)) = &self.authorization {
            builder = builder.header(name, value);
        }
        if let Some(etag) = etag {
            builder = builder.header(header::IF_MATCH, etag);
        }
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        if body.is_some() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        builder.body(Full::new(bytes))
    }

    /// The certificate that the controller shows.
    pub(crate) async fn certificate(&self) -> Result<Option<Fingerprint>, BmcError> {
        self.secured().await.map(|(_stream, seen)| seen)
    }

    async fn connect(&self) -> Result<Open, BmcError> {
        let (stream, _seen) = self.secured().await?;
        let (sender, connection) = handshake(stream).await.map_err(|error| {
            BmcError::Unreachable { url: self.url(), reason: error.to_string() }
        })?;
        Ok(Open { sender, connection: Box::pin(connection) })
    }

    async fn secured(&self) -> Result<(Stream, Option<Fingerprint>), BmcError> {
        let url = &self.controller.url;
        let stream = self.within_time(probe::dial(url)).await;
        let stream = stream.map_err(|error| BmcError::Unreachable {
            url: self.url(),
            reason: error.to_string(),
        })?;
        if url.protocol == BmcProtocol::RedfishHttp {
            return Ok((TokioIo::new(Box::new(stream)), None));
        }
        let shaken = self.within_time(async {
            let config = trust::config(self.controller.trust).map_err(io::Error::other)?;
            let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
            TlsConnector::from(Arc::new(config)).connect(name, stream).await
        });
        match shaken.await {
            Ok(stream) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let seen = shown.map(|certificate| Fingerprint::of(certificate));
                Ok((TokioIo::new(Box::new(stream)), seen))
            }
            Err(error) => Err(self.without_tls(&error).await),
        }
    }

    async fn within_time<T>(
        &self,
        connecting: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let limit = self.controller.times.connect;
        timeout(limit, connecting).await.unwrap_or_else(|_elapsed| {
            let text = format!("no connection within {} s", limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Why there is no TLS.
    async fn without_tls(&self, error: &io::Error) -> BmcError {
        let (url, reason) = (self.url(), error.to_string());
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::InvalidCertificate(_)) = tls {
            return BmcError::Certificate { url, reason };
        }
        let (told, limit) = (&self.controller.url, self.controller.times.connect);
        if probe::speaks_http(told, limit).await {
            let instead = BmcUrl { protocol: BmcProtocol::RedfishHttp, ..told.clone() };
            return BmcError::Scheme { url, instead };
        }
        BmcError::Tls { url, reason }
    }

    /// Why the first question of all failed: perhaps the controller speaks TLS there.
    pub(crate) async fn first_failed(&self, error: BmcError) -> BmcError {
        let is_answer = matches!(
            error,
            BmcError::Nonsense { .. } | BmcError::Failed { .. } | BmcError::Silent { .. }
        );
        let (told, limit) = (&self.controller.url, self.controller.times.connect);
        if is_answer && !told.is_secured() && probe::speaks_tls(told, limit).await {
            let instead = BmcUrl { protocol: BmcProtocol::RedfishHttps, ..told.clone() };
            return BmcError::Scheme { url: self.url(), instead };
        }
        error
    }
}

/// A connection broke in the middle.
struct Broken {
    reason: String,
    /// Whether the request was not sent.
    is_unsent: bool,
}

impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Self {
        Self { reason: error.to_string(), is_unsent: error.is_canceled() || error.is_closed() }
    }
}

/// An answer, its body, and the connection, where it can be used again.
type Exchanged = Result<(Answered, Bytes, Option<Open>), Broken>;

/// Sends a request and reads its answer whole, and moves the connection on meanwhile.
async fn exchange(open: Open, message: Request<Full<Bytes>>) -> Exchanged {
    let Open { mut sender, mut connection } = open;
    let asked = async {
        sender.ready().await?;
        let (parts, body) = sender.send_request(message).await?.into_parts();
        let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let too_long = |error: Box<dyn std::error::Error + Send + Sync>| Broken {
            reason: error.to_string(),
            is_unsent: false,
        };
        let bytes = read.map_err(too_long)?.to_bytes();
        let text = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
        let answered = Answered {
            status: parts.status,
            token: text("x-auth-token"),
            location: text("location"),
            etag: text("etag"),
            body: Value::Null,
        };
        Ok::<_, Broken>((answered, bytes))
    };
    let answered = {
        tokio::pin!(asked);
        let answered = tokio::select! {
            answered = &mut asked => Some(answered),
            // It ends with an answer that is the last one, or without one.
            _ended = connection.as_mut() => None,
        };
        match answered {
            Some(answered) => (answered?, Some(connection)),
            None => {
                // The request learns of the connection's end only by this drop.
                drop(connection);
                (asked.await?, None)
            }
        }
    };
    let ((answered, bytes), connection) = answered;
    Ok((answered, bytes, connection.map(|connection| Open { sender, connection })))
}

/// Whether a path that a controller names is one of its own.
fn is_path(path: &str) -> bool {
    let good = |b: u8| b.is_ascii_graphic() && !b"\\\"<>^`{|}#".contains(&b);
    let local = path.starts_with('/') && !path.starts_with("//");
    local && path.len() <= PATH_BYTES_MAX && path.bytes().all(good) && !path.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_controller_are_followed() {
        for good in ["/redfish/v1/", "/redfish/v1/Systems/437XR1138R2?$expand=.", "/a%20b"] {
            assert!(is_path(good), "{good}");
        }
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        for bad in
            ["", "redfish", "//evil.example/", "http://x/", "/../x", "/a b", "/a\r\nX: y", &long]
        {
            assert!(!is_path(bad), "{bad}");
        }
    }
}
