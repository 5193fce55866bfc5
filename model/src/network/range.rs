//! Core: ranges of addresses, of both families, as operators write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Addresses from the first to the last, both included: `192.0.2.10-192.0.2.20`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpRange {
    first: IpAddr,
    last: IpAddr,
}

/// Text that is no range, or no address of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// An end is no address.
    #[error("`{text}` is no IP address{hint}")]
    Address {
        /// What was given.
        text: String,
        /// The form that may have been meant.
        hint: &'static str,
    },
    /// Not an address, a slash and a length.
    #[error("`{text}` is no network such as 192.0.2.0/24")]
    Prefix {
        /// What was given.
        text: String,
    },
    /// One end is an IPv4 address and the other one an IPv6 address.
    #[error("{first}-{last} begins and ends in different families")]
    Families {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
    },
    /// The last address comes before the first.
    #[error("{first}-{last} is the wrong way round; write {last}-{first}")]
    Reversed {
        /// The first address.
        first: IpAddr,
        /// The last address.
        last: IpAddr,
    },
}

impl IpRange {
    /// The range with these ends.
    ///
    /// # Errors
    /// They are of two families, or the wrong way round.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, RangeError> {
        if first.is_ipv4() != last.is_ipv4() {
            return Err(RangeError::Families { first, last });
        }
        if first > last {
            return Err(RangeError::Reversed { first, last });
        }
        Ok(Self { first, last })
    }

    pub const fn one(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }

    /// The first address.
    pub const fn first(self) -> IpAddr {
        self.first
    }

    /// The last address.
    pub const fn last(self) -> IpAddr {
        self.last
    }

    /// Whether it holds an address.
    pub fn contains(self, address: IpAddr) -> bool {
        self.first <= address && address <= self.last
    }

    /// Whether both hold an address.
    pub fn meets(self, other: Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.first <= other.last
            && other.first <= self.last
    }

    /// The addresses that both hold.
    pub fn common(self, other: Self) -> Option<Self> {
        self.meets(other)
            .then(|| Self { first: self.first.max(other.first), last: self.last.min(other.last) })
    }

    /// Each of its addresses, in order.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let all = std::iter::successors(Some(self.first), |at| next(*at));
        all.take_while(move |address| self.contains(*address))
    }

    /// How many addresses it holds, at most `u128::MAX`.
    pub fn count(self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }
}

pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The address of this number in the family of `like`, if there is one.
pub fn address(number: u128, like: IpAddr) -> Option<IpAddr> {
    match like {
        IpAddr::V4(_) => u32::try_from(number).ok().map(|number| Ipv4Addr::from(number).into()),
        IpAddr::V6(_) => Some(Ipv6Addr::from(number).into()),
    }
}

/// The next address of the same family, if there is one.
pub fn next(of: IpAddr) -> Option<IpAddr> {
    address(number(of).checked_add(1)?, of)
}

/// The address before this one, if there is one.
pub fn previous(of: IpAddr) -> Option<IpAddr> {
    address(number(of).checked_sub(1)?, of)
}

/// Reads an address. Numbers with leading zeros are refused, since programs disagree on their base, and
/// so are IPv4 addresses that are written as IPv6 ones.
///
/// # Errors
/// The text is no address.
pub fn parse(text: &str) -> Result<IpAddr, RangeError> {
    let wrong = |hint| RangeError::Address { text: text.chars().take(64).collect(), hint };
    let has_zero = |part: &str| part.len() > 1 && part.starts_with('0');
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(wrong("; write the IPv4 address without `::ffff:`"))
        }
        Ok(address) => Ok(address),
        Err(_) if text.contains('/') => Err(wrong("; a network does not belong here")),
        Err(_) if text.split('.').any(has_zero) => Err(wrong("; write it without leading zeros")),
        Err(_) => Err(wrong("")),
    }
}

/// The same addresses as ranges in order, none of which meets or follows another one.
pub fn merged(mut ranges: Vec<IpRange>) -> Vec<IpRange> {
    ranges.sort_unstable();
    let mut merged: Vec<IpRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if next(last.last).is_none_or(|next| range.first <= next)
                    && last.first.is_ipv4() == range.first.is_ipv4() =>
            {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Ranges without the addresses of another one.
pub fn without(ranges: &[IpRange], other: IpRange) -> Vec<IpRange> {
    let left = |range: &IpRange| {
        if !range.meets(other) {
            return [Some(*range), None];
        }
        let before = previous(other.first).filter(|last| *last >= range.first);
        let after = next(other.last).filter(|first| *first <= range.last);
        [
            before.map(|last| IpRange { first: range.first, last }),
            after.map(|first| IpRange { first, last: range.last }),
        ]
    };
    ranges.iter().flat_map(left).flatten().collect()
}

/// A network's address and the length of its prefix, as in `192.0.2.0/24`; host bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix(pub IpNet);

impl FromStr for Prefix {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError::Prefix { text: text.chars().take(64).collect() };
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        IpNet::new(parse(address)?, length).map(Self).map_err(|_too_long| wrong())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::text_form!(Prefix);

impl FromStr for IpRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        match text.split_once('-') {
            None => parse(text.trim()).map(Self::one),
            Some((first, last)) => Self::new(parse(first.trim())?, parse(last.trim())?),
        }
    }
}

crate::text_form!(IpRange);

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        for (text, count) in [
            ("192.0.2.10-192.0.2.20", 11),
            ("192.0.2.10", 1),
            ("0.0.0.0-255.255.255.255", 1 << 32),
            ("2001:db8::-2001:db8::ffff", 1 << 16),
            ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", u128::MAX),
        ] {
            let range: IpRange = text.parse().unwrap();
            assert_eq!((range.to_string().as_str(), range.count()), (text, count));
        }
        assert_eq!(
            "2001:DB8:0::1 - 2001:db8::9".parse(),
            "2001:db8::1-2001:db8::9".parse::<IpRange>()
        );
    }

    #[test]
    fn ranges_are_joined_and_cut() {
        let ranges = |texts: &[&str]| {
            texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpRange>>()
        };
        let all = merged(ranges(&[
            "10.0.0.5",
            "10.0.0.1-10.0.0.4",
            "10.0.0.3-10.0.0.4",
            "10.0.0.9",
            "::1",
        ]));
        assert_eq!(all, ranges(&["10.0.0.1-10.0.0.5", "10.0.0.9", "::1"]));
        for (cut, left) in [
            ("10.0.0.2-10.0.0.3", vec!["10.0.0.1", "10.0.0.4-10.0.0.5", "10.0.0.9", "::1"]),
            ("10.0.0.0-10.0.0.9", vec!["::1"]),
            ("10.0.0.6-10.0.0.8", vec!["10.0.0.1-10.0.0.5", "10.0.0.9", "::1"]),
        ] {
            assert_eq!(without(&all, cut.parse().unwrap()), ranges(&left), "{cut}");
        }
    }

    #[test]
    fn networks_are_read_strictly() {
        for text in ["192.0.2.0/24", "192.0.2.7/31", "::/0", "2001:db8::/64"] {
            assert_eq!(String::from(text.parse::<Prefix>().unwrap()), text);
        }
        for text in [
            "192.0.2.0",
            "192.0.2.0/33",
            "192.0.2.0/+8",
            "010.0.0.0/8",
            "::/129",
            "a/8",
            "192.0.2.0/",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_says_why() {
        for (text, why) in [
            ("010.0.0.1", "leading zeros"),
            ("::ffff:10.0.0.1", "without `::ffff:`"),
            ("10.0.0.9-10.0.0.1", "write 10.0.0.1-10.0.0.9"),
            ("10.0.0.1-2001:db8::1", "different families"),
            ("10.0.0.256", "no IP address"),
            ("10.0.0.0/24", "a network does not belong here"),
            ("", "no IP address"),
            ("10.0.0.1-", "no IP address"),
        ] {
            let error = text.parse::<IpRange>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_end_where_their_family_does() {
        let last = IpAddr::from([255, 255, 255, 255]);
        assert_eq!(next(last), None);
        assert_eq!(previous(last), Some(IpAddr::from([255, 255, 255, 254])));
        assert_eq!(next(IpAddr::from([u16::MAX; 8])), None);
        assert_eq!(previous(IpAddr::from([0; 4])), None);
    }
}
