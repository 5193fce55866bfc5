//! Core: what the kernel tells, as our type.

mod link;
mod route;

use std::collections::BTreeMap;

use ipnet::IpNet;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::route::RouteMessage;

use crate::model::HostNetwork;
use crate::model::address::Address;
use crate::model::link::{Link, LinkName};
pub(super) use route::{destination, ip, is_local, static_route};

/// The links of a dump, by their number.
pub(super) struct Found {
    names: BTreeMap<u32, LinkName>,
    links: BTreeMap<u32, Link>,
}

/// The network that dumps of links, of routes, and of addresses and rules tell, with the names of its links.
pub(super) fn network(
    messages: &[LinkMessage],
    routes: &[RouteMessage],
    rest: &[RouteNetlinkMessage],
) -> (HostNetwork, BTreeMap<u32, LinkName>) {
    let mut rules = Vec::new();
    let mut found = links(messages);
    for message in routes {
        if let Some((index, route)) = static_route(message)
            && let Some(link) = found.links.get_mut(&index)
        {
            link.routes.push(route);
        }
    }
    for answer in rest {
        match answer {
            RouteNetlinkMessage::NewAddress(message) => {
                let link = found.links.get_mut(&message.header.index);
                if let (Some(link), Some(address)) = (link, address(message)) {
                    link.addresses.push(address);
                }
            }
            RouteNetlinkMessage::NewRule(message) => rules.extend(route::rule(message)),
            _ => {}
        }
    }
    let network =
        HostNetwork { links: found.links.into_values().collect(), rules, absent: Vec::new() };
    (network, found.names)
}

fn links(messages: &[LinkMessage]) -> Found {
    let named = |message: &LinkMessage| Some((message.header.index, link::name(message)?));
    let names: BTreeMap<_, _> = messages.iter().filter_map(named).collect();
    let mut found = Found { names, links: BTreeMap::new() };
    for message in messages {
        if let Some(link) = link::link(message, &found.names) {
            found.links.insert(message.header.index, link);
        }
    }
    for message in messages {
        let controller = link::controller(message).and_then(|index| found.links.get_mut(&index));
        let members = controller.and_then(|controller| controller.kind.members_mut());
        if let (Some(members), Some(name)) = (members, found.names.get(&message.header.index)) {
            members.push(name.clone());
        }
    }
    found
}

/// A static address that somebody chose: leases end by themselves, and the addresses of the link
/// alone are the kernel's.
fn address(message: &AddressMessage) -> Option<Address> {
    let (mut local, mut other) = (None, None);
    let mut is_static = message.header.flags.contains(AddressHeaderFlags::Permanent);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => other = Some(*ip),
            AddressAttribute::Flags(flags) => is_static |= flags.contains(AddressFlags::Permanent),
            _ => {}
        }
    }
    let ip = local.or(other)?;
    let is_own = matches!(ip, std::net::IpAddr::V6(six) if six.is_unicast_link_local());
    let net = IpNet::new(ip, message.header.prefix_len).ok()?;
    Address::from_net(net).ok().filter(|_| is_static && !is_own)
}
