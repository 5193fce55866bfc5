//! Core: what the agents of one rack tell each other of leases and ramdisks.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use model::power_cycle::Ramdisk;
use model::rack::LeaseState;
use model::{Serial, Timestamp};

/// Longest wait of a call, in milliseconds: as that of an exchange.
pub const LEASE_SYNC_WAIT_MS_MAX: u32 = super::EXCHANGE_WAIT_MS_MAX;
/// Most leases and ramdisks in one reply: about 150 kB of leases, or 1.5 MB of ramdisks. The rest comes
/// with the next call.
pub const LEASES_TOLD_MAX: usize = 1_000;

/// Parameters of `lease_sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseSync {
    /// The rack: only leases of its ranges are in the reply.
    pub rack: u32,
    /// The run of the agent that `after` counts in; another one means that everything is wanted.
    pub run: Option<Uuid>,
    /// Changes up to this number are known.
    pub after: u64,
    /// How long to wait where nothing is new, in milliseconds; 0 to [`LEASE_SYNC_WAIT_MS_MAX`].
    pub wait_ms: u32,
}

/// Parameters of `lease_release`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseRelease {
    pub address: Ipv4Addr,
}

/// The lease that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReleased {
    /// The holder of the address, by the identity that the agents give it; none where nobody had it.
    pub client: Option<String>,
}

/// Leases that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasesTold {
    /// The run of the agent that answers: numbers begin anew with each start.
    pub run: Uuid,
    /// The number up to which the reply is complete.
    pub upto: u64,
    /// Whether more is known than one answer takes.
    #[serde(default)]
    pub more: bool,
    /// The leases, oldest change first; an address is there once.
    pub leases: Vec<LeaseTold>,
    /// The ramdisks, as the agent heard of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ramdisks: Vec<RamdiskTold>,
    /// The addresses at which the agent serves machines of the rack by HTTP, at most
    /// [`BOOT_PLACES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot: Vec<SocketAddr>,
}

/// Addresses at which one agent serves a rack: one in each of its networks.
pub const BOOT_PLACES_MAX: usize = 16;

/// A machine's ramdisk, as one agent heard of it, keeps it and tells it to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamdiskTold {
    pub rack: u32,
    /// The machine.
    pub serial: Serial,
    /// Which registration of it.
    pub registered: Option<Timestamp>,
    /// Its power cycle.
    pub cycle: u64,
    #[serde(default, skip_serializing_if = "Ramdisk::is_unheard")]
    pub heard: Ramdisk,
}

/// A lease as one agent tells it to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTold {
    pub address: Ipv4Addr,
    /// The client, by the identity that the agents give it.
    pub client: String,
    pub state: LeaseState,
    /// Until when that holds; of a released one, since when.
    pub until: Timestamp,
    /// When it came to that; none of an agent that did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
