//! The committer's news for its owner.

use std::time::Duration;

use super::commit::FatalError;
use crate::position::Position;

pub(super) type OnCommitted<T> = Box<dyn FnMut(Vec<T>, Position) + Send>;
pub(super) type OnFatal = Box<dyn Fn(&FatalError) + Send + Sync>;
pub(super) type OnFlushed = Box<dyn FnMut(Flushed) + Send>;

/// One group that became durable, for who measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushed {
    /// Time from the first byte written to the end of the flush.
    pub took: Duration,
    /// Submissions in the group.
    pub submissions: usize,
    /// Changes in all of them.
    pub changes: usize,
}

/// Functions that the committer calls, on its own threads. Be quick: every commit waits for them.
pub struct Callbacks<T> {
    pub(super) on_committed: OnCommitted<T>,
    pub(super) on_fatal: OnFatal,
    pub(super) on_flushed: OnFlushed,
}

impl<T> Callbacks<T> {
    /// `on_committed` gets the tags of one group, in order of submission, once the group is
    /// durable and readers see it. When the store fails, the process is aborted.
    pub fn new(on_committed: impl FnMut(Vec<T>, Position) + Send + 'static) -> Self {
        Self {
            on_committed: Box::new(on_committed),
            on_fatal: Box::new(abort),
            on_flushed: Box::new(|_flushed| {}),
        }
    }

    /// Tells of each group once it is durable, before `on_committed`.
    pub fn on_flushed(mut self, on_flushed: impl FnMut(Flushed) + Send + 'static) -> Self {
        self.on_flushed = Box::new(on_flushed);
        self
    }

    /// Replaces the abort of the process when the store fails. Nothing is committed afterwards.
    pub fn on_fatal(mut self, on_fatal: impl Fn(&FatalError) + Send + Sync + 'static) -> Self {
        self.on_fatal = Box::new(on_fatal);
        self
    }
}

impl<T> std::fmt::Debug for Callbacks<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callbacks")
    }
}

fn abort(error: &FatalError) {
    tracing::error!(reason = chain(error), "the store failed, aborting: the next start recovers");
    std::process::abort()
}

/// An error with its whole chain on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
