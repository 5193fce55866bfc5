//! Core: what a script of an operating system is told of an instance (ganeti-os-interface(7)).

use std::collections::BTreeMap;

use model::instance::{Disk, Instance, Nic};
use serde_json::Value;

use crate::config::Config;

/// The modes of a NIC that stand for a bridge, of a kind.
const BRIDGES: [&str; 2] = ["bridged", "openvswitch"];

/// The variables, but for the paths of disks, which the agent knows, and those of the definition itself.
pub(super) fn environment(config: &Config, instance: &Instance) -> BTreeMap<String, String> {
    let settings = config.settings_of(instance);
    let mut told = BTreeMap::new();
    let mut tell = |name: String, value: String| drop(told.insert(name, value));
    for (name, value) in [
        ("INSTANCE_NAME", instance.name.to_string()),
        ("INSTANCE_OS", instance.os.clone()),
        ("INSTANCE_UUID", instance.uuid.to_string()),
        ("INSTANCE_CTIME", seconds(instance.ctime)),
        ("INSTANCE_MTIME", seconds(instance.mtime)),
        ("INSTANCE_PRIMARY_NODE", instance.primary_node.to_string()),
        // No disk has copies that are an instance's own.
        ("INSTANCE_SECONDARY_NODES", String::new()),
        ("HYPERVISOR", instance.hypervisor.clone()),
        ("DISK_COUNT", instance.disks.len().to_string()),
        ("NIC_COUNT", instance.nics.len().to_string()),
    ] {
        tell(name.to_owned(), value);
    }
    let hvparams = settings.hypervisor_of(instance);
    for (kind, parameters) in [("HV", &hvparams), ("BE", &settings.backend_of(instance))] {
        for (name, value) in parameters {
            tell(format!("INSTANCE_{kind}_{name}"), python(value));
        }
    }
    for (name, value) in settings.system_of(instance) {
        tell(format!("OSP_{}", name.to_uppercase().replace('-', "_")), python(&value));
    }
    let frontend = |name: &str| hvparams.get(name).and_then(Value::as_str).map(str::to_owned);
    for (number, disk) in config.disks_of(instance).enumerate() {
        for (name, value) in of_disk(disk) {
            tell(format!("DISK_{number}_{name}"), value);
        }
        if let Some(frontend) = frontend("disk_type") {
            tell(format!("DISK_{number}_FRONTEND_TYPE"), frontend);
        }
    }
    for (number, nic) in instance.nics.iter().enumerate() {
        for (name, value) in of_nic(config, nic, &settings.nic_of(nic)) {
            tell(format!("NIC_{number}_{name}"), value);
        }
        if let Some(frontend) = frontend("nic_type") {
            tell(format!("NIC_{number}_FRONTEND_TYPE"), frontend);
        }
    }
    told
}

fn of_disk(disk: &Disk) -> Vec<(&'static str, String)> {
    let backend = format!("file:{}", disk.place.logical_id().0);
    let mut told = vec![
        // Ganeti's code says `rw` where document 2 says `W`.
        ("ACCESS", disk.mode.to_string()),
        ("SIZE", disk.size.to_string()),
        ("UUID", disk.uuid.to_string()),
        ("BACKEND_TYPE", backend),
        ("URI", String::new()),
    ];
    told.extend(disk.name.clone().map(|name| ("NAME", name)));
    told
}

fn of_nic(
    config: &Config,
    nic: &Nic,
    nicparams: &model::instance::Parameters,
) -> Vec<(&'static str, String)> {
    let text =
        |name: &str| nicparams.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mode, link) = (text("mode"), text("link"));
    let mut told = vec![("MAC", nic.mac.to_string()), ("UUID", nic.uuid.to_string())];
    told.extend(nic.name.clone().map(|name| ("NAME", name)));
    told.extend(nic.ip.map(|ip| ("IP", ip.to_string())));
    if BRIDGES.contains(&mode.as_str()) {
        told.push(("BRIDGE", link.clone()));
    }
    told.extend(
        [("MODE", mode), ("LINK", link)].into_iter().filter(|(_, value)| !value.is_empty()),
    );
    let network = nic.network.as_ref().and_then(|name| config.network(name.as_str()).ok());
    if let Some(network) = network {
        told.push(("NETWORK_NAME", network.name.to_string()));
        told.push(("NETWORK_UUID", network.uuid.to_string()));
        told.push(("NETWORK_TAGS", network.tags.join(" ")));
        told.extend(network.mac_prefix.clone().map(|prefix| ("NETWORK_MAC_PREFIX", prefix)));
        for (is_ipv4, subnet, gateway) in [
            (true, "NETWORK_SUBNET", "NETWORK_GATEWAY"),
            (false, "NETWORK_SUBNET6", "NETWORK_GATEWAY6"),
        ] {
            if let Some(found) = network.subnet(is_ipv4) {
                told.push((subnet, found.prefix.to_string()));
                told.extend(found.gateway.map(|address| (gateway, address.to_string())));
            }
        }
    }
    told
}

fn seconds(time: model::Timestamp) -> String {
    let micros = time.micros();
    format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
}

/// A value as Python prints it, which scripts compare with.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{config, instance};

    #[test]
    fn a_script_is_told_of_its_instance() {
        let mut one = instance("web1.example", "n1.example");
        one.os = "debian+small".to_owned();
        one.osparams.insert("dns-suffix".to_owned(), "example".into());
        let mut config = config(&[]);
        config.apply(vec![ConfigChange::Instance(one.clone())]);
        let told = environment(&config, &one);
        for (name, value) in [
            ("INSTANCE_NAME", "web1.example"),
            ("INSTANCE_OS", "debian+small"),
            ("INSTANCE_PRIMARY_NODE", "n1.example"),
            ("INSTANCE_BE_always_failover", "False"),
            ("OSP_DNS_SUFFIX", "example"),
            ("DISK_COUNT", "0"),
        ] {
            assert_eq!(told.get(name).map(String::as_str), Some(value), "{name}");
        }
        let is_told = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(told.keys().all(is_told), "{told:?}");
    }
}
