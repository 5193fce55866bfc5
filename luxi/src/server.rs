//! The server: one task per connection, one request at a time on each.
//!
//! It promises to a service that no client disturbs another. Everything is bounded ([`Limits`]), and a
//! panic in one request is answered with an internal error and ends there.

mod connection;
mod listen;
mod panic;
mod rights;
mod socket;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::audit::{Asker, Interface};
use model::error::ExceptionKind;
use model::job::RequestDigest;
use model::role::Role;
use model::{Code, Exception};
use stdx::admission::turns::{TurnLimits, Turns};
use stdx::admission::unread::{NoRoom, Unread, UnreadLimits};
use stdx::admission::{self, Admission, Full};
use stdx::{Tasks, Throttle};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::limits::{ACCEPT_PAUSE, LARGE_MESSAGES_MAX, LARGE_MESSAGES_PER_USER_MAX, Limits};
use crate::method::{Class, Method};
use crate::request::{Request, principal};
use crate::response::Response;
use connection::Connection;
pub use listen::{Door, Doors, listen};
use panic::caught;
pub use rights::Rights;
use socket::Socket;

/// The sender of a request, as the kernel tells it, and its rights at the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process, if the kernel tells.
    pub pid: Option<i32>,
    /// Its role; without a role it may do nothing.
    pub role: Option<Role>,
    /// The way by which it came.
    pub interface: Interface,
    /// For whom it asks; itself if that is none.
    pub asker: Option<Arc<Asker>>,
}

impl Caller {
    /// Root of this machine.
    pub const fn root() -> Self {
        let (role, interface) = (Some(Role::Administrator), Interface::Luxi);
        Self { uid: 0, gid: 0, pid: None, role, interface, asker: None }
    }

    /// The caller on whose behalf a message asks: another one, if the message says so and its sender's
    /// word counts. It then has no more rights than either of them.
    fn of_message(&self, rights: &Rights, message: &[u8]) -> Self {
        let mut caller = self.clone();
        let speaks = rights.may_speak(self.uid);
        if let Some(principal) = speaks.then(|| principal(message)).flatten() {
            caller.role = principal.role.map_or(self.role, |role| self.role.min(Some(role)));
            caller.interface = Interface::Rest;
            caller.asker = Some(Arc::new(principal.asker()));
        }
        caller
    }
}

/// What answers requests.
///
/// The future is dropped when its deadline passes or its client vanishes; what it has begun to
/// change must not depend on it any more.
pub trait Service: Send + Sync + 'static {
    /// Answers one request: an exhaustive match of [`answer`]. `digest` tells a submission from
    /// all others, if it can be told ([`Request::digest`]).
    fn call(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> impl Future<Output = Response> + Send;

    /// Answers one request that a client of this server sent, and that was read from `message`: for
    /// who may pass it on as it is. Others need no more than [`Self::call`].
    fn answer_client(
        &self,
        message: Bytes,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> impl Future<Output = Response> + Send {
        drop(message);
        self.call(request, caller, digest)
    }

    /// Is told that a client has a connection, for who counts them.
    fn connected(&self) {}

    /// Is told that a connection is over.
    fn disconnected(&self) {}

    /// Is told that a client found no place.
    fn turned_away(&self) {}
}

/// Answers a call with what `handler` makes of it.
///
/// A service is one exhaustive match of these over [`Request`]: a handler that is
/// missing, or gives another method's reply, does not compile.
pub async fn answer<M, F>(call: M, handler: impl FnOnce(M) -> F) -> Response
where
    M: Method,
    F: Future<Output = Result<M::Reply, Exception>>,
{
    match handler(call).await {
        Ok(reply) => Response::success(&reply),
        Err(exception) => Response::failure(&exception),
    }
}

/// Bounds the lines about requests that miss their deadline: a busy machine gives up hundreds at once.
static OVERDUE: Throttle = Throttle::new();

/// Gives `work` on a request the time that the method `name` of `class` may take under `limits`. A
/// panic in it is answered, too.
pub async fn within_deadline(
    (name, class): (&'static str, Class),
    limits: &Limits,
    work: impl Future<Output = Response>,
) -> Response {
    let deadline = class.deadline(limits);
    match timeout(deadline, caught(work)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => {
            tracing::error!(method = name, "request panicked");
            Response::internal_error()
        }
        Err(_elapsed) => {
            if let Some(withheld) = OVERDUE.pass() {
                let seconds = deadline.as_secs();
                tracing::warn!(
                    method = name,
                    seconds,
                    withheld,
                    "requests are given up: this machine is too busy, or an agent does not answer"
                );
            }
            Response::failure(&overdue(name, class, deadline))
        }
    }
}

fn overdue(name: &str, class: Class, deadline: Duration) -> Exception {
    let seconds = deadline.as_secs();
    let told = match class {
        Class::Query | Class::Wait => format!("{name} was given up after {seconds} s"),
        Class::Change => format!(
            "{name} was not confirmed within {seconds} s; whether it took effect is not known"
        ),
    };
    let code = match class {
        Class::Change => Code::OutcomeUnknown,
        Class::Query | Class::Wait => Code::Overloaded,
    };
    Exception::new(ExceptionKind::GenericError, told).coded(code)
}

/// The state that all connections share.
struct Shared<S> {
    service: Arc<S>,
    limits: Limits,
    large_messages: Turns<u32>,
    unread: Unread<u32>,
    /// Bounds the lines about clients that find no place.
    turned_away: Throttle,
    /// The same about answers without room.
    without_room: Throttle,
    /// The same about clients that read too slowly.
    cut_off: Throttle,
}

/// A connection that the service was told of.
struct Connected<S: Service>(Arc<Shared<S>>);

impl<S: Service> Connected<S> {
    fn new(shared: &Arc<Shared<S>>) -> Self {
        shared.service.connected();
        Self(Arc::clone(shared))
    }
}

impl<S: Service> Drop for Connected<S> {
    fn drop(&mut self) {
        self.0.service.disconnected();
    }
}

/// Serves `doors` until `stop` turns true, or its sender is gone. Then idle connections end at
/// once and busy ones get the time that `limits` leaves them.
pub async fn serve<S: Service>(
    doors: impl Into<Doors>,
    service: Arc<S>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let mut doors = doors.into();
    let tasks = Tasks::new();
    let (total, of_peer) = (limits.connections, limits.connections_per_user);
    let admission = Admission::new(admission::Limits { total, of_peer });
    let stop_time = limits.stop_time;
    let of_user = LARGE_MESSAGES_PER_USER_MAX;
    let large_messages =
        Turns::new(TurnLimits { of_user, ..TurnLimits::undivided(LARGE_MESSAGES_MAX) });
    let unread = Unread::new(UnreadLimits {
        total: limits.unread_bytes,
        of_client: limits.unread_bytes / 4 * 3,
        patience: limits.unread_time,
    });
    let [turned_away, without_room, cut_off] = [const { Throttle::new() }; 3];
    let shared =
        Shared { service, limits, large_messages, unread, turned_away, without_room, cut_off };
    let shared = Arc::new(shared);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = doors.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => welcome(accepted, &admission, &shared, (&tasks, &stop)),
            Err(error) => {
                tracing::warn!(%error, "connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(doors);
    if tokio::time::timeout(stop_time, tasks.join()).await.is_err() {
        tracing::warn!("requests were still running and are cut off");
    }
}

fn too_many(full: Full, uid: u32) -> Exception {
    let (who, max) = match full {
        Full::Total { max } => ("the master serves".to_owned(), max),
        Full::Peer { max } => (format!("user {uid} has"), max),
    };
    let text =
        format!("Too many connections: {who} {max} at a time, and all are busy; try again later");
    Exception::new(ExceptionKind::GenericError, text).coded(Code::Overloaded)
}

fn refused(no_room: NoRoom) -> Exception {
    Exception::new(ExceptionKind::GenericError, no_room.to_string()).coded(Code::Overloaded)
}

/// The client that has connected, with its role.
fn caller(stream: &UnixStream, rights: &Rights) -> std::io::Result<Caller> {
    let peer = stream.peer_cred()?;
    let (uid, gid) = (peer.uid(), peer.gid());
    let groups = stdx::peer::groups(stream)?.into_iter().chain([gid]);
    let role = rights.role(uid, groups);
    Ok(Caller { uid, gid, pid: peer.pid(), role, interface: rights.interface, asker: None })
}

fn welcome<S: Service>(
    (stream, rights): (UnixStream, Arc<Rights>),
    admission: &Admission<u32>,
    shared: &Arc<Shared<S>>,
    (tasks, stop): (&Tasks, &watch::Receiver<bool>),
) {
    let caller = match caller(&stream, &rights) {
        Ok(caller) => caller,
        Err(error) => {
            tracing::warn!(%error, "client cannot be identified");
            return;
        }
    };
    match admission.admit(caller.uid) {
        Ok(place) => {
            let socket = match Socket::new(stream) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::warn!(%error, "connection cannot be served");
                    return;
                }
            };
            let span = tracing::debug_span!("client", uid = caller.uid, pid = caller.pid);
            let who = (caller, rights);
            let connection =
                Connection::new((socket, place), who, Arc::clone(shared), stop.clone());
            let told = Connected::new(shared);
            let conversation = async move {
                connection.run().await;
                drop(told);
            };
            tasks.spawn("luxi connection", conversation.instrument(span));
        }
        Err(full) => {
            if let Some(withheld) = shared.turned_away.pass() {
                tracing::warn!(uid = caller.uid, reason = %full, withheld, "client is turned away");
            }
            shared.service.turned_away();
            let refusal = Response::failure(&too_many(full, caller.uid));
            // The socket is new and its buffer empty: this does not block, or else it is lost.
            if let Err(error) = stream.try_write(refusal.as_bytes()) {
                tracing::debug!(%error, "client was not told why");
            }
        }
    }
}
