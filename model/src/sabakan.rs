//! Core: a machine in sabakan's forms, for its REST API and its command line.

use serde_json::{Value, json};

use crate::asset::Asset;
use crate::ipam::IpamConfig;
use crate::machine::Machine;
use crate::time::Timestamp;

pub mod given;
pub mod log;
pub mod time;
mod today;

pub use today::{Today, retire_date};

/// As the specification of 2018 shows it.
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

/// As today's sabakan shows it at a moment; see [`Today`].
pub fn today(machine: &Machine, rules: Option<&IpamConfig>, now: Timestamp) -> Value {
    json!(Today::of(machine, rules, now))
}

/// An asset; `exists` says whether its file is on the machine that is asked.
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
pub fn image(row: Vec<Value>) -> Value {
    let [version, ctime, size] = row.try_into().unwrap_or_default();
    let date = time::of_pair(&ctime);
    json!({"id": version, "date": date, "size": size, "urls": [], "exists": true})
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
        assert_eq!(today["spec"]["retire-date"], today["spec"]["register-date"]);
        assert_eq!(today["spec"]["labels"], json!({"product": "own", "datacenter": "ty3"}));
        assert_eq!(
            today["info"]["network"]["ipv4"][0],
            json!({"address": "10.69.0.197", "netmask": "255.255.255.192", "maskbits": 26, "gateway": "10.69.0.193"})
        );
        assert_eq!(today["info"]["bmc"]["ipv4"]["gateway"], "10.72.16.1");
    }
}
