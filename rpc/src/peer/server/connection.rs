//! One connection: its handshake, its hello, then its questions.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncBufReadExt;

use model::enrol::Fingerprint;
use stdx::admission;

use super::places::Slot;
use super::{PeerService, Shared};
use crate::peer::PEER_PROTOCOL;
use crate::peer::control;
use crate::peer::failure::{PeerFailure, PeerFailureKind};
use crate::peer::forwarding;
use crate::peer::frame::{FRAME_BYTES_MAX, HELLO_BYTES_MAX, HELLO_MARK, Status, header};
use crate::peer::hello::{Hello, PeerRefusal, Purpose, RefusalReason, Welcome};
use crate::peer::stream::{self, Frame, StreamError};
use crate::secured::{Answered, Arrived, linger};
use crate::tls::ALPN_PEER;
use crate::wire::Versions;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the peer closed it")]
    Closed,
    #[error("nothing came within {} s", .0.as_secs())]
    Idle(Duration),
    #[error("a frame took longer than {} s", .0.as_secs())]
    Slow(Duration),
    #[error("refused: {0}")]
    Refused(PeerRefusal),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

#[tracing::instrument(name = "peer", skip_all, fields(%from, node))]
pub(super) async fn serve<S: PeerService>(
    arrived: Arrived,
    from: SocketAddr,
    shared: Arc<Shared<S>>,
    greeting: admission::Slot<IpAddr>,
) {
    let begin = async {
        let (mut stream, peer) = shake_hands(arrived, &shared).await?;
        let greeted = greet(&mut stream, peer, &shared).await;
        Some((stream, peer, greeted))
    };
    let begun = tokio::select! {
        begun = begin => begun,
        () = greeting.shed() => return tracing::debug!("caller is shed"),
    };
    let Some((mut stream, peer, greeted)) = begun else { return };
    let end = match greeted {
        Ok((hello, place)) => {
            drop(greeting);
            tracing::Span::current().record("node", hello.from.node.as_str());
            let end = questions(&mut stream, peer, &hello, &shared).await;
            drop(place);
            end
        }
        Err(end) => end,
    };
    match &end {
        End::Refused(refusal) => {
            tracing::info!(reason = refusal.reason.name(), %refusal, "peer refused");
            linger(stream, shared.limits.hello).await;
        }
        other => tracing::debug!(end = %stdx::daemon::chain(other), "connection ended"),
    }
}

/// Gives the connection and the certificate of who is at its other end.
async fn shake_hands<S>(arrived: Arrived, shared: &Shared<S>) -> Option<(Answered, Fingerprint)> {
    let stream = arrived.shake_hands(&shared.acceptor, shared.limits.handshake).await?;
    if stream.protocol() != Some(ALPN_PEER) {
        tracing::info!("caller did not ask for the protocol between members");
        return None;
    }
    let peer = stream.peer()?;
    Some((stream, peer))
}

async fn greet<S: PeerService>(
    stream: &mut Answered,
    peer: Fingerprint,
    shared: &Shared<S>,
) -> Result<(Hello, Slot), End> {
    let read = receive(stream, shared.limits.hello, HELLO_BYTES_MAX).await;
    let decided = read.and_then(|frame| {
        let hello = read_hello(&frame)?;
        admit(&hello, peer, shared)?;
        let place = shared.places(hello.purpose).take(peer).map_err(End::Refused)?;
        Ok((hello, place))
    });
    match decided {
        Ok(admitted) => {
            let welcome = Welcome { versions: Versions::up_to(PEER_PROTOCOL) };
            let body = serde_json::to_vec(&welcome).expect("a welcome has only strings as keys");
            send(stream, shared.limits.hello, Status::Answer, &body).await?;
            Ok(admitted)
        }
        Err(end) => Err(tell(stream, shared.limits.hello, end).await),
    }
}

fn read_hello(frame: &Frame) -> Result<Hello, End> {
    if frame.mark != HELLO_MARK {
        let message = format!("the first frame has mark {}: it is no hello", frame.mark);
        return Err(End::Refused(PeerRefusal::new(RefusalReason::Malformed, message)));
    }
    Hello::read(&frame.body).map_err(End::Refused)
}

/// Whether `hello` of `peer` holds at this moment.
fn admit<S: PeerService>(hello: &Hello, peer: Fingerprint, shared: &Shared<S>) -> Result<(), End> {
    let named = &hello.from.node;
    let stranger = |message| End::Refused(PeerRefusal::new(RefusalReason::Stranger, message));
    match shared.allowed.find(&peer) {
        Some(name) if name == *named => {}
        Some(name) => {
            let message = format!("the certificate is that of node {name}, not of {named}");
            return Err(stranger(message));
        }
        // The list may have changed since the handshake.
        None => return Err(stranger(format!("node {named} is not on the allow-list"))),
    }
    shared.service.admit(hello).map_err(End::Refused)
}

/// Answers question after question; comes back when the connection is over.
async fn questions<S: PeerService>(
    stream: &mut Answered,
    peer: Fingerprint,
    hello: &Hello,
    shared: &Shared<S>,
) -> End {
    loop {
        if let Err(end) = question(stream, peer, hello, shared).await {
            return tell(stream, shared.limits.frame, end).await;
        }
    }
}

async fn question<S: PeerService>(
    stream: &mut Answered,
    peer: Fingerprint,
    hello: &Hello,
    shared: &Shared<S>,
) -> Result<(), End> {
    let limits = &shared.limits;
    match tokio::time::timeout(limits.idle, stream.fill_buf()).await {
        Ok(Ok([])) => return Err(End::Closed),
        Ok(Ok(_begun)) => {}
        Ok(Err(error)) => return Err(StreamError::Io(error).into()),
        Err(_elapsed) => return Err(End::Idle(limits.idle)),
    }
    let Frame { mark, body } = receive(stream, limits.frame, FRAME_BYTES_MAX).await?;
    let Ok(_answering) = shared.answering.try_acquire() else {
        let refusal = PeerRefusal::new(RefusalReason::Stopping, "masterd is ending on this node");
        return Err(End::Refused(refusal));
    };
    admit(hello, peer, shared)?;
    let answer = match hello.purpose {
        Purpose::Engine => shared.service.answer(hello, mark, body).await,
        // These may take long: whoever works on one learns that nobody waits for it any more.
        Purpose::Control => tokio::select! {
            biased;
            answer = control::answer(&shared.service, hello, mark, &body) => answer,
            end = gone(stream) => return Err(end),
        },
        Purpose::Luxi => tokio::select! {
            biased;
            answer = forwarding::answer(shared.clients.as_deref(), hello, mark, body) => answer,
            end = gone(stream) => return Err(end),
        },
    };
    let answer = answer.and_then(|bytes| match header(0, bytes.len()) {
        Ok(_fits) => Ok(bytes),
        Err(error) => Err(PeerFailure::new(
            PeerFailureKind::TooLarge,
            format!("the answer to question {mark} is {error}"),
        )),
    });
    match answer {
        Ok(bytes) => send(stream, limits.frame, Status::Answer, &bytes).await,
        Err(failure) => {
            tracing::debug!(question = mark, kind = failure.kind.name(), %failure, "no answer");
            let body = serde_json::to_vec(&failure).expect("a failure has only strings as keys");
            send(stream, limits.frame, Status::Failure, &body).await
        }
    }
}

/// Ends when the peer has closed, or says something before it was answered.
async fn gone(stream: &mut Answered) -> End {
    match stream.fill_buf().await {
        Ok([]) => End::Closed,
        Ok(_early) => {
            let message = "a question came before the one ahead of it was answered";
            End::Refused(PeerRefusal::new(RefusalReason::Malformed, message))
        }
        Err(error) => StreamError::Io(error).into(),
    }
}

async fn receive(stream: &mut Answered, limit: Duration, max: usize) -> Result<Frame, End> {
    match tokio::time::timeout(limit, stream::read(stream, max)).await {
        Ok(frame) => Ok(frame?),
        Err(_elapsed) => Err(End::Slow(limit)),
    }
}

async fn send(
    stream: &mut Answered,
    limit: Duration,
    status: Status,
    body: &[u8],
) -> Result<(), End> {
    match tokio::time::timeout(limit, stream::write(stream, status.mark(), &[body])).await {
        Ok(written) => Ok(written?),
        Err(_elapsed) => Err(End::Slow(limit)),
    }
}

/// Tells the peer of an end that it can still be told of.
async fn tell(stream: &mut Answered, limit: Duration, end: End) -> End {
    let refusal = match end {
        End::Refused(refusal) => refusal,
        End::Stream(StreamError::Frame(error)) => {
            PeerRefusal::new(RefusalReason::Malformed, format!("what came is {error}"))
        }
        other => return other,
    };
    let body = serde_json::to_vec(&refusal).expect("a refusal has only strings as keys");
    match send(stream, limit, Status::Refusal, &body).await {
        Ok(()) => End::Refused(refusal),
        Err(end) => end,
    }
}
