//! The DHCPv4 server of a rack: addresses for machines that boot, and where to boot from.
//!
//! In reading order: [`config`] has the settings of a server, [`packet`] the wire, and [`leases`] the
//! holders of addresses. Firmware, iPXE and operating systems are told apart in [`boot`]. Decisions on
//! packets are in [`engine`]; the log tells of each client now and then only, by `log_limit`. Messages
//! that come too often are dropped in [`limits`]. The shell with sockets, disk and clock is [`server`].
//!
//! Rules that hold throughout (each is a property of the engine's tests):
//! - no address is leased to two clients at a time, none outside its range, none that is excluded;
//! - that holds where several agents serve a rack, one of them was away, or they do not hear each other;
//! - a client is acknowledged the address that it asked for, or none;
//! - an acknowledgement leaves after its lease is durable;
//! - firmware, iPXE and operating system of one machine hold one address.

pub mod config;
pub mod packet;

pub mod leases;

pub mod boot;
pub mod engine;
pub mod limits;
mod log_limit;

pub mod server;

pub use config::{Config, ConfigError, ServedRange};
pub use engine::{Arrival, Destination, Effect, Engine, Ignored, Observation, Outgoing};
pub use leases::{Learned, LeaseClash, LeaseRecord, LeaseState};
pub use packet::{Identity, Packet, Reply};
