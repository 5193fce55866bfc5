use luxi::query::{Cell, CellStatus};
use model::node::NodeRole;
use serde_json::{Value, json};

use super::*;
use crate::machines::network::claim::made;
use crate::machines::network::fields::{FIELDS, NetworkRow};
use crate::testing::{NOW, config, node};

pub(crate) fn add(config: &mut Config, op: Value) -> Result<(), String> {
    let op: NetworkAdd = serde_json::from_value(op).map_err(|error| error.to_string())?;
    let network = op.network(NOW).and_then(|network| is_new(config, &network).map(|()| network));
    let network = network.map_err(|error| error.to_string())?;
    config.apply([ConfigChange::Network(network)]);
    Ok(())
}

fn set(config: &mut Config, op: Value) -> Result<(), String> {
    let op: NetworkSetParams = serde_json::from_value(op).map_err(|error| error.to_string())?;
    let mut network = config.network(&op.network_name).unwrap().as_ref().clone();
    op.change(config, &mut network).map_err(|error| error.to_string())?;
    network.serial_no += 1;
    config.apply([ConfigChange::Network(network)]);
    Ok(())
}

pub(super) fn claim(config: &mut Config, network: &str, owner: &str) -> String {
    let spec = json!([{"network": network, "owner": owner}]);
    let specs: Vec<_> = serde_json::from_value(spec).unwrap();
    let (changes, claims) = made(config, &specs, NOW, 0).unwrap();
    config.apply(changes);
    let addresses = claims[0].addresses().iter().map(ToString::to_string);
    addresses.collect::<Vec<_>>().join(" ")
}

fn pools(config: &Config, network: &str) -> Vec<String> {
    let subnets = &config.network(network).unwrap().subnets;
    subnets.iter().flat_map(|subnet| &subnet.pools).map(ToString::to_string).collect()
}

#[test]
fn a_network_of_ganeti_gives_all_its_addresses() {
    let mut config = config(&[]);
    let op = json!({"network_name": "lan", "network": "192.0.2.0/29", "gateway": "192.0.2.1",
        "add_reserved_ips": ["192.0.2.2"], "network6": "2001:db8::/64", "mac_prefix": "aa:00:01"});
    add(&mut config, op).unwrap();
    assert_eq!(pools(&config, "lan"), ["192.0.2.1-192.0.2.6"]);
    let uuid = config.network("lan").unwrap().uuid.to_string();
    assert_eq!(pools(&config, &uuid), ["192.0.2.1-192.0.2.6"]);
    assert_eq!(claim(&mut config, "lan", "a"), "192.0.2.3");
}

#[test]
fn a_network_of_ipv6_alone_gives_its_addresses() {
    let mut config = config(&[]);
    let op = json!({"network_name": "six", "network6": "2001:db8::/64", "gateway6": "2001:db8::1"});
    add(&mut config, op).unwrap();
    assert_eq!(claim(&mut config, "six", "a"), "2001:db8::2");
    let further = json!({"network_name": "more", "further": {"2001:db8:1::/64": null}});
    add(&mut config, further).unwrap();
    assert_eq!(claim(&mut config, "more", "a"), "2001:db8:1::1");
    let none = json!({"network_name": "none", "network6": "2001:db8:2::/64", "pools": []});
    add(&mut config, none).unwrap();
    assert_eq!(pools(&config, "none"), Vec::<String>::new(), "as it was asked for");
    set(&mut config, json!({"network_name": "none", "network6": "2001:db8:3::/126"})).unwrap();
    assert_eq!(pools(&config, "none"), ["2001:db8:3::1-2001:db8:3::3"]);
}

#[test]
fn what_cannot_be_is_refused_by_field() {
    let mut config = config(&[node("n2.example", NodeRole::Candidate)]);
    add(&mut config, json!({"network_name": "net0", "network": "192.0.2.0/24"})).unwrap();
    for (told, op) in [
        ("already registered", json!({"network_name": "net0", "network": "198.51.100.0/24"})),
        ("overlaps 192.0.2.0/24 of network net0", json!({"network": "192.0.2.128/25"})),
        ("meets node-ipv4-pool", json!({"network": "10.69.0.0/16"})),
        ("meets bmc-ipv4-pool", json!({"network": "10.72.16.0/24"})),
        ("network6: 10.0.0.0/8 is of the other family", json!({"network6": "10.0.0.0/8"})),
        ("no network", json!({"gateway": "10.0.0.1"})),
        ("network: it is missing", json!({})),
        (
            "gateway of network6, 10.0.0.1,",
            json!({"network6": "2001:db8::/64", "gateway6": "10.0.0.1"}),
        ),
        ("hosts cannot use fe80::/64", json!({"network6": "fe80::/64"})),
        ("hosts cannot use fe00::/8", json!({"network6": "fe00::/8"})),
        ("write 203.0.113.0/24", json!({"network": "203.0.113.7/24"})),
        ("is no IP address", json!({"network": "203.0.0113.0/24"})),
        (
            "pools: 198.51.100.9 is of no subnet",
            json!({"network": "203.0.113.0/24", "pools": ["198.51.100.9"]}),
        ),
        ("different families", json!({"network": "203.0.113.0/24", "pools": ["203.0.113.1-::1"]})),
        (
            "is kept for",
            json!({"network": "203.0.113.0/24", "pre_allocated": {"a": "203.0.113.9", "b": "203.0.113.9"}}),
        ),
        ("Tag", json!({"network": "203.0.113.0/24", "tags": ["a b"]})),
        ("unknown field", json!({"network": "203.0.113.0/24", "vlans": 7})),
    ] {
        let mut full = json!({"network_name": "new"});
        full.as_object_mut().unwrap().extend(op.as_object().unwrap().clone());
        let error = add(&mut config, full).unwrap_err();
        assert!(error.contains(told), "{told}: {error}");
    }
    assert_eq!(config.networks.len(), 1);
}

#[test]
fn fields_of_ganeti_are_as_ganeti_prints_them() {
    let mut config = config(&[]);
    for op in [
        json!({"network_name": "plain", "network": "192.0.2.0/24"}),
        json!({"network_name": "full", "network": "198.51.100.0/29", "gateway": "198.51.100.1",
            "add_reserved_ips": ["198.51.100.3-198.51.100.4", "198.51.100.1"],
            "network6": "2001:db8::/64", "gateway6": "2001:db8::1", "mac_prefix": "aa:00:01"}),
        json!({"network_name": "six", "network6": "2001:db8:1::/64"}),
    ] {
        add(&mut config, op).unwrap();
    }
    let config = Arc::new(config);
    let cell = |network: &str, name: &str| {
        let network = Arc::clone(config.network(network).unwrap());
        let row = NetworkRow { network, config: Arc::clone(&config) };
        let field = FIELDS.iter().find(|field| field.definition.name == name).unwrap();
        field.value.of(&row)
    };
    let unset = Cell::without(CellStatus::Unavailable);
    for name in ["gateway", "network6", "gateway6", "mac_prefix"] {
        assert_eq!(cell("plain", name), unset, "{name}");
    }
    for (network, name, value) in [
        ("plain", "external_reservations", "192.0.2.0, 192.0.2.255"),
        (
            "full",
            "external_reservations",
            "198.51.100.0, 198.51.100.1, 198.51.100.3, 198.51.100.4, 198.51.100.7",
        ),
        ("full", "gateway", "198.51.100.1"),
        ("full", "network6", "2001:db8::/64"),
        ("full", "gateway6", "2001:db8::1"),
        ("full", "mac_prefix", "aa:00:01"),
        ("full", "map", "XX.XX..X"),
    ] {
        assert_eq!(cell(network, name), Cell::normal(value), "{network} {name}");
    }
    for name in ["network", "external_reservations", "map"] {
        assert_eq!(cell("six", name), unset, "{name}");
    }
}

/// Pools may shrink as far as nothing in use is cut off, and grow whatever is in use.
#[test]
fn a_change_cuts_off_no_address_in_use() {
    let mut config = config(&[]);
    let op = json!({"network_name": "net0", "network": "192.0.2.0/24",
        "pools": ["192.0.2.10-192.0.2.20"]});
    add(&mut config, op).unwrap();
    assert_eq!(claim(&mut config, "net0", "a"), "192.0.2.10");
    assert_eq!(claim(&mut config, "net0", "b"), "192.0.2.11");
    let mut change = |fields: Value| {
        let mut op = json!({"network_name": "net0"});
        op.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        set(&mut config, op)
    };
    for (told, fields) in [
        ("192.0.2.10 is in use by a", json!({"pools": ["192.0.2.11-192.0.2.20"]})),
        ("192.0.2.11 is in use by b", json!({"add_reserved_ips": ["192.0.2.11-192.0.2.13"]})),
        ("192.0.2.10 is in use by a", json!({"gateway": "192.0.2.10"})),
        ("192.0.2.10 is in use by a", json!({"pre_allocated": {"c": "192.0.2.10"}})),
        ("serial number 1 and not 7", json!({"if_serial_no": 7, "mtu": 9_000})),
        ("gateway6: network net0 has no subnet", json!({"gateway6": "::1"})),
        ("vlan: 4095", json!({"vlan": 4_095})),
    ] {
        let error = change(fields).unwrap_err();
        assert!(error.contains(told), "{told}: {error}");
    }
    change(json!({"pools": ["192.0.2.10-192.0.2.11", "192.0.2.100-192.0.2.101"]})).unwrap();
    change(json!({"if_serial_no": 2, "gateway": "192.0.2.1", "network6": "2001:db8::/64"}))
        .unwrap();
    change(json!({"gateway": "none", "network6": "none", "vlan": 7, "mtu": 9_000})).unwrap();
    change(json!({"vlan": "none", "pre_allocated": {"c": "192.0.2.50"}})).unwrap();
    assert_eq!(claim(&mut config, "net0", "c"), "192.0.2.50");
    assert_eq!(claim(&mut config, "net0", "d"), "192.0.2.100");
    let network = config.network("net0").unwrap();
    assert_eq!((network.vlan, network.mtu, network.subnets.len()), (None, Some(9_000), 1));
}

#[test]
fn a_network_with_claims_goes_by_force_alone() {
    let mut config = config(&[]);
    add(&mut config, json!({"network_name": "net0", "network": "192.0.2.0/24"})).unwrap();
    claim(&mut config, "net0", "a");
    let mut op = NetworkRemove { network_name: "net0".to_owned(), force: false };
    let error = removal(&config, &op).unwrap_err().to_string();
    assert!(error.contains("1 claims, such as that of a"), "{error}");
    op.force = true;
    let changes = removal(&config, &op).unwrap();
    config.apply(changes);
    assert!(config.networks.is_empty() && config.claims.is_empty());
}

#[test]
fn addresses_of_nodes_are_never_given() {
    let mut config = config(&[node("n2.example", NodeRole::Candidate)]);
    let own = config.node("n2.example").unwrap().primary_ip;
    let prefix = ipnet::IpNet::new(own, 30).unwrap().trunc();
    add(&mut config, json!({"network_name": "net0", "network": prefix.to_string()})).unwrap();
    let network = config.network("net0").unwrap().clone();
    assert!(parts_within(&config, &network).iter().any(|text| text.contains("n2.example")));
    let given: Vec<String> = ["a", "b"].map(|owner| claim(&mut config, "net0", owner)).into();
    assert!(!given.contains(&own.to_string()), "{given:?}");
}
