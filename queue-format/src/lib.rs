//! The data on disk, and on the replication wire.
//!
//! A store is a directory of files, one small document each, that change together, durably and fast. In
//! reading order: [`key`] names a document, [`change`] says what happens to it, [`position`] where in
//! the history, [`digest`] whether two stores are alike. Changes become durable in the [`journal`]. A
//! [`store`] opens a directory, commits to it and brings the files up to date behind the commits. `disk`
//! and `sync` are all that it has of the system, and `simulation` (a feature) has both in memory.
//!
//! The layout, every format byte by byte, the rules of recovery and the limits with their reasons
//! are in `docs/queue-format.md`. This crate knows neither jobs nor async: contents are bytes, and
//! its threads are plain threads.

pub mod change;
pub mod digest;
pub mod journal;
pub mod key;
pub mod position;
pub mod store;

mod disk;
mod sync;

#[cfg(any(test, feature = "simulation"))]
pub mod simulation;

pub use change::codec::DecodeError;
pub use change::{Batch, Change};
pub use digest::Group;
pub use journal::Fill;
pub use key::{Key, KeyError};
pub use position::{Epoch, Position};
pub use store::{
    Backlog, Callbacks, CloseError, Committer, Durability, FatalError, FileError, Flushed, Frozen,
    FrozenError, Health, Incoming, InstallError, OpenError, Reader, Recorder, Recovered,
    RecoveredLog, Refusal, Refused, ReplicatedStore, SUBMISSION_MOVES_MAX, Scan, StartError, Store,
    StoreOptions,
};
