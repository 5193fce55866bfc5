//! Core: the form of a host's network in files: each link is one flat object, and an option that its
//! kind does not have is refused by name.

mod link;
mod route;

use crate::json::Malformed;
use serde::{Deserialize, Serialize};

use super::HostNetwork;
use super::link::{Bond, BondOption, LinkName, Word};

pub use link::{dns as read_dns, mac as read_mac};
pub use route::{rule as read_rule, whole_prefix};

/// A whole file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// None where the file does not speak of links at all.
    links: Option<Vec<link::Written>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<route::Rule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<String>,
}

impl Network {
    /// Whether the file says nothing: it is empty, or nothing but comments.
    pub fn is_empty(&self) -> bool {
        self.links.is_none() && self.rules.is_empty() && self.absent.is_empty()
    }
}

impl TryFrom<Network> for HostNetwork {
    type Error = Malformed;

    fn try_from(written: Network) -> Result<Self, Malformed> {
        let links = written.links.unwrap_or_default().into_iter().enumerate();
        let links = links.map(|(at, link)| link::read(&format!("links[{at}]"), link));
        let rules = written.rules.into_iter().enumerate();
        let rules = rules.map(|(at, rule)| rule.read(&format!("rules[{at}]")));
        let absent = written.absent.iter().enumerate();
        let absent = absent.map(|(at, name)| {
            LinkName::new(name).map_err(|why| wrong(&format!("absent[{at}]"), why))
        });
        Ok(Self {
            links: links.collect::<Result<_, _>>()?,
            rules: rules.collect::<Result<_, _>>()?,
            absent: absent.collect::<Result<_, _>>()?,
        })
    }
}

impl From<HostNetwork> for Network {
    fn from(network: HostNetwork) -> Self {
        Self {
            links: Some(network.links.into_iter().map(link::write).collect()),
            rules: network.rules.into_iter().map(route::Rule::from).collect(),
            absent: network.absent.into_iter().map(String::from).collect(),
        }
    }
}

/// Something that is wrong at a place.
pub fn wrong(place: &str, why: impl Into<String>) -> Malformed {
    Malformed { place: place.to_owned(), why: why.into() }
}

/// A number in its range.
///
/// # Errors
/// It is outside.
pub fn number<T: TryFrom<i64>>(
    place: &str,
    number: i64,
    range: std::ops::RangeInclusive<i64>,
) -> Result<T, Malformed> {
    let within = Some(number).filter(|number| range.contains(number));
    within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        wrong(place, format!("{number} is none of {} to {}", range.start(), range.end()))
    })
}

/// One of a list of words.
///
/// # Errors
/// It is none of them.
pub fn word<T: Word>(place: &str, text: &str) -> Result<T, Malformed> {
    T::read(text).map_err(|why| wrong(place, why))
}

/// The same by its word or its number, as the kernel's modules take both.
///
/// # Errors
/// It is none of them.
pub fn word_or_number<T: Word>(place: &str, text: &str) -> Result<T, Malformed> {
    T::read_or_number(text).map_err(|why| wrong(place, why))
}

/// Refuses the first of these options that is there, of which this kind of link has none.
///
/// # Errors
/// One is there.
pub fn nothing_is_left(place: &str, options: &[(&str, bool)], why: &str) -> Result<(), Malformed> {
    match options.iter().find(|(_, is_there)| *is_there) {
        Some((option, _)) => Err(wrong(&format!("{place}.{option}"), why)),
        None => Ok(()),
    }
}

/// Sets an option of a bond by the name that the kernel's module has for it.
///
/// # Errors
/// There is no such option, or it cannot have this value.
pub fn set_bond_option(
    place: &str,
    bond: &mut Bond,
    name: &str,
    value: &str,
) -> Result<(), Malformed> {
    match name {
        "lacp_rate" => bond.lacp_rate = Some(word_or_number(place, value)?),
        "xmit_hash_policy" => bond.xmit_hash_policy = Some(word_or_number(place, value)?),
        "miimon" => {
            let ms = value.parse().map_err(|_e| wrong(place, "it is no number"))?;
            bond.miimon_ms = Some(number(place, ms, 0..=60_000)?);
        }
        "primary" => {
            bond.primary = Some(LinkName::new(value).map_err(|why| wrong(place, why))?);
        }
        other => {
            let option = BondOption::from_kernel(other);
            let option = option.ok_or_else(|| wrong(place, "has no counterpart here"))?;
            bond.tuning.set(option, value).map_err(|why| wrong(place, why))?;
        }
    }
    Ok(())
}
