//! Core: the keys of the vault, and secrets that they sealed (docs/secrets.md). The master seals and opens
//! them; here is only what is stored and what travels.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};

use crate::secret::Secret;

/// Bytes of a key of the vault: XChaCha20-Poly1305 takes 256 bits.
pub const VAULT_KEY_BYTES: usize = 32;
/// Bytes of one secret: the largest key of a disk that sabakan takes.
pub const SECRET_BYTES_MAX: usize = 4_096;
/// Characters of a sealed secret: the number of its key, and nonce, secret and tag in Base64.
const SEALED_CHARS_MAX: usize = 5_600;

/// A key of the vault; written into its document alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultKey(Secret<[u8; VAULT_KEY_BYTES]>);

impl VaultKey {
    /// A key of these random bytes.
    pub const fn new(bytes: [u8; VAULT_KEY_BYTES]) -> Self {
        Self(Secret::new(bytes))
    }

    /// The bytes; the caller answers for where they go.
    pub const fn expose(&self) -> &[u8; VAULT_KEY_BYTES] {
        self.0.expose()
    }
}

impl Serialize for VaultKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        STANDARD.encode(self.expose()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VaultKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self::new).ok_or_else(|| D::Error::custom("a key of the vault has 32 bytes"))
    }
}

/// The document `config/vault`: the keys of the vault by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct VaultKeys {
    /// The key that seals.
    pub current: u32,
    /// All keys with which something may still be sealed.
    pub keys: BTreeMap<u32, VaultKey>,
}

impl VaultKeys {
    /// The first key of a cluster.
    pub fn first(key: VaultKey) -> Self {
        Self { current: 1, keys: BTreeMap::from([(1, key)]) }
    }

    /// A further key, which seals from now on.
    pub fn renewed(&self, key: VaultKey) -> Self {
        let current = self.current.saturating_add(1);
        let mut keys = self.keys.clone();
        keys.insert(current, key);
        Self { current, keys }
    }

    /// The key that seals alone.
    pub fn without_earlier(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.retain(|number, _key| *number == self.current);
        Self { current: self.current, keys }
    }
}

/// A sealed secret; as text `1:` and Base64, where 1 is the number of the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The number of the key.
    pub key: u32,
    /// Nonce, secret and tag.
    pub bytes: Vec<u8>,
}

/// A text that is no sealed secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a sealed secret is the number of a key, a colon, and Base64; `GantrySeal` gives one")]
pub struct NotSealed;

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, STANDARD.encode(&self.bytes))
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({}, {} bytes)", self.key, self.bytes.len())
    }
}

impl FromStr for Sealed {
    type Err = NotSealed;

    fn from_str(text: &str) -> Result<Self, NotSealed> {
        if text.len() > SEALED_CHARS_MAX {
            return Err(NotSealed);
        }
        let (key, bytes) = text.split_once(':').ok_or(NotSealed)?;
        let key = key.parse().map_err(|_error| NotSealed)?;
        let bytes = STANDARD.decode(bytes).map_err(|_error| NotSealed)?;
        Ok(Self { key, bytes })
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_never_printed() {
        let keys = VaultKeys::first(VaultKey::new([7; VAULT_KEY_BYTES]));
        let keys = keys.renewed(VaultKey::new([8; VAULT_KEY_BYTES]));
        let text = serde_json::to_string(&keys).unwrap();
        assert_eq!(serde_json::from_str::<VaultKeys>(&text).unwrap(), keys);
        assert!(format!("{keys:?}").contains("Secret(…)"), "{keys:?}");
        assert_eq!(keys.without_earlier().keys.keys().copied().collect::<Vec<_>>(), [2]);
        let short = r#"{"current": 1, "keys": {"1": "AAAA"}}"#;
        assert!(serde_json::from_str::<VaultKeys>(short).is_err());
    }

    #[test]
    fn sealed_secrets_are_text() {
        let sealed = Sealed { key: 3, bytes: vec![1, 2, 3] };
        assert_eq!(sealed.to_string(), "3:AQID");
        assert_eq!("3:AQID".parse(), Ok(sealed));
        let long = format!("1:{}", "A".repeat(SEALED_CHARS_MAX));
        for wrong in ["", "3", "3:!", "x:AQID", ":AQID", "-1:AQID", &long] {
            assert_eq!(wrong.parse::<Sealed>(), Err(NotSealed), "{wrong}");
        }
    }
}
