//! Core: what of each link differs, and the steps that follow from it.

mod build;
mod device;
mod take_down;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::json::Malformed;

use crate::model::HostNetwork;
use crate::model::address::{Address, Route};
use crate::model::link::{Kind, Link, LinkName};
use crate::model::order::upwards;
use crate::model::written::wrong;

/// A host as it is and as it should be.
pub(super) struct Differences<'n> {
    actual: &'n HostNetwork,
    target: &'n HostNetwork,
    /// The links that both have, and that are left in place: by name, as they are.
    kept: BTreeMap<&'n LinkName, &'n Link>,
    /// The links that are removed. Some are made again.
    gone: BTreeSet<&'n LinkName>,
    /// The links that the configuration speaks of.
    named: BTreeSet<&'n LinkName>,
    /// The bridge or bond of each link.
    was_in: BTreeMap<&'n LinkName, &'n Link>,
    will_be_in: BTreeMap<&'n LinkName, &'n Link>,
    /// Rules that are there already.
    rules_kept: BTreeSet<usize>,
    rules_met: BTreeSet<usize>,
}

/// A link that stays, with the addresses and routes that it keeps.
struct OnLink<'n> {
    addresses_kept: BTreeSet<Address>,
    routes_kept: BTreeSet<Route>,
    link: &'n Link,
}

impl<'n> Differences<'n> {
    pub(super) fn between(
        actual: &'n HostNetwork,
        target: &'n HostNetwork,
    ) -> Result<Self, Malformed> {
        let present: BTreeMap<_, _> = actual.links.iter().map(|link| (&link.name, link)).collect();
        let mut gone = BTreeSet::new();
        for (at, link) in target.links.iter().enumerate() {
            if let Some(found) = present.get(&link.name)
                && !device::can_stay(&format!("links[{at}].kind"), found, link)?
            {
                gone.insert(&link.name);
            }
        }
        for (at, name) in target.absent.iter().enumerate() {
            match present.get(name) {
                Some(Link { kind: Kind::Ethernet { .. }, .. }) => {
                    let why = format!("{name} is no virtual link; it cannot be removed");
                    return Err(wrong(&format!("absent[{at}]"), why));
                }
                Some(_) => drop(gone.insert(name)),
                None => {}
            }
        }
        let named = target.links.iter().map(|link| &link.name).chain(&target.absent).collect();
        take_along(actual, &named, &mut gone)?;
        let stays = |link: &&Link| !gone.contains(&link.name);
        let kept = target.links.iter().filter(stays);
        let kept =
            kept.filter_map(|link| present.get(&link.name).map(|found| (&link.name, *found)));
        let (rules_kept, rules_met) = matching_rules(actual, target);
        Ok(Self {
            kept: kept.collect(),
            was_in: actual.controllers(),
            will_be_in: target.controllers(),
            actual,
            target,
            gone,
            named,
            rules_kept,
            rules_met,
        })
    }

    /// Finds the addresses and routes that a link keeps.
    fn on(&self, link: &'n Link) -> OnLink<'n> {
        let mut on = OnLink { addresses_kept: BTreeSet::new(), routes_kept: BTreeSet::new(), link };
        let Some(found) = self.kept.get(&link.name) else { return on };
        let wanted: BTreeSet<_> = link.addresses.iter().copied().collect();
        let has: BTreeSet<_> = found.addresses.iter().copied().collect();
        on.addresses_kept = wanted.intersection(&has).copied().collect();
        let wanted: BTreeSet<_> = link.routes.iter().map(Route::canonical).collect();
        let has: BTreeSet<_> = found.routes.iter().map(Route::canonical).collect();
        on.routes_kept = wanted.intersection(&has).cloned().collect();
        if self.goes_down(link, found) {
            // The kernel then forgets routes, and addresses of IPv6.
            on.routes_kept.clear();
            on.addresses_kept.retain(|address| address.ip().is_ipv4());
        }
        let stays = |address: &Address| address.ip().is_ipv4() && on.stays(*address);
        let loses = |address: &Address| address.ip().is_ipv4() && !on.stays(*address);
        if found.addresses.iter().any(loses) && !found.addresses.iter().any(stays) {
            // With the last address of IPv4 go its routes.
            on.routes_kept.retain(|route| !route.to.addr().is_ipv4());
        }
        on
    }

    /// Whether a link that stays is down at some moment: a bond takes no member that is up,
    /// and leaves it down.
    fn goes_down(&self, link: &Link, found: &Link) -> bool {
        let joins = self.joins(link).is_some_and(|one| matches!(one.kind, Kind::Bond(_)));
        found.up && (!link.up || joins || self.leaves_bond(&link.name))
    }

    /// Whether a link is no member of its bond any more. The kernel then gives it the address and MTU
    /// that it had before it was one, and nobody can tell which.
    fn leaves_bond(&self, name: &LinkName) -> bool {
        let was = self.was_in.get(name).filter(|was| matches!(was.kind, Kind::Bond(_)));
        was.is_some_and(|was| self.leaves(name, was))
    }

    fn leaves(&self, member: &LinkName, controller: &Link) -> bool {
        let stays = self.will_be_in.get(member).is_some_and(|will| will.name == controller.name);
        let is_gone = self.gone.contains(&controller.name) || self.gone.contains(member);
        self.named.contains(member) && (is_gone || !stays)
    }

    /// The bridge or bond that a link becomes a member of.
    fn joins(&self, link: &Link) -> Option<&'n Link> {
        let controller = *self.will_be_in.get(&link.name)?;
        let stays = self.was_in.get(&link.name).is_some_and(|was| was.name == controller.name)
            && !self.gone.contains(&controller.name)
            && !self.gone.contains(&link.name);
        (!stays).then_some(controller)
    }

    fn upwards(&self) -> Vec<&'n Link> {
        upwards(self.target)
    }
}

impl OnLink<'_> {
    /// Whether an address that the link has stays there. A client of DHCP has its own ones, and the
    /// programs of the host speak to each other over `lo`.
    fn stays(&self, address: Address) -> bool {
        let has_dhcp = if address.ip().is_ipv4() { self.link.dhcp4 } else { self.link.dhcp6 };
        is_localhost(address.ip())
            || has_dhcp && !self.link.addresses.contains(&address)
            || self.addresses_kept.contains(&address)
    }

    fn keeps(&self, route: &Route) -> bool {
        let route = route.canonical();
        let has_dhcp = if route.to.addr().is_ipv4() { self.link.dhcp4 } else { self.link.dhcp6 };
        let is_wanted = || self.link.routes.iter().any(|one| one.canonical() == route);
        self.routes_kept.contains(&route) || has_dhcp && !is_wanted()
    }
}

fn is_localhost(ip: IpAddr) -> bool {
    ip == IpAddr::from(Ipv4Addr::LOCALHOST) || ip == IpAddr::from(Ipv6Addr::LOCALHOST)
}

/// The kernel removes the links that lie on a removed link. The configuration must name these links too.
fn take_along<'n>(
    actual: &'n HostNetwork,
    named: &BTreeSet<&'n LinkName>,
    gone: &mut BTreeSet<&'n LinkName>,
) -> Result<(), Malformed> {
    for link in upwards(actual) {
        let foreign = link.kind.members().iter().find(|member| !named.contains(member));
        if let Some(foreign) = foreign.filter(|_| gone.contains(&link.name)) {
            return Err(stands_on(foreign, &link.name));
        }
        let Some(parent) = link.kind.parent().filter(|parent| gone.contains(parent)) else {
            continue;
        };
        if !named.contains(&link.name) {
            return Err(stands_on(&link.name, parent));
        }
        gone.insert(&link.name);
    }
    Ok(())
}

fn stands_on(foreign: &LinkName, removed: &LinkName) -> Malformed {
    let why = format!(
        "{removed} cannot be removed or replaced: {foreign}, which the configuration does not \
         name, depends on it"
    );
    wrong("links", why)
}

/// Which rules of the host meet which wanted ones, each once.
fn matching_rules(
    actual: &HostNetwork,
    target: &HostNetwork,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut kept, mut met) = (BTreeSet::new(), BTreeSet::new());
    // A rule that leaves the priority open must not take the one that another rule names.
    let mut wanted: Vec<_> = target.rules.iter().enumerate().collect();
    wanted.sort_by_key(|(_, rule)| rule.priority.is_none());
    for (at, rule) in wanted {
        let mut candidates = actual.rules.iter().enumerate();
        let found = candidates.find(|(has, one)| rule.is_met_by(one) && !kept.contains(has));
        if let Some((has, _)) = found {
            kept.insert(has);
            met.insert(at);
        }
    }
    (kept, met)
}
