//! Answers requests for numbers over HTTP/1.1.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::Endpoint;
use crate::Tasks;
use crate::admission::Limits;
use crate::daemon::chain;
use crate::net::{Connection, Places};

/// The type of the answer, in the words of HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Connections at the same time: a few servers that ask, and an operator.
const CONNECTIONS: Limits = Limits { total: 64, of_peer: 16 };
/// Time for the head of a request, and between two requests: who asks every minute connects anew.
const HEAD: Duration = Duration::from_secs(10);
/// Life of a connection, so that nobody holds a place for ever.
const CONNECTION: Duration = Duration::from_secs(3_600);
/// Bytes of the head of a request; hyper takes no less.
const HEAD_BYTES_MAX: usize = 8 * 1_024;
/// Makes the text of a page.
type MakePage = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves what `page` makes until `stopped`, if the address can be had: a daemon without numbers is better
/// than none.
pub async fn serve(
    endpoint: Endpoint,
    page: impl Fn() -> String + Send + Sync + 'static,
    stopped: watch::Receiver<bool>,
) {
    let Some(listening) = endpoint.listening() else { return };
    let bound = listening.listen();
    let bound =
        bound.map(|listener| (listener.local_addr().unwrap_or(listening.address), listener));
    match bound {
        Ok((address, listener)) => {
            tracing::info!(%address, "metrics are served");
            if !address.ip().is_loopback() {
                tracing::warn!(%address, "metrics are open to everybody who reaches this address");
            }
            serve_on(listener, page, stopped).await;
        }
        Err(error) => tracing::warn!(
            error = chain(&error),
            "metrics are not served; `--metrics` sets another address and port"
        ),
    }
}

/// Answers `GET /metrics` with what `page` makes, until `stopped` turns true or its sender is gone.
async fn serve_on(
    listener: TcpListener,
    page: impl Fn() -> String + Send + Sync + 'static,
    mut stopped: watch::Receiver<bool>,
) {
    let page: MakePage = Arc::new(page);
    let places = Places::new(listener, "metrics", CONNECTIONS);
    let connections = Tasks::new();
    while let Some(connection) = places.accept(&mut stopped).await {
        let page = Arc::clone(&page);
        connections.spawn("metrics connection", async move {
            let place = connection.place();
            tokio::select! {
                () = place.shed() => tracing::debug!("connection for metrics is shed"),
                () = serve_one(connection, page) => {}
            }
        });
    }
    connections.shutdown().await;
}

async fn serve_one(stream: Connection, page: MakePage) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), &page);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES_MAX);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION, serving).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection for metrics ended"),
    }
}

fn answer(method: &Method, path: &str, page: &MakePage) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    let (status, kind, text) = match (path, method) {
        ("/metrics", &Method::GET | &Method::HEAD) => (StatusCode::OK, CONTENT_TYPE, page()),
        ("/metrics", _) => (StatusCode::METHOD_NOT_ALLOWED, plain, "ask by GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, plain, "the numbers are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn numbers_are_at_one_path() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let tasks = Tasks::new();
        tasks.spawn("metrics", serve_on(listener, || "toys 3\n# EOF\n".to_owned(), stopped));
        let head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let found = ask(address, &format!("GET /metrics {head}")).await;
        assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
        assert!(found.contains(CONTENT_TYPE) && found.ends_with("toys 3\n# EOF\n"), "{found}");
        let other = ask(address, &format!("GET /secrets {head}")).await;
        assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
        let other = ask(address, &format!("POST /metrics {head}")).await;
        assert!(other.starts_with("HTTP/1.1 405 "), "{other}");
        let other = ask(address, "\0\r\n\r\n").await;
        assert!(other.is_empty() || other.starts_with("HTTP/1.1 400 "), "{other}");
        stop.send_replace(true);
        tasks.join().await;
    }
}
