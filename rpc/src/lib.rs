//! The node protocol: how the master calls the agents of the nodes.
//!
//! In reading order: [`calls`] is the table of everything that can be asked; [`wire`] is what surrounds every
//! call and answer; [`certificate`], [`identity`] and [`tls`] say who is who, `shown` is what a node shows
//! of itself at the moment, [`secured`] is a connection between two of them; [`fence`] keeps calls of two
//! masters apart; [`service`] and [`server`] answer, [`client`] asks; [`enrol`] is how a new node gets its
//! identity; `codes` tells what an operator must act on, `simulation` (a feature) is a network in memory.
//! The protocol is described in `docs/node-rpc.md`. [`peer`] is another one, between the members of a
//! replicated store (`docs/replication.md`).
#![warn(missing_docs)]

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
