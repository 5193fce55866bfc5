//! How `masterd` of one member asks `masterd` of another: TLS in both directions, then frames of
//! bytes, one question and one answer at a time (`docs/replication.md`, "On the wire").
//!
//! This is in the way of every commit, so nothing stands between caller and socket: no HTTP, no second task.
//! In reading order: [`frame`] is the form of all that travels, and `stream` carries it; [`hello`] says who
//! is meant, and why not; [`failure`] is what an answer says that is none; [`control`] is the table of
//! questions about the member itself; [`forwarding`] is what travels of clients' requests; [`server`] answers
//! and [`client`] asks.

pub mod failure;
pub mod frame;
pub mod hello;

pub mod control;
pub mod forwarding;

pub mod client;
pub mod server;

mod stream;

pub use client::{ControlLink, Link, PeerClient, PeerError, PeerTarget, PeerTimes};
pub use control::{ControlCall, ControlService};
pub use failure::{PeerFailure, PeerFailureKind};
pub use forwarding::{ClientService, PassLink, Passed, Passing};
pub use hello::{Hello, Here, PeerRefusal, Purpose, RefusalReason, Speaker, StoreId};
pub use server::{EngineService, Gate, PeerLimits, PeerServer, PeerServerError};

/// Version of the protocol between members.
pub const PEER_PROTOCOL: u32 = 1;

#[cfg(test)]
mod tests;
