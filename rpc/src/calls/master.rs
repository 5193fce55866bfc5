//! Core: calls about the master itself: its address, and what every node's tools know of it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use model::rack::DocumentVersion;
use model::ssconf::Ssconf;

/// Parameters of `master_address_up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MasterAddressUp {
    /// The address that moves with the master.
    pub address: IpAddr,
    /// Leading bits that name its network: at most 32 or 128.
    pub prefix: u8,
    /// Interface that is to carry it.
    pub netdev: String,
}

/// Parameters of `master_address_here`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MasterAddressHere {
    /// The address that moves with the master.
    pub address: IpAddr,
    /// Leading bits that name its network: at most 32 or 128.
    pub prefix: u8,
    /// Interface that is to carry it.
    pub netdev: String,
}

/// Whether an address is where it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressHere {
    /// Whether it is on its interface with its prefix, and nowhere else.
    pub here: bool,
}

/// Parameters of `master_address_down`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MasterAddressDown {
    /// The address that moves with the master.
    pub address: IpAddr,
    /// Leading bits that name its network; the address goes whatever bits it was given with.
    pub prefix: u8,
    /// Interface that carries it; it goes from others too where an agent has put it there.
    pub netdev: String,
}

/// The outcome of a change of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressChanged {
    /// Whether anything had to be changed.
    pub changed: bool,
}

/// Parameters of `ssconf_push`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsconfPush {
    /// The files.
    pub ssconf: Ssconf,
}

/// The files that a node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsconfHeld {
    pub version: DocumentVersion,
    /// The digest of their content, by [`Ssconf::digest`].
    pub digest: String,
}
