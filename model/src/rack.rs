//! Core: the rack document, the only thing that an agent needs to serve its rack, and the events
//! that the agent gives back.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::asset::Asset;
use crate::blob::Blob;
use crate::boot_template::{BootDocument, Fetched};
use crate::dhcp::RackDhcp;
use crate::enrol::Fingerprint;
use crate::image::{ImageFiles, ImageId, Parameter};
use crate::inventory::Inventory;
use crate::ipam::LeaseRange;
use crate::mac::MacAddress;
use crate::machine::{BootStage, StageSeen, is_zero};
use crate::name::NodeName;
use crate::power_cycle::{ExpectedRamdisk, Ramdisk};
use crate::serial::Serial;
use crate::shares::Part;
pub use crate::shares::{GUEST_LEASE_SECONDS, LEASE_SECONDS};
use crate::time::Timestamp;

/// The document that the master compiled for one rack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RackDocument {
    pub cluster_name: NodeName,
    pub rack: u32,
    /// Which of two documents of the rack is newer.
    pub version: DocumentVersion,
    pub ranges: Vec<LeaseRange>,
    /// Seconds that a lease lasts.
    pub lease_seconds: u32,
    /// Which agent leases which part of each range; an agent leases all where there are none.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Its agents, which tell each other of leases; none where there is only one.
    #[serde(default)]
    pub agents: Vec<RackAgent>,
    /// How DHCP is served.
    #[serde(default)]
    pub dhcp: RackDhcp,
    /// Files that its machines fetch by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assets: Vec<Asset>,
    /// Its machines, by serial.
    pub machines: Vec<RackMachine>,
}

/// An agent as the other agents of its rack need to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RackAgent {
    pub name: NodeName,
    /// The address at which it answers calls.
    pub address: SocketAddr,
    /// The certificates that it may show: two while one is renewed.
    pub fingerprints: Vec<Fingerprint>,
}

/// The state of the store that a document was made from. Ordered: a later master's documents are newer
/// than all of its predecessors', even if its store is an older copy.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct DocumentVersion {
    /// Term of the master.
    pub term: u64,
    /// Position of its store.
    pub position: u64,
}

impl fmt::Display for DocumentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.position)
    }
}

impl RackDocument {
    /// The digest that tells apart documents with different contents: SHA-256 of all but the version, in
    /// hexadecimal. A new master that compiles the same document need not push it.
    pub fn digest(&self) -> String {
        let Self {
            cluster_name,
            rack,
            version: _,
            ranges,
            lease_seconds,
            parts,
            agents,
            dhcp,
            assets,
            machines,
        } = self;
        let said = (cluster_name, rack, ranges, lease_seconds, parts, machines);
        let mut text = serde_json::to_vec(&said).expect("a document has plain keys");
        // Without these it is as it was before they were known, so that an upgrade pushes nothing.
        if !agents.is_empty() {
            text.extend(serde_json::to_vec(agents).expect("agents have plain keys"));
        }
        if !assets.is_empty() {
            text.extend(serde_json::to_vec(assets).expect("assets have plain keys"));
        }
        if *dhcp != RackDhcp::default() {
            text.extend(serde_json::to_vec(dhcp).expect("settings have plain keys"));
        }
        hex::encode(Sha256::digest(text))
    }
}

/// A machine as its rack's agent needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RackMachine {
    /// Its serial number.
    pub serial: Serial,
    pub role: String,
    /// Its number within the rack.
    pub index: u32,
    /// Its Ethernet addresses, as far as they are known.
    pub mac: Vec<MacAddress>,
    /// Its system UUID, if the operator told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Addresses of its operating system, one an interface.
    pub addresses: Vec<Ipv4Addr>,
    /// Its boot target.
    pub boot: BootChoice,
    /// When it was registered: it tells a machine from one that had its serial number before.
    #[serde(default)]
    pub registered: Option<Timestamp>,
    /// The number of its power cycle; 0 before any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cycle: u64,
    /// The ramdisk that is to look itself up, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramdisk: Option<ExpectedRamdisk>,
    /// The documents that it can fetch to configure itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<BootDocument>,
}

impl RackMachine {
    /// The observation that it came to a stage of its boot.
    pub fn observed(
        &self,
        rack: u32,
        address: Ipv4Addr,
        mac: Option<MacAddress>,
        (stage, fetched): (BootStage, Option<Fetched>),
    ) -> Observation {
        let (serial, registered, cycle) = (self.serial.clone(), self.registered, self.cycle);
        Observation::Boot {
            rack,
            serial,
            address,
            mac,
            stage,
            registered,
            cycle,
            earlier: Vec::new(),
            fetched,
            every: None,
            cycle_guessed: false,
        }
    }
}

/// The boot target of a machine, as its rack's agent serves it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootChoice {
    /// The next choice of its firmware, as a rule its disk.
    #[default]
    Local,
    Image {
        id: ImageId,
        files: ImageFiles,
        /// Kernel parameters: those of the image, then those of the machine.
        parameters: Vec<Parameter>,
    },
}

impl BootChoice {
    /// The files that the agent needs.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> {
        let files = match self {
            Self::Local => None,
            Self::Image { files, .. } => Some(files.blobs()),
        };
        files.into_iter().flatten()
    }
}

/// One thing that an agent saw, numbered in its outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// From 1, rising through the life of the agent's store; numbers are missing where an event was
    /// overtaken by later ones that tell the same and more.
    pub number: u64,
    /// When it was seen.
    pub at: Timestamp,
    /// What was seen.
    pub observation: Observation,
}

/// An observation of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Observation {
    /// A lease was given, renewed or ended.
    Lease(Lease),
    /// A machine came to a stage of its boot.
    Boot {
        rack: u32,
        /// The serial number that the machine told.
        serial: Serial,
        address: Ipv4Addr,
        /// The Ethernet address that holds the lease of that address.
        mac: Option<MacAddress>,
        /// How far it came.
        stage: BootStage,
        /// Which registration of the machine it is about, as the rack document had it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        registered: Option<Timestamp>,
        /// Its power cycle, as the rack document had it.
        #[serde(default, skip_serializing_if = "is_zero")]
        cycle: u64,
        /// Stages before it, of which the outbox has no events any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        earlier: Vec<StageSeen>,
        /// The document that it fetched, where the stage is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fetched: Option<Fetched>,
        /// Seconds since its system told the same before, where it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<u32>,
        /// Whether a system told the stage without its power cycle: it may run since an earlier one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cycle_guessed: bool,
    },
    /// The ramdisk of a machine was heard: all that is known of it, so that the newest word is enough.
    Ramdisk {
        rack: u32,
        /// The machine.
        serial: Serial,
        /// Which registration of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        registered: Option<Timestamp>,
        /// Its power cycle.
        cycle: u64,
        heard: Ramdisk,
    },
    /// The ramdisk of a machine told what that is made of.
    Inspected {
        rack: u32,
        /// The machine.
        serial: Serial,
        /// Which registration of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        registered: Option<Timestamp>,
        /// Its power cycle.
        cycle: u64,
        /// Its hardware, within the limits of an inventory.
        inventory: Box<Inventory>,
        /// The failure there, in the ramdisk's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A machine that no rack document has asked for its boot script.
    Unknown {
        rack: u32,
        /// The serial number that it told.
        serial: Serial,
        address: Ipv4Addr,
        /// The Ethernet address that holds the lease of that address.
        mac: Option<MacAddress>,
    },
}

impl Observation {
    /// The rack that it was made in.
    pub fn rack(&self) -> u32 {
        match self {
            Self::Lease(lease) => lease.rack,
            Self::Boot { rack, .. }
            | Self::Ramdisk { rack, .. }
            | Self::Inspected { rack, .. }
            | Self::Unknown { rack, .. } => *rack,
        }
    }

    /// The Ethernet address that it is about, if one is known.
    pub fn mac(&self) -> Option<MacAddress> {
        match self {
            Self::Lease(lease) => Some(lease.mac),
            Self::Boot { mac, .. } | Self::Unknown { mac, .. } => *mac,
            Self::Ramdisk { .. } | Self::Inspected { .. } => None,
        }
    }
}

/// The key of a lease, for the agent's outbox and the master alike: the rack, and the holder's Ethernet
/// address. A client has one lease in a rack, the one that was reported last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    pub rack: u32,
    pub mac: MacAddress,
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rack, self.mac)
    }
}

/// A text that is no key of a lease.
#[derive(Debug, thiserror::Error)]
#[error("the key of a lease is RACK/MAC")]
pub struct LeaseKeyError;

impl FromStr for LeaseKey {
    type Err = LeaseKeyError;

    fn from_str(text: &str) -> Result<Self, LeaseKeyError> {
        let (rack, mac) = text.split_once('/').ok_or(LeaseKeyError)?;
        let rack = rack.parse().map_err(|_no_number| LeaseKeyError)?;
        Ok(Self { rack, mac: mac.parse().map_err(|_no_address| LeaseKeyError)? })
    }
}

/// The document `leases/RACK/MAC`: one address in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub rack: u32,
    pub mac: MacAddress,
    pub address: Ipv4Addr,
    /// Whether it is in use.
    pub state: LeaseState,
    /// When it ends by itself.
    pub until: Timestamp,
}

impl Lease {
    pub fn key(&self) -> LeaseKey {
        LeaseKey { rack: self.rack, mac: self.mac }
    }
}

/// Whether a lease is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// In use until its time is over.
    Bound,
    /// Given back by the client.
    Released,
    /// The client found the address in use by another.
    Declined,
}
