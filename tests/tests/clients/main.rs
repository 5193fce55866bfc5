//! The DHCP clients of real systems against a real cluster, each in a network namespace of its own.
//!
//! In reading order: [`lan`] is a rack with its nodes and clients at one switch, [`capture`] what a
//! client sends and gets, [`client`] starts the clients of four makers; [`lives`] are the tests of one
//! client, [`registered`] of machines in the inventory, [`relay`] of clients behind a relay, [`agents`] of
//! racks with two agents.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod capture;
mod client;
mod lan;

mod agents;
mod lives;
mod registered;
mod relay;
