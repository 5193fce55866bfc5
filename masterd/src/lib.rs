//! The master daemon: LUXI, the configuration, what opcodes do, replication, and the life of the
//! process. The queue itself is the crate `jobs`; [`queue`] joins it with the configuration.
//!
//! The path of a job, in reading order: `luxi_access` decides whether a request is answered, [`ledger`] keeps
//! what was refused, [`luxi_service`] takes it; crate `jobs` commits it,
//! schedules it and takes its locks; [`lu`] holds the logical units, which change the [`config`] and
//! call the [`agents`].
//!
//! Who is master: crate `membership` holds the rules and knows the other members, [`precheck`] asks
//! everyone before a failover, [`local_member`] answers the others, `members` decides who follows and who votes,
//! [`majority`] stops a master that hears no majority, [`replica_audit`] compares the stores.
//!
//! Reconcilers, driven by `reconciler`: [`agent_sync`] takes what agents saw and keeps what they should hold, [`watcher`]
//! submits jobs of the master's own and raises alarms, [`master_address`] keeps the address that
//! moves with the role. [`contacts`] knows which agents are reached, [`clock_skew`] whose clock is wrong,
//! [`rack_document`] and [`ssconf`] are what agents should hold.
//!
//! For operators: [`query`] lists what is committed, [`verify`] checks it, [`status`] and [`metrics`]
//! tell how the cluster stands, [`export`] and [`import`] move a store, [`bootstrap`] begins a cluster,
//! [`secrets`] holds what must not be in a job, [`users`] knows names.
//!
//! [`daemon`] is the life of the process and puts all of it together, [`options`] its command line,
//! [`upgrade`] tells whether it may be replaced, `codes` what an operator must act on.

mod luxi_access;
pub mod luxi_service;

mod boot_template;
pub mod clock_skew;
pub mod config;
pub mod contacts;
pub mod queue;

pub mod agents;
pub mod ledger;
pub mod local_member;
pub mod lu;
pub mod majority;
pub mod master_address;
mod members;
pub mod power_cycle;
pub mod precheck;
pub mod replica_audit;
pub mod verify;

pub mod agent_sync;
pub mod metrics;
pub mod query;
pub mod rack_document;
pub mod rack_shares;
pub mod rack_status;
mod reconciler;
pub mod secrets;
pub mod signs;
mod spool;
pub mod ssconf;
pub mod status;
pub mod strangers;
mod template;
pub mod users;
pub mod watcher;

pub mod blobs;
pub mod bootstrap;
mod codes;
pub mod daemon;
pub mod export;
pub mod import;
pub mod options;
pub mod upgrade;
pub mod vault;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
