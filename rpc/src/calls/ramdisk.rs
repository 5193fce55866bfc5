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
    /// The machine's ramdisk, as the agent knows it.
    pub known: RamdiskTold,
    /// The secret that it wants to tell; null where it only asks what was told.
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

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamdiskClaimed {
    /// The machine's ramdisk as it is known now, with the claim where it was granted.
    pub known: RamdiskTold,
    /// Whether the secret may be told.
    pub is_granted: bool,
}
