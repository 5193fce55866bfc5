//! Core: what templates are told of a machine: what sabakan's REST interface shows of it, by the names that Go
//! has for it. In Go these are structures. A structure is a map here, with an entry that says so: some
//! functions do not take one, and `json` writes the names of the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};

use gotmpl::Value;
use model::Timestamp;
use model::ipam::IpamConfig;
use model::machine::Machine;
use model::sabakan::Today;
use serde_json::{Value as Json, json};

use crate::config::Config;

/// Names of the interface, and Go's. `product`, `datacenter` and `mac` are not sabakan's.
const NAMES: &[(&str, &str)] = &[
    ("spec", "Spec"),
    ("status", "Status"),
    ("info", "Info"),
    ("serial", "Serial"),
    ("product", "Product"),
    ("datacenter", "Datacenter"),
    ("labels", "Labels"),
    ("rack", "Rack"),
    ("index-in-rack", "IndexInRack"),
    ("role", "Role"),
    ("mac", "MAC"),
    ("ipv4", "IPv4"),
    ("ipv6", "IPv6"),
    ("register-date", "RegisterDate"),
    ("retire-date", "RetireDate"),
    ("bmc", "BMC"),
    ("type", "Type"),
    ("state", "State"),
    ("timestamp", "Timestamp"),
    ("network", "Network"),
    ("address", "Address"),
    ("netmask", "Netmask"),
    ("maskbits", "MaskBits"),
    ("gateway", "Gateway"),
];
/// The key of a map in Go that is no structure, though it stands within one.
const LABELS: &str = "labels";
/// Moments, which are structures in Go.
const MOMENTS: &[&str] = &["register-date", "retire-date", "timestamp"];
/// The entry of a structure: no template can write its name. A moment has its text there, as Go prints it.
const STRUCTURE: &str = "structure!";
/// The entry of a moment with its text in JSON.
const IN_JSON: &str = "json!";

/// The rules of addresses for a sample machine, where the cluster has none.
static RULES: LazyLock<IpamConfig> = LazyLock::new(|| {
    let rules = json!({
        "max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
        "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
        "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20,
    });
    serde_json::from_value(rules).expect("these are good rules")
});

/// The dot in a template of a machine.
pub(super) fn of_machine(config: &Config, machine: &Machine) -> Value {
    of(machine, config.ipam.as_deref())
}

/// The dot for a sample machine, with each of these labels.
pub(super) fn sample(config: &Config, role: &str, labels: &BTreeSet<String>) -> Value {
    let rules = config.ipam.as_deref().unwrap_or(&RULES);
    let index = rules.node_index_offset + 1;
    let addresses = rules.node_addresses(0, index).unwrap_or_default().into_iter().enumerate();
    let network: BTreeMap<String, Json> = addresses
        .map(|(at, address)| (format!("node{at}"), json!({"ipv4": [address], "ipv6": null})))
        .collect();
    let bmc = rules.bmc_address(0, index).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let labels: BTreeMap<&str, &str> =
        labels.iter().map(|name| (name.as_str(), "sample")).collect();
    let machine = json!({
        "serial": "sample", "product": "sample", "datacenter": "sample", "rack": 0,
        "index-in-rack": index, "role": role, "network": network, "labels": labels,
        "bmc": { "type": "IPMI-2.0", "ipv4": [bmc], "ipv6": null },
        "mac": ["52:54:00:00:00:01"], "register-date": Timestamp::from_micros(0),
    });
    let machine: Machine = serde_json::from_value(machine).expect("it is a machine");
    of(&machine, Some(rules))
}

fn of(machine: &Machine, rules: Option<&IpamConfig>) -> Value {
    // The lasting part is the same at any moment.
    let shown = Today::of(machine, rules, machine.register_date).lasting();
    let mut shown = json!(shown);
    let spec = &mut shown["spec"];
    spec["product"] = json!(machine.product);
    spec["datacenter"] = json!(machine.datacenter);
    spec["mac"] = json!(machine.mac);
    let bmc = &mut spec["bmc"]["ipv4"];
    if bmc.as_str().is_some_and(str::is_empty) {
        *bmc = Json::Null;
    }
    structure(&shown)
}

/// A structure of what the interface shows. A null value is left out, so that a template that names it
/// is refused.
fn structure(shown: &Json) -> Value {
    match shown {
        Json::Array(list) => Value::List(list.iter().map(structure).collect()),
        Json::Object(fields) => {
            let field = |(name, shown): (&String, &Json)| {
                let go = NAMES.iter().find(|(json, _)| json == name)?.1;
                let value = match shown {
                    Json::Null => return None,
                    Json::String(text) if MOMENTS.contains(&name.as_str()) => moment(text),
                    map if name == LABELS => value(map),
                    other => structure(other),
                };
                Some((Arc::from(go), value))
            };
            let mark = (Arc::from(STRUCTURE), Value::Bool(true));
            Value::Map(Arc::new(fields.iter().filter_map(field).chain([mark]).collect()))
        }
        other => value(other),
    }
}

/// A moment, of its text in JSON.
fn moment(text: &str) -> Value {
    let printed = text.replacen('T', " ", 1).replace('Z', " +0000 UTC");
    let entries = [(STRUCTURE, printed.as_str()), (IN_JSON, text)];
    let entries = entries.map(|(name, text)| (Arc::from(name), Value::String(text.into())));
    Value::Map(Arc::new(entries.into()))
}

/// A value of the engine; what is null is not there.
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

pub(super) fn is_structure(value: &Value) -> bool {
    value.field(STRUCTURE).is_some()
}

/// A moment as Go prints it; none where a value is none.
pub(super) fn printed(value: &Value) -> Option<&Value> {
    value.field(STRUCTURE).filter(|text| matches!(text, Value::String(_)))
}

/// A moment as JSON has it; none where a value is none.
pub(super) fn in_json(value: &Value) -> Option<&Value> {
    value.field(IN_JSON)
}

/// The name in JSON of a field of a structure; none of its entry that says so.
pub(super) fn name_in_json(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(_, go)| *go == name).map(|(json, _)| *json)
}
