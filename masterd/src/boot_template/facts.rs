//! Core: what templates are told of a machine, in the form that sabakan's templates know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use gotmpl::Value;
use ipnet::Ipv4Net;
use model::ipam::LeaseRange;
use model::machine::Machine;
use serde_json::{Value as Json, json};

use crate::config::Config;

/// What the dot is in a template of a machine.
pub(super) fn of_machine(config: &Config, machine: &Machine) -> Value {
    let addresses: Vec<Ipv4Addr> =
        machine.network.values().flat_map(|card| card.ipv4.iter().copied()).collect();
    let ranges = config.ipam.as_deref().and_then(|ipam| ipam.lease_ranges(machine.rack).ok());
    let ranges = ranges.unwrap_or_default();
    let cards = addresses.iter().enumerate().map(|(at, address)| card(*address, ranges.get(at)));
    let bmc = bmc(config, machine);
    let labels: BTreeMap<&str, &str> =
        machine.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let macs: Vec<String> = machine.mac.iter().map(ToString::to_string).collect();
    value(&json!({
        "Spec": {
            "Serial": machine.serial.as_str(),
            "Product": machine.product,
            "Datacenter": machine.datacenter,
            "Labels": labels,
            "Rack": machine.rack,
            "IndexInRack": machine.index_in_rack,
            "Role": machine.role,
            "MAC": macs,
            "IPv4": addresses,
            "BMC": { "Type": machine.bmc.kind.as_deref().unwrap_or_default(), "IPv4": machine.bmc.ipv4.first() },
        },
        "Info": {
            "Network": { "IPv4": cards.collect::<Vec<_>>() },
            "BMC": { "IPv4": bmc },
        },
    }))
}

/// What the dot is for a machine that there is not, with each of these labels.
pub(super) fn sample(config: &Config, role: &str, labels: &BTreeSet<String>) -> Value {
    let addresses = config.ipam.as_deref().and_then(|ipam| {
        let index = ipam.node_index_offset + 1;
        Some((ipam.node_addresses(0, index).ok()?, ipam.bmc_address(0, index).ok()?))
    });
    let unknown = || (vec![Ipv4Addr::new(192, 0, 2, 4)], Ipv4Addr::new(192, 0, 2, 5));
    let (addresses, bmc) = addresses.unwrap_or_else(unknown);
    let ranges = config.ipam.as_deref().and_then(|ipam| ipam.lease_ranges(0).ok());
    let ranges = ranges.unwrap_or_default();
    let cards = addresses.iter().enumerate().map(|(at, address)| card(*address, ranges.get(at)));
    let labels: BTreeMap<&str, &str> =
        labels.iter().map(|name| (name.as_str(), "sample")).collect();
    value(&json!({
        "Spec": {
            "Serial": "sample", "Product": "sample", "Datacenter": "sample", "Labels": labels,
            "Rack": 0, "IndexInRack": 4, "Role": role, "MAC": ["52:54:00:00:00:01"],
            "IPv4": addresses, "BMC": { "Type": "IPMI-2.0", "IPv4": bmc },
        },
        "Info": {
            "Network": { "IPv4": cards.collect::<Vec<_>>() },
            "BMC": { "IPv4": card(bmc, None) },
        },
    }))
}

fn bmc(config: &Config, machine: &Machine) -> Json {
    let Some(&address) = machine.bmc.ipv4.first() else { return Json::Null };
    let Some(ipam) = config.ipam.as_deref() else { return card(address, None) };
    let prefix = Ipv4Net::new(address, ipam.bmc_ipv4_range_mask).ok().map(|net| net.trunc());
    let gateway = prefix.map(|prefix| {
        let offset = ipam.bmc_ipv4_gateway_offset.unwrap_or(1);
        Ipv4Addr::from(u32::from(prefix.network()).wrapping_add(offset))
    });
    described(address, prefix, gateway)
}

fn card(address: Ipv4Addr, range: Option<&LeaseRange>) -> Json {
    described(address, range.map(|range| range.subnet), range.map(|range| range.gateway))
}

fn described(address: Ipv4Addr, net: Option<Ipv4Net>, gateway: Option<Ipv4Addr>) -> Json {
    json!({
        "Address": address,
        "Netmask": net.map(|net| net.netmask()),
        "MaskBits": net.map(|net| net.prefix_len()),
        "Gateway": gateway,
    })
}

/// A value of the engine; what is null is not there, so that a template that names it is refused.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Value::Int(value),
            (None, value) => Value::Float(value.unwrap_or_default()),
        },
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(list) => Value::List(list.iter().map(value).collect()),
        Json::Object(map) => {
            let known = map.iter().filter(|(_, value)| !value.is_null());
            let entries = known.map(|(key, json)| (Arc::from(key.as_str()), value(json)));
            Value::Map(Arc::new(entries.collect()))
        }
    }
}
