//! Core: what must hold between the links of a host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::json::Malformed;

use super::HostNetwork;
use super::address::Route;
use super::link::{Kind, Link, LinkName};
use super::written::wrong;

impl HostNetwork {
    /// Checks what one link alone does not show: names, members, parents, next hops.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn check(&self) -> Result<(), Malformed> {
        let links = self.by_name()?;
        self.check_members(&links)?;
        self.check_parents(&links)?;
        self.check_cycles(&links)?;
        self.check_bonds()?;
        self.check_mtus()?;
        self.check_vlans()?;
        self.check_addresses()?;
        self.check_routes()?;
        self.check_rules()
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = (String, &Link)> {
        self.links.iter().enumerate().map(|(at, link)| (format!("links[{at}]"), link))
    }

    fn by_name(&self) -> Result<BTreeMap<&LinkName, &Link>, Malformed> {
        let mut links = BTreeMap::new();
        let mut cards = BTreeMap::new();
        for (place, link) in self.placed() {
            if links.insert(&link.name, link).is_some() {
                return Err(wrong(
                    &format!("{place}.name"),
                    format!("{} is there twice", link.name),
                ));
            }
            if let Kind::Ethernet { permanent_mac: Some(mac) } = link.kind
                && let Some(other) = cards.insert(mac, &link.name)
            {
                let why = format!("{mac} is the card of {other} too");
                return Err(wrong(&format!("{place}.permanent_mac"), why));
            }
        }
        if let Some((place, _)) = self.placed().find(|(_, link)| &*link.name == "lo" && !link.up) {
            let why = "programs of the host speak to each other over lo; it stays up";
            return Err(wrong(&format!("{place}.up"), why));
        }
        for (at, name) in self.absent.iter().enumerate() {
            if links.contains_key(name) {
                let why = format!("{name} is among the links too");
                return Err(wrong(&format!("absent[{at}]"), why));
            }
        }
        Ok(links)
    }

    fn check_members(&self, links: &BTreeMap<&LinkName, &Link>) -> Result<(), Malformed> {
        let mut controllers: BTreeMap<&LinkName, &LinkName> = BTreeMap::new();
        for (place, link) in self.placed() {
            for (at, member) in link.kind.members().iter().enumerate() {
                let place = format!("{place}.members[{at}]");
                let Some(found) = links.get(member) else {
                    return Err(wrong(&place, format!("there is no link {member}")));
                };
                if let Some(other) = controllers.insert(member, &link.name) {
                    return Err(wrong(&place, format!("{member} is a member of {other} already")));
                }
                if !found.addresses.is_empty() || found.dhcp4 || found.dhcp6 {
                    let why = format!("{member} has addresses; those belong on {}", link.name);
                    return Err(wrong(&place, why));
                }
                let is_of_ovs = matches!(link.kind, Kind::OvsBridge { .. });
                if matches!(found.kind, Kind::OvsBond { .. }) && !is_of_ovs {
                    let why = format!("{member} is a bond of Open vSwitch, {} is not", link.name);
                    return Err(wrong(&place, why));
                }
            }
            if let Some(primary) = link.kind.primary()
                && !link.kind.members().contains(primary)
            {
                let why = format!("{primary} is no member of {}", link.name);
                return Err(wrong(&format!("{place}.primary"), why));
            }
        }
        for (place, link) in self.placed() {
            if matches!(link.kind, Kind::OvsBond { .. }) && !controllers.contains_key(&link.name) {
                return Err(wrong(
                    &place,
                    "a bond of Open vSwitch is a member of one of its bridges",
                ));
            }
        }
        Ok(())
    }

    fn check_bonds(&self) -> Result<(), Malformed> {
        for (place, link) in self.placed() {
            let Kind::Bond(bond) = &link.kind else { continue };
            bond.check_tuning()
                .map_err(|(option, why)| wrong(&format!("{place}.{}", option.names().own), why))?;
        }
        Ok(())
    }

    fn check_parents(&self, links: &BTreeMap<&LinkName, &Link>) -> Result<(), Malformed> {
        let controllers = self.controllers();
        for (place, link) in self.placed() {
            let Some(parent) = link.kind.parent() else { continue };
            let place = format!("{place}.parent");
            let Some(found) = links.get(parent) else {
                return Err(wrong(&place, format!("there is no link {parent}")));
            };
            if link.up && !found.up {
                return Err(wrong(&place, format!("{parent} is down, {} is not", link.name)));
            }
            if let Some(controller) = controllers.get(parent)
                && matches!(controller.kind, Kind::Bond(_) | Kind::OvsBond { .. })
            {
                let why = format!("{parent} is a member of the bond {}", controller.name);
                return Err(wrong(&place, why));
            }
        }
        Ok(())
    }

    /// A link lies above its parent, and a controller above its members.
    fn check_cycles(&self, links: &BTreeMap<&LinkName, &Link>) -> Result<(), Malformed> {
        let mut done = BTreeSet::new();
        for (place, link) in self.placed() {
            let mut path = vec![&link.name];
            let mut ways: Vec<Vec<&LinkName>> = vec![below(link)];
            while let Some(way) = ways.last_mut() {
                let Some(next) = way.pop() else {
                    ways.pop();
                    done.extend(path.pop());
                    continue;
                };
                if path.contains(&next) {
                    let names: Vec<&str> = path.iter().map(|name| name.as_str()).collect();
                    let why = format!("{} → {next} is a cycle", names.join(" → "));
                    return Err(wrong(&place, why));
                }
                if !done.contains(next)
                    && let Some(found) = links.get(next)
                {
                    path.push(next);
                    ways.push(below(found));
                }
            }
        }
        Ok(())
    }

    /// One VLAN on two cards without a bond gives the host two ways into one network, of which answers
    /// take either.
    fn check_vlans(&self) -> Result<(), Malformed> {
        let (mut seen, mut on_cards) = (BTreeMap::new(), BTreeMap::new());
        for (place, link) in self.placed() {
            let Kind::Vlan { id, parent } = &link.kind else { continue };
            let place = format!("{place}.vlan");
            if let Some(other) = seen.insert((parent, id), &link.name) {
                return Err(wrong(&place, format!("{parent} has VLAN {id} already, as {other}")));
            }
            let is_card =
                matches!(self.link(parent), Some(Link { kind: Kind::Ethernet { .. }, .. }));
            if let Some(other) = is_card.then(|| on_cards.insert(id, parent)).flatten() {
                let why = format!("VLAN {id} is on {other} already; two cards share it as a bond");
                return Err(wrong(&place, why));
            }
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), Malformed> {
        let mut seen: BTreeMap<IpAddr, &LinkName> = BTreeMap::new();
        for (place, link) in self.placed() {
            for (at, address) in link.addresses.iter().enumerate() {
                if let Some(other) = seen.insert(address.ip(), &link.name) {
                    let why = format!("{other} has {} already", address.ip());
                    return Err(wrong(&format!("{place}.addresses[{at}]"), why));
                }
            }
        }
        Ok(())
    }

    fn check_rules(&self) -> Result<(), Malformed> {
        let mut seen = BTreeSet::new();
        for (at, rule) in self.rules.iter().enumerate() {
            if !seen.insert(rule) {
                return Err(wrong(&format!("rules[{at}]"), format!("`{rule}` is there twice")));
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), Malformed> {
        let mut seen = BTreeSet::new();
        for (place, link) in self.placed() {
            for (at, route) in link.routes.iter().enumerate() {
                let place = format!("{place}.routes[{at}]");
                check_route(&place, route, link)?;
                let full = route.canonical();
                if !seen.insert((full.to, full.metric, full.table)) {
                    let why = format!("there is another route to {} of that metric", route.to);
                    return Err(wrong(&place, why));
                }
            }
        }
        Ok(())
    }
}

fn check_route(place: &str, route: &Route, link: &Link) -> Result<(), Malformed> {
    if !link.up {
        return Err(wrong(place, format!("{} is down; no route leads through it", link.name)));
    }
    let Some(via) = route.via else { return Ok(()) };
    let place = format!("{place}.via");
    if via.is_ipv4() != route.to.addr().is_ipv4() {
        return Err(wrong(&place, format!("{via} is of another family than {}", route.to)));
    }
    let has_dhcp = if via.is_ipv4() { link.dhcp4 } else { link.dhcp6 };
    let is_link_local = matches!(via, IpAddr::V6(six) if six.is_unicast_link_local());
    let is_near = link.addresses.iter().any(|address| address.net().contains(&via));
    if let Some(own) = link.addresses.iter().find(|address| address.ip() == via) {
        return Err(wrong(&place, format!("{own} is the address of {} itself", link.name)));
    }
    if !(route.on_link || has_dhcp || is_link_local || is_near) {
        let why =
            format!("{via} is in no prefix of {}; `on_link: true` says it is near", link.name);
        return Err(wrong(&place, why));
    }
    Ok(())
}

/// The links that lie below one.
pub fn below(link: &Link) -> Vec<&LinkName> {
    link.kind.members().iter().chain(link.kind.parent()).collect()
}
