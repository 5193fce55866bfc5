//! What std lacks and several crates need. No word of the cluster is spoken here.
//!
//! In reading order: [`clock`] gives time to everything that asks for it, [`tasks`] names and joins
//! what runs in the background, [`atomic`] replaces files whole, [`daemon`] is what every daemon
//! does at its start and end, [`net`] holds the sockets that know their interface; [`file_system`]
//! ends one, for tests.
#![warn(missing_docs)]

pub mod atomic;
pub mod clock;
pub mod daemon;
pub mod file_system;
pub mod net;
pub mod owner;
pub mod tasks;

pub use clock::Clock;
pub use tasks::{Tasks, apart, aside};
