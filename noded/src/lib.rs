//! The agent of a node, as a library.
//!
//! In reading order: [`options`] is the command line, [`run`] what becomes of it, `codes` tells what an
//! operator must act on, [`enroll`] how a machine joins; [`daemon`] puts the agent together: [`agent`]
//! answers the master's calls, [`netboot`] is what it serves to its racks; [`master_address`] and [`ssconf`]
//! are what this machine has of the master; [`host_network`] changes its network; [`machine_certificate`] is
//! what it shows machines; [`facts`] tells what the machine is made of, [`powercycle`] restarts it, and
//! [`metrics`] counts.
#![warn(missing_docs)]

mod codes;
pub mod options;
pub mod run;

pub mod enroll;

pub mod daemon;

pub mod agent;
pub mod facts;
pub mod host_network;
pub mod machine_certificate;
pub mod master_address;
pub mod powercycle;
pub mod ssconf;

pub mod metrics;
