//! The node protocol: how the master calls the agents of the nodes.
//!
//! In reading order: [`calls`] is the table of everything that can be asked; [`wire`] surrounds every
//! call and answer. The modules [`certificate`], [`identity`] and [`tls`] say who is who; `shown` is the
//! certificate that a node shows at the moment, [`secured`] a connection between two nodes. Calls of two
//! masters are kept apart by [`fence`]; [`service`] and [`server`] answer, [`client`] asks. A new node
//! gets its identity by [`enrol`]. The faults that an operator must act on are in `codes`; `simulation`
//! (a feature) is a network in memory. The protocol is described in `docs/node-rpc.md`. [`peer`] is
//! another one, between the members of a replicated store (`docs/replication.md`).

pub mod calls;
pub mod wire;

pub mod certificate;
mod shown;

pub mod secured;

pub mod identity;
pub mod tls;

pub mod fence;
pub mod server;
pub mod service;

pub mod client;

pub mod enrol;

pub mod peer;

mod codes;

#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
#[cfg(test)]
mod testing;

pub use calls::{Call, Request};
pub use client::{Client, Meta, NodeTarget, RpcError};
pub use service::{Answer, answer};
pub use wire::{Failure, FailureKind, JobRef};
