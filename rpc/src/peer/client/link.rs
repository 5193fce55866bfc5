//! One connection, and the exchange on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use model::NodeName;
use model::enrol::Fingerprint;
use queue_format::Position;

use super::open::{Stream, is_quiet, open};
use super::{PeerError, Shared};
use crate::peer::control::ControlCall;
use crate::peer::failure::PeerFailure;
use crate::peer::frame::{FRAME_BYTES_MAX, Status, header};
use crate::peer::hello::{Hello, PeerRefusal};
use crate::peer::stream::{self, Frame};

/// One connection to one member. It is opened by the first question, and opened anew by the first
/// one after a failure; nothing is asked twice.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    hello: Hello,
    kept: Option<Kept>,
}

/// A connection on which nothing is under way.
#[derive(Debug)]
struct Kept {
    stream: Stream,
    used: Instant,
    /// The certificate that was shown when it was made.
    shown: Fingerprint,
}

impl Link {
    pub(super) fn new(shared: Arc<Shared>, hello: Hello) -> Self {
        Self { shared, hello, kept: None }
    }

    /// The first word of its connections.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Lets its next connection begin with what the store that is meant is known to have made durable.
    pub fn expect(&mut self, acknowledged: Position) {
        self.hello.acknowledged = acknowledged;
    }

    /// Asks the question `kind`, whose body is `pieces` one behind the other, and waits at most
    /// `limit` for the answer; making a connection, where there is none, counts.
    ///
    /// May be dropped at any await: its connection is dropped with it.
    ///
    /// # Errors
    /// See [`PeerError`]; [`PeerError::certainly_not_done`] tells whether the member may have
    /// acted.
    pub async fn ask(
        &mut self,
        kind: u8,
        pieces: &[&[u8]],
        limit: Duration,
    ) -> Result<Bytes, PeerError> {
        let body_bytes = pieces.iter().map(|piece| piece.len()).sum();
        if let Err(error) = header(kind, body_bytes) {
            return Err(PeerError::TooLarge { node: self.node(), error });
        }
        let begun = Instant::now();
        let deadline = begun + limit;
        let shown = self.shared.shown.fingerprint();
        let mut stream = match self.take(begun, shown).await {
            Some(stream) => stream,
            None => open(&self.shared, &self.hello, deadline).await?,
        };
        let exchange = async {
            stream::write(&mut stream, kind, pieces).await?;
            stream::read(&mut stream, FRAME_BYTES_MAX).await
        };
        let answer = match tokio::time::timeout_at(deadline, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(PeerError::broken(self.node(), error)),
            Err(_elapsed) => return Err(PeerError::TimedOut { node: self.node(), after: limit }),
        };
        let read = self.read(answer);
        if matches!(read, Ok(_) | Err(PeerError::Failed { .. })) {
            self.kept = Some(Kept { stream, used: begun, shown });
        }
        read
    }

    /// Makes the connection for the next question, if there is none, within `limit`.
    ///
    /// # Errors
    /// There is none, and nothing was asked.
    pub async fn reach(&mut self, limit: Duration) -> Result<(), PeerError> {
        let begun = Instant::now();
        let shown = self.shared.shown.fingerprint();
        let stream = match self.take(begun, shown).await {
            Some(stream) => stream,
            None => open(&self.shared, &self.hello, begun + limit).await?,
        };
        self.kept = Some(Kept { stream, used: begun, shown });
        Ok(())
    }

    /// Closes its connection; the next question opens another.
    pub fn close(&mut self) {
        self.kept = None;
    }

    /// The connection that was kept, if it is still good. It is taken out for the time of the
    /// exchange: one that is out of step is never kept. Nor is one of a certificate that was renewed.
    async fn take(&mut self, now: Instant, shown: Fingerprint) -> Option<Stream> {
        let mut kept = self.kept.take()?;
        let unused = now.duration_since(kept.used);
        let fresh = unused < self.shared.times.idle && kept.shown == shown;
        (fresh && is_quiet(&mut kept.stream).await).then_some(kept.stream)
    }

    /// Whether it has a connection on which the other side said nothing unasked.
    #[cfg(test)]
    pub(in crate::peer) async fn is_quiet(&mut self) -> bool {
        match &mut self.kept {
            Some(kept) => is_quiet(&mut kept.stream).await,
            None => false,
        }
    }

    fn read(&self, answer: Frame) -> Result<Bytes, PeerError> {
        let malformed = |error| PeerError::Malformed { node: self.node(), error };
        let status = Status::from_mark(answer.mark)
            .map_err(|error| PeerError::broken(self.node(), error.into()))?;
        match status {
            Status::Answer => Ok(answer.body),
            Status::Failure => {
                let failure: PeerFailure =
                    serde_json::from_slice(&answer.body).map_err(malformed)?;
                Err(PeerError::Failed { node: self.node(), failure })
            }
            Status::Refusal => {
                let refusal: PeerRefusal =
                    serde_json::from_slice(&answer.body).map_err(malformed)?;
                Err(PeerError::Refused { node: self.node(), refusal })
            }
        }
    }

    fn node(&self) -> NodeName {
        self.shared.target.name.clone()
    }
}

/// A link for questions about the member itself.
#[derive(Debug)]
pub struct ControlLink(Link);

impl ControlLink {
    pub(super) fn new(link: Link) -> Self {
        Self(link)
    }

    /// Asks, and waits at most as long as the question's class allows.
    ///
    /// # Errors
    /// As [`Link::ask`]; [`PeerError::Malformed`] also where the reply is not the question's.
    pub async fn call<C: ControlCall>(&mut self, call: &C) -> Result<C::Reply, PeerError> {
        self.call_within(call, C::LINE.class.limit()).await
    }

    /// The same for who cannot wait as long.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn call_within<C: ControlCall>(
        &mut self,
        call: &C,
        limit: Duration,
    ) -> Result<C::Reply, PeerError> {
        let node = self.0.node();
        let body = match serde_json::to_vec(call) {
            Ok(body) => body,
            Err(error) => return Err(PeerError::Malformed { node, error }),
        };
        let answer = self.0.ask(C::LINE.kind, &[&body], limit).await?;
        serde_json::from_slice(&answer).map_err(|error| PeerError::Malformed { node, error })
    }

    /// Closes its connection; the next question opens another.
    pub fn close(&mut self) {
        self.0.close();
    }
}
