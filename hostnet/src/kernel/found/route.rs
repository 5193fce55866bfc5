//! Core: routes and rules, as the kernel tells of them.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use crate::model::address::{Route, Rule};

/// The priorities that a configuration can ask for.
const PRIORITIES: std::ops::RangeInclusive<u32> = 1..=32_765;
/// The table that the kernel fills itself.
const TABLE_LOCAL: u32 = 255;

fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        AddressFamily::Inet => Some(IpAddr::from([0_u8; 4])),
        AddressFamily::Inet6 => Some(IpAddr::from([0_u8; 16])),
        _ => None,
    }
}

pub(in crate::kernel) fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(four) => Some(IpAddr::V4(*four)),
        RouteAddress::Inet6(six) => Some(IpAddr::V6(*six)),
        _ => None,
    }
}

pub(in crate::kernel) fn destination(message: &RouteMessage) -> Option<IpNet> {
    let given = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => Some(ip(address)),
        _ => None,
    });
    let to = given.unwrap_or_else(|| unspecified(message.header.address_family))?;
    IpNet::new(to, message.header.destination_prefix_length).ok()
}

/// Whether it is of the table that the kernel fills itself.
pub(in crate::kernel) fn is_local(message: &RouteMessage) -> bool {
    let given = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(number) => Some(*number),
        _ => None,
    });
    given.unwrap_or_else(|| u32::from(message.header.table)) == TABLE_LOCAL
}

/// A route that somebody added by hand, and the number of its link. Those of daemons are theirs.
pub(in crate::kernel) fn static_route(message: &RouteMessage) -> Option<(u32, Route)> {
    let header = &message.header;
    let is_static = matches!(header.protocol, RouteProtocol::Static | RouteProtocol::Boot);
    if !is_static || header.kind != RouteType::Unicast || header.flags.contains(RouteFlags::Cloned)
    {
        return None;
    }
    let to = destination(message)?;
    let (mut via, mut link, mut metric, mut table) = (None, None, None, u32::from(header.table));
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Gateway(address) => via = Some(ip(address)?),
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Priority(number) => metric = Some(*number),
            RouteAttribute::Table(number) => table = *number,
            // Routes of several next hops have no counterpart here.
            RouteAttribute::MultiPath(_) | RouteAttribute::Via(_) | RouteAttribute::NhId(_) => {
                return None;
            }
            _ => {}
        }
    }
    let on_link = header.flags.contains(RouteFlags::Onlink);
    let route = Route { to, via, metric, table: Some(table), on_link };
    Some((link?, route)).filter(|_| !is_local(message))
}

/// A rule that an agent added.
pub(super) fn rule(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let (mut from, mut to, mut is_ours) = (None, None, false);
    let (mut table, mut priority) = (u32::from(header.table), 0);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(ip) => from = Some(IpNet::new(*ip, header.src_len).ok()?),
            RuleAttribute::Destination(ip) => to = Some(IpNet::new(*ip, header.dst_len).ok()?),
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Protocol(owner) => is_ours = *owner == RouteProtocol::Static,
            RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            _ => return None,
        }
    }
    let is_plain = header.action == RuleAction::ToTable
        && (from.is_some() || to.is_some())
        && PRIORITIES.contains(&priority);
    let rule = Rule { from, to, table, priority: Some(priority) };
    Some(rule).filter(|_| is_ours && is_plain)
}
