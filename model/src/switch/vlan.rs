//! Core: VLANs (IEEE 802.1Q), and sets of them as operators write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Longest text of a set: every second VLAN, written one by one with a comma and a space.
const TEXT_MAX: usize = 16_384;

/// A VLAN that a port may be in: 1 to 4,094. The standard keeps 0 and 4,095 for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Vlan(u16);

impl Vlan {
    /// The highest one.
    pub const MAX: Self = Self(4_094);

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Vlan {
    type Error = VlanError;

    fn try_from(number: u16) -> Result<Self, VlanError> {
        match number {
            1..=4_094 => Ok(Self(number)),
            _ => Err(VlanError::None(number.to_string())),
        }
    }
}

impl From<Vlan> for u16 {
    fn from(vlan: Vlan) -> Self {
        vlan.0
    }
}

impl FromStr for Vlan {
    type Err = VlanError;

    fn from_str(text: &str) -> Result<Self, VlanError> {
        let number =
            if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
        number
            .and_then(|number: u16| Self::try_from(number).ok())
            .ok_or_else(|| VlanError::None(shortened(text)))
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// VLANs, as ranges in order that do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct VlanSet(Vec<(u16, u16)>);

/// A text that names no VLANs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VlanError {
    /// A word is no VLAN.
    #[error("`{0}` is no VLAN; a VLAN is a number of 1 to 4094")]
    None(String),
    /// A range has its ends the wrong way round.
    #[error("`{0}` goes downwards; write the lower VLAN first")]
    Downwards(String),
    /// A comma has nothing on one side.
    #[error("a comma has nothing before or behind it; write VLANs and ranges as `1, 6-10`")]
    Nothing,
    /// Nobody writes that much.
    #[error("{0} characters; VLANs and ranges take at most {TEXT_MAX}")]
    Long(usize),
}

/// The part of a text that an error repeats.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

impl VlanSet {
    /// Every VLAN.
    pub fn all() -> Self {
        Self(vec![(1, Vlan::MAX.0)])
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }

    pub fn contains(&self, vlan: Vlan) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= vlan.0);
        behind.checked_sub(1).is_some_and(|at| self.0[at].1 >= vlan.0)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Vlan> {
        self.0.iter().flat_map(|(first, last)| (*first..=*last).map(Vlan))
    }

    /// The lowest that `other` has not.
    pub fn first_outside(&self, other: &Self) -> Option<Vlan> {
        self.iter().find(|vlan| !other.contains(*vlan))
    }

    /// Those of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.iter().filter(|vlan| other.contains(*vlan)).collect()
    }

    /// The same without one.
    #[must_use]
    pub fn without(&self, vlan: Vlan) -> Self {
        self.iter().filter(|its| *its != vlan).collect()
    }

    fn of_ranges(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }
}

impl FromIterator<Vlan> for VlanSet {
    fn from_iter<I: IntoIterator<Item = Vlan>>(vlans: I) -> Self {
        Self::of_ranges(vlans.into_iter().map(|vlan| (vlan.0, vlan.0)).collect())
    }
}

impl FromStr for VlanSet {
    type Err = VlanError;

    /// Reads `1, 6-10`. An empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, VlanError> {
        if text.len() > TEXT_MAX {
            return Err(VlanError::Long(text.len()));
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let range = |word: &str| {
            let word = word.trim();
            if word.is_empty() {
                return Err(VlanError::Nothing);
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let vlan = |end: &str| {
                end.trim().parse::<Vlan>().map_err(|_none| VlanError::None(shortened(word)))
            };
            let (first, last) = (vlan(first)?, vlan(last)?);
            if first > last {
                return Err(VlanError::Downwards(shortened(word)));
            }
            Ok((first.0, last.0))
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self::of_ranges)
    }
}

impl fmt::Display for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for VlanSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VlanSet {
    /// Takes a text, and a number alone: YAML makes one of `vlanRange: 5`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl Visitor<'_> for Written {
            type Value = VlanSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("VLANs and ranges of VLANs, such as `1, 6-10`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<VlanSet, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<VlanSet, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<VlanSet, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_read_as_operators_write_them() {
        for (text, shown) in [
            ("1, 6-10", "1,6-10"),
            ("2-10", "2-10"),
            (" 10 - 12 ,5", "5,10-12"),
            ("5-7,6-9,10", "5-10"),
            ("1-4094", "1-4094"),
            ("", ""),
        ] {
            assert_eq!(text.parse::<VlanSet>().unwrap().to_string(), shown, "{text}");
        }
        let number: VlanSet = serde_json::from_str("5").unwrap();
        assert_eq!(number.to_string(), "5");
    }

    #[test]
    fn what_is_none_is_told() {
        for (text, told) in [
            ("0", "`0` is no VLAN"),
            ("4095", "`4095` is no VLAN"),
            ("4096", "`4096` is no VLAN"),
            ("1-4095", "`1-4095` is no VLAN"),
            ("lab", "`lab` is no VLAN"),
            ("10-5", "`10-5` goes downwards"),
            ("1-4094,", "a comma has nothing"),
            (",", "a comma has nothing"),
            ("1-2-3", "`1-2-3` is no VLAN"),
            ("+5", "`+5` is no VLAN"),
            ("-5", "`-5` is no VLAN"),
            ("99999999999", "`99999999999` is no VLAN"),
        ] {
            let error = text.parse::<VlanSet>().unwrap_err().to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
        let many = (0..10_000).map(|n| format!("{}-{}", n % 4_000 + 1, n % 4_000 + 1));
        let many = many.collect::<Vec<_>>().join(",");
        assert!(matches!(many.parse::<VlanSet>(), Err(VlanError::Long(_))));
        for wrong in ["0", "-1", "4095", "1.5", "[1]", "null", "true"] {
            assert!(serde_json::from_str::<VlanSet>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_set_is_what_is_in_it(vlans in prop::collection::btree_set(1_u16..=4_094, 0..60)) {
            let set: VlanSet = vlans.iter().map(|number| Vlan(*number)).collect();
            prop_assert_eq!(set.iter().map(Vlan::number).collect::<Vec<_>>(), vlans.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), vlans.len());
            for number in 1..=4_094 {
                prop_assert_eq!(set.contains(Vlan(number)), vlans.contains(&number));
            }
            prop_assert_eq!(set.to_string().parse::<VlanSet>(), Ok(set));
        }
    }
}
