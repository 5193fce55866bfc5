//! Core: Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::NameError;

/// An Ethernet address, kept and shown as `52:54:00:aa:bb:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// From its six bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// Its six bytes.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Why no card has this address of its own. HPE gave those of a range to the inner network card of
    /// each controller of its servers (Gen12), so many machines have them.
    pub fn unusable(self) -> Option<&'static str> {
        match self.0 {
            [0, 0, 0, 0, 0, 0] => Some("is all zeroes, which no card has"),
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => Some("is the broadcast address"),
            [first, ..] if first & 1 == 1 => Some("is a multicast address, which no card has"),
            [0xFA, 0x4B, 0x7F, ..] => Some("is one that many machines of HPE have"),
            _ => None,
        }
    }
}

impl FromStr for MacAddress {
    type Err = NameError;

    /// Takes every usual spelling: groups of two, four, six or twelve digits with colons, hyphens
    /// or dots between them, and groups of two without their leading zero.
    fn from_str(text: &str) -> Result<Self, NameError> {
        read(text.trim())
            .ok_or_else(|| NameError::new(text, "MAC address", "write it as 52:54:00:aa:bb:01"))
    }
}

fn read(text: &str) -> Option<MacAddress> {
    let mark = text.chars().find(|c| ":-.".contains(*c)).unwrap_or(':');
    let groups: Vec<&str> = text.split(mark).collect();
    let digits = 12 / groups.len();
    let is_group = |group: &&str| match groups.len() {
        6 => (1..=2).contains(&group.len()),
        1..=3 => group.len() == digits,
        _ => false,
    };
    if !groups.iter().all(is_group)
        || !text.bytes().all(|b| b.is_ascii_hexdigit() || b":-.".contains(&b))
    {
        return None;
    }
    let number: String = groups.iter().map(|group| format!("{group:0>digits$}")).collect();
    let [_, _, bytes @ ..] = u64::from_str_radix(&number, 16).ok()?.to_be_bytes();
    Some(MacAddress(bytes))
}

crate::text_form!(MacAddress);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_spelling_is_one_address() {
        for (spellings, kept) in [
            (
                &[
                    "52:54:00:ab:cd:ef",
                    "52-54-00-AB-CD-EF",
                    "52.54.00.ab.cd.ef",
                    "5254.00ab.cdef",
                    "5254-00ab-cdef",
                    "5254:00ab:cdef",
                    "525400-abcdef",
                    "525400ABCDEF",
                    " 52:54:0:ab:cd:ef ",
                ][..],
                "52:54:00:ab:cd:ef",
            ),
            (&["0:0:5e:0:53:1", "00005e005301"], "00:00:5e:00:53:01"),
        ] {
            for spelling in spellings {
                assert_eq!(spelling.parse::<MacAddress>().unwrap().to_string(), kept, "{spelling}");
            }
        }
        for bad in [
            "",
            ":::::",
            "52:54:00:aa:bb",
            "52:54:00:aa:bb:",
            "52:54:00:aa:bb:01:02",
            "52:54:00:aa:bb-01",
            "052:54:00:aa:bb:1",
            "+2:54:00:aa:bb:01",
            "525400abcde",
            "525400abcdef0",
            "5254.0ab.cdef",
            "525400abcdeg",
            "5254:00ab:cdef:0",
            "52:54:00:aa:bb:é",
        ] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn some_addresses_are_no_cards() {
        for (text, told) in [
            ("00:00:00:00:00:00", Some("all zeroes")),
            ("ff:ff:ff:ff:ff:ff", Some("broadcast")),
            ("01:00:5e:00:00:01", Some("multicast")),
            ("33:33:00:00:00:01", Some("multicast")),
            ("fa:4b:7f:00:00:01", Some("many machines")),
            ("52:54:00:ab:cd:ef", None),
            ("02:00:00:00:00:01", None),
        ] {
            let why = text.parse::<MacAddress>().unwrap().unusable();
            assert_eq!(why.is_some(), told.is_some(), "{text}: {why:?}");
            assert!(told.is_none_or(|told| why.unwrap().contains(told)), "{text}: {why:?}");
        }
    }
}
