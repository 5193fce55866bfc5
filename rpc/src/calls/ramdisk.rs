//! Core: how the agents of one rack agree on who is told a secret that is told once.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use model::NodeName;

use super::RamdiskTold;

/// Parameters of `ramdisk_claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RamdiskClaim {
    /// The agent that calls.
    pub by: NodeName,
    /// What it knows of the machine's ramdisk.
    pub known: RamdiskTold,
    /// What it wants to tell; null where it only wants to know what was told.
    #[serde(default)]
    pub claim: Option<SecretClaim>,
}

/// A secret that an agent wants to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SecretClaim {
    /// The token of the ramdisk that runs now.
    Token,
    /// The token by which the machine becomes a node.
    Enrolment {
        /// The address that asked for it.
        to: IpAddr,
    },
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamdiskClaimed {
    /// What is known of the machine's ramdisk now, with the claim where it was granted.
    pub known: RamdiskTold,
    /// Whether the secret may be told.
    pub is_granted: bool,
}
