//! Core: which MTUs go together. A link that says none gets the one that the kernel would give it.

use std::collections::BTreeMap;

use super::HostNetwork;
use super::link::{Kind, Link, LinkName, Vxlan};
use super::order::upwards;
use super::written::wrong;
use crate::json::Malformed;

/// The MTU of Ethernet, which the kernel gives to links that have no other.
const MTU_ETHERNET: u32 = 1500;
/// The least MTU of IPv6 (RFC 8200); below it the kernel has no IPv6 on a link.
const MTU_V6: u32 = 1280;
/// The bytes that a tunnel puts before a frame: headers of Ethernet, IP, UDP and VXLAN.
const VXLAN_BYTES_V4: u32 = 50;
const VXLAN_BYTES_V6: u32 = 70;

/// The MTU of each link, by its own word or by the links below it.
type Carried<'n> = BTreeMap<&'n LinkName, u32>;

impl HostNetwork {
    /// Checks each MTU against those that must be as large, or the same. Members and parents are there.
    pub(super) fn check_mtus(&self) -> Result<(), Malformed> {
        let mut carried = Carried::new();
        for link in upwards(self) {
            carried.insert(&link.name, carries(link, &carried));
        }
        for (place, link) in self.placed() {
            self.check_below(&place, link, &carried)?;
            if let Kind::Bond(bond) = &link.kind {
                self.check_bonded(link, &bond.members)?;
            }
            let has_v6 = link.addresses.iter().any(|address| address.ip().is_ipv6());
            let mtu = carried.get(&link.name).copied().unwrap_or(MTU_ETHERNET);
            if (has_v6 || link.dhcp6) && mtu < MTU_V6 {
                let why = format!("{mtu} is below the {MTU_V6} that IPv6 needs");
                return Err(wrong(&format!("{place}.mtu"), why));
            }
        }
        Ok(())
    }

    /// A link has no larger packets than what it lies on; the ports of a bridge drop them without a word.
    fn check_below(
        &self,
        place: &str,
        link: &Link,
        carried: &Carried<'_>,
    ) -> Result<(), Malformed> {
        let Some(mtu) = link.mtu else { return Ok(()) };
        let needed = mtu + overhead(&link.kind);
        // Members of a bond have its own.
        let members = if matches!(link.kind, Kind::Bond(_)) { &[] } else { link.kind.members() };
        let members = members.iter().map(|name| (format!("{place}.mtu"), name));
        let parent = link.kind.parent().map(|name| (format!("{place}.parent"), name));
        for (place, name) in members.chain(parent) {
            let Some(limit) = carried.get(name).filter(|limit| **limit < needed) else { continue };
            let has = match self.link(name).and_then(|found| found.mtu) {
                Some(_) => format!("{name} has an MTU of {limit}"),
                None => format!("{name} has no `mtu`, and so one of {limit}"),
            };
            let tunnel = match overhead(&link.kind) {
                0 => String::new(),
                bytes => format!(" and the {bytes} bytes of its tunnel"),
            };
            let why = format!(
                "{has}, below the {mtu} of {}{tunnel}; give {name} `mtu: {needed}`, or {} less",
                link.name, link.name
            );
            return Err(wrong(&place, why));
        }
        Ok(())
    }

    /// The kernel gives members of a bond the MTU of the bond.
    fn check_bonded(&self, bond: &Link, members: &[LinkName]) -> Result<(), Malformed> {
        let (name, given) = (&bond.name, bond.mtu.unwrap_or(MTU_ETHERNET));
        for (place, member) in self.placed().filter(|(_, link)| members.contains(&link.name)) {
            let Some(mtu) = member.mtu.filter(|mtu| *mtu != given) else { continue };
            let says = if bond.mtu.is_some() { "" } else { ", as it says none" };
            let why = format!(
                "{} is a member of {name}, which gives it its own MTU ({given}{says}); give {name} `mtu: \
                 {mtu}`, or {} none",
                member.name, member.name
            );
            return Err(wrong(&format!("{place}.mtu"), why));
        }
        Ok(())
    }
}

/// The MTU that a link has, where those below it are known.
fn carries(link: &Link, carried: &Carried<'_>) -> u32 {
    if let Some(mtu) = link.mtu {
        return mtu;
    }
    let of = |name: &LinkName| carried.get(name).copied();
    let found = match &link.kind {
        // The kernel has a bridge follow the smallest of its ports.
        Kind::Bridge { members, .. }
        | Kind::OvsBridge { members, .. }
        | Kind::OvsBond { members, .. } => members.iter().filter_map(of).min(),
        Kind::Vlan { parent, .. } | Kind::Macvlan { parent, .. } => of(parent),
        Kind::Vxlan(vxlan) => {
            let parent = vxlan.parent.as_ref().and_then(of);
            parent.map(|mtu| mtu.saturating_sub(overhead(&link.kind)))
        }
        Kind::Ethernet { .. } | Kind::Bond(_) | Kind::Dummy => None,
    };
    found.unwrap_or(MTU_ETHERNET)
}

/// Bytes that a link puts before its packets, beyond what every link has.
fn overhead(kind: &Kind) -> u32 {
    let Kind::Vxlan(Vxlan { local, remote, .. }) = kind else { return 0 };
    let is_v6 = local.or(*remote).is_some_and(|address| address.is_ipv6());
    if is_v6 { VXLAN_BYTES_V6 } else { VXLAN_BYTES_V4 }
}
