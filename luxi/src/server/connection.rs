//! One client: requests and answers in turn, each within its limits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::job::RequestDigest;
use stdx::admission::Slot;
use stdx::admission::turns::{Turn, TurnHolder};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::socket::{READ_BYTES_MAX, Socket};
use super::{Caller, Rights, Service, Shared, refused, within_deadline};
use crate::frame::{FrameError, Splitter};
use crate::limits::{SMALL_ANSWER_BYTES, SMALL_MESSAGE_BYTES};
use crate::method::Class;
use crate::request::Request;
use crate::response::Response;

/// How much is read at once at the beginning of a request, and thereby ahead of one.
const FIRST_READ_BYTES: usize = 8 << 10;
/// Longest message of a wait that is not counted as a large one while it waits.
const WAIT_MESSAGE_BYTES: usize = 1 << 20;

/// Why a conversation ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("client closed the connection")]
    Closed,
    #[error("client closed the connection within a request")]
    Truncated,
    #[error("client was idle for too long")]
    Idle,
    #[error("client was idle, and its place was needed")]
    Shed,
    #[error("client did not finish a request in time")]
    SlowRequest,
    #[error("client did not read its answer in time")]
    SlowReader,
    #[error("client vanished while its request was running")]
    Vanished,
    #[error("server stops")]
    Stopped,
    #[error(transparent)]
    Frame(FrameError),
    #[error("connection failed")]
    Io(#[source] io::Error),
}

/// A connection and its client.
pub(super) struct Connection<S> {
    socket: Socket,
    /// Its place; while it is idle it may be shed, where the server has no other for a new client.
    place: Arc<Slot<u32>>,
    splitter: Splitter,
    caller: Caller,
    rights: Arc<Rights>,
    shared: Arc<Shared<S>>,
    stop: watch::Receiver<bool>,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(
        (socket, place): (Socket, Slot<u32>),
        (caller, rights): (Caller, Arc<Rights>),
        shared: Arc<Shared<S>>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let splitter = Splitter::new(shared.limits.message_bytes);
        Self { socket, place: Arc::new(place), splitter, caller, rights, shared, stop }
    }

    /// Converses until the client closes, breaks a limit, or the server stops.
    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.exchange().await {
                break end;
            }
        };
        let words = match &end {
            End::Frame(error) => Response::unreadable(&error.to_string()),
            End::Truncated => Response::unreadable("the message ends without ETX"),
            End::SlowRequest => Response::unreadable("the message was not finished in time"),
            End::Io(error) => return tracing::debug!(%error, "connection failed"),
            _ => return tracing::trace!(reason = %end, "connection ends"),
        };
        tracing::info!(reason = %end, "connection is closed");
        if let Err(End::Io(error)) = self.send(words).await {
            tracing::debug!(%error, "client was not told why");
        }
    }

    /// One request and its answer.
    async fn exchange(&mut self) -> Result<(), End> {
        let shared = Arc::clone(&self.shared);
        let (message, turn) = self.receive(&shared).await?;
        self.place.set_busy(true);
        let answer = match Request::parse(&message) {
            Ok(request) => {
                let digest = request.digest(self.caller.uid, &message);
                // A wait lasts, and what it keeps of its message is what the client saw last.
                let waits = request.class() == Class::Wait && message.len() <= WAIT_MESSAGE_BYTES;
                let turn = turn.filter(|_| !waits);
                let answer = self.perform(message, request, digest).await?;
                // The values read from a large message are as large, and are held up to here.
                drop(turn);
                answer
            }
            Err(error) => {
                tracing::debug!(%error, "request is malformed");
                Response::malformed(&error)
            }
        };
        self.send(answer).await?;
        // Not before the first request: a task that begins late would make its client look younger
        // than those that came after it.
        self.place.set_busy(false);
        Ok(())
    }

    /// The next message, with its turn if it is a large one.
    async fn receive(&mut self, shared: &Shared<S>) -> Result<(Bytes, Option<Turn<u32>>), End> {
        let mut due: Option<Instant> = None;
        let mut turn = None;
        loop {
            if let Some(message) = self.splitter.next_message().map_err(End::Frame)? {
                return Ok((message, turn));
            }
            let limits = &shared.limits;
            if due.is_none() && self.splitter.is_between() {
                self.read_idle().await?;
            } else {
                let due = *due.get_or_insert_with(|| Instant::now() + limits.message_time);
                if turn.is_none() && self.splitter.held() > SMALL_MESSAGE_BYTES {
                    let holder = TurnHolder::of_user(self.caller.uid);
                    let wait = timeout_at(due, shared.large_messages.acquire(&holder, 1));
                    turn = Some(wait.await.map_err(|_elapsed| End::SlowRequest)?);
                }
                match timeout_at(due, self.read()).await {
                    Ok(Err(End::Closed)) => return Err(End::Truncated),
                    Ok(read) => read?,
                    Err(_elapsed) => return Err(End::SlowRequest),
                }
            }
        }
    }

    /// Waits for the first bytes of a request; holds no memory for them when that takes long.
    async fn read_idle(&mut self) -> Result<(), End> {
        let mut stop = self.stop.clone();
        let (buffer_time, idle) = (self.shared.limits.buffer_time, self.shared.limits.idle);
        let stopped = async { stop.wait_for(|stop| *stop).await.map_or((), |_stopped| ()) };
        let place = Arc::clone(&self.place);
        let read = async {
            let soon = timeout(buffer_time.min(idle), self.socket.readable()).await;
            if soon.is_err() {
                self.splitter.release();
                let later = timeout(idle.saturating_sub(buffer_time), self.socket.readable());
                later.await.map_err(|_elapsed| End::Idle)?.map_err(End::Io)?;
            }
            if let Some(read) = self.read_now() {
                return read;
            }
            match timeout(idle, self.read()).await {
                Ok(read) => read,
                Err(_elapsed) => Err(End::Idle),
            }
        };
        tokio::select! {
            biased;
            () = stopped => Err(End::Stopped),
            read = read => read,
            () = place.shed() => Err(End::Shed),
        }
    }

    async fn read(&mut self) -> Result<(), End> {
        loop {
            if let Some(read) = self.read_now() {
                return read;
            }
            self.socket.readable().await.map_err(End::Io)?;
        }
    }

    /// Reads what has come; none if nothing has.
    fn read_now(&mut self) -> Option<Result<(), End>> {
        let more = self.splitter.held() >= FIRST_READ_BYTES;
        let most = if more { READ_BYTES_MAX } else { FIRST_READ_BYTES };
        match self.socket.try_read(self.splitter.buffer(), most) {
            Ok(0) => Some(Err(End::Closed)),
            Ok(_) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(End::Io(error))),
        }
    }

    /// Lets the service answer, within the deadline of the method and as long as the client waits.
    async fn perform(
        &self,
        message: Bytes,
        request: Request,
        digest: Option<RequestDigest>,
    ) -> Result<Response, End> {
        let method = (request.name(), request.class());
        let service = &self.shared.service;
        // An idle connection is not to have room for the largest call.
        let caller = self.caller.of_message(&self.rights, &message);
        let call = Box::pin(service.answer_client(message, request, caller, digest));
        tokio::select! {
            biased;
            answer = within_deadline(method, &self.shared.limits, call) => Ok(answer),
            () = self.vanished() => Err(End::Vanished),
        }
    }

    /// Ends when the client is gone. A client that has only ended its sending side still waits.
    async fn vanished(&self) {
        if let Ok(false) = self.socket.hung_up().await {
            std::future::pending::<()>().await;
        }
    }

    async fn send(&mut self, answer: Response) -> Result<(), End> {
        let bytes = answer.as_bytes().len();
        if bytes <= SMALL_ANSWER_BYTES {
            return write(&mut self.socket, &answer, self.shared.limits.answer_time).await;
        }
        let (uid, cut_off) = (self.caller.uid, Arc::new(Notify::new()));
        let _room = match self.shared.unread.hold(&uid, bytes, Instant::now(), &cut_off) {
            Ok(room) => room,
            Err(no_room) => {
                drop(answer);
                if let Some(withheld) = self.shared.without_room.pass() {
                    tracing::warn!(uid, bytes, withheld, "there is no room for an answer");
                }
                let refusal = Response::failure(&refused(no_room));
                return write(&mut self.socket, &refusal, self.shared.limits.answer_time).await;
            }
        };
        tokio::select! {
            biased;
            () = cut_off.notified() => {
                if let Some(withheld) = self.shared.cut_off.pass() {
                    tracing::warn!(uid, bytes, withheld, "client reads too slowly");
                }
                Err(End::SlowReader)
            }
            sent = write(&mut self.socket, &answer, self.shared.limits.answer_time) => sent,
        }
    }
}

async fn write(socket: &mut Socket, answer: &Response, within: Duration) -> Result<(), End> {
    // Most answers fit the socket's buffer, and need no deadline.
    let bytes = answer.as_bytes();
    let sent = socket.try_write(bytes).map_err(End::Io)?;
    if sent == bytes.len() {
        // A client that sends many requests ahead does not hold up others.
        tokio::task::coop::consume_budget().await;
        return Ok(());
    }
    match timeout(within, socket.write_all(bytes.get(sent..).unwrap_or_default())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(End::Io(error)),
        Err(_elapsed) => Err(End::SlowReader),
    }
}
