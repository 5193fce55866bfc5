//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. [`main_job`] is what all of it is for, [`rack`] the rest of it, [`life`] machines on their way, and [`ignition`] what machines configure themselves by;
//! [`failover`] is about masters that move; [`restart`], [`kill_loop`], [`upgrade`] and [`export`]
//! are about ends and beginnings, [`resent`] about
//! submissions across them, [`killed`] and [`canceled`] about jobs that are ended; [`locks`], [`filters`],
//! [`operator`], [`roles`], [`enrol`], [`bmc`], [`volume`], [`waiting`], [`delay`], [`checks`], [`bytes`],
//! [`master_ip`], [`networks`], [`groups`] and [`metrics`] about use; [`ganeti`], [`ganeti_cli`], [`ganeti_socket`] and [`bare_values`] about the use by
//! Ganeti's clients, [`ramdisks`] by agents in ramdisks, [`agent_keys`] by machines that ask for keys of disks, [`front`] by REST, [`sabactl`] by sabakan's command line; [`bad_input`] about what should never happen.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod ignition;
mod life;
mod main_job;
mod rack;
mod rack_faults;

mod canceled;
mod export;
mod failover;
mod host_network;
mod kill_loop;
mod killed;
mod resent;
mod restart;
mod upgrade;

mod agent_keys;
mod bare_values;
mod bmc;
mod bytes;
mod checks;
mod delay;
mod disk_keys;
mod enrol;
mod filters;
mod front;
mod ganeti;
mod ganeti_cli;
mod ganeti_socket;
mod groups;
mod locks;
mod master_ip;
mod metrics;
mod networks;
mod operator;
mod pages;
mod ramdisks;
mod roles;
mod sabactl;
mod volume;
mod waiting;

mod bad_input;
