//! Bodies that are too long for memory: read piece by piece, within their limits, by work that blocks.

use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use blobs::{BlobError, Staging};
use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::refusal::Refusal;
use crate::shares::Place;

/// The bytes of a body that are read beyond its limit. Clients look for an answer when they have sent
/// all, and take a stream that ends before for a broken one.
pub const PASSED_OVER_MAX: usize = 1 << 20;
/// Paths of such bodies, by their beginnings.
const PATHS: [&str; 2] = ["/api/v1/images/", "/api/v1/assets/"];
/// Pieces that wait for the disk: as many as a connection has in its buffers.
const PIECES_MAX: usize = 8;
/// Time for the next piece.
const PIECE_TIME: Duration = Duration::from_secs(30);
/// Time for the whole body: 4 GiB at 10 Mbit/s.
const BODY_TIME: Duration = Duration::from_secs(3_600);
/// Time for the little of a body that is read before an answer that does not need it.
const PASS_TIME: Duration = Duration::from_secs(5);
/// How long an answer waits for a client that still sends: it is a round trip away.
const LINGER_TIME: Duration = Duration::from_secs(2);
/// Bytes that are copied at a time.
const COPY_BYTES: usize = 64 << 10;

/// Whether a request has such a body, which its route reads.
pub fn is_upload(method: &Method, path: &str) -> bool {
    *method == Method::PUT && PATHS.iter().any(|beginning| path.starts_with(beginning))
}

/// The body of a request, which its route and its answer have together: HTTP/2 resets the stream of a body
/// that nobody has any more, and with it an answer that was not sent.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Mutex<Body>>);

impl Shared {
    /// Shares a body.
    pub fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// Keeps what is left of the body until the answer is sent. A little is read before, unless the client
    /// waits to be asked for it: HTTP/1.1 cannot send the answer to who still sends.
    pub async fn beside(self, response: Response, expects: bool) -> Response {
        if self.is_end_stream() {
            return response;
        }
        let left = self.size_hint().upper();
        // The rest of a body that was late is late, too.
        let is_late = response.status() == StatusCode::REQUEST_TIMEOUT;
        if !expects && !is_late && left.is_some_and(|left| left <= PASSED_OVER_MAX as u64) {
            let mut rest = Body::new(self.clone());
            drop(tokio::time::timeout(PASS_TIME, pass_over(&mut rest)).await);
        }
        if self.is_end_stream() {
            return response;
        }
        let linger = async move {
            if pass_over(&mut Body::new(self)).await {
                std::future::pending::<()>().await;
            }
        };
        let linger = Box::pin(async { drop(tokio::time::timeout(LINGER_TIME, linger).await) });
        response.map(|body| Body::new(Beside { body, linger }))
    }
}

impl hyper::body::Body for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

/// The body of an answer, with that of its request. Its stream of HTTP/2 stays open a while when all is sent,
/// so that the client sees the answer before it sees that nobody reads on.
struct Beside {
    body: Body,
    linger: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for Beside {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.body.is_end_stream() {
            let frame = Pin::new(&mut self.body).poll_frame(context);
            if !matches!(frame, Poll::Ready(None)) {
                return frame;
            }
        }
        self.linger.as_mut().poll(context).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body as a file that is read by work which blocks. It ends in an error unless all of it came.
#[derive(Debug)]
pub struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    current: Bytes,
    is_over: bool,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.is_over {
            match self.receiver.blocking_recv() {
                Some(Piece::Data(data)) => self.current = data,
                Some(Piece::End) => self.is_over = true,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Gives a body of at most so many bytes to `work`, which gets a thread of its own for the place.
///
/// # Errors
/// The body is too long, too slow or broken off, or what `work` says.
pub async fn receive<T: Send + 'static>(
    place: Place,
    body: Body,
    most: u64,
    work: impl FnOnce(&mut Pieces) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    if body.size_hint().lower() > most {
        return Err(too_long(most));
    }
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let mut pieces = Pieces { receiver, current: Bytes::new(), is_over: false };
    let working = stdx::apart(move || {
        let told = work(&mut pieces);
        drop(place);
        told
    });
    let fed = tokio::time::timeout(BODY_TIME, feed(body, most, sender)).await;
    // The file of the work is gone before the client hears why.
    let worked = working.await;
    fed.unwrap_or_else(|_elapsed| Err(late(BODY_TIME)))?;
    worked.unwrap_or_else(|error| {
        tracing::error!(%error, "the reader of an upload panicked");
        Err(Refusal::fault("internal error"))
    })
}

async fn feed(mut body: Body, most: u64, pieces: mpsc::Sender<Piece>) -> Result<(), Refusal> {
    let mut length: u64 = 0;
    while let Some(data) = next(&mut body).await? {
        length += data.len() as u64;
        if length > most {
            pass_over(&mut body).await;
            return Err(too_long(most));
        }
        if pieces.send(Piece::Data(data)).await.is_err() {
            // The reader has seen enough, and says why.
            pass_over(&mut body).await;
            return Ok(());
        }
    }
    drop(pieces.send(Piece::End).await);
    Ok(())
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = tokio::time::timeout(PIECE_TIME, body.frame()).await;
        let Some(frame) = frame.map_err(|_elapsed| late(PIECE_TIME))? else { return Ok(None) };
        let wrong = |error| Refusal::bad(format!("the body does not read: {error}"));
        if let Ok(data) = frame.map_err(wrong)?.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Clients look for an answer when they have sent all, and take a stream that ends before for a broken one.
/// Whether there is more than is read so.
async fn pass_over(body: &mut Body) -> bool {
    let mut passed_over = 0;
    while passed_over <= PASSED_OVER_MAX {
        let Ok(Some(data)) = next(body).await else { return false };
        passed_over += data.len();
    }
    true
}

/// The refusal of a body that is longer than this.
pub fn too_long(most: u64) -> Refusal {
    let text = format!("the body has more than {most} bytes, which is the limit for this path");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn late(time: Duration) -> Refusal {
    let text = format!("the next part of the body did not come within {} s", time.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, text)
}

/// Copies all that is left into a file of the spool.
///
/// # Errors
/// It does not read, or cannot be written.
pub fn stage(from: &mut impl Read, spool: &Path) -> Result<Staging, Refusal> {
    let mut staging = Staging::begin(spool).map_err(|error| unwritten(&error))?;
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(staging),
            Ok(length) => {
                staging.write(&buffer[..length]).map_err(|error| unwritten(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unread(&error)),
        }
    }
}

/// The refusal of a body that ends where it should not.
pub fn unread(error: &io::Error) -> Refusal {
    Refusal::bad(format!("the body does not read: {error}"))
}

/// The refusal where a file cannot be written.
pub fn unwritten(error: &BlobError) -> Refusal {
    let is_full = match error {
        BlobError::NoRoom { .. } => true,
        BlobError::Io { error, .. } => error.kind() == io::ErrorKind::StorageFull,
        _ => false,
    };
    let told = stdx::daemon::chain(error);
    tracing::warn!(%told, "an upload cannot be written");
    let full = StatusCode::INSUFFICIENT_STORAGE;
    Refusal::new(if is_full { full } else { StatusCode::INTERNAL_SERVER_ERROR }, told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{Shares, own, turn_now};

    fn files(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    async fn sent(body: Body, most: u64, spool: &Path) -> Result<u64, u16> {
        let place = turn_now(&Shares::default().uploads, &own(), "uploads").unwrap();
        let spool = spool.to_owned();
        let work = move |pieces: &mut Pieces| Ok(stage(pieces, &spool)?.size());
        receive(place, body, most, work).await.map_err(|refusal| refusal.code)
    }

    /// A body in pieces of unknown length, which may break off.
    fn pieces(all: Vec<Result<&'static str, io::Error>>) -> Body {
        Body::from_stream(futures_util::stream::iter(all))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_body_comes_whole_or_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (body, told) in [
            (Body::from("0123456789"), Ok(10)),
            (Body::empty(), Ok(0)),
            (pieces(vec![Ok("0123"), Ok("456789")]), Ok(10)),
            (Body::from("0123456789a"), Err(413)),
            (pieces(vec![Ok("0123456789"), Ok("a")]), Err(413)),
            (pieces(vec![Ok("0123"), Err(io::ErrorKind::ConnectionReset.into())]), Err(400)),
        ] {
            assert_eq!(sent(body, 10, dir.path()).await, told);
            assert_eq!(files(dir.path()), 0);
        }
        let nowhere = dir.path().join("nowhere");
        assert_eq!(sent(Body::from("a"), 10, &nowhere).await, Err(500));
    }

    #[test]
    fn only_uploads_are_read_by_their_routes() {
        assert!(is_upload(&Method::PUT, "/api/v1/assets/a"));
        assert!(!is_upload(&Method::DELETE, "/api/v1/assets/a"));
        assert!(!is_upload(&Method::PUT, "/api/v1/assets"));
        assert!(!is_upload(&Method::PUT, "/api/v1/config"));
    }
}
