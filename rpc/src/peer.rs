//! How `masterd` of one member asks `masterd` of another: TLS in both directions, then frames of
//! bytes, one question and one answer at a time (`docs/replication.md`, "On the wire").
//!
//! This is in the way of every commit, so nothing stands between caller and socket: no HTTP, no second task.
//! In reading order: [`frame`] is the form of all messages, and `stream` carries them. A connection
//! begins with [`hello`], which says who is meant, and why not. An answer without a result is a
//! [`failure`]. The questions about the member itself are in [`control`], requests of clients in
//! [`forwarding`]. The two sides are [`server`], which answers, and [`client`], which asks.

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
