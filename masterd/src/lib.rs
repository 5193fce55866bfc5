//! The master daemon: the configuration, what opcodes do, replication, LUXI, and the life of the process. The
//! queue itself is the crate `jobs`.
//!
//! A folder is a subject, and may use those before it. In reading order: [`config`] is what is committed;
//! [`agents`] calls nodes; [`role`] is who is master. Then [`units`] is what a logical unit is and may
//! do; [`switching`], [`tenants`], [`machines`], [`instances`] and
//! [`cluster`] hold those of their objects. Then [`sync`] takes what
//! agents saw and keeps what they should hold; [`health`] judges; [`store`] is for a store at rest.
//! Last, [`door`] answers clients, and [`process`] puts all of it together.
//!
//! The path of a job: `door::guard` decides whether a request is answered, and `door::service` takes it.
//! The crate `jobs` commits it, schedules it and takes its locks. `process::logical_units` runs the logical
//! unit, which changes the [`config`] and calls the [`agents`].

pub mod config;

pub mod agents;
pub mod units;

pub mod switching;
pub mod tenants;

pub mod cluster;
pub mod instances;
pub mod machines;
pub mod role;
pub mod store;

pub mod door;
pub mod health;
pub mod process;
pub mod sync;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
