//! Core: reads files of netplan, version 2 of its form, as far as our type can say the same.

mod device;
mod group;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::json::Malformed;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::HostNetwork;
use crate::model::address::{self, Address, ip, network};
use crate::model::link::{Link, LinkName};
use crate::model::written::{number, read_dns, read_mac, read_rule, whole_prefix, wrong};
use crate::render::DHCP_METRIC;
use crate::yaml;
use device::{Device, Overrides, Route};
use group::Group;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    network: Network,
}

/// A device without options may stand there without a value.
type Devices = BTreeMap<String, Option<Device>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Network {
    version: Option<i64>,
    /// The program that brings the network up; here it is always this agent.
    #[serde(rename = "renderer")]
    _renderer: Option<IgnoredAny>,
    #[serde(default)]
    ethernets: Devices,
    #[serde(default)]
    bonds: Devices,
    #[serde(default)]
    bridges: Devices,
    #[serde(default)]
    vlans: Devices,
    #[serde(default)]
    tunnels: Devices,
    #[serde(default)]
    dummy_devices: Devices,
}

/// The names that devices get, by those that the file has for them.
type Names = BTreeMap<String, LinkName>;

/// Reads such a file.
///
/// # Errors
/// What of it is wrong, or has no counterpart here, with its place.
pub(crate) fn read(text: &str) -> Result<HostNetwork, Malformed> {
    let Network { version, ethernets, bonds, bridges, vlans, tunnels, dummy_devices, .. } =
        yaml::read_foreign::<File>(text)?.network;
    if let Some(other) = version.filter(|version| *version != 2) {
        let why = format!("version {other} has no counterpart here; version 2 has");
        return Err(wrong("network.version", why));
    }
    let groups = [
        (Group::Ethernets, ethernets),
        (Group::Bonds, bonds),
        (Group::Bridges, bridges),
        (Group::Vlans, vlans),
        (Group::Tunnels, tunnels),
        (Group::DummyDevices, dummy_devices),
    ];
    let mut names = Names::new();
    for (group, devices) in &groups {
        for (id, device) in devices {
            let set = device.as_ref().and_then(|device| device.set_name.as_ref());
            let place = format!("network.{}.{id}", group.word());
            let name = LinkName::new(set.unwrap_or(id)).map_err(|why| wrong(&place, why))?;
            if names.insert(id.clone(), name).is_some() {
                return Err(wrong(&place, format!("{id} is there twice")));
            }
        }
    }
    if names.is_empty() {
        return Err(wrong("network", "it has no devices"));
    }
    let mut read = HostNetwork::default();
    for (group, devices) in groups {
        for (id, device) in devices {
            let place = format!("network.{}.{id}", group.word());
            let mut device = device.unwrap_or_default();
            let rules = std::mem::take(&mut device.routing_policy);
            read.links.push(link(&place, group, (&id, device), &names)?);
            for (at, rule) in rules.into_iter().enumerate() {
                let place = format!("{place}.routing-policy[{at}]");
                let table = rule.table.ok_or_else(|| wrong(&place, "a rule names its `table`"))?;
                let between = (rule.from.as_deref(), rule.to.as_deref());
                read.rules.push(read_rule(&place, between, table, rule.priority)?);
            }
        }
    }
    Ok(read)
}

fn link(
    place: &str,
    group: Group,
    (id, mut device): (&str, Device),
    names: &Names,
) -> Result<Link, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let name = group::named(place, id, names)?;
    let kind = group.kind(place, id, &mut device, names)?;
    group::nothing_is_left(place, &device)?;
    let mut link = Link::new(name, kind);
    link.mac = device.macaddress.map(|text| read_mac(&at("macaddress"), &text)).transpose()?;
    link.mtu = device.mtu.map(|mtu| number(&at("mtu"), mtu, 68..=65_535)).transpose()?;
    link.up = match device.activation_mode.as_deref() {
        None => true,
        Some("off") => false,
        Some(other) => {
            let why = format!("`{}` has no counterpart here", other.escape_debug());
            return Err(wrong(&at("activation-mode"), why));
        }
    };
    (link.dhcp4, link.dhcp6) = (device.dhcp4, device.dhcp6);
    check_metric(&at("dhcp4-overrides"), device.dhcp4_overrides.as_ref())?;
    check_metric(&at("dhcp6-overrides"), device.dhcp6_overrides.as_ref())?;
    for (i, text) in device.addresses.iter().enumerate() {
        let address = Address::new(text);
        link.addresses.push(address.map_err(|why| wrong(&at(&format!("addresses[{i}]")), why))?);
    }
    for (field, gateway) in [("gateway4", device.gateway4), ("gateway6", device.gateway6)] {
        let Some(gateway) = gateway else { continue };
        let route = Route {
            to: "default".into(),
            via: Some(gateway),
            metric: None,
            table: None,
            on_link: false,
            scope: None,
        };
        link.routes.push(read_route(&at(field), route)?);
    }
    for (i, route) in device.routes.into_iter().enumerate() {
        link.routes.push(read_route(&at(&format!("routes[{i}]")), route)?);
    }
    link.dns = read_dns(
        (&at("nameservers.addresses"), &device.nameservers.addresses),
        (&at("nameservers.search"), device.nameservers.search),
    )?;
    Ok(link)
}

/// Routes by DHCP have one metric here, in every form.
fn check_metric(place: &str, overrides: Option<&Overrides>) -> Result<(), Malformed> {
    let metric = overrides.and_then(|overrides| overrides.route_metric);
    match metric.filter(|metric| *metric != DHCP_METRIC) {
        Some(metric) => {
            let why = format!("routes by DHCP have the metric {DHCP_METRIC} here, not {metric}");
            Err(wrong(&format!("{place}.route-metric"), why))
        }
        None => Ok(()),
    }
}

fn read_route(place: &str, route: Route) -> Result<address::Route, Malformed> {
    let at = |field: &str| format!("{place}.{field}");
    let via = route.via.as_deref().map(ip).transpose();
    let via = via.map_err(|why| wrong(&at("via"), why))?;
    let to = match (route.to.as_str(), via) {
        ("default", Some(via)) => whole_prefix(via),
        ("default", None) => {
            let why = "default without `via` has no family; write 0.0.0.0/0 or ::/0";
            return Err(wrong(&at("to"), why));
        }
        (to, _) => network(to).map_err(|why| wrong(&at("to"), why))?,
    };
    let usual = if via.is_some() { "global" } else { "link" };
    if let Some(scope) = route.scope.filter(|scope| scope != usual) {
        let why = format!("`{}` has no counterpart here", scope.escape_debug());
        return Err(wrong(&at("scope"), why));
    }
    let value = |field: &str, value: Option<i64>, from| {
        value.map(|value| number(&at(field), value, from..=0xFFFF_FFFF)).transpose()
    };
    Ok(address::Route {
        to,
        via,
        metric: value("metric", route.metric, 0)?,
        table: value("table", route.table, 1)?,
        on_link: route.on_link,
    })
}
