//! Core: what changes the store, as data.
//!
//! The same value goes to the journal, to the replicas and to the tests' model, and means the same
//! everywhere. A [`Batch`]'s changes are applied in order, all or none. [`collapse`] says which changes
//! of a batch make others superfluous, [`codec`] is its form in bytes.

pub mod codec;
pub mod collapse;

use bytes::Bytes;

use crate::key::Key;

/// One change of one object, or of two when it gets another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The object has this content from now on, whatever it had before.
    Put {
        /// The object.
        key: Key,
        /// Its whole content.
        content: Bytes,
    },
    /// The object has another name from now on; what had that name is gone.
    ///
    /// When `from` does not exist, or is `to`, nothing changes.
    Move {
        /// The old name, which is free afterwards.
        from: Key,
        /// The new name.
        to: Key,
    },
    /// The object is gone; it need not have existed.
    Delete {
        /// The object.
        key: Key,
    },
}

impl Change {
    /// Roughly what the change takes in memory and in the journal, in bytes.
    pub fn weight(&self) -> usize {
        CHANGE_OVERHEAD_BYTES
            + match self {
                Self::Put { key, content } => key.as_str().len() + content.len(),
                Self::Move { from, to } => from.as_str().len() + to.as_str().len(),
                Self::Delete { key } => key.as_str().len(),
            }
    }
}

/// Bytes that a change costs beside its key and content: kind, lengths, and its place in lists.
const CHANGE_OVERHEAD_BYTES: usize = 16;

/// Changes that take effect together, in this order, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch(pub Vec<Change>);
