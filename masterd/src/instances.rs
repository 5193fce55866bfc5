//! Instances: what each opcode on them does, and what keeps them as they are to be.
//!
//! `find` finds them, [`standing`] says how one stands, and `launch` is what agents are given, and `copies` what nodes with copies of disks are: [`resync`] has these filled. `capacity` is
//! what nodes have room for, and [`allocator`] chooses among them. `devices` reads NICs and disks as clients
//! send them, and `blueprint` makes the record of a new instance; `name` asks the resolver for its name. `agent` is the way to the node of one.
//! Operating systems are in `os`, and `seed` is what a guest is told of itself. [`storage`] is that of nodes, `transfer` carries disks: [`relocate`] to another node, and [`backup`] into exports. [`create`], [`remove`],
//! [`power`], [`modify`], [`disks`], [`rename`], [`reinstall`], [`migrate`], [`failover`], [`evacuate`], [`batch`] and [`console`] are logical units, and `target` chooses
//! where an instance goes. `keep` looks after instances; [`fields`] is the list, and [`details`] describes one.

mod agent;
pub mod allocator;
pub mod backup;
pub mod batch;
mod blueprint;
mod capacity;
pub mod console;
mod copies;
pub mod create;
pub mod details;
mod devices;
pub mod disks;
pub mod evacuate;
pub mod failover;
pub mod fields;
mod find;
pub(crate) mod keep;
mod launch;
pub mod migrate;
pub mod modify;
mod name;
pub(crate) mod os;
pub mod power;
pub mod reinstall;
pub mod relocate;
pub mod remove;
pub mod rename;
pub mod resync;
mod seed;
pub mod standing;
pub mod storage;
mod target;
mod transfer;

pub(crate) use capacity::broken_policy;
pub(crate) use launch::owned;

/// The log's words for a warning.
pub(crate) fn warning(text: &str) -> String {
    format!(" - WARNING: {text}")
}

/// The log's words for a note.
pub(crate) fn info(text: &str) -> String {
    format!(" - INFO: {text}")
}
