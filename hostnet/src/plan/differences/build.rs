//! Core: the second half of a plan: what comes, from below to above.

use super::Differences;
use super::take_down::bare;
use crate::model::link::{Kind, Link};
use crate::plan::step::Step;

impl Differences<'_> {
    /// Makes links, then memberships, addresses, routes and rules.
    pub(in crate::plan) fn build_up(&self, steps: &mut Vec<Step>) {
        let upwards = self.upwards();
        for link in &upwards {
            let is_card = matches!(link.kind, Kind::Ethernet { .. });
            if !is_card && !self.kept.contains_key(&link.name) {
                steps.push(Step::Create(Box::new(bare(link))));
            }
        }
        self.set(&upwards, steps);
        for link in &upwards {
            if let Some(controller) = self.joins(link) {
                let controller = controller.name.clone();
                steps.push(Step::Attach { member: link.name.clone(), controller });
            }
        }
        for link in &upwards {
            let Kind::Bond(bond) = &link.kind else { continue };
            let from = self.kept.get(&link.name).and_then(|found| {
                let Kind::Bond(was) = &found.kind else { return None };
                // A bond forgets a primary member that leaves it.
                was.primary.clone().filter(|primary| !self.leaves(primary, found))
            });
            if let Some(to) = bond.working_primary().filter(|to| Some(*to) != from.as_ref()) {
                let (link, to) = (link.name.clone(), Some(to.clone()));
                steps.push(Step::SetPrimary { link, from, to });
            }
        }
        for link in &upwards {
            let is_up = self
                .kept
                .get(&link.name)
                .is_some_and(|found| found.up && !self.goes_down(link, found));
            if link.up && !is_up && self.is_there(link) {
                steps.push(Step::SetUp { link: link.name.clone(), up: true });
            }
        }
        for link in upwards.iter().filter(|link| self.is_there(link)) {
            self.add_to(link, steps);
        }
        for (at, rule) in self.target.rules.iter().enumerate() {
            if !self.rules_met.contains(&at) {
                steps.push(Step::AddRule(rule.clone()));
            }
        }
    }

    /// A card that is missing cannot be made.
    fn is_there(&self, link: &Link) -> bool {
        self.kept.contains_key(&link.name) || !matches!(link.kind, Kind::Ethernet { .. })
    }

    /// Settings of links that stay. An upper link never has larger packets than the link below it.
    fn set(&self, upwards: &[&Link], steps: &mut Vec<Step>) {
        // A bond gives its members its own address and MTU, and later gives theirs back.
        let own = |link: &&&Link| {
            !matches!(self.will_be_in.get(&link.name), Some(Link { kind: Kind::Bond(_), .. }))
        };
        let kept = || {
            let own = upwards.iter().filter(own);
            own.filter_map(|link| self.kept.get(&link.name).map(|found| (*link, *found)))
        };
        for (link, found) in kept() {
            let from = found.mac.filter(|_| !self.leaves_bond(&link.name));
            if let Some(to) = link.mac.filter(|mac| Some(*mac) != from) {
                steps.push(Step::SetMac { link: link.name.clone(), from, to: Some(to) });
            }
            if let (Kind::Bridge { stp: Some(on), .. }, Kind::Bridge { stp, .. }) =
                (&link.kind, &found.kind)
                && stp.unwrap_or(false) != *on
            {
                steps.push(Step::SetStp { link: link.name.clone(), on: *on });
            }
        }
        let mtu = |(link, found): (&Link, &Link)| {
            let from = found.mtu.filter(|_| !self.leaves_bond(&link.name));
            let to = link.mtu.filter(|mtu| Some(*mtu) != from)?;
            Some(Step::SetMtu { link: link.name.clone(), from, to: Some(to) })
        };
        let grows = |(link, found): &(&Link, &Link)| link.mtu > found.mtu;
        let (larger, smaller): (Vec<_>, Vec<_>) = kept().partition(grows);
        steps.extend(smaller.into_iter().rev().filter_map(mtu));
        steps.extend(larger.into_iter().filter_map(mtu));
    }

    fn add_to(&self, link: &Link, steps: &mut Vec<Step>) {
        let Some(link) = self.target.link(&link.name) else { return };
        let on = self.on(link);
        for address in link.addresses.iter().filter(|one| !on.addresses_kept.contains(one)) {
            steps.push(Step::AddAddress { link: link.name.clone(), address: *address });
        }
        // Next hops may be on networks that other routes say are on the link.
        let (far, near): (Vec<_>, Vec<_>) =
            link.routes.iter().partition(|route| route.via.is_some());
        for route in near.into_iter().chain(far) {
            if !on.routes_kept.contains(&route.canonical()) {
                let route = route.clone();
                steps.push(Step::AddRoute { link: link.name.clone(), route });
            }
        }
    }
}
