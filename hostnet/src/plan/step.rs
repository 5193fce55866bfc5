//! Core: one change of a host's network.

use std::fmt;

use model::MacAddress;

use crate::model::address::{Address, Route, Rule};
use crate::model::link::{Link, LinkName};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Makes a virtual link, without members, down.
    Create(Box<Link>),
    /// Removes one that is so.
    Delete(Box<Link>),
    /// Brings a link up or down.
    SetUp {
        link: LinkName,
        up: bool,
    },
    /// Gives a link another address of Ethernet.
    SetMac {
        link: LinkName,
        /// The earlier one; none where the link has one that it had before it joined a bond.
        from: Option<MacAddress>,
        /// The later one.
        to: Option<MacAddress>,
    },
    /// Gives a link another largest packet.
    SetMtu {
        link: LinkName,
        /// The earlier one, or none, as for the address.
        from: Option<u32>,
        /// The later one.
        to: Option<u32>,
    },
    /// Turns the spanning tree of a bridge on or off.
    SetStp {
        /// The bridge.
        link: LinkName,
        on: bool,
    },
    /// Lets a bond use another member first.
    SetPrimary {
        /// The bond.
        link: LinkName,
        /// The earlier one.
        from: Option<LinkName>,
        /// The later one.
        to: Option<LinkName>,
    },
    /// Makes a link a member of a bridge or bond.
    Attach {
        member: LinkName,
        /// The bridge or bond.
        controller: LinkName,
    },
    /// Makes it a member no longer.
    Detach {
        member: LinkName,
        /// The bridge or bond.
        controller: LinkName,
    },
    AddAddress {
        link: LinkName,
        address: Address,
    },
    RemoveAddress {
        link: LinkName,
        address: Address,
    },
    AddRoute {
        link: LinkName,
        route: Route,
    },
    RemoveRoute {
        link: LinkName,
        route: Route,
    },
    AddRule(Rule),
    RemoveRule(Rule),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(link) => write!(f, "create {} {}", link.kind.word(), link.name),
            Self::Delete(link) => write!(f, "delete {} {}", link.kind.word(), link.name),
            Self::SetUp { link, up: true } => write!(f, "set {link} up"),
            Self::SetUp { link, up: false } => write!(f, "set {link} down"),
            Self::SetMac { link, from, to } => {
                write!(f, "set address of {link} to {}{}", shown(*to), was(*from))
            }
            Self::SetMtu { link, from, to } => {
                write!(f, "set MTU of {link} to {}{}", shown(*to), was(*from))
            }
            Self::SetStp { link, on } => {
                write!(f, "turn STP of {link} {}", if *on { "on" } else { "off" })
            }
            Self::SetPrimary { link, from, to } => {
                let shown = |name: &Option<LinkName>| shown(name.as_ref());
                write!(f, "set primary member of {link} to {} (was {})", shown(to), shown(from))
            }
            Self::Attach { member, controller } => write!(f, "attach {member} to {controller}"),
            Self::Detach { member, controller } => write!(f, "detach {member} from {controller}"),
            Self::AddAddress { link, address } => write!(f, "add address {address} to {link}"),
            Self::RemoveAddress { link, address } => {
                write!(f, "remove address {address} from {link}")
            }
            Self::AddRoute { link, route } => write!(f, "add route {route} through {link}"),
            Self::RemoveRoute { link, route } => write!(f, "remove route {route} through {link}"),
            Self::AddRule(rule) => write!(f, "add rule {rule}"),
            Self::RemoveRule(rule) => write!(f, "remove rule {rule}"),
        }
    }
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn was(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| format!(" (was {})", value.to_string()))
}
