//! Core: who a client is.

use std::fmt;
use std::str::FromStr;

use model::MacAddress;
use serde::{Deserialize, Serialize};

use super::{ETHERNET, Packet, option};

/// Longest client identifier that is accepted: one option's worth. Joined instances could carry
/// more, and no client has a reason to.
const CLIENT_ID_MAX: usize = 255;
/// Longest hardware address, the field's size.
const HARDWARE_MAX: usize = 16;

/// The identity of a client, to which a lease belongs.
///
/// It is the hardware address where there is one. So firmware (which sends no client identifier), iPXE
/// and the operating system of a machine are one client with one address. Hardware without a usable
/// address field, such as InfiniBand (RFC 4390), is known by its client identifier.
///
/// As text: `52:54:00:aa:bb:01` on Ethernet, else `hw-TYPE-HEX` or `id-HEX`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Identity {
    Ethernet(MacAddress),
    /// Another hardware address: type and bytes.
    Hardware(u8, Vec<u8>),
    /// A client identifier (option 61).
    ClientId(Vec<u8>),
}

impl Identity {
    /// The sender of `packet`. `None` if it has neither a hardware address that can be one of a
    /// single station, nor a client identifier instead.
    pub fn of(packet: &Packet) -> Option<Self> {
        let header = &packet.header;
        if let Some(mac) = packet.mac() {
            return single_station(mac).then(|| Self::Ethernet(MacAddress::new(mac)));
        }
        match usize::from(header.hlen) {
            0 => packet
                .option(option::CLIENT_ID)
                .filter(|id| (1..=CLIENT_ID_MAX).contains(&id.len()))
                .map(|id| Self::ClientId(id.to_vec())),
            len => header
                .chaddr
                .get(..len)
                .filter(|at| at.iter().any(|byte| *byte != 0))
                .map(|at| Self::Hardware(header.htype, at.to_vec())),
        }
    }

    /// The Ethernet address, if that is what the client is known by.
    pub fn mac(&self) -> Option<MacAddress> {
        match self {
            Self::Ethernet(mac) => Some(*mac),
            Self::Hardware(..) | Self::ClientId(_) => None,
        }
    }
}

/// Neither a group address nor all zeros.
fn single_station(mac: [u8; 6]) -> bool {
    let [first, ..] = mac;
    first & 1 == 0 && mac != [0; 6]
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet(mac) => write!(f, "{mac}"),
            Self::Hardware(kind, bytes) => write!(f, "hw-{kind}-{}", hex::encode(bytes)),
            Self::ClientId(bytes) => write!(f, "id-{}", hex::encode(bytes)),
        }
    }
}

/// Text that names no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no DHCP client")]
pub struct IdentityError(String);

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let identity = if let Some(digits) = text.strip_prefix("id-") {
            bytes(digits, CLIENT_ID_MAX).map(Self::ClientId)
        } else if let Some(rest) = text.strip_prefix("hw-") {
            hardware(rest)
        } else {
            text.parse().ok().map(Self::Ethernet)
        };
        identity.ok_or_else(|| IdentityError(text.chars().take(80).collect()))
    }
}

fn hardware(text: &str) -> Option<Identity> {
    let (kind, digits) = text.split_once('-')?;
    let (kind, bytes) = (kind.parse().ok()?, bytes(digits, HARDWARE_MAX)?);
    // Ethernet addresses have their own form; one client must not have two names.
    (kind != ETHERNET || bytes.len() != 6).then_some(Identity::Hardware(kind, bytes))
}

fn bytes(digits: &str, max: usize) -> Option<Vec<u8>> {
    let bytes = (digits.len() <= 2 * max).then(|| hex::decode(digits).ok()).flatten();
    bytes.filter(|bytes| !bytes.is_empty())
}

model::text_form!(Identity);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_goes_both_ways() {
        for text in ["52:54:00:aa:bb:01", "hw-32-0011", "hw-1-00112233", "id-ff01"] {
            assert_eq!(text.parse::<Identity>().unwrap().to_string(), text);
        }
        for bad in ["", "id-", "id-f", "id-gg", "hw-", "hw-1", "hw-256-00", "hw-1-525400aabb01"] {
            assert!(bad.parse::<Identity>().is_err(), "{bad}");
        }
        assert!(format!("hw-32-{}", "00".repeat(17)).parse::<Identity>().is_err());
    }
}
