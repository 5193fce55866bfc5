//! The real programs as an operator has them: started, used, killed and started again.
//!
//! Each module is one subject. The purpose of it all is [`main_job`], the rest of it [`rack`]. Machines
//! on their way are in [`life`], their configuration in [`ignition`], masters that move in [`failover`].
//! Ends and beginnings are in [`restart`], [`kill_loop`], [`upgrade`] and [`export`], submissions across
//! them in [`resent`]. Jobs that are ended are in [`killed`] and [`canceled`]. Use is in [`locks`],
//! [`filters`], [`operator`], [`roles`], [`enrol`], [`bmc`], [`volume`], [`waiting`], [`delay`],
//! [`checks`], [`bytes`], [`master_ip`], [`networks`], [`switches`],
//! [`groups`] and [`metrics`]. Ganeti's clients are
//! in [`ganeti`], [`ganeti_cli`], [`ganeti_socket`] and [`bare_values`]. Agents in ramdisks are in
//! [`ramdisks`], keys of disks in [`agent_keys`], REST in [`front`], sabakan's command line in
//! [`sabactl`]. Events that should never happen are in [`bad_input`].
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod ignition;
mod instances;
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
mod switches;
mod volume;
mod waiting;

mod bad_input;
