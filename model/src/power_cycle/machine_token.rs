//! Core: the token by which a machine that was deployed becomes a node. It is of one power cycle, and derived
//! from the secret of that: nothing more is kept.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::RamdiskToken;
use crate::enrol::{TokenError, base32};
use crate::secret::Secret;

/// Bytes of the token: as many as the digest has that it is made by.
const TOKEN_BYTES: usize = 32;
/// The prefixes of the digested bytes, so that a client with one of the tokens cannot derive the other.
const NODE: &[u8] = b"gantry: a machine becomes a node\0";
const RAMDISK: &[u8] = b"gantry: a ramdisk beside that\0";

/// The token in a machine's configuration, which the master knows, too. Text: 52 letters and digits,
/// which no format has to escape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineToken(Secret<[u8; TOKEN_BYTES]>);

impl MachineToken {
    /// The token of a power cycle, and that of a ramdisk in it, by the secret of that power cycle. The
    /// client that looks itself up first is told the second.
    pub fn of(secret: &RamdiskToken) -> (Self, RamdiskToken) {
        let digest = |purpose: &[u8]| -> [u8; TOKEN_BYTES] {
            Sha256::new().chain_update(purpose).chain_update(secret.expose()).finalize().into()
        };
        let of_ramdisk = RamdiskToken::new(base32::encode(&digest(RAMDISK)));
        (Self(Secret::new(digest(NODE))), of_ramdisk)
    }

    /// The bytes; the caller answers for where they go.
    pub fn expose(&self) -> &[u8; TOKEN_BYTES] {
        self.0.expose()
    }

    /// The text that a machine is told.
    pub fn to_text(&self) -> Secret<String> {
        Secret::new(base32::encode(self.expose()))
    }
}

impl FromStr for MachineToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let bytes = base32::decode(text.trim(), TOKEN_BYTES).ok_or(TokenError::Machine)?;
        bytes.try_into().map(|bytes| Self(Secret::new(bytes))).map_err(|_size| TokenError::Machine)
    }
}

impl Serialize for MachineToken {
    /// Agents of the rack need it as it is.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_text().expose().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MachineToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Secret::new(String::deserialize(deserializer)?);
        text.expose().parse().map_err(serde::de::Error::custom)
    }
}

/// Why a machine cannot become a node by the token of its power cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The power cycle expects none.
    Unexpected,
    Used,
    /// Its time is over.
    Late,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unexpected => "the present power cycle has no token for a node",
            Self::Used => "the token of the present power cycle was used",
            Self::Late => "the token of the present power cycle is too old",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_as_they_were_written_and_tell_nothing_of_the_secret() {
        let secret = RamdiskToken::new("tell-nobody".to_owned());
        let (token, of_ramdisk) = MachineToken::of(&secret);
        let text = token.to_text();
        assert_eq!(text.expose().len(), 52);
        assert!(text.expose().bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(format!("{}\n", text.expose()).parse(), Ok(token.clone()));
        assert_ne!(text.expose(), of_ramdisk.expose());
        assert_ne!(token, MachineToken::of(&of_ramdisk).0);
        assert_ne!(token, MachineToken::of(&RamdiskToken::new("tell-nobody-else".to_owned())).0);
        for bad in ["", "gantry-enrol-token-7f3a", &text.expose()[1..]] {
            assert_eq!(bad.parse::<MachineToken>(), Err(TokenError::Machine), "{bad}");
        }
    }
}
