//! The master daemon: the job queue, the locks, the configuration, and what jobs do.
//!
//! The path of a job, in reading order: [`luxi_service`] takes a request; [`writer`] is the one
//! writer of [`jobs`] and [`config`]; a worker ([`jobs::worker`]) takes [`locks`] and runs a logical
//! unit ([`lu`]), which calls [`agents`]. Beside it: [`query`] lists what is committed,
//! [`exchange`] takes what agents saw, [`secrets`] holds what must not be in a job, [`bootstrap`]
//! begins a cluster and [`daemon`] is the life of the process.

pub mod luxi_service;

pub mod config;
pub mod jobs;
pub mod writer;

pub mod agents;
pub mod locks;
pub mod lu;

pub mod exchange;
pub mod query;
pub mod secrets;

pub mod archive;
pub mod bootstrap;
pub mod daemon;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
