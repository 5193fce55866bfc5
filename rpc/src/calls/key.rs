//! Core: what machines ask an agent for the keys of their disks, and the answers. The agent holds a
//! request in memory until the master took it with an `exchange`, and the machine waits meanwhile.

use std::fmt;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use model::disk_key::DiskName;
use model::{Secret, Serial};

/// Requests of one agent that wait at the same time: a rack that boots, with a disk of each machine. At
/// 4 KiB each they fit a shared call.
pub const KEY_REQUESTS_MAX: usize = 64;

/// The key of a disk on its way between agent and master. It never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct CarriedKey(pub Secret<Vec<u8>>);

impl fmt::Debug for CarriedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for CarriedKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Secret::new(STANDARD.encode(self.0.expose())).expose().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CarriedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = CarriedKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key in Base64")
            }
            // The reason would tell a byte of the key.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<CarriedKey, E> {
                let bytes = STANDARD.decode(text);
                let bytes = bytes.map_err(|_error| E::custom("the key is not Base64"))?;
                Ok(CarriedKey(Secret::new(bytes)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A machine's request to keep or to get the key of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRequest {
    /// Tells it from every other request, also of an agent that was restarted.
    pub id: Uuid,
    /// The machine.
    pub serial: Serial,
    pub disk: DiskName,
    /// The address that it asks from.
    pub from: Ipv4Addr,
    /// The key that is to be kept; null where the kept one is wanted.
    pub key: Option<CarriedKey>,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyOutcome {
    /// The key is kept, on a majority of the voters.
    Kept,
    Key(CarriedKey),
    /// The machine, or a key of this disk, is not there.
    Missing(String),
    /// Another key is kept, or the machine's state takes none.
    Conflict(String),
    /// The request is wrong.
    Wrong(String),
    /// It could not be done now; a key may be kept all the same.
    Failed(String),
}

/// Parameters of `key_answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAnswer {
    /// Which request; nothing happens where nobody waits for it any more.
    pub id: Uuid,
    /// The outcome of the request.
    pub outcome: KeyOutcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_travels_and_does_not_print() {
        let key = CarriedKey(Secret::new(b"hunter2\0".to_vec()));
        let answer = KeyAnswer { id: Uuid::from_u128(1), outcome: KeyOutcome::Key(key) };
        assert!(
            !format!("{answer:?}").contains("hunter2") && !format!("{answer:?}").contains("104")
        );
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<KeyAnswer>(&text).unwrap(), answer);
        let wrong = serde_json::from_str::<CarriedKey>(r#""hunter2!""#).unwrap_err().to_string();
        assert!(wrong.contains("not Base64") && !wrong.contains("hunter"), "{wrong}");
    }
}
