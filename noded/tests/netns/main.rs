//! The agent against real clients, in network namespaces: [`wire`] is two of them with a cable,
//! [`dhcp`] the DHCP server alone, [`agent`] all of it, [`address`] the address that moves
//! with the master, [`network`] the network of the host. Needs root, `ip` and the clients; says so
//! and passes where they are missing.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod wire;

mod address;
mod agent;
mod dhcp;
mod network;
