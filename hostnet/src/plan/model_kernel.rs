//! A kernel for tests: it refuses what Linux refuses, and what Linux would do behind our back.

use std::collections::{BTreeMap, BTreeSet};

use model::MacAddress;

use super::step::Step;
use crate::model::HostNetwork;
use crate::model::address::{Address, Route};
use crate::model::link::{Kind, Link, LinkName, Tuning};

/// The MTU of a device for which nobody asked for another.
const MTU: u32 = 1500;

/// The state of the host, and the address and MTU that each member of a bond had of its own.
#[derive(Debug, Clone)]
pub(super) struct ModelKernel(
    pub(super) HostNetwork,
    BTreeMap<LinkName, (Option<MacAddress>, Option<u32>)>,
);

impl ModelKernel {
    /// A host with cards, down.
    pub(super) fn with_cards(count: u8) -> Self {
        let mut network = HostNetwork::default();
        for number in 0..count {
            let mac = MacAddress::new([0x52, 0x54, 0, 0, 0, number]);
            let kind = Kind::Ethernet { permanent_mac: Some(mac) };
            let mut card = Link::new(LinkName::new(&format!("e{number}")).unwrap(), kind);
            (card.mac, card.mtu, card.up) = (Some(mac), Some(MTU), false);
            network.links.push(card);
        }
        Self(network, BTreeMap::new())
    }

    pub(super) fn apply(&mut self, steps: &[Step]) {
        for (at, step) in steps.iter().enumerate() {
            if let Err(why) = self.step(step) {
                let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
                panic!("step {at}, {step}: {why}\n{}\n{:#?}", steps.join("\n"), self.0);
            }
        }
    }

    /// All of it in an order that depends on nothing.
    pub(super) fn sorted(&self) -> HostNetwork {
        let mut network = self.0.clone();
        for link in &mut network.links {
            link.addresses.sort();
            link.routes = link.routes.iter().map(Route::canonical).collect();
            link.routes.sort();
            if let Some(members) = link.kind.members_mut() {
                members.sort();
            }
        }
        network.links.sort_by(|a, b| a.name.cmp(&b.name));
        network.rules.sort();
        network
    }

    fn link(&mut self, name: &LinkName) -> Result<&mut Link, String> {
        let found = self.0.links.iter_mut().find(|link| link.name == *name);
        found.ok_or_else(|| format!("no such device {name}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Create(link) => self.create(link),
            Step::Delete(link) => self.delete(link),
            Step::SetUp { link, up } => self.set_up(link, *up),
            Step::SetMac { link, from, to } => {
                swap_known(&mut self.link(link)?.mac, *from, *to)?;
                self.lead_members(link)
            }
            Step::SetMtu { link, from, to } => {
                swap_known(&mut self.link(link)?.mtu, *from, *to)?;
                self.lead_members(link)
            }
            Step::SetStp { link, on } => {
                let Kind::Bridge { stp, .. } = &mut self.link(link)?.kind else {
                    return Err("it has no STP".into());
                };
                // A bridge that was made without a word of it has none.
                *stp = Some(stp.unwrap_or(false));
                swap(stp, Some(!on), Some(*on))
            }
            Step::SetPrimary { link, from, to } => {
                let Kind::Bond(bond) = &mut self.link(link)?.kind else {
                    return Err("it is no bond".into());
                };
                if to.as_ref().is_some_and(|to| !bond.members.contains(to)) {
                    return Err("it has no such member".into());
                }
                swap(&mut bond.primary, from.clone(), to.clone())
            }
            Step::Attach { member, controller } => self.attach(member, controller),
            Step::Detach { member, controller } => {
                let kind = &mut self.link(controller)?.kind;
                remove(kind.members_mut().ok_or("no controller")?, member)?;
                if let Kind::Bond(bond) = kind {
                    bond.primary = bond.primary.take().filter(|primary| primary != member);
                }
                if let Some((mac, mtu)) = self.1.remove(member) {
                    let link = self.link(member)?;
                    (link.mac, link.mtu) = (mac, mtu);
                }
                Ok(())
            }
            Step::AddAddress { link, address } => {
                let addresses = &mut self.link(link)?.addresses;
                let is_six = address.ip().is_ipv6();
                if is_six && addresses.iter().any(|one| one.ip() == address.ip()) {
                    return Err("IPv6 address exists".into());
                }
                add(addresses, address)
            }
            Step::RemoveAddress { link, address } => self.remove_address(link, *address),
            Step::AddRoute { link, route } => {
                let link = self.link(link)?;
                if !link.up {
                    return Err("the network is down".into());
                }
                let near = |via| link.addresses.iter().any(|one| one.net().contains(&via));
                if route.via.is_some_and(|via| !route.on_link && !near(via)) {
                    return Err("the next hop has an invalid gateway".into());
                }
                add(&mut link.routes, &route.canonical())
            }
            Step::RemoveRoute { link, route } => {
                remove(&mut self.link(link)?.routes, &route.canonical())
            }
            Step::AddRule(rule) => {
                // The kernel allows it twice; a plan does not need it.
                add(&mut self.0.rules, rule)
            }
            Step::RemoveRule(rule) => remove(&mut self.0.rules, rule),
        }
    }

    fn create(&mut self, link: &Link) -> Result<(), String> {
        if self.link(&link.name).is_ok() {
            return Err("file exists".into());
        }
        if let Some(parent) = link.kind.parent() {
            self.link(parent)?;
        }
        if link.up || !link.kind.members().is_empty() || !link.addresses.is_empty() {
            return Err("nothing is made with something on it".into());
        }
        let mut link = link.clone();
        link.mac = link.mac.or(Some(MacAddress::new([2, 0, 0, 0, 0, 9])));
        link.mtu = link.mtu.or(Some(MTU));
        if let Kind::Bond(bond) = &mut link.kind {
            // A bond tells of a zero where nothing was asked for.
            let Tuning { updelay_ms, downdelay_ms, arp_interval_ms, min_links, .. } =
                &mut bond.tuning;
            let numbers = [updelay_ms, downdelay_ms, arp_interval_ms, min_links];
            for number in numbers.into_iter().chain([&mut bond.miimon_ms]) {
                *number = number.or(Some(0));
            }
        }
        self.0.links.push(link);
        Ok(())
    }

    fn delete(&mut self, link: &Link) -> Result<(), String> {
        let found = self.link(&link.name)?.clone();
        if found.kind.word() != link.kind.word()
            || found.up
            || found.kind.parent() != link.kind.parent()
        {
            return Err(format!("it is {found:?}"));
        }
        if !(found.kind.members().is_empty()
            && found.addresses.is_empty()
            && found.routes.is_empty())
        {
            return Err("it would take something along".into());
        }
        let parents: BTreeSet<_> =
            self.0.links.iter().filter_map(|one| one.kind.parent()).collect();
        if parents.contains(&link.name) || self.0.controllers().contains_key(&link.name) {
            return Err("others depend on it".into());
        }
        self.0.links.retain(|one| one.name != link.name);
        Ok(())
    }

    fn set_up(&mut self, name: &LinkName, up: bool) -> Result<(), String> {
        let parent = self.link(name)?.kind.parent().cloned();
        if let Some(parent) = parent
            && up
            && !self.link(&parent)?.up
        {
            return Err("the link below is down".into());
        }
        let link = self.link(name)?;
        let forgets = link.addresses.iter().any(|address| address.ip().is_ipv6());
        if !up && (forgets || !link.routes.is_empty()) {
            return Err("routes and IPv6 addresses would be lost".into());
        }
        swap(&mut link.up, !up, up)
    }

    fn attach(&mut self, member: &LinkName, controller: &LinkName) -> Result<(), String> {
        if self.0.controllers().contains_key(member) {
            return Err("it is a member already".into());
        }
        let joining = self.link(member)?.clone();
        let is_bond = matches!(self.link(controller)?.kind, Kind::Bond(_));
        if joining.up && is_bond {
            return Err("a bond takes no member that is up".into());
        }
        if is_bond {
            self.1.insert(member.clone(), (joining.mac, joining.mtu));
        }
        let kind = &mut self.link(controller)?.kind;
        kind.members_mut().ok_or("no controller")?.push(member.clone());
        self.lead_members(controller)
    }

    /// A bond gives its members its own address and MTU.
    fn lead_members(&mut self, name: &LinkName) -> Result<(), String> {
        let bond = self.link(name)?.clone();
        if let Kind::Bond(_) = bond.kind {
            for member in bond.kind.members() {
                let member = self.link(member)?;
                (member.mac, member.mtu) = (bond.mac, bond.mtu);
            }
        }
        Ok(())
    }

    fn remove_address(&mut self, name: &LinkName, address: Address) -> Result<(), String> {
        let link = self.link(name)?;
        remove(&mut link.addresses, &address)?;
        let has = link.addresses.iter().any(|one| one.ip().is_ipv4());
        let routes = link.routes.iter().any(|route| route.to.addr().is_ipv4());
        if address.ip().is_ipv4() && !has && routes {
            return Err("routes would be lost with the last address".into());
        }
        Ok(())
    }
}

/// As [`swap`], where the earlier value may not be known.
fn swap_known<T: PartialEq + Copy + std::fmt::Debug>(
    place: &mut Option<T>,
    from: Option<T>,
    to: Option<T>,
) -> Result<(), String> {
    if from.is_none() {
        *place = to;
        return Ok(());
    }
    swap(place, from, to)
}

fn swap<T: PartialEq + std::fmt::Debug>(place: &mut T, from: T, to: T) -> Result<(), String> {
    if *place != from || from == to {
        return Err(format!("it is {place:?}"));
    }
    *place = to;
    Ok(())
}

fn add<T: PartialEq + Clone>(list: &mut Vec<T>, one: &T) -> Result<(), String> {
    if list.contains(one) {
        return Err("file exists".into());
    }
    list.push(one.clone());
    Ok(())
}

fn remove<T: PartialEq>(list: &mut Vec<T>, one: &T) -> Result<(), String> {
    let at = list.iter().position(|has| has == one).ok_or("no such thing")?;
    list.remove(at);
    Ok(())
}
