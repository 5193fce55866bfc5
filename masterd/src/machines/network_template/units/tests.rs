use hostnet::Format;
use serde_json::json;

use super::*;
use crate::machines::machine::register;
use crate::machines::network::tests::add as add_network;
use crate::machines::network_template::files::files;
use crate::testing::{NOW, config, spec};

/// The template of Metal3's IPAM study, but for the bridge of Open vSwitch.
const STUDY: &str = "network_config:
  -
    type: linux_bond
    name: bond1
    bonding_options: mode=active-backup
    addresses:
      -
        ip_netmask: {{ ip['net0']}}
    routes:
      -
        default: true
        next_hop: {{ config['net0'].gateway}}
    dns_servers: {{ config['net0'].dnsServers}}
    members:
      -
        type: interface
        name: em1
      -
        type: interface
        name: em2
  -
    type: interface
    name: em0
    addresses:
      -
        ip_netmask: {{ ip['net1']}}
";

fn study(machines: &[&str]) -> Config {
    let mut config = config(&[]);
    for op in [
        json!({"network_name": "net0", "network": "192.168.0.0/24", "gateway": "192.168.0.1",
            "pools": ["192.168.0.10-192.168.0.250"], "dns_servers": ["8.8.8.8", "8.8.4.4"]}),
        json!({"network_name": "net1", "network": "192.168.1.0/24",
            "pools": ["192.168.1.10-192.168.1.11"]}),
    ] {
        add_network(&mut config, op).unwrap();
    }
    register_all(&mut config, machines);
    config
}

fn register_all(config: &mut Config, serials: &[&str]) {
    let specs: Vec<_> = serials.iter().map(|serial| spec(serial, 0, "worker")).collect();
    if specs.is_empty() {
        return;
    }
    let machines = register(config, &specs, NOW).unwrap();
    config.apply(machines.iter().cloned().map(ConfigChange::Machine));
    let changes = assigned_to_new(&mut config.clone(), &machines, (NOW, 0)).unwrap();
    config.apply(changes);
}

fn upload(config: &mut Config, text: &str) -> Result<Added, String> {
    let op = NetworkTemplateAdd { template_name: "worker".parse().unwrap(), text: text.to_owned() };
    let (changes, added) = add(&op, config, NOW, 0).map_err(|error| error.to_string())?;
    config.apply(changes);
    Ok(added)
}

fn netplan(config: &Config, serial: &str) -> Result<String, String> {
    let files = files(config, serial, None, Format::Netplan).map_err(|error| error.to_string())?;
    Ok(files.into_iter().map(|file| file.content).collect())
}

#[test]
fn machines_of_a_role_get_its_addresses_and_files() {
    let mut config = study(&["s1", "s2"]);
    let added = upload(&mut config, STUDY).unwrap();
    assert_eq!((added.given, added.waiting, added.template.networks.len()), (2, 0, 2));
    let file = netplan(&config, "s2").unwrap();
    for line in ["192.168.0.11/24", "192.168.1.11/24", "192.168.0.1", "8.8.4.4"] {
        assert!(file.contains(line), "{line}: {file}");
    }
    // A machine that comes later, when the pool of one network is used up.
    register_all(&mut config, &["s3"]);
    let waits = netplan(&config, "s3").unwrap_err();
    assert!(waits.contains("waits for an address of network net1"), "{waits}");
    assert_eq!(config.machine("s3").unwrap().network_template, Some(1));
}

#[test]
fn another_role_brings_its_own_template_and_ends_what_the_other_asked_for() {
    let mut config = study(&["s1"]);
    let of_rack = "links: [{name: em0, addresses: ['{{ ip[\"net1\" if machine.rack == 0 else \"net0\"] }}']}]";
    upload(&mut config, of_rack).unwrap();
    let networks = |config: &Config| -> Vec<String> {
        config.claims.values().map(|claim| claim.network.to_string()).collect()
    };
    assert_eq!(networks(&config), ["net1"]);
    let op = NetworkTemplateAdd {
        template_name: "edge".parse().unwrap(),
        text: "links: [{name: em0, addresses: ['{{ ip.net0 }}']}]".to_owned(),
    };
    let (changes, _) = add(&op, &config, NOW, 0).unwrap();
    config.apply(changes);
    for (role, version, claimed) in [("edge", Some(1), vec!["net0"]), ("none", None, vec![])] {
        let before = config.machine("s1").unwrap().as_ref().clone();
        let machine = Machine { role: role.to_owned(), ..before.clone() };
        config.apply([ConfigChange::Machine(machine)]);
        let changes = with_new_role(&mut config.clone(), &before, (NOW, 0)).unwrap();
        config.apply(changes);
        assert_eq!(config.machine("s1").unwrap().network_template, version);
        assert_eq!(networks(&config), claimed);
    }
}

#[test]
fn a_machine_keeps_its_version_until_it_is_applied_again() {
    let mut config = study(&["s1"]);
    upload(&mut config, STUDY).unwrap();
    let only = "links: [{name: em0, addresses: ['{{ ip.net1 }}']}]";
    let added = upload(&mut config, only).unwrap();
    assert_eq!((added.given, added.older, added.template.version), (0, 1, 2));
    assert!(netplan(&config, "s1").unwrap().contains("bond1"));
    let op = MachineReapply { serial: "s1".to_owned() };
    let (changes, (machine, waits)) = reapply(&op, &config, NOW, 0).unwrap();
    config.apply(changes);
    assert_eq!((machine.network_template, waits), (Some(2), false));
    assert!(!netplan(&config, "s1").unwrap().contains("bond1"));
    // It needs no address of the other network any longer.
    let networks: Vec<_> = config.claims.values().map(|claim| claim.network.to_string()).collect();
    assert_eq!(networks, ["net1"]);
    let removal = |version| {
        let op = NetworkTemplateRemove { template_name: "worker".parse().unwrap(), version };
        removal(&op, &config).map(|changes| changes.len()).map_err(|error| error.to_string())
    };
    assert_eq!(removal(Some(1)), Ok(1));
    assert!(removal(None).unwrap_err().contains("1 machines have network template worker/2"));
    assert!(removal(Some(7)).unwrap_err().contains("'worker/7' not known"));
}

#[test]
fn a_template_that_one_machine_could_not_have_is_refused() {
    let mut config = study(&["s1"]);
    for (told, text) in [
        ("line 1: `ip.net9` is undefined", "links: [{name: em0, addresses: ['{{ ip.net9 }}']}]"),
        ("for a sample host: ", "links: [{name: em0, vlan: 4095}]"),
        ("for a sample host: ", "linkz: []"),
        ("for a sample host: it is empty", ""),
        ("for a sample host: it is empty", " \n# em0 is a card\n"),
        ("for a sample host: it is empty", "{# nothing #}{% if false %}links: []{% endif %}"),
        ("for a sample host: it is empty", "{}"),
        ("for machine:s1: it is empty", "{% if machine.name != 's1' %}links: []{% endif %}"),
        (
            "for machine:s1: line 1",
            "{% if machine.name == 's1' %}{{ machine.labels.zone }}{% endif %}links: []",
        ),
    ] {
        let error = upload(&mut config, text).err().unwrap();
        assert!(error.contains(told), "{told}: {error}");
    }
    let long = "#".repeat(TEXT_BYTES_MAX + 1);
    assert!(upload(&mut config, &long).err().unwrap().contains("at most 65536"));
    assert!(config.network_templates.is_empty() && config.claims.is_empty());
    assert!(netplan(&config, "s1").unwrap_err().contains("gnt network-template upload worker"));
}

#[test]
fn a_machine_whose_named_cards_lack_one_is_named() {
    let mut config = study(&["s1", "s2"]);
    let mut machine = config.machine("s2").unwrap().as_ref().clone();
    machine.interfaces = [("em1".parse().unwrap(), "52:54:00:00:00:01".parse().unwrap())].into();
    config.apply([ConfigChange::Machine(machine)]);
    let error = upload(&mut config, STUDY).err().unwrap();
    let told = "template worker/1 for machine:s2: the machine has no card em2, only em1";
    assert!(error.contains(told), "{error}");
}

#[test]
fn old_versions_that_nobody_has_go() {
    let mut config = study(&["s1"]);
    for number in 0..15 {
        upload(&mut config, &format!("# {number}\nlinks: []")).unwrap();
    }
    let kept: Vec<u32> =
        config.network_templates.values().map(|template| template.version).collect();
    // The version of the machine, and the newest ones.
    assert_eq!(kept, [1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
}
