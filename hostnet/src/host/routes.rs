//! Core: what a change does to routes that others added: daemons of routing, clients of DHCP, people.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::kernel::{Reading, SavedRoute};
use crate::model::HostNetwork;
use crate::model::check::below;
use crate::model::link::{Link, LinkName};
use crate::model::order::upwards;
use crate::plan::Plan;
use crate::plan::step::Step;

/// The routes through the links that a change to `target` may touch.
pub(super) fn touched(reading: &Reading, target: &HostNetwork) -> Vec<SavedRoute> {
    let links = touched_links(&reading.network, target);
    reading.routes().into_iter().filter(|route| route.touches(&links)).collect()
}

/// The links that a change may touch, and those above them, which go down with them.
fn touched_links<'n>(actual: &'n HostNetwork, target: &'n HostNetwork) -> BTreeSet<&'n LinkName> {
    let named = target.links.iter().map(|link| &link.name);
    let mut touched: BTreeSet<_> = named.chain(&target.absent).collect();
    for link in upwards(actual) {
        if below(link).iter().any(|name| touched.contains(name)) {
            touched.insert(&link.name);
        }
    }
    touched
}

/// Whether the configuration says itself which routes of that sort there are.
pub(super) fn is_replaced(route: &SavedRoute, target: &HostNetwork) -> bool {
    let Some((link, _)) = route.as_static() else { return false };
    target.link(link).is_some_and(|link| !has_dhcp(link, route))
}

fn has_dhcp(link: &Link, route: &SavedRoute) -> bool {
    if route.is_ipv4() { link.dhcp4 } else { link.dhcp6 }
}

/// Routes of others that the kernel forgets, and that cannot come back.
pub(super) fn lost(routes: &[SavedRoute], actual: &HostNetwork, plan: &Plan) -> Vec<String> {
    let others: Vec<_> = routes.iter().filter(|one| !is_replaced(one, &plan.target)).collect();
    let after = After { actual, target: &plan.target, others: &others };
    let goes = |route: &&&SavedRoute| is_forgotten(route, actual, plan) && !after.can_have(route);
    others.iter().filter(goes).map(ToString::to_string).collect()
}

/// Whether a step takes it away.
fn is_forgotten(route: &SavedRoute, actual: &HostNetwork, plan: &Plan) -> bool {
    route.next_hops().iter().any(|hop| {
        let link = actual.link(hop.link);
        let below = link.map(below).unwrap_or_default();
        let goes_down = plan.steps.iter().any(|step| {
            let is_down = |link| link == hop.link || below.contains(&link);
            matches!(step, Step::Delete(link) if link.name == *hop.link)
                || matches!(step, Step::SetUp { link, up: false } if is_down(link))
        });
        let removed: Vec<_> =
            plan.steps.iter().filter_map(|step| removed(step, hop.link)).collect();
        // With the last address of IPv4 go its routes.
        let has = link.map(|link| link.addresses.iter().filter(|one| one.ip().is_ipv4()).count());
        let loses = removed.iter().filter(|ip| ip.is_ipv4()).count();
        let is_bare = route.is_ipv4() && loses > 0 && has == Some(loses);
        goes_down || is_bare || route.source().is_some_and(|source| removed.contains(&source))
    })
}

/// The address that a step removes from a link.
fn removed(step: &Step, from: &LinkName) -> Option<IpAddr> {
    let Step::RemoveAddress { link, address } = step else { return None };
    Some(address.ip()).filter(|_| link == from)
}

/// A host behind its change.
struct After<'n> {
    actual: &'n HostNetwork,
    target: &'n HostNetwork,
    others: &'n [&'n SavedRoute],
}

impl After<'_> {
    fn link(&self, name: &LinkName) -> Option<&Link> {
        let left = || self.actual.link(name).filter(|_| !self.target.absent.contains(name));
        self.target.link(name).or_else(left)
    }

    fn can_have(&self, route: &SavedRoute) -> bool {
        let holds = |ip: IpAddr| {
            let links = self.actual.links.iter().chain(&self.target.links);
            let names: BTreeSet<_> = links.map(|link| &link.name).collect();
            let links = names.into_iter().filter_map(|name| self.link(name));
            links.flat_map(|link| &link.addresses).any(|own| own.ip() == ip)
        };
        route.source().is_none_or(holds)
            && route.next_hops().iter().all(|hop| {
                let Some(link) = self.link(hop.link).filter(|link| link.up) else { return false };
                hop.on_link
                    || has_dhcp(link, route)
                    || hop.via.is_none_or(|via| self.is_near(link, via))
            })
    }

    fn is_near(&self, link: &Link, via: IpAddr) -> bool {
        let is_own = matches!(via, IpAddr::V6(six) if six.is_unicast_link_local());
        let by_route = |other: &&SavedRoute| {
            let hops = other.next_hops();
            other.leads_to(via)
                && hops.iter().all(|hop| hop.via.is_none() && *hop.link == link.name)
        };
        is_own
            || link.addresses.iter().any(|own| own.net().contains(&via))
            || link.routes.iter().any(|route| route.via.is_none() && route.to.contains(&via))
            || self.others.iter().copied().any(|other| by_route(&other))
    }
}
