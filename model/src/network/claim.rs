//! Core: claims: who has, or waits for, addresses of a network.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::NameError;
use crate::{Serial, Timestamp, Uuid, Word};

/// The owner of an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Owner {
    /// A machine of the inventory; its claims end with it.
    Machine(Serial),
    /// A network interface of an instance; its claims end with it.
    Nic(Uuid),
    /// Another host or service, by the name that an operator gave. Its claims end when they are released.
    Name(Word),
}

/// The beginning of the text of a machine: no word has a colon.
const MACHINE: &str = "machine:";
/// That of a network interface.
const NIC: &str = "nic:";

impl FromStr for Owner {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Some(uuid) = text.strip_prefix(NIC) {
            let wrong =
                |_error| NameError::new(text, "owner", "what follows `nic:` must be a UUID");
            return uuid.parse().map(Self::Nic).map_err(wrong);
        }
        match text.strip_prefix(MACHINE) {
            Some(serial) => serial.parse().map(Self::Machine).map_err(|_error| {
                NameError::new(text, "owner", "what follows `machine:` must be a serial number")
            }),
            None => text.parse().map(Self::Name),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(serial) => write!(f, "{MACHINE}{serial}"),
            Self::Nic(uuid) => write!(f, "{NIC}{uuid}"),
            Self::Name(name) => f.pad(name.as_str()),
        }
    }
}

crate::text_form!(Owner);

/// The document `claims/NETWORK/OWNER`. An owner has at most one claim on a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub network: Word,
    /// Who claims.
    pub owner: Owner,
    /// The address that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<IpAddr>,
    /// Its outcome.
    pub state: ClaimState,
    /// When it was made. Claims that wait are served in this order.
    pub ctime: Timestamp,
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimState {
    /// It has these addresses: at most one of each family, that of IPv4 first.
    Bound(Vec<IpAddr>),
    /// The pools are full; it gets the next addresses that become free.
    Waiting,
}

impl Claim {
    pub fn key(&self) -> ClaimKey {
        ClaimKey { network: self.network.clone(), owner: self.owner.clone() }
    }

    /// Its addresses; none while it waits.
    pub fn addresses(&self) -> &[IpAddr] {
        match &self.state {
            ClaimState::Bound(addresses) => addresses,
            ClaimState::Waiting => &[],
        }
    }

    /// Whether it waits for an address.
    pub fn is_waiting(&self) -> bool {
        self.state == ClaimState::Waiting
    }
}

/// The key of a claim, as text `NETWORK/OWNER`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    pub network: Word,
    /// Who claims.
    pub owner: Owner,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.owner)
    }
}

impl FromStr for ClaimKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (network, owner) = text
            .split_once('/')
            .ok_or_else(|| NameError::new(text, "claim", "it must be NETWORK/OWNER"))?;
        Ok(Self { network: network.parse()?, owner: owner.parse()? })
    }
}

impl ClaimKey {
    /// The key as a path: a serial number is escaped.
    pub fn escaped(&self) -> String {
        match &self.owner {
            Owner::Machine(serial) => format!("{}/{MACHINE}{}", self.network, serial.escaped()),
            owner @ (Owner::Nic(_) | Owner::Name(_)) => format!("{}/{owner}", self.network),
        }
    }

    /// The key that [`escaped`](Self::escaped) gave.
    pub fn from_escaped(text: &str) -> Option<Self> {
        let (network, owner) = text.split_once('/')?;
        let owner = match owner.strip_prefix(MACHINE) {
            Some(serial) => Owner::Machine(Serial::from_escaped(serial)?),
            None => owner.parse().ok()?,
        };
        Some(Self { network: network.parse().ok()?, owner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_paths() {
        for text in [
            "net0/machine:/5Q4Q7Y1/CN72/",
            "net0/machine:a b",
            "net0/node-0",
            "net0/nic:00000000-0000-0000-0000-000000000001",
        ] {
            let key: ClaimKey = text.parse().unwrap();
            assert_eq!(key.to_string(), text);
            assert_eq!(ClaimKey::from_escaped(&key.escaped()), Some(key));
        }
        for text in ["net0", "net0/", "net0/machine:", "net 0/a", "net0/a/b"] {
            assert!(text.parse::<ClaimKey>().is_err(), "{text}");
        }
    }
}
