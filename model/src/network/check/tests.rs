use serde_json::{Value, json};

use super::*;
use crate::network::testing::{network, subnet};

/// The network of a test with some fields changed.
fn changed(fields: &Value) -> Result<(), String> {
    let good = subnet("192.0.2.0/24", "192.0.2.1", &["192.0.2.10-192.0.2.20"]);
    let mut value = serde_json::to_value(network([good])).unwrap();
    for (path, field) in fields.as_object().unwrap() {
        let (parent, name) = path.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[name] = field.clone();
    }
    let network: Network = serde_json::from_value(value).unwrap();
    network.check().map_err(|fault| fault.to_string())
}

#[test]
fn a_fault_names_its_field() {
    assert_eq!(changed(&json!({})), Ok(()));
    let ipv6 = json!([{"prefix": "2001:db8::/64"}]);
    let two = json!([{"prefix": "192.0.2.0/24"}, {"prefix": "192.0.2.0/25"}]);
    let overlap = json!(["192.0.2.10-192.0.2.20", "192.0.2.12-192.0.2.13"]);
    for (told, fields) in [
        ("subnets: a network needs", json!({"/subnets": []})),
        ("subnets: at most 16", json!({"/subnets": vec![json!({"prefix": "::/64"}); 17]})),
        ("subnets[1].prefix: 192.0.2.0/25 overlaps 192.0.2.0/24", json!({"/subnets": two})),
        (
            "subnets[0].prefix: 192.0.2.1/24 has host bits set; write 192.0.2.0/24",
            json!({"/subnets/0/prefix": "192.0.2.1/24"}),
        ),
        (
            "subnets[0].prefix: hosts cannot use 224.0.0.0/24",
            json!({"/subnets": [{"prefix": "224.0.0.0/24"}]}),
        ),
        (
            "subnets[0].prefix: hosts cannot use ::ffff:0.0.0.0/96",
            json!({"/subnets": [{"prefix": "::ffff:0:0/96"}]}),
        ),
        ("subnets[0].gateway: 192.0.2.255", json!({"/subnets/0/gateway": "192.0.2.255"})),
        ("subnets[0].gateway: 2001:db8::1", json!({"/subnets/0/gateway": "2001:db8::1"})),
        (
            "subnets[0].pools[0]: 192.0.2.10-192.0.3.2 is not within 192.0.2.0/24",
            json!({"/subnets/0/pools": ["192.0.2.10-192.0.3.2"]}),
        ),
        (
            "subnets[0].pools[1]: 192.0.2.12-192.0.2.13 overlaps 192.0.2.10-192.0.2.20",
            json!({"/subnets/0/pools": overlap}),
        ),
        (
            "subnets[0].pools[0]: no claim can ever have 192.0.2.1",
            json!({"/subnets/0/pools": ["192.0.2.1"]}),
        ),
        (
            "subnets[0].pre_allocated: 192.0.2.1 of a is the gateway",
            json!({"/subnets/0/pre_allocated": {"192.0.2.1": "a"}}),
        ),
        (
            "subnets[0].pre_allocated: 192.0.3.1 of a is no address",
            json!({"/subnets/0/pre_allocated": {"192.0.3.1": "a"}}),
        ),
        (
            "subnets[0].pre_allocated: a has two",
            json!({"/subnets/0/pre_allocated": {"192.0.2.7": "a", "192.0.2.8": "a"}}),
        ),
        ("vlan: 0 is none of 1 to 4094", json!({"/vlan": 0})),
        ("vlan: 4095 is none", json!({"/vlan": 4_095})),
        ("mtu: 500 is none of 576", json!({"/mtu": 500})),
        ("mtu: 1279 is none of 1280", json!({"/subnets": ipv6, "/mtu": 1_279})),
        ("dns_servers: 0.0.0.0 is no address", json!({"/dns_servers": ["0.0.0.0"]})),
        ("mac_prefix: `01:00:00` must be", json!({"/mac_prefix": "01:00:00"})),
        ("mac_prefix: `aa:0:55` must be", json!({"/mac_prefix": "aa:0:55"})),
    ] {
        let fault = changed(&fields).unwrap_err();
        assert!(fault.starts_with(told), "{fault}");
    }
}

#[test]
fn single_addresses_that_follow_each_other_are_one_pool() {
    let pools = ["192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.15", "192.0.2.9"];
    let mut subnet = subnet("192.0.2.0/24", "", &pools);
    let reserved = ["192.0.2.7", "192.0.2.5-192.0.2.6", "192.0.2.5"];
    subnet.reserved = reserved.map(|range| range.parse().unwrap()).into();
    let network = network([subnet]).normalized();
    let texts = |ranges: &[IpRange]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
    let wanted = ["192.0.2.10-192.0.2.12", "192.0.2.15", "192.0.2.9"];
    assert_eq!(texts(&network.subnets[0].pools), wanted);
    assert_eq!(texts(&network.subnets[0].reserved), ["192.0.2.5-192.0.2.7"]);
}
