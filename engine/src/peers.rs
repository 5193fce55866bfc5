//! The way to other members, as the owner provides it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use queue_format::{Epoch, Position};

/// An answer on its way.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, PeerError>> + Send + 'a>>;

/// Gives links to members.
pub trait Peers: Debug + Send + Sync + 'static {
    /// A new link to the member with this id, on the node of this name. Nothing is sent yet. The
    /// engine keeps several to a member: entries, signs of life and snapshots do not wait for each
    /// other.
    fn link(&self, member: u64, node: &str) -> Box<dyn Link>;
}

/// A way to one member: one question and one answer at a time.
pub trait Link: Send + Sync + 'static {
    /// Asks the other member's [`crate::Engine::answer`], which must be the member that is meant
    /// and no other. Dropped before its end, it may or may not have been asked; no later question
    /// gets that answer.
    fn ask(&mut self, kind: u8, body: Bytes, limit: Duration) -> Answer<'_>;

    /// Called after an answer to the leader of `leadership`, which knows that all up to `committed` is
    /// committed. The member is there, and has made all up to `matched` durable, where that was said. An
    /// owner that remembers it sees when a member comes back without it.
    fn heard(&mut self, leadership: Epoch, matched: Option<Position>, committed: Position) {
        let _nobody_remembers = (leadership, matched, committed);
    }
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PeerError {
    /// The attempt and its failure.
    pub reason: String,
    /// Asking again soon may help; otherwise the member is not there, or refuses to talk.
    pub soon: bool,
}
