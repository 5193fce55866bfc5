//! The front door on real sockets, before a master that answers some users late.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod door;
mod forms;
mod shares;
