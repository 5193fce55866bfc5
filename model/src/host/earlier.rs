//! Core: what lasts of an earlier configuration when another one takes its place.

use std::collections::BTreeSet;

use super::HostNetwork;
use super::address::Route;
use super::link::{Bond, Kind, Link, LinkName};

impl HostNetwork {
    /// This configuration in the place of `earlier`. It also removes the virtual links that only the
    /// earlier one names. Settings that this one leaves open keep their earlier values, as in the
    /// kernel.
    pub fn replacing(mut self, earlier: &Self) -> Self {
        for link in &earlier.links {
            let is_named = self.link(&link.name).is_some() || self.absent.contains(&link.name);
            if !is_card(link) && !is_named {
                self.absent.push(link.name.clone());
            }
        }
        let bonds = self.links.iter().filter(|link| matches!(link.kind, Kind::Bond(_)));
        let bonded: BTreeSet<LinkName> =
            bonds.flat_map(|bond| bond.kind.members()).cloned().collect();
        for link in &mut self.links {
            if let Some(before) = earlier.link(&link.name) {
                keep(link, before, bonded.contains(&link.name));
            }
        }
        self
    }

    /// The configuration that lasts once this one is carried out on a host that is as `actual`. It also
    /// has the cards of the earlier one that this one does not name. Absent links are not in it: a link
    /// of that name that somebody makes later stays.
    pub fn carried_out(mut self, earlier: &Self, actual: &Self) -> Self {
        let here = |link: &Link| on_host(link, actual);
        let names = self.links.iter().flat_map(|link| [link.name.clone(), here(link)]);
        let named: BTreeSet<_> = names.chain(self.absent.iter().cloned()).collect();
        let lasts = |link: &&Link| {
            is_card(link) && !named.contains(&link.name) && !named.contains(&here(link))
        };
        let others: Vec<_> = earlier.links.iter().filter(lasts).cloned().collect();
        self.links.extend(others);
        self.absent.clear();
        self
    }

    /// Whether it means the same, whatever the order of its lists.
    pub fn means(&self, other: &Self) -> bool {
        sorted(self) == sorted(other)
    }
}

fn is_card(link: &Link) -> bool {
    matches!(link.kind, Kind::Ethernet { .. })
}

fn on_host(link: &Link, actual: &HostNetwork) -> LinkName {
    let is_it = |one: &&Link| is_card(one) && one.kind == link.kind;
    let by_mac = matches!(link.kind, Kind::Ethernet { permanent_mac: Some(_) });
    let found = actual.links.iter().find(is_it).filter(|_| by_mac);
    found.unwrap_or(link).name.clone()
}

/// A link keeps the settings that the new configuration leaves open.
fn keep(link: &mut Link, before: &Link, is_bonded: bool) {
    if link.kind.word() != before.kind.word() {
        return;
    }
    // A bond gives its members its own ones.
    if !is_bonded {
        link.mtu = link.mtu.or(before.mtu);
        link.mac = link.mac.or(before.mac);
    }
    if let (Kind::Bridge { stp, .. }, Kind::Bridge { stp: before, .. }) =
        (&mut link.kind, &before.kind)
    {
        *stp = stp.or(*before);
    }
    if let (Kind::Bond(bond), Kind::Bond(before)) = (&mut link.kind, &before.kind)
        && bond.mode == before.mode
    {
        keep_of_bond(bond, before);
    }
}

fn keep_of_bond(bond: &mut Bond, before: &Bond) {
    let is_watched = bond.miimon_ms.is_some() || bond.tuning.arp_interval_ms.is_some();
    bond.tuning.keep(&before.tuning, is_watched);
    if !is_watched {
        bond.miimon_ms = before.miimon_ms;
    }
    bond.lacp_rate = bond.lacp_rate.or(before.lacp_rate);
    bond.xmit_hash_policy = bond.xmit_hash_policy.or(before.xmit_hash_policy);
    let primary = before.primary.clone().filter(|name| bond.members.contains(name));
    bond.primary = bond.primary.take().or(primary);
}

fn sorted(network: &HostNetwork) -> HostNetwork {
    let mut network = network.clone();
    for link in &mut network.links {
        link.addresses.sort();
        link.routes = link.routes.iter().map(Route::canonical).collect();
        link.routes.sort();
        link.kind.members_mut().into_iter().for_each(|members| members.sort());
    }
    network.links.sort_by(|one, other| one.name.cmp(&other.name));
    network.rules.sort();
    network.absent.sort();
    network
}
