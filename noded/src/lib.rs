//! The agent of a node, as a library.
//!
//! In reading order: [`options`] is the command line, [`run`] what becomes of it; `codes` tells what an
//! operator must act on, [`enroll`] how a machine joins. The agent is put together by [`daemon`]:
//! [`agent`] answers the master's calls, [`netboot`] is what it serves to its racks. From the master,
//! this machine has [`master_address`] and [`ssconf`]. Its network is changed by [`host_network`];
//! [`machine_certificate`] is what it shows machines. The machine's parts are told by [`facts`];
//! [`powercycle`] restarts it, and [`metrics`] counts.

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
