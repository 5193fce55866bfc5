//! The master daemon: the job queue, the locks, the configuration, and what jobs do.
//!
//! The path of a job, in reading order: [`luxi_service`] takes a request; [`writer`] is the one
//! writer of [`jobs`] and [`config`], which become durable by [`commits`]; a worker
//! ([`jobs::worker`]) takes [`locks`] and runs a logical unit ([`lu`]), which calls [`agents`]; [`peers`] are the
//! other candidates, and [`house`] is what they ask, `members` sees to it that there are enough of them,
//! [`majority`] that the master stops where it does not hear them;
//! [`asking`] asks them and all agents before the role is taken;
//! [`verify`] is what one looks for in a check, [`copies`] has the stores compared without one; [`role`] holds the rules of who is master. Beside it:
//! [`query`] lists what is committed, [`exchange`] takes what agents saw, [`watcher`] submits jobs of
//! the master's own, [`secrets`] holds what must not be in a job, [`ssconf`] what tools read in files, [`status`] tells how
//! the cluster stands,
//! [`master_address`] takes the address that moves with the role, [`users`] knows names, [`metrics`]
//! counts, [`bootstrap`] begins a cluster, [`export`] makes one file of its store and [`import`] a store of
//! that, [`daemon`] is the life of the process, [`options`] its
//! command line, and [`upgrade`] tells whether it may be replaced.

pub mod luxi_service;

pub mod config;
pub mod contacts;
pub mod queue;

pub mod agents;
pub mod asking;
pub mod copies;
pub mod house;
pub mod lu;
pub mod majority;
pub mod master_address;
mod members;
pub mod peers;
pub mod role;
pub mod verify;

pub mod agent_sync;
pub mod metrics;
pub mod query;
pub mod rack_document;
pub mod secrets;
pub mod ssconf;
pub mod status;
pub mod users;
pub mod watcher;

pub mod bootstrap;
pub mod daemon;
pub mod export;
pub mod import;
pub mod options;
pub mod upgrade;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
