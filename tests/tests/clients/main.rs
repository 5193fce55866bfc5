//! The DHCP clients of real systems against a real cluster, each in a network namespace of its own.
//!
//! In reading order: [`lan`] is a rack with its nodes and clients at one switch. The traffic of a client
//! is in [`capture`]; clients of four makers are started by [`client`]. Tests of one client are
//! [`lives`], of machines in the inventory [`registered`]. Tests of clients behind a relay are
//! [`relay`], of racks with two agents [`agents`].
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod capture;
mod client;
mod lan;

mod agents;
mod lives;
mod registered;
mod relay;
