//! The agent against real clients, in network namespaces. Two of them with a cable are [`wire`];
//! [`dhcp`] is the DHCP server alone, [`agent`] all of it. The address that moves with the master is in
//! [`address`], the network of the host in [`network`]. Needs root, `ip` and the clients; says so and
//! passes where they are missing.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod wire;

mod address;
mod agent;
mod dhcp;
mod network;
