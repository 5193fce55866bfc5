//! Core: the first half of a plan: what goes, from above to below.

use super::Differences;
use crate::model::link::{Kind, Link};
use crate::model::order::upwards;
use crate::plan::step::Step;

impl Differences<'_> {
    /// Removes rules, routes, addresses and memberships, then links.
    pub(in crate::plan) fn take_down(&self, steps: &mut Vec<Step>) {
        for (at, rule) in self.actual.rules.iter().enumerate() {
            if !self.rules_kept.contains(&at) {
                steps.push(Step::RemoveRule(rule.clone()));
            }
        }
        let wanted = upwards(self.target);
        let downwards: Vec<&Link> = upwards(self.actual).into_iter().rev().collect();
        for link in downwards.iter().filter(|link| self.gone.contains(&link.name)) {
            remove_all(link, steps);
        }
        for link in wanted.iter().rev() {
            self.remove_from(link, steps);
        }
        for link in &downwards {
            for member in link.kind.members() {
                if self.leaves(member, link) {
                    let controller = link.name.clone();
                    steps.push(Step::Detach { member: member.clone(), controller });
                }
            }
        }
        for link in downwards.iter().filter(|link| self.gone.contains(&link.name)) {
            steps.push(Step::Delete(Box::new(bare(link))));
        }
    }

    /// Removes from a link that stays what is not wanted there.
    fn remove_from(&self, link: &Link, steps: &mut Vec<Step>) {
        let Some(found) = self.kept.get(&link.name) else { return };
        let Some(wanted) = self.target.link(&link.name) else { return };
        let on = self.on(wanted);
        for route in found.routes.iter().filter(|route| !on.keeps(route)) {
            steps.push(Step::RemoveRoute { link: found.name.clone(), route: route.clone() });
        }
        for address in found.addresses.iter().filter(|address| !on.stays(**address)) {
            steps.push(Step::RemoveAddress { link: found.name.clone(), address: *address });
        }
        if self.goes_down(link, found) {
            steps.push(Step::SetUp { link: found.name.clone(), up: false });
        }
    }
}

fn remove_all(link: &Link, steps: &mut Vec<Step>) {
    for route in &link.routes {
        steps.push(Step::RemoveRoute { link: link.name.clone(), route: route.clone() });
    }
    for address in &link.addresses {
        steps.push(Step::RemoveAddress { link: link.name.clone(), address: *address });
    }
    if let Kind::Bond(bond) = &link.kind
        && bond.primary.is_some()
    {
        let (link, from) = (link.name.clone(), bond.primary.clone());
        steps.push(Step::SetPrimary { link, from, to: None });
    }
    if link.up {
        steps.push(Step::SetUp { link: link.name.clone(), up: false });
    }
}

/// A link as it is made: down, without members, with nothing on it.
pub(super) fn bare(link: &Link) -> Link {
    let mut kind = link.kind.clone();
    if let Some(members) = kind.members_mut() {
        members.clear();
    }
    if let Kind::Bond(bond) = &mut kind {
        // It names a member, which there is not yet.
        bond.primary = None;
    }
    let mut made = Link::new(link.name.clone(), kind);
    (made.mac, made.mtu, made.up) = (link.mac, link.mtu, false);
    made
}
