//! Core: finds the cards of a configuration on a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::json::Malformed;

use crate::model::HostNetwork;
use crate::model::link::{Bond, Kind, LinkName};
use crate::model::written::wrong;

/// The configuration with the names that the kernel has for its cards.
pub(super) fn resolve(
    actual: &HostNetwork,
    desired: &HostNetwork,
) -> Result<HostNetwork, Malformed> {
    let mut cards = BTreeMap::new();
    for link in &actual.links {
        if let Kind::Ethernet { permanent_mac: Some(mac) } = link.kind {
            cards.insert(mac, &link.name);
        }
    }
    let present: BTreeMap<_, _> =
        actual.links.iter().map(|link| (&link.name, &link.kind)).collect();
    let mut names: BTreeMap<LinkName, LinkName> = BTreeMap::new();
    for (at, link) in desired.links.iter().enumerate() {
        let place = |field: &str| format!("links[{at}].{field}");
        for (i, address) in link.addresses.iter().enumerate() {
            if matches!(address.ip(), IpAddr::V6(six) if six.is_unicast_link_local()) {
                let why = format!("an agent leaves {address} and its like to the kernel");
                return Err(wrong(&place(&format!("addresses[{i}]")), why));
            }
        }
        match (&link.kind, present.get(&link.name)) {
            (Kind::Ethernet { permanent_mac: Some(mac) }, _) => {
                let Some(name) = cards.get(mac) else {
                    let why = format!("no card of this host has the permanent address {mac}");
                    return Err(wrong(&place("permanent_mac"), why));
                };
                names.insert(link.name.clone(), (*name).clone());
            }
            (Kind::Ethernet { permanent_mac: None }, None) => {
                let has: Vec<&str> = cards.values().map(|name| name.as_str()).collect();
                let hint = match link.name.is_numbered_card() {
                    true => format!(
                        "; that is os-net-config's word for an active card: name one of {}",
                        has.join(", ")
                    ),
                    false => String::new(),
                };
                let why = format!("this host has no interface {}{hint}", link.name);
                return Err(wrong(&place("name"), why));
            }
            (Kind::OvsBridge { .. } | Kind::OvsBond { .. }, _) => {
                let why = "an agent does not configure Open vSwitch; render files for its programs";
                return Err(wrong(&place("kind"), why));
            }
            (Kind::Ethernet { .. }, Some(_))
            | (
                Kind::Bond(_)
                | Kind::Vlan { .. }
                | Kind::Bridge { .. }
                | Kind::Macvlan { .. }
                | Kind::Vxlan(_)
                | Kind::Dummy,
                _,
            ) => {}
        }
    }
    let target = renamed(desired, &names);
    // A card may have the name that a virtual link should get.
    target.check().map_err(|error| {
        let why = format!("{} (with the names that cards have on this host)", error.why);
        Malformed { place: error.place, why }
    })?;
    refuse_foreign_members(actual, &target)?;
    refuse_own_addresses(&target)?;
    Ok(target)
}

/// The kernel gives members of a bond the address of the bond.
fn refuse_own_addresses(target: &HostNetwork) -> Result<(), Malformed> {
    let controllers = target.controllers();
    for (at, link) in target.links.iter().enumerate() {
        let Some(controller) = controllers.get(&link.name) else { continue };
        if !matches!(controller.kind, Kind::Bond(_)) {
            continue;
        }
        if link.mac.is_some() && link.mac != controller.mac {
            let (name, bond) = (&link.name, &controller.name);
            let why = format!("{name} is a member of {bond}, which gives it its own; say it there");
            return Err(wrong(&format!("links[{at}].mac"), why));
        }
    }
    Ok(())
}

/// A link that leaves a bridge or bond could not return there if that is not named too.
fn refuse_foreign_members(actual: &HostNetwork, target: &HostNetwork) -> Result<(), Malformed> {
    let controllers = actual.controllers();
    for (at, link) in target.links.iter().enumerate() {
        if let Some(controller) = controllers.get(&link.name)
            && target.link(&controller.name).is_none()
            && !target.absent.contains(&controller.name)
        {
            let (name, controller) = (&link.name, &controller.name);
            let why = format!(
                "{name} is a member of {controller}, which the configuration does not name"
            );
            return Err(wrong(&format!("links[{at}].name"), why));
        }
    }
    Ok(())
}

fn renamed(network: &HostNetwork, names: &BTreeMap<LinkName, LinkName>) -> HostNetwork {
    let mut network = network.clone();
    let rename = |name: &mut LinkName| {
        if let Some(new) = names.get(name) {
            *name = new.clone();
        }
    };
    for link in &mut network.links {
        rename(&mut link.name);
        link.kind.members_mut().into_iter().flatten().for_each(rename);
        link.kind.parent_mut().into_iter().for_each(rename);
        if let Kind::Bond(Bond { primary: Some(primary), .. }) = &mut link.kind {
            rename(primary);
        }
    }
    network
}
