//! Ports of switches: read, set by one transaction for many, and watched.
//!
//! One seam, `Provider`, with two behind it: `ovsdb`, which speaks RFC 7047 to Open vSwitch, and
//! `command`, which asks a program of the operator's. It knows nothing of jobs, machines or the master.
//!
//! A switch is slow, forgetful, and lies. A change says what the port must be like now, so that nobody's
//! change is overwritten unseen; it has happened when the switch was read back. A switch has one session,
//! which does one thing at a time: changes that come meanwhile become one batch. A switch that does not
//! answer holds up nobody but those who ask for it.

mod command;
mod error;
mod ovsdb;
mod provider;
mod session;
#[cfg(test)]
mod simulated;

pub use error::SwitchError;
pub use session::{Switches, WATCH_MAX};
