//! What std lacks and several crates need. No word of the cluster is spoken here.
//!
//! In reading order: [`clock`] gives time to everything that asks for it, [`tasks`] names and joins what runs
//! in the background, [`executor`] keeps kinds of work apart, [`atomic`] replaces files whole, [`owner`]
//! gives them to a daemon, [`mod@local_time`] is the wall clock here, [`text`] makes what comes from outside
//! fit for a terminal or a log, [`daemon`] is what every daemon does at its start and end, `metrics` (a
//! feature) counts for Prometheus, [`admission`] bounds the connections of a listener, [`throttle`] the lines
//! of a log, [`net`] holds the sockets that know their interface, [`peer`] tells about the other end of one,
//! `pinned` (a feature) knows servers by their certificate alone, `pages` (a feature) are the manual of a
//! program, [`acl`] lets groups use a file, [`terminal`] reads what must not be seen; [`file_system`] ends
//! one, for tests.
#![warn(missing_docs)]

pub mod acl;
pub mod admission;
pub mod atomic;
pub mod clock;
pub mod daemon;
pub mod executor;
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
pub mod tasks;
pub mod terminal;
pub mod text;
pub mod throttle;

pub use clock::Clock;
pub use executor::Executor;
pub use local_time::local_time;
pub use tasks::{Tasks, apart, aside};
pub use throttle::Throttle;
