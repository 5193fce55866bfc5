//! From an address to a connection on which both sides have said who they are.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::AsyncBufRead;
use tokio::time::Instant;

use super::{PeerError, Shared};
use crate::peer::frame::{HELLO_BYTES_MAX, HELLO_MARK, Status};
use crate::peer::hello::{Hello, PeerRefusal, Welcome};
use crate::peer::stream::{self, Frame, StreamError};
use crate::tls::ALPN_PEER;

pub(super) use crate::secured::Called as Stream;

/// Why there is no connection.
enum NotOpen {
    Stream(StreamError),
    Malformed(serde_json::Error),
    Refused(PeerRefusal),
}

impl<E: Into<StreamError>> From<E> for NotOpen {
    fn from(error: E) -> Self {
        Self::Stream(error.into())
    }
}

/// Connects, shakes hands and says `hello`, before `deadline` and within the limit for that.
pub(super) async fn open(
    shared: &Shared,
    hello: &Hello,
    deadline: Instant,
) -> Result<Stream, PeerError> {
    let deadline = deadline.min(Instant::now() + shared.times.connect);
    let opened = match tokio::time::timeout_at(deadline, introduce(shared, hello)).await {
        Ok(opened) => opened,
        Err(_elapsed) => Err(late().into()),
    };
    opened.map_err(|not_open| {
        let (node, address) = (shared.target.name.clone(), shared.target.address);
        match not_open {
            NotOpen::Refused(refusal) => PeerError::Refused { node, refusal },
            NotOpen::Malformed(error) => PeerError::Malformed { node, error },
            NotOpen::Stream(error) => PeerError::not_open(node, address, error),
        }
    })
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no connection within the time limit")
}

async fn introduce(shared: &Shared, hello: &Hello) -> Result<Stream, NotOpen> {
    let Shared { dialer, target, config, server, .. } = shared;
    let mut stream = dialer.connect(target.address, Arc::clone(config), server.clone()).await?;
    if stream.protocol() != Some(ALPN_PEER) {
        let words = "what listens there does not speak the protocol between members";
        return Err(io::Error::new(io::ErrorKind::InvalidData, words).into());
    }
    let body = serde_json::to_vec(hello).expect("a hello has only strings as keys");
    stream::write(&mut stream, HELLO_MARK, &[&body]).await?;
    let Frame { mark, body } = stream::read(&mut stream, HELLO_BYTES_MAX).await?;
    match Status::from_mark(mark).map_err(StreamError::from)? {
        Status::Answer => {
            let _welcome: Welcome = serde_json::from_slice(&body).map_err(NotOpen::Malformed)?;
            Ok(stream)
        }
        Status::Refusal | Status::Failure => {
            Err(NotOpen::Refused(serde_json::from_slice(&body).map_err(NotOpen::Malformed)?))
        }
    }
}

/// Whether the other side said nothing since its last answer: neither farewell, nor what nobody
/// asked for. Costs no system call where it did not.
pub(super) async fn is_quiet(stream: &mut Stream) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_fill_buf(context).is_pending())).await
}
