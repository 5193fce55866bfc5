//! Core: what a host's network is: links, and what lies on them. Desired and actual are this one type.
//!
//! [`link`] has the kinds of links, [`address`] all that can lie on one, and [`written`] the form in
//! files. Rules across links are in [`check`], those of MTUs in `mtu`. The order of links, one upon
//! another, is in [`order`]. The parts that last of an earlier configuration are in `earlier`.

pub mod address;
pub mod check;
mod earlier;
pub mod link;
mod mtu;
pub mod order;
pub mod written;

use std::collections::BTreeMap;

use crate::MacAddress;
use serde::{Deserialize, Serialize};

use address::Rule;
use link::{Kind, Link, LinkName};

/// The network configuration of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "written::Network", into = "written::Network")]
pub struct HostNetwork {
    /// The interfaces. All others are left alone.
    pub links: Vec<Link>,
    /// Rules of policy routing.
    pub rules: Vec<Rule>,
    /// Virtual interfaces that must not be there.
    pub absent: Vec<LinkName>,
}

impl HostNetwork {
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name.as_str() == name)
    }

    /// Names the cards of this host: their permanent addresses, by which they are found.
    ///
    /// A name without an entry is the kernel's name of the card.
    pub fn with_cards(mut self, cards: &BTreeMap<LinkName, MacAddress>) -> Self {
        for link in &mut self.links {
            if let Kind::Ethernet { permanent_mac } = &mut link.kind {
                *permanent_mac = cards.get(&link.name).copied().or(*permanent_mac);
            }
        }
        self
    }

    /// The link that each member belongs to.
    pub fn controllers(&self) -> BTreeMap<&LinkName, &Link> {
        let mut controllers = BTreeMap::new();
        for link in &self.links {
            controllers.extend(link.kind.members().iter().map(|name| (name, link)));
        }
        controllers
    }
}
