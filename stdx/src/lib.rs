//! Parts that std lacks and several crates need. No word of the cluster is spoken here.
//!
//! In reading order: [`clock`] gives time to everything that asks for it, [`tasks`] names and joins
//! background work, [`executor`] keeps kinds of work apart. Files are replaced whole by [`atomic`], and
//! given to a daemon by [`owner`]; [`file_changes`] waits for writes to one. The wall clock here is [`mod@local_time`]; [`text`] makes text from
//! outside fit for a terminal or a log. The start and the end of every daemon are in [`daemon`];
//! `metrics` (a feature) counts for Prometheus. Connections of a listener are bounded by [`admission`],
//! lines of a log by [`throttle`]. The sockets that know their interface are in [`net`]; [`peer`] tells
//! about the other end of one. Three more features: `pinned` knows servers by their certificate alone,
//! `program` runs others within limits, `pages` are the manual of one. A [`process`] is known again
//! after its parent ended. Groups use a file by [`acl`]; [`terminal`] reads input that must not be seen. The module [`file_system`] ends a file system, for tests.

pub mod acl;
pub mod admission;
pub mod atomic;
pub mod clock;
pub mod daemon;
pub mod executor;
pub mod file_changes;
pub mod file_system;
pub mod local_time;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod net;
pub mod owner;
#[cfg(feature = "pages")]
pub mod pages;
pub mod peer;
#[cfg(feature = "tls")]
pub mod pinned;
pub mod process;
#[cfg(feature = "program")]
pub mod program;
pub mod tasks;
pub mod terminal;
pub mod text;
pub mod throttle;

pub use clock::Clock;
pub use executor::Executor;
pub use local_time::local_time;
pub use tasks::{Tasks, apart, aside};
pub use throttle::Throttle;
