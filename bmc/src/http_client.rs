//! Shell: HTTP to one controller: one connection, one request at a time, everything bounded.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use model::bmc::BmcProtocol;
use model::enrol::Fingerprint;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::error::BmcError;
use crate::target::Controller;
use crate::trust;

/// Longest answer: the inventory of a large machine is some hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Longest path that is followed; links come from the controller.
const PATH_BYTES_MAX: usize = 1_024;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;
/// How often a request is sent that the controller is too busy for.
const BUSY_TRIES: u32 = 5;

/// Bytes both ways, with TLS or without.
trait Bidirectional: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bidirectional for T {}

type Stream = TokioIo<Box<dyn Bidirectional>>;

/// A connection, and what moves it on while somebody waits for an answer.
struct Open {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<Stream, Full<Bytes>>>>,
}

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Answered {
    /// Its code.
    pub(crate) status: StatusCode,
    /// The token of a new session.
    pub(crate) token: Option<String>,
    /// Where something new lies.
    pub(crate) location: Option<String>,
    /// Its body; null where there is none.
    pub(crate) body: Value,
}

/// Speaks HTTP with one controller.
pub(crate) struct HttpClient<'a> {
    controller: &'a Controller,
    open: Option<Open>,
    /// What says who asks.
    pub(crate) authorization: Option<(HeaderName, String)>,
}

impl<'a> HttpClient<'a> {
    pub(crate) fn new(controller: &'a Controller) -> Self {
        Self { controller, open: None, authorization: None }
    }

    fn url(&self) -> String {
        self.controller.url.to_string()
    }

    /// Asks for an object.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Value, BmcError> {
        let answered = self.ask(Method::GET, path, None, None).await?;
        self.good(&Method::GET, path, answered).map(|answered| answered.body)
    }

    /// Asks, as often as the controller says that it is busy; the answer may be a refusal.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Answered, BmcError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answered = self.once(&method, path, body, etag).await?;
            // Some are in the middle of something after each change (iDRAC10 after power off).
            let busy = [StatusCode::CONFLICT, StatusCode::SERVICE_UNAVAILABLE];
            if !busy.contains(&answered.status) || tries == BUSY_TRIES {
                return Ok(answered);
            }
            sleep(self.controller.times.busy * tries).await;
        }
    }

    /// The answer, if it is none of refusal.
    pub(crate) fn good(
        &self,
        method: &Method,
        path: &str,
        answered: Answered,
    ) -> Result<Answered, BmcError> {
        if answered.status.is_success() {
            return Ok(answered);
        }
        let (url, request) = (self.url(), format!("{method} {path}"));
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answered.status) {
            return Err(BmcError::Login { url });
        }
        Err(BmcError::Refused { url, request, reason: reason(&answered) })
    }

    async fn once(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Answered, BmcError> {
        let (url, request) = (self.url(), format!("{method} {path}"));
        let nonsense = |reason: String| {
            let (url, request) = (url.clone(), request.clone());
            BmcError::Nonsense { url, request, reason }
        };
        if !is_path(path) {
            return Err(nonsense("it names a path that is none of its own".to_owned()));
        }
        let message =
            self.message(method, path, body, etag).map_err(|error| nonsense(error.to_string()))?;
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
        // A refusal may have any body.
        let body = match serde_json::from_slice(&bytes) {
            _ if bytes.is_empty() => Value::Null,
            Ok(body) => body,
            Err(error) if answered.status.is_success() => return Err(nonsense(error.to_string())),
            Err(_) => Value::Null,
        };
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

    fn message(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> http::Result<Request<Full<Bytes>>> {
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
        self.within_time(self.secured()).await.map(|(_stream, seen)| seen)
    }

    async fn connect(&self) -> Result<Open, BmcError> {
        let connected = async {
            let (stream, _seen) = self.secured().await?;
            let (sender, connection) = handshake(stream).await.map_err(io::Error::other)?;
            Ok(Open { sender, connection: Box::pin(connection) })
        };
        self.within_time(connected).await
    }

    async fn within_time<T>(
        &self,
        connecting: impl Future<Output = io::Result<T>>,
    ) -> Result<T, BmcError> {
        let limit = self.controller.times.connect;
        let connected = timeout(limit, connecting).await;
        let connected = connected.unwrap_or_else(|_elapsed| Err(late(limit)));
        connected.map_err(|error| {
            let (url, reason) = (self.url(), error.to_string());
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match tls {
                Some(rustls::Error::InvalidCertificate(_)) => BmcError::Certificate { url, reason },
                _ => BmcError::Unreachable { url, reason },
            }
        })
    }

    async fn secured(&self) -> io::Result<(Stream, Option<Fingerprint>)> {
        let url = &self.controller.url;
        let stream = dial(&url.host, url.port).await?;
        if url.protocol == BmcProtocol::RedfishHttp {
            return Ok((TokioIo::new(Box::new(stream)), None));
        }
        let config = trust::config(self.controller.trust).map_err(io::Error::other)?;
        let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let seen = shown.map(|certificate| Fingerprint::of(certificate));
        Ok((TokioIo::new(Box::new(stream)), seen))
    }
}

async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in tokio::net::lookup_host((host, port)).await?.take(ADDRESSES_MAX) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn late(limit: Duration) -> io::Error {
    let text = format!("no connection within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
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
                // What waits for it learns of its end only so.
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

/// What a controller says about why it refuses (DSP0266, error responses).
fn reason(answered: &Answered) -> String {
    let error = &answered.body["error"];
    let extended = &error["@Message.ExtendedInfo"];
    // Some send an object where the standard has a list.
    let first = if extended.is_array() { &extended[0] } else { extended };
    let told = first["Message"].as_str().or_else(|| error["message"].as_str());
    let told = told.map(model::inventory::text).unwrap_or_default();
    format!("{} {told}", answered.status).trim_end().to_owned()
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
