//! One end of a stream.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use model::enrol::Fingerprint;

use super::Network;
use super::state::End;

/// An end of a stream of the network. Dropped, the other end learns of it as by TCP.
pub struct Stream {
    network: Network,
    end: End,
    /// Bytes that were taken from the network and are not read yet.
    taken: Bytes,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(network: Network, end: End) -> Self {
        Self { network, end, taken: Bytes::new() }
    }

    /// The protocol that the caller asked for.
    pub(crate) fn protocol(&self) -> &[u8] {
        &self.end.protocol
    }

    /// The certificate that the caller showed.
    pub(crate) fn caller(&self) -> Option<Fingerprint> {
        self.end.shown
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.network.0.lock().close(&self.end);
    }
}

impl AsyncBufRead for Stream {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let stream = self.get_mut();
        if stream.taken.is_empty() {
            match stream.network.0.lock().read(&stream.end, context.waker())? {
                Some(bytes) => stream.taken = bytes,
                None => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(&stream.taken))
    }

    fn consume(mut self: Pin<&mut Self>, bytes: usize) {
        self.taken.advance(bytes);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let found = ready!(self.as_mut().poll_fill_buf(context))?;
        let bytes = found.len().min(buffer.remaining());
        buffer.put_slice(&found[..bytes]);
        self.consume(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.network.0.lock().write(&self.end, bytes, context.waker())?;
        written.map_or(Poll::Pending, |written| Poll::Ready(Ok(written)))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.network.0.lock().shut(&self.end);
        Poll::Ready(Ok(()))
    }
}
