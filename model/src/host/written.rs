//! Core: the form of a host's network in files: each link is one flat object, and an option that its
//! kind does not have is refused by name.

mod link;
mod route;

use crate::json::Malformed;
use serde::{Deserialize, Serialize};

use super::HostNetwork;
use super::link::LinkName;

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
    #[must_use]
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
#[must_use]
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
