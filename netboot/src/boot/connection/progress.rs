//! Whether a connection is busy: a busy one is not shed where others have no place. It is busy while the agent
//! answers its request, and while its download comes on. A peer that sends or takes a byte now and then does
//! not make it busy.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use stdx::admission::Slot;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a download takes between two looks, or it does not come on: 10 kB a second.
const BYTES_BETWEEN_LOOKS: u64 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request, or for the body of one.
    Waits,
    /// The agent answers its request.
    Answers,
    /// The agent sends the answer.
    Sends,
}

/// How a connection comes on.
#[derive(Debug)]
pub(super) struct Progress {
    place: Arc<Slot<IpAddr>>,
    phase: Mutex<Phase>,
    written: AtomicU64,
    /// The bytes that were written at the last look; [`NO_LOOK`] where this phase had none.
    looked_at: AtomicU64,
}

/// More than any connection writes.
const NO_LOOK: u64 = u64::MAX;

impl Progress {
    pub(super) fn new(place: Arc<Slot<IpAddr>>) -> Self {
        let [written, looked_at] = [0, NO_LOOK].map(AtomicU64::new);
        Self { place, phase: Mutex::new(Phase::Waits), written, looked_at }
    }

    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
        self.looked_at.store(NO_LOOK, Ordering::Relaxed);
        self.place.set_busy(phase != Phase::Waits);
    }

    /// Looks whether a download came on since the last look.
    pub(super) fn look(&self) {
        if *self.phase.lock() != Phase::Sends {
            return;
        }
        let written = self.written.load(Ordering::Relaxed);
        let before = self.looked_at.swap(written, Ordering::Relaxed);
        // A download that has just begun has until the next look.
        let comes_on = before == NO_LOOK || written.saturating_sub(before) >= BYTES_BETWEEN_LOOKS;
        self.place.set_busy(comes_on);
    }
}

/// An answer that the agent sends, until it is dropped.
pub(super) struct Sent(pub(super) Arc<Progress>);

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.enter(Phase::Waits);
    }
}

/// The body of a request. The connection waits until all of it came.
pub(super) struct Arriving {
    body: Incoming,
    progress: Arc<Progress>,
    is_there: bool,
}

impl Arriving {
    pub(super) fn new(body: Incoming, progress: &Arc<Progress>) -> Self {
        let is_there = body.is_end_stream();
        if is_there {
            progress.enter(Phase::Answers);
        }
        Self { body, progress: Arc::clone(progress), is_there }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if !self.is_there && (frame.is_none() || self.body.is_end_stream()) {
            self.is_there = true;
            self.progress.enter(Phase::Answers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose bytes are counted on their way out.
pub(super) struct Counted<S> {
    pub(super) stream: S,
    pub(super) progress: Arc<Progress>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        if let Ok(written) = &written {
            let written = u64::try_from(*written).unwrap_or(u64::MAX);
            self.progress.written.fetch_add(written, Ordering::Relaxed);
        }
        Poll::Ready(written)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use stdx::admission::{Admission, Limits};

    use super::*;

    #[test]
    fn a_connection_is_busy_while_it_comes_on() {
        let admission = Admission::new(Limits { total: 1, of_peer: 1 });
        let peer: IpAddr = [10, 69, 0, 40].into();
        let progress = Progress::new(Arc::new(admission.admit(peer).unwrap()));
        let is_busy = |writes: u64| {
            progress.written.fetch_add(writes, Ordering::Relaxed);
            progress.look();
            admission.admit(peer).is_err()
        };
        progress.enter(Phase::Answers);
        assert!(is_busy(0) && is_busy(0), "somebody else is at work");
        progress.enter(Phase::Sends);
        assert!(is_busy(0), "it has just begun");
        assert!(is_busy(BYTES_BETWEEN_LOOKS) && is_busy(BYTES_BETWEEN_LOOKS));
        assert!(!is_busy(BYTES_BETWEEN_LOOKS - 1));
    }
}
