//! The agent of a node, as a library.
//!
//! In reading order: [`options`] is the command line, [`run`] what becomes of it, `codes` tells
//! what an operator must act on, [`enroll`] how a
//! machine joins; [`daemon`] puts the agent together: [`agent`] answers the master's calls,
//! [`ledger`] is what the agent remembers and [`outbox`] what it has to tell, [`rack`] what it
//! serves from, [`master_address`] and [`ssconf`] what this machine has of the master,
//! [`powercycle`] restarts its machine; [`leasing`] runs [`dhcp`] by it, [`boot`] serves the scripts,
//! [`metrics`] counts.
#![warn(missing_docs)]

mod codes;
pub mod options;
pub mod run;

pub mod enroll;

pub mod daemon;

pub mod agent;
pub mod facts;
pub mod ledger;
pub mod master_address;
pub mod outbox;
pub mod powercycle;
pub mod rack;
pub mod ssconf;

pub mod dhcp;
pub mod leasing;

pub mod boot;
pub mod metrics;

#[cfg(test)]
mod testing;
