//! Passing requests of clients on to the master, once each (decision 7). Serves the path of a job,
//! between `door` and the master's own door.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use luxi::method::Class;
use luxi::{Caller, Limits, Response};
use parking_lot::Mutex;
use rpc::peer::{PassLink, Passed, PeerError, PeerFailureKind};
use stdx::admission::turns::{TurnHolder, TurnLimits, Turns};
use stdx::daemon::chain;
use tokio::sync::Semaphore;

use crate::agents::metrics::Metrics;
use membership::peers::{PeerBook, PeerStore};

/// Requests that wait on purpose and are passed on at the same time: each `gnt job watch` is one.
/// With [`QUERIES_MAX`] and [`CHANGES_MAX`] fewer than the master takes of one peer.
const WAITS_MAX: usize = 48;
/// Queries at the same time. Long lists wait for each other at the master.
const QUERIES_MAX: usize = 16;
/// Changes at the same time: waits and queries never take their places. One user, and one address, have
/// three quarters of each.
const CHANGES_MAX: usize = 16;
/// How long a request waits for its turn, before its client is told to try again.
const TURN_TIME: Duration = Duration::from_secs(5);
/// The same for a query, which may be behind lists: less than its deadline.
const QUERY_TURN_TIME: Duration = Duration::from_secs(25);
/// Connections that are made at the same time: half of what the other side shakes hands with at once.
const CONNECTING_MAX: usize = 16;
/// Connections that are kept without a request on them.
const KEPT_MAX: usize = 8;

/// A request that the master did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotForwarded {
    /// Too many are passed on already.
    #[error("as many requests are passed on as may be at the same time; try again later")]
    Busy,
    /// Another node has become the master meanwhile, or nobody is.
    #[error("the master changed before it answered")]
    Moved,
    /// The way to the master failed, or it did not take the request.
    #[error("{}", failure(.0))]
    Peer(#[from] PeerError),
    /// The master's answer is no message.
    #[error("what it answered is no message")]
    Malformed,
}

impl NotForwarded {
    /// Whether the master certainly did nothing.
    pub(super) fn certainly_not_done(&self) -> bool {
        match self {
            Self::Busy => true,
            Self::Moved | Self::Malformed => false,
            Self::Peer(error) => error.certainly_not_done(),
        }
    }

    /// Whether the answer is too long to be passed on: no other attempt does better.
    pub(super) fn is_too_long(&self) -> bool {
        match self {
            Self::Peer(PeerError::TooLarge { .. }) => true,
            Self::Peer(PeerError::Failed { failure, .. }) => {
                failure.kind == PeerFailureKind::TooLarge
            }
            _ => false,
        }
    }

    /// Whether the master takes nothing of this node's clients, whenever it is asked.
    pub(super) fn is_no_candidate(&self) -> bool {
        matches!(self, Self::Peer(PeerError::Failed { failure, .. })
            if failure.kind == PeerFailureKind::NoCandidate)
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Busy => Metrics::BUSY,
            Self::Moved => "lost",
            Self::Malformed => "malformed",
            Self::Peer(error) => error.word(),
        }
    }
}

/// The failure alone: its consequence depends on what was asked for.
fn failure(error: &PeerError) -> String {
    match error {
        PeerError::Lost { node, error } => {
            format!("the connection to masterd of node {node} broke: {error}")
        }
        other => chain(other),
    }
}

/// A client's request with what is known of the client here.
pub(super) fn passed_of(caller: &Caller, message: Bytes) -> Passed {
    let Caller { uid, gid, role, .. } = *caller;
    let asker = caller.asker.as_deref().cloned();
    Passed { uid, gid, role, asker, message }
}

/// For whom a request is passed on: a user of this machine, or one of its front door.
type PassedFor = (u32, Option<Arc<str>>);

fn holder_of(passed: &Passed) -> TurnHolder<PassedFor> {
    let asker = passed.asker.as_ref();
    let user = (passed.uid, asker.map(|asker| Arc::clone(&asker.user)));
    TurnHolder { user, address: asker.and_then(|asker| asker.address) }
}

/// The way of requests to the master; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Forwarder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    book: PeerBook,
    metrics: Arc<Metrics>,
    waits: Turns<PassedFor>,
    queries: Turns<PassedFor>,
    changes: Turns<PassedFor>,
    connecting: Semaphore,
    /// Connections on which nothing is under way.
    kept: Mutex<Vec<(PeerStore, PassLink)>>,
}

impl Forwarder {
    pub(super) fn new(book: PeerBook, metrics: Arc<Metrics>) -> Self {
        let turns = |total| {
            let of_one = total / 4 * 3;
            Turns::new(TurnLimits { total, of_user: of_one, of_address: of_one })
        };
        let [waits, queries, changes] = [WAITS_MAX, QUERIES_MAX, CHANGES_MAX].map(turns);
        let connecting = Semaphore::new(CONNECTING_MAX);
        let kept = Mutex::default();
        Self(Arc::new(Inner { book, metrics, waits, queries, changes, connecting, kept }))
    }

    /// Passes a request of `class` on to the master at `place`, once. Dropping the future ends it
    /// there, too.
    pub(super) async fn pass(
        &self,
        place: &PeerStore,
        class: Class,
        passed: &Passed,
    ) -> Result<Response, NotForwarded> {
        let (turns, patience) = match class {
            Class::Wait => (&self.0.waits, TURN_TIME),
            Class::Query => (&self.0.queries, QUERY_TURN_TIME),
            Class::Change => (&self.0.changes, TURN_TIME),
        };
        let holder = holder_of(passed);
        let turn = tokio::time::timeout(patience, turns.acquire(&holder, 1)).await;
        let answer = match turn {
            Ok(_turn) => self.ask(place, class, passed).await,
            Err(_elapsed) => Err(NotForwarded::Busy),
        };
        self.0.metrics.passed(answer.as_ref().err().map(NotForwarded::word));
        answer
    }

    /// The end of a request whose master is none any more.
    pub(super) fn moved<T>(&self) -> Result<T, NotForwarded> {
        self.0.metrics.passed(Some(NotForwarded::Moved.word()));
        Err(NotForwarded::Moved)
    }

    async fn ask(
        &self,
        place: &PeerStore,
        class: Class,
        passed: &Passed,
    ) -> Result<Response, NotForwarded> {
        let mut link = self.take(place)?;
        let limit = class.deadline(&Limits::default());
        {
            let _turn = self.0.connecting.acquire().await;
            link.reach(limit).await?;
        }
        let answer = link.pass(passed, limit).await;
        self.keep(place, link);
        Response::from_message(answer?.into()).ok_or(NotForwarded::Malformed)
    }

    /// A connection to `place` that was kept, or a new one; others are closed.
    fn take(&self, place: &PeerStore) -> Result<PassLink, PeerError> {
        let here = self.0.book.here();
        let mut kept = self.0.kept.lock();
        kept.retain(|(to, link)| to == place && link.hello().from.store == here);
        match kept.pop() {
            Some((_, link)) => Ok(link),
            None => self.0.book.pass(place.clone()),
        }
    }

    /// Keeps a connection for the next request; a link that failed has none any more.
    fn keep(&self, place: &PeerStore, link: PassLink) {
        let mut kept = self.0.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push((place.clone(), link));
        }
    }
}
