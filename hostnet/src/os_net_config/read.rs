//! Core: from the objects of os-net-config to links.

mod options;
mod route;

use std::collections::BTreeMap;

use model::json::Malformed;

use super::entry::{Entry, Kind as EntryKind};
use crate::model::HostNetwork;
use crate::model::address::{Address, Rule};
use crate::model::link::{Kind, Link, LinkName};
use crate::model::written::{number, read_dns, wrong};

/// How deep objects lie in each other: a bridge, its bond, an interface.
const DEPTH_MAX: usize = 4;

/// The objects that were read so far.
#[derive(Default)]
struct Reading {
    links: Vec<Link>,
    rules: Vec<Rule>,
    /// Tables that have a name.
    tables: BTreeMap<String, i64>,
}

/// Reads one section.
pub(super) fn section(name: &str, entries: Vec<Entry>) -> Result<HostNetwork, Malformed> {
    let mut reading = Reading::default();
    for (at, entry) in entries.iter().enumerate() {
        if entry.kind == EntryKind::RouteTable {
            reading.table(&format!("{name}[{at}]"), entry)?;
        }
    }
    for (at, entry) in entries.into_iter().enumerate() {
        if entry.kind != EntryKind::RouteTable {
            reading.entry(&format!("{name}[{at}]"), entry, None, DEPTH_MAX)?;
        }
    }
    Ok(HostNetwork { links: reading.links, rules: reading.rules, absent: Vec::new() })
}

/// The members of an object.
struct Members {
    names: Vec<LinkName>,
    primary: Option<LinkName>,
}

impl Reading {
    fn table(&mut self, place: &str, entry: &Entry) -> Result<(), Malformed> {
        match (&entry.name, entry.table_id) {
            (Some(name), Some(id)) => {
                self.tables.insert(name.clone(), id);
                Ok(())
            }
            (None, _) | (_, None) => {
                Err(wrong(place, "a route_table has a `name` and a `table_id`"))
            }
        }
    }

    /// Reads an object and what lies in it. Returns its name.
    fn entry(
        &mut self,
        place: &str,
        mut entry: Entry,
        bridge: Option<&LinkName>,
        depth: usize,
    ) -> Result<LinkName, Malformed> {
        if depth == 0 {
            return Err(wrong(place, "the objects lie too deep in each other"));
        }
        let name = entry_name(place, &entry)?;
        // Links stand before what they are made of, as in the file.
        let slot = self.links.len();
        self.links.push(Link::new(name.clone(), Kind::Dummy));
        let members = self.members(place, &mut entry, &name, depth)?;
        let kind = kind(place, &mut entry, members, bridge)?;
        options::nothing_is_left(place, &entry)?;
        let link = self.link(place, entry, name.clone(), kind)?;
        if let Some(empty) = self.links.get_mut(slot) {
            *empty = link;
        }
        Ok(name)
    }

    fn members(
        &mut self,
        place: &str,
        entry: &mut Entry,
        name: &LinkName,
        depth: usize,
    ) -> Result<Members, Malformed> {
        let mut members = Members { names: Vec::new(), primary: None };
        let is_ovs = entry.kind == EntryKind::OvsBridge;
        for (at, member) in std::mem::take(&mut entry.members).into_iter().enumerate() {
            let place = format!("{place}.members[{at}]");
            let is_primary = member.primary;
            let mut member = member;
            if member.kind == EntryKind::OvsBond {
                // A bond of Open vSwitch is no interface: the bridge asks, where both should.
                member.use_dhcp &= !entry.use_dhcp;
                member.use_dhcpv6 &= !entry.use_dhcpv6;
            }
            // A VLAN in a bridge of Open vSwitch is a port of its own, with a tag.
            let is_tagged = is_ovs && member.kind == EntryKind::Vlan && member.device.is_none();
            let bridge = Some(name).filter(|_| is_tagged);
            // A VLAN that its own bridge carries can be no port of that bridge.
            let lies_above =
                member.kind == EntryKind::Vlan && member.device.as_deref() == Some(name.as_str());
            let member = self.entry(&place, member, bridge, depth - 1)?;
            if is_primary {
                members.primary = Some(member.clone());
            }
            if !is_tagged && !lies_above {
                members.names.push(member);
            }
        }
        Ok(members)
    }

    fn link(
        &mut self,
        place: &str,
        entry: Entry,
        name: LinkName,
        kind: Kind,
    ) -> Result<Link, Malformed> {
        if entry.use_dhcp && entry.defroute == Some(false) {
            let why = "`defroute: false` beside `use_dhcp: true` has no counterpart here";
            return Err(wrong(&format!("{place}.defroute"), why));
        }
        let mut link = Link::new(name, kind);
        let mtu = entry.mtu.map(|mtu| number(&format!("{place}.mtu"), mtu, 68..=65_535));
        link.mtu = mtu.transpose()?;
        (link.dhcp4, link.dhcp6) = (entry.use_dhcp, entry.use_dhcpv6);
        for (at, address) in entry.addresses.iter().enumerate() {
            let address = Address::new(&address.ip_netmask)
                .map_err(|why| wrong(&format!("{place}.addresses[{at}].ip_netmask"), why))?;
            link.addresses.push(address);
        }
        for (at, route) in entry.routes.into_iter().enumerate() {
            let place = format!("{place}.routes[{at}]");
            link.routes.push(route::route(&place, route, &self.tables)?);
        }
        for (at, rule) in entry.rules.iter().enumerate() {
            let place = format!("{place}.rules[{at}].rule");
            self.rules.push(route::rule(&place, &rule.rule, &self.tables)?);
        }
        link.dns = read_dns(
            (&format!("{place}.dns_servers"), &entry.dns_servers),
            (&format!("{place}.domain"), entry.domain.into_list()),
        )?;
        Ok(link)
    }
}

fn entry_name(place: &str, entry: &Entry) -> Result<LinkName, Malformed> {
    let place = format!("{place}.name");
    let made;
    let name = match (&entry.name, entry.vlan_id) {
        (Some(name), _) => name,
        // os-net-config makes the name of a VLAN itself.
        (None, Some(id)) if entry.kind == EntryKind::Vlan => {
            made = format!("vlan{id}");
            &made
        }
        (None, _) => return Err(wrong(&place, "is missing")),
    };
    LinkName::new(name).map_err(|why| wrong(&place, why))
}

fn kind(
    place: &str,
    entry: &mut Entry,
    members: Members,
    bridge: Option<&LinkName>,
) -> Result<Kind, Malformed> {
    let Members { names, primary } = members;
    Ok(match entry.kind {
        EntryKind::Interface => Kind::Ethernet { permanent_mac: None },
        EntryKind::Vlan => {
            let id = entry.vlan_id.take();
            let id = id.ok_or_else(|| wrong(&format!("{place}.vlan_id"), "is missing"))?;
            let parent = match (entry.device.take(), bridge) {
                (Some(device), _) => LinkName::new(&device),
                (None, Some(bridge)) => Ok(bridge.clone()),
                (None, None) => Err("a VLAN outside a bridge has the link that carries it".into()),
            };
            Kind::Vlan {
                id: number(&format!("{place}.vlan_id"), id, 1..=4094)?,
                parent: parent.map_err(|why| wrong(&format!("{place}.device"), why))?,
            }
        }
        EntryKind::LinuxBond => {
            let options = entry.bonding_options.take().unwrap_or_default();
            Kind::Bond(options::bond(place, &options, names, primary)?)
        }
        EntryKind::LinuxBridge => Kind::Bridge { members: names, stp: None },
        EntryKind::OvsBridge => Kind::OvsBridge { members: names, primary },
        EntryKind::OvsBond => {
            Kind::OvsBond { members: names, primary, options: entry.ovs_options.take() }
        }
        EntryKind::RouteTable => return Err(wrong(place, "a route_table stands at the top")),
    })
}
