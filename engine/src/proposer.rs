//! Makes one batch of all changes that wait, and proposes one batch at a time.
//!
//! It has the shape of [`queue_format::Committer`]: changes with a tag go in. The tags come back when
//! their changes are committed, in the order in which they went in. Nothing is taken behind a batch that
//! was not committed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use queue_format::{Batch, Change, Epoch, Flushed, Position, Refusal, Refused};
use tokio::sync::Notify;

use crate::{Engine, ProposeError};

/// Changes that may wait before new work is refused, as in the committer: more than two seconds of
/// work.
const CHANGES_SOFT: usize = 65_536;

/// Changes that may wait at all: room for work that was admitted before.
const CHANGES_HARD: usize = 262_144;

/// Bytes that may wait before new work is refused.
const BYTES_SOFT: usize = 64 << 20;

/// Bytes that may wait at all.
const BYTES_HARD: usize = 256 << 20;

/// Pause before a refused batch is proposed again: a tenth of the time after which a leader that
/// hears no majority refuses.
const AGAIN: Duration = Duration::from_millis(100);

/// Why a proposer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was closed, and nothing waits any more.
    Closed,
    /// This member leads in that epoch no longer. The batch that was under way may or may not be
    /// committed; changes that waited are not.
    Deposed,
    /// The engine cannot go on.
    Stopped(String),
}

/// Told of each batch: the tags that came with it, where it is in the log, what it cost.
pub type OnCommitted<T> = Box<dyn FnMut(Vec<T>, Position, Flushed) + Send>;

/// Takes changes, in the epoch of one leadership.
pub struct Proposer<T> {
    engine: Arc<Engine>,
    epoch: Epoch,
    waiting: Mutex<Waiting<T>>,
    news: Notify,
}

#[derive(Debug)]
struct Waiting<T> {
    submissions: std::collections::VecDeque<(Vec<Change>, usize, T)>,
    changes: usize,
    bytes: usize,
    closed: bool,
}

impl<T: Send> Proposer<T> {
    /// A proposer to `engine`, which leads in `epoch`. Nothing happens before [`Self::run`].
    pub fn new(engine: Arc<Engine>, epoch: Epoch) -> Self {
        let waiting =
            Waiting { submissions: Default::default(), changes: 0, bytes: 0, closed: false };
        Self { engine, epoch, waiting: Mutex::new(waiting), news: Notify::new() }
    }

    /// Submits changes that must go on, such as the end of a running job: refused only when far
    /// too much waits. They are committed together, or not at all, unless moves among them bring more
    /// content than an entry holds: then they are parted at moves. `tag` comes back when all are
    /// committed, and is dropped where the leadership ends before.
    ///
    /// # Errors
    /// See [`Refusal`]; tag and changes are given back.
    pub fn submit(&self, changes: Vec<Change>, tag: T) -> Result<(), Refused<T>> {
        let weight = changes.iter().map(Change::weight).sum();
        let limit = self.engine.proposal_bytes_max();
        let mut waiting = self.waiting.lock();
        let full =
            waiting.changes + changes.len() > CHANGES_HARD || waiting.bytes + weight > BYTES_HARD;
        let reason = if waiting.closed {
            Refusal::Stopped
        } else if weight > limit {
            Refusal::TooLarge { what: format!("{weight} bytes in one submission, at most {limit}") }
        } else if full {
            Refusal::Busy
        } else {
            waiting.changes += changes.len();
            waiting.bytes += weight;
            waiting.submissions.push_back((changes, weight, tag));
            drop(waiting);
            self.news.notify_one();
            return Ok(());
        };
        Err(Refused { tag, changes, reason })
    }

    /// Whether new work would be taken now.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<(), Refusal> {
        let waiting = self.waiting.lock();
        if waiting.closed {
            Err(Refusal::Stopped)
        } else if waiting.changes > CHANGES_SOFT || waiting.bytes > BYTES_SOFT {
            Err(Refusal::Busy)
        } else {
            Ok(())
        }
    }

    /// Changes and bytes that wait.
    pub fn backlog(&self) -> (usize, usize) {
        let waiting = self.waiting.lock();
        (waiting.changes, waiting.bytes)
    }

    /// Takes nothing more; [`Self::run`] ends when what waits is committed.
    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.news.notify_one();
    }

    /// Proposes what waits, until closed or deposed. Tags that are left are dropped at the end.
    pub async fn run(&self, mut on_committed: OnCommitted<T>) -> End {
        let end = self.propose_all(&mut on_committed).await;
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.submissions.clear();
        end
    }

    async fn propose_all(&self, on_committed: &mut OnCommitted<T>) -> End {
        loop {
            let Some((changes, tags)) = self.next_group().await else { return End::Closed };
            let (begun, count) = (Instant::now(), changes.len());
            match self.propose_in_parts(changes).await {
                Ok(position) => {
                    let submissions = tags.len();
                    let flushed = Flushed { took: begun.elapsed(), submissions, changes: count };
                    on_committed(tags, position, flushed);
                }
                Err(end) => return end,
            }
        }
    }

    /// Proposes one batch; or several, one after the other, where moves bring so much content that
    /// one entry cannot hold it. Gives the last position.
    async fn propose_in_parts(&self, changes: Vec<Change>) -> Result<Position, End> {
        let mut parts = vec![changes];
        let mut position = Position::default();
        while let Some(part) = parts.pop() {
            match self.propose(Batch(part.clone()).collapse()).await? {
                Ok(at) => position = at,
                Err(too_large) => {
                    let Some((first, second)) = halves(part) else {
                        debug_assert!(false, "what was taken fits: {too_large}");
                        return Err(End::Stopped(too_large.to_string()));
                    };
                    parts.extend([second, first]);
                }
            }
        }
        Ok(position)
    }

    /// Proposes one batch for as long as this member leads in the epoch, unless it is too large.
    async fn propose(&self, batch: Batch) -> Result<Result<Position, ProposeError>, End> {
        loop {
            match self.engine.propose(self.epoch, batch.clone()).await {
                Ok(position) => return Ok(Ok(position)),
                Err(error @ ProposeError::TooLarge { .. }) => return Ok(Err(error)),
                Err(ProposeError::Refused) if self.engine.leads() == Some(self.epoch) => {
                    // Nothing happened, and the majority may come back.
                    tokio::time::sleep(AGAIN).await;
                }
                Err(ProposeError::Refused) => return Err(End::Deposed),
                Err(error @ ProposeError::Unknown { .. }) => {
                    tracing::warn!(%error, "a batch was under way as the leadership ended");
                    return Err(match self.engine.status().stopped {
                        Some(reason) => End::Stopped(reason),
                        None => End::Deposed,
                    });
                }
                Err(error @ ProposeError::Move(_)) => {
                    return Err(End::Stopped(error.to_string()));
                }
            }
        }
    }

    /// Waits for submissions; gives as many as fit a batch. None when closed and empty.
    async fn next_group(&self) -> Option<(Vec<Change>, Vec<T>)> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                let limit = self.engine.proposal_bytes_max();
                let (mut changes, mut tags, mut bytes) = (Vec::new(), Vec::new(), 0);
                while let Some((_, weight, _)) = waiting.submissions.front()
                    && (tags.is_empty() || bytes + weight <= limit)
                    && let Some((more, weight, tag)) = waiting.submissions.pop_front()
                {
                    bytes += weight;
                    changes.extend(more);
                    tags.push(tag);
                }
                if !tags.is_empty() {
                    waiting.changes -= changes.len();
                    waiting.bytes -= bytes;
                    return Some((changes, tags));
                }
                if waiting.closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }
}

/// Parts changes beside a move, as near to the middle as may be; none where there is no such place.
///
/// The weight of a move is that of its names, since nobody knows what it moves before its turn; all
/// else was weighed when it was submitted. So only at a move may a batch be parted, and there it may:
/// what is moved is archived, each document by itself.
fn halves(mut changes: Vec<Change>) -> Option<(Vec<Change>, Vec<Change>)> {
    let is_move = |at: usize| matches!(changes.get(at), Some(Change::Move { .. }));
    let places = (1..changes.len()).filter(|&at| is_move(at - 1) || is_move(at));
    let at = places.min_by_key(|at| at.abs_diff(changes.len() / 2))?;
    let second = changes.split_off(at);
    Some((changes, second))
}

impl<T> Debug for Proposer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposer").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use queue_format::Key;

    use super::*;

    /// One for each letter: a move, or a put.
    fn changes(kinds: &str) -> Vec<Change> {
        let key = |at: usize| Key::parse(&format!("queue/job-{at}")).unwrap();
        let change = |(at, kind): (usize, char)| match kind {
            'm' => Change::Move { from: key(at), to: key(at + 1_000) },
            _ => Change::Put { key: key(at), content: Bytes::new() },
        };
        kinds.chars().enumerate().map(change).collect()
    }

    #[test]
    fn changes_are_parted_at_moves_only() {
        for (kinds, first) in [
            ("mmmm", Some(2)),
            ("mm", Some(1)),
            ("pmmm", Some(2)),
            ("pppm", Some(3)),
            ("mppppp", Some(1)),
            ("ppmpp", Some(2)),
            ("pppp", None),
            ("m", None),
            ("", None),
        ] {
            let parted = halves(changes(kinds));
            assert_eq!(parted.as_ref().map(|(first, _)| first.len()), first, "{kinds}");
            if let Some((first, second)) = parted {
                assert_eq!([first, second].concat(), changes(kinds), "{kinds}");
            }
        }
    }
}
