//! The replication engine behind one small interface: take over, propose a batch, see it applied.
//!
//! The engine is Raft by `openraft`, on the store of `queue-format`: our journal is its log, our keys and
//! files are its state machine. In reading order: [`Engine`] (`engine`) is all that a caller sees, with
//! [`Proposer`] (`proposer`), which makes one batch of all that waits. The owner provides [`Peers`]
//! (`peers`), the way to other members. An [`OfflineStore`] (`offline`) is a member that does not run;
//! `error` is what can go wrong. `types` and `message` translate between the engine's words and ours.
//! `log` is its log storage, `state` its state machine. `network` asks other members, and `runtime` runs
//! its tasks. `simulation` and `bench` (features) try and measure it.
//!
//! The rules that decide safety are kept here, so that no caller can get past them. A restarted leader
//! does not resume. Elections happen only when asked for, and only with the question whether somebody
//! would grant them. Entries reach files only when they are durable here and known to be committed.
//! Nothing of the engine's own shape goes to disk.

#[cfg(feature = "bench")]
pub mod bench;
mod engine;
mod error;
mod log;
mod message;
mod network;
mod offline;
mod peers;
mod proposer;
mod runtime;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod state;
mod types;

#[cfg(test)]
mod tests;

pub use engine::{
    AnswerError, Committed, Engine, EngineOptions, EngineStatus, Follower, LEASE_MS, Members,
    MembersChange, MembersError, OnFatal,
};
pub use error::{HandOverError, OpenError, ProposeError, TakeOverError};
pub use log::Kept;
pub use message::TERM_AHEAD_MAX;
pub use offline::{OfflineStore, OverrideError};
pub use peers::{Answer, Link, PeerError, Peers};
pub use proposer::{End, OnCommitted, Proposer};
pub use state::changed_keys::Noting;
