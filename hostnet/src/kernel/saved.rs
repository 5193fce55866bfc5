//! Core: routes as the kernel has them, whoever added them, so that they come back as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use rtnetlink::packet_core::{DecodeError, Emitable as _, Parseable as _};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteProtocol, RouteVia,
};
use serde::{Deserialize, Serialize};

use super::found;
use crate::model::address::Route;
use crate::model::link::LinkName;

/// The kernel tells in hundredths of a second how long a route lives, and is told seconds.
const TICKS: u32 = 100;

/// A route that is not the kernel's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct SavedRoute {
    message: RouteMessage,
    /// The links of its numbers: one that is made again has another number.
    links: BTreeMap<u32, LinkName>,
}

pub(crate) struct NextHop<'r> {
    pub(crate) link: &'r LinkName,
    pub(crate) via: Option<IpAddr>,
    pub(crate) on_link: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// For people.
    route: String,
    links: BTreeMap<u32, LinkName>,
    /// As rtnetlink has it.
    message: Vec<u8>,
}

impl TryFrom<Written> for SavedRoute {
    type Error = DecodeError;

    fn try_from(written: Written) -> Result<Self, DecodeError> {
        let message = RouteMessage::parse(written.message.as_slice())?;
        Ok(Self { message, links: written.links })
    }
}

impl From<SavedRoute> for Written {
    fn from(saved: SavedRoute) -> Self {
        let mut message = vec![0; saved.message.buffer_len()];
        saved.message.emit(&mut message);
        Self { route: saved.to_string(), links: saved.links, message }
    }
}

/// A route of a dump, unless it is the kernel's own.
pub(super) fn saved(message: &RouteMessage, names: &BTreeMap<u32, LinkName>) -> Option<SavedRoute> {
    let header = &message.header;
    let is_kernels = matches!(header.protocol, RouteProtocol::Kernel | RouteProtocol::IcmpRedirect);
    if is_kernels || header.flags.contains(RouteFlags::Cloned) || found::is_local(message) {
        return None;
    }
    let mut message = message.clone();
    message.header.flags &= RouteFlags::Onlink;
    let lives = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::CacheInfo(cache) => Some(cache.expires / TICKS).filter(|left| *left > 0),
        _ => None,
    });
    let mut links = BTreeMap::new();
    let mut named = |number: u32| Some(links.insert(number, names.get(&number)?.clone()));
    for attribute in &mut message.attributes {
        match attribute {
            RouteAttribute::Oif(number) => drop(named(*number)?),
            RouteAttribute::MultiPath(hops) => {
                for hop in hops {
                    named(hop.interface_index)?;
                    hop.flags &= RouteNextHopFlags::Onlink;
                }
            }
            _ => {}
        }
    }
    // The kernel tells what the next hop of a number is, which may be gone with its link.
    let is_kept = |attribute: &RouteAttribute| {
        !matches!(attribute, RouteAttribute::CacheInfo(_) | RouteAttribute::NhId(_))
    };
    message.attributes.retain(is_kept);
    message.attributes.extend(lives.map(RouteAttribute::Expires));
    Some(SavedRoute { message, links }).filter(|saved| !saved.links.is_empty())
}

impl SavedRoute {
    /// Whether it leads through one of these links.
    pub(crate) fn touches(&self, links: &BTreeSet<&LinkName>) -> bool {
        self.links.values().any(|link| links.contains(link))
    }

    /// The route as a configuration writes it, if one can.
    pub(crate) fn as_static(&self) -> Option<(&LinkName, Route)> {
        let (number, route) = found::static_route(&self.message)?;
        Some((self.links.get(&number)?, route.canonical()))
    }

    /// The same where links have these numbers. None if one of them is missing.
    pub(super) fn numbered(&self, numbers: &BTreeMap<LinkName, u32>) -> Option<RouteMessage> {
        let mut message = self.message.clone();
        let now = |number: &mut u32| {
            *number = *numbers.get(self.links.get(number)?)?;
            Some(())
        };
        for attribute in &mut message.attributes {
            match attribute {
                RouteAttribute::Oif(number) => now(number)?,
                RouteAttribute::MultiPath(hops) => {
                    hops.iter_mut().try_for_each(|hop| now(&mut hop.interface_index))?;
                }
                _ => {}
            }
        }
        Some(message)
    }

    /// Whether the kernel has it, as `message` with numbers of now.
    pub(super) fn is(&self, message: &RouteMessage) -> bool {
        let lasting = |route: &RouteMessage| {
            let mut route = route.clone();
            // It becomes less from moment to moment.
            route.attributes.retain(|one| !matches!(one, RouteAttribute::Expires(_)));
            route
        };
        lasting(&self.message) == lasting(message)
    }

    pub(crate) fn is_ipv4(&self) -> bool {
        self.message.header.address_family == AddressFamily::Inet
    }

    /// The address that packets over it come from.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(source) => found::ip(source),
            _ => None,
        })
    }

    pub(crate) fn next_hops(&self) -> Vec<NextHop<'_>> {
        let on_link = self.message.header.flags.contains(RouteFlags::Onlink);
        let mut hops = Vec::new();
        for attribute in &self.message.attributes {
            match attribute {
                RouteAttribute::Oif(number) => {
                    let link = self.links.get(number);
                    let via = gateway(&self.message.attributes);
                    hops.extend(link.map(|link| NextHop { link, via, on_link }));
                }
                RouteAttribute::MultiPath(several) => {
                    hops.extend(several.iter().filter_map(|hop| {
                        Some(NextHop {
                            link: self.links.get(&hop.interface_index)?,
                            via: gateway(&hop.attributes),
                            on_link: hop.flags.contains(RouteNextHopFlags::Onlink),
                        })
                    }));
                }
                _ => {}
            }
        }
        hops
    }

    /// Whether an address is among its destinations.
    pub(crate) fn leads_to(&self, to: IpAddr) -> bool {
        found::destination(&self.message).is_some_and(|net| net.contains(&to))
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(via) => found::ip(via),
        RouteAttribute::Via(RouteVia::Inet6(six)) => Some(IpAddr::V6(*six)),
        _ => None,
    })
}

impl fmt::Display for SavedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match found::destination(&self.message) {
            Some(net) if net.prefix_len() == 0 => f.write_str("default")?,
            Some(net) => write!(f, "{net}")?,
            None => f.write_str("?")?,
        }
        for hop in self.next_hops() {
            if let Some(via) = hop.via {
                write!(f, " via {via}")?;
            }
            write!(f, " dev {}", hop.link)?;
        }
        if let Some(source) = self.source() {
            write!(f, " src {source}")?;
        }
        write!(f, " proto {}", self.message.header.protocol.to_string().to_lowercase())
    }
}
