//! Core: a machine in sabakan's forms, for its REST API and its command line.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::asset::Asset;
use crate::ipam::IpamConfig;
use crate::machine::{Addresses, Machine};
use crate::time::Timestamp;

pub mod log;
pub mod time;

/// No moment, as Go writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// As the specification of 2018 shows it.
#[must_use]
pub fn flat(machine: &Machine) -> Value {
    let mut shown = json!(machine);
    if let Value::Object(fields) = &mut shown {
        // Moments are pairs in our documents.
        fields.insert("register-date".to_owned(), json!(time::shown(machine.register_date)));
        if let Some(date) = machine.retire_date {
            fields.insert("retire-date".to_owned(), json!(time::shown(date)));
        }
        // It has no states.
        fields.remove("life");
        fields.remove("maintenance");
    }
    shown
}

/// The fields of [`today`] that are others a moment later.
pub const MEASURED: &str = "duration";

/// As today's sabakan shows it at a moment. Product and data centre, which are labels there, are shown as
/// labels, too.
#[must_use]
pub fn today(machine: &Machine, rules: Option<&IpamConfig>, now: Timestamp) -> Value {
    let mut labels = machine.labels.clone();
    for (name, value) in [("product", &machine.product), ("datacenter", &machine.datacenter)] {
        if !value.is_empty() {
            labels.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    let interfaces = interfaces(machine);
    let ipv4: Vec<Ipv4Addr> = interfaces.iter().flat_map(|of| &of.ipv4).copied().collect();
    let ipv6: Vec<String> = interfaces
        .iter()
        .flat_map(|of| of.ipv6.iter().flatten())
        .map(ToString::to_string)
        .collect();
    let network = |(mask, gateway)| -> Vec<Value> {
        ipv4.iter().map(|&address| place(address, mask, gateway)).collect()
    };
    let nodes = rules.map(|r| (r.node_ipv4_range_mask, r.node_gateway_offset.unwrap_or(1)));
    let controllers =
        rules.map(|r| (r.bmc_ipv4_range_mask, r.bmc_ipv4_gateway_offset.unwrap_or(1)));
    let bmc = machine.bmc.ipv4.first().copied();
    let bmc_place =
        bmc.zip(controllers).map(|(address, (mask, gateway))| place(address, mask, gateway));
    json!({
        "spec": {
            "serial": machine.serial,
            "labels": labels,
            "rack": machine.rack,
            "index-in-rack": machine.index_in_rack,
            "role": machine.role,
            "ipv4": ipv4,
            "ipv6": ipv6,
            "register-date": time::shown(machine.register_date),
            "retire-date": machine.retire_date.map_or_else(|| NEVER.to_owned(), time::shown),
            "bmc": {
                "type": machine.bmc.kind.as_deref().unwrap_or_default(),
                "ipv4": bmc.map(|address| address.to_string()).unwrap_or_default(),
                "ipv6": machine.bmc.ipv6.iter().flatten().next().map(ToString::to_string).unwrap_or_default(),
            },
        },
        "status": status(machine, now),
        "info": {
            "network": {"ipv4": nodes.map(network).unwrap_or_default()},
            "bmc": {"ipv4": bmc_place.unwrap_or_else(|| json!({}))},
        },
    })
}

/// An asset; `exists` says whether its file is on the machine that is asked.
#[must_use]
pub fn asset(asset: &Asset, exists: bool) -> Value {
    json!({
        "name": asset.name,
        "id": asset.id.to_string(),
        "content-type": asset.content_type,
        "date": time::shown(asset.ctime),
        "size": asset.blob.size,
        "sha256": asset.blob.sha256,
        "urls": [],
        "exists": exists,
        "options": asset.options,
    })
}

/// A version of an image, by the master's fields `version`, `ctime` and `size`.
#[must_use]
pub fn image(row: Vec<Value>) -> Value {
    let [version, ctime, size] = row.try_into().unwrap_or_default();
    let date = time::of_pair(&ctime);
    json!({"id": version, "date": date, "size": size, "urls": [], "exists": true})
}

/// Its state, since when it is in it, and for how many seconds.
fn status(machine: &Machine, now: Timestamp) -> Value {
    let since = machine.state_since();
    json!({
        "state": machine.life.state.status(),
        "timestamp": time::shown(since),
        MEASURED: (now.seconds() - since.seconds()).max(0),
    })
}

/// The interfaces by their numbers: as text, `node10` stands before `node2`.
fn interfaces(machine: &Machine) -> Vec<&Addresses> {
    let number = |name: &str| name.trim_start_matches("node").parse::<u32>().unwrap_or(u32::MAX);
    let mut named: Vec<_> = machine.network.iter().collect();
    named.sort_by_key(|(name, _)| number(name));
    named.into_iter().map(|(_, addresses)| addresses).collect()
}

/// An address with what an interface needs beside it.
fn place(address: Ipv4Addr, bits: u8, gateway: u32) -> Value {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
    let network = u32::from(address) & mask;
    json!({
        "address": address,
        "netmask": Ipv4Addr::from(mask),
        "maskbits": bits,
        "gateway": Ipv4Addr::from(network.wrapping_add(gateway)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let text = r#"{"serial":"1234abcd","product":"R630","datacenter":"ty3","rack":1,
            "index-in-rack":5,"role":"worker","network":{
                "node0":{"ipv4":["10.69.0.197"],"ipv6":null},"node1":{"ipv4":["10.69.1.5"],"ipv6":null},
                "node10":{"ipv4":["10.69.9.5"],"ipv6":null},"node2":{"ipv4":["10.69.1.69"],"ipv6":null}},
            "bmc":{"ipv4":["10.72.17.37"],"ipv6":null},"mac":[],"register-date":[1542763425,0],
            "labels":{"product":"own"}}"#;
        let machine: Machine = serde_json::from_str(text).unwrap();
        let rules: IpamConfig = serde_json::from_str(
            r#"{"max-nodes-in-rack":28,"node-ipv4-pool":"10.69.0.0/16","node-ipv4-range-size":6,
            "node-ipv4-range-mask":26,"node-ip-per-node":3,"node-index-offset":3,
            "bmc-ipv4-pool":"10.72.16.0/20","bmc-ipv4-range-size":5,"bmc-ipv4-range-mask":20}"#,
        )
        .unwrap();
        let flat = flat(&machine);
        assert_eq!(flat["network"]["node1"], json!({"ipv4": ["10.69.1.5"], "ipv6": null}));
        assert_eq!(flat["register-date"], "2018-11-21T01:23:45Z");
        let now = machine.register_date.plus_seconds(90);
        let today = today(&machine, Some(&rules), now);
        assert_eq!(
            today["spec"]["ipv4"][3], "10.69.9.5",
            "interfaces are in the order of their numbers"
        );
        let status =
            json!({"state": "uninitialized", "timestamp": "2018-11-21T01:23:45Z", "duration": 90});
        assert_eq!(today["status"], status);
        assert_eq!(today["spec"]["labels"], json!({"product": "own", "datacenter": "ty3"}));
        assert_eq!(
            today["info"]["network"]["ipv4"][0],
            json!({"address": "10.69.0.197", "netmask": "255.255.255.192", "maskbits": 26, "gateway": "10.69.0.193"})
        );
        assert_eq!(today["info"]["bmc"]["ipv4"]["gateway"], "10.72.16.1");
        assert_eq!(place(Ipv4Addr::new(10, 0, 0, 1), 0, 1)["netmask"], "0.0.0.0");
    }
}
