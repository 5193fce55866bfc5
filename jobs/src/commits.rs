//! Makes the writer's rounds durable: on this machine's disk alone, or on a majority's. It changes from
//! the one to the other while the master runs (decision 5). The path of a job from `writer` to the
//! store.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use engine::{Engine, OpenError, Proposer};
use parking_lot::RwLock;
use queue_format::{
    Backlog, Change, CloseError, Committer, Fill, Frozen, FrozenError, Health, Position, Reader,
    Refusal, Refused,
};

use crate::configuration::Configuration;
use crate::majority::Majority;
use crate::published::After;

/// An engine that leads, and who proposes to it.
pub type Led<C> = (Arc<Engine>, Arc<Proposer<After<C>>>);

/// Opens the engine on a directory that was just closed.
pub type OpenEngine<C> =
    Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<Led<C>, OpenError>> + Send>> + Send>;

/// A master that did not get from its own disk to the engine.
#[derive(Debug, thiserror::Error)]
pub enum GoOverError {
    /// The committer did not close.
    #[error("cannot close the store to open it for replication")]
    Close(#[from] CloseError),
    /// The engine did not open.
    #[error("cannot open the store for replication")]
    Open(#[from] OpenError),
}

/// Takes changes, and has them published once they are committed; in the order in which it was
/// given them.
#[derive(Debug)]
pub struct Commits<C: Configuration> {
    way: RwLock<Way<C>>,
    majority: Majority,
    submission_bytes_max: usize,
}

#[derive(Debug)]
enum Way<C: Configuration> {
    /// This master's disk alone.
    Local(Arc<Committer<After<C>>>),
    /// A majority of voters, of which this may be the only one.
    Replicated { engine: Arc<Engine>, proposer: Arc<Proposer<After<C>>> },
    /// From the one to the other: everything is in the files.
    Between(Reader),
}

impl<C: Configuration> Clone for Way<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Local(committer) => Self::Local(Arc::clone(committer)),
            Self::Replicated { engine, proposer } => {
                Self::Replicated { engine: Arc::clone(engine), proposer: Arc::clone(proposer) }
            }
            Self::Between(reader) => Self::Between(reader.clone()),
        }
    }
}

impl<C: Configuration> Commits<C> {
    /// Commits by `committer`.
    pub fn local(committer: Committer<After<C>>) -> Self {
        let submission_bytes_max = committer.submission_bytes_max();
        let way = RwLock::new(Way::Local(Arc::new(committer)));
        Self { way, majority: Majority::default(), submission_bytes_max }
    }

    /// Commits by `proposer`, whose engine this is.
    pub fn replicated(engine: Arc<Engine>, proposer: Arc<Proposer<After<C>>>) -> Self {
        let submission_bytes_max = engine.proposal_bytes_max();
        let way = RwLock::new(Way::Replicated { engine, proposer });
        Self { way, majority: Majority::default(), submission_bytes_max }
    }

    fn way(&self) -> Way<C> {
        self.way.read().clone()
    }

    /// Submits changes that must go on: refused only when far too much waits. `after` is published
    /// when they are committed. `lone` says that the caller has nothing to do meanwhile, so that
    /// its thread may write them if the disk is quick.
    ///
    /// # Errors
    /// See [`Refusal`]; changes and `after` are given back.
    pub fn submit(
        &self,
        changes: Vec<Change>,
        after: After<C>,
        lone: bool,
    ) -> Result<(), Box<Refused<After<C>>>> {
        let submitted = match &*self.way.read() {
            Way::Local(committer) if lone => committer.submit_here(changes, after),
            Way::Local(committer) => committer.submit(changes, after),
            Way::Replicated { proposer, .. } => proposer.submit(changes, after),
            Way::Between(_) => Err(Refused { tag: after, changes, reason: Refusal::Busy }),
        };
        submitted.map_err(Box::new)
    }

    /// Whether new work would be taken now.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<(), Refusal> {
        if !self.majority.contact().takes_changes() {
            return Err(Refusal::CutOff);
        }
        match &*self.way.read() {
            Way::Local(committer) => committer.admit(),
            Way::Replicated { engine, proposer } => engine.admit().and_then(|()| proposer.admit()),
            Way::Between(_) => Err(Refusal::Busy),
        }
    }

    /// Whether the voters are heard.
    pub fn majority(&self) -> Majority {
        self.majority.clone()
    }

    /// Most bytes that one submission may weigh, by [`Change::weight`].
    pub fn submission_bytes_max(&self) -> usize {
        self.submission_bytes_max
    }

    /// The changes that wait at the moment.
    pub fn backlog(&self) -> Backlog {
        match &*self.way.read() {
            Way::Local(committer) => committer.backlog(),
            Way::Replicated { engine, proposer } => {
                let (changes, bytes) = proposer.backlog();
                Backlog { changes, bytes, ..engine.backlog() }
            }
            Way::Between(_) => Backlog::default(),
        }
    }

    /// How full the journal is; nothing of nothing where there is none.
    pub fn journal_fill(&self) -> Fill {
        match &*self.way.read() {
            Way::Local(committer) => committer.journal_fill(),
            Way::Replicated { engine, .. } => engine.journal_fill(),
            Way::Between(_) => Fill::default(),
        }
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        match &*self.way.read() {
            Way::Local(committer) => committer.health(),
            Way::Replicated { engine, .. } => engine.health(),
            Way::Between(_) => Health::Good,
        }
    }

    /// The last committed position.
    pub fn position(&self) -> Position {
        match &*self.way.read() {
            Way::Local(committer) => committer.position(),
            Way::Replicated { engine, .. } => engine.position(),
            Way::Between(_) => Position::default(),
        }
    }

    /// Reads what is committed.
    pub fn reader(&self) -> Reader {
        match self.way() {
            Way::Local(committer) => committer.reader(),
            Way::Replicated { engine, .. } => engine.reader(),
            Way::Between(reader) => reader,
        }
    }

    /// A view of all that is committed now, to be read while changes go on.
    ///
    /// # Errors
    /// See [`FrozenError`].
    pub async fn freeze(&self) -> Result<Frozen, FrozenError> {
        match self.way() {
            Way::Local(committer) => {
                stdx::apart(move || committer.freeze()).await.unwrap_or(Err(FrozenError::Ended))
            }
            Way::Replicated { engine, .. } => engine.freeze().await,
            Way::Between(_) => Err(FrozenError::Moving),
        }
    }

    /// The engine, where there is one.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        match self.way() {
            Way::Replicated { engine, .. } => Some(engine),
            Way::Local(_) | Way::Between(_) => None,
        }
    }

    /// Goes over from this disk alone to the engine that `open` opens on the same directory, when
    /// all that was submitted is committed. Nothing must be submitted meanwhile; whoever asks for
    /// room is told to wait. Nothing happens where there is an engine already.
    ///
    /// # Errors
    /// The committer did not close, or the engine did not open. Then nothing is committed any more,
    /// and the process has to end: its next start goes on with what is on disk.
    pub async fn go_over(&self, open: OpenEngine<C>) -> Result<(), GoOverError> {
        let Way::Local(committer) = self.way() else { return Ok(()) };
        *self.way.write() = Way::Between(committer.reader());
        let closed = tokio::task::spawn_blocking(move || committer.close()).await;
        closed.unwrap_or_else(|ended| Err(CloseError::Failed { reason: ended.to_string() }))?;
        let (engine, proposer) = open().await?;
        *self.way.write() = Way::Replicated { engine, proposer };
        Ok(())
    }

    /// Takes nothing more. A committer has then committed what waited, its files are complete and its
    /// lock is free. Changes that wait for a proposer are still proposed, and the proposer's end tells
    /// when that is over. Its engine stays, for it goes on following. Later calls do nothing.
    ///
    /// # Errors
    /// The files could not be completed; the next start will do it from the journal.
    pub async fn close(&self) -> Result<(), CloseError> {
        match self.way() {
            Way::Local(committer) => {
                let closed = tokio::task::spawn_blocking(move || committer.close()).await;
                closed.unwrap_or_else(|ended| Err(CloseError::Failed { reason: ended.to_string() }))
            }
            Way::Replicated { proposer, .. } => {
                proposer.close();
                Ok(())
            }
            Way::Between(_) => Ok(()),
        }
    }
}
