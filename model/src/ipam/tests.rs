use proptest::prelude::*;

use super::*;

fn sample() -> IpamConfig {
    serde_json::from_str(
        r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
            "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
            "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}"#,
    )
    .unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn the_documents_examples_hold() {
    let mut config = sample();
    config.validate().unwrap();
    assert_eq!(
        config.node_addresses(0, 4).unwrap(),
        [ip("10.69.0.4"), ip("10.69.0.68"), ip("10.69.0.132")]
    );
    assert_eq!(
        config.node_addresses(1, 5).unwrap(),
        [ip("10.69.0.197"), ip("10.69.1.5"), ip("10.69.1.69")]
    );
    // By its formula; its examples of controllers' addresses need an offset that it lacks.
    assert_eq!(config.bmc_address(0, 4).unwrap(), ip("10.72.16.4"));
    config.bmc_ipv4_offset = Some(ip("0.0.1.0"));
    assert_eq!(config.bmc_address(0, 4).unwrap(), ip("10.72.17.4"));
    assert_eq!(config.bmc_address(1, 5).unwrap(), ip("10.72.17.37"));
}

#[test]
fn leases_lie_behind_the_last_index() {
    let ranges = sample().lease_ranges(0).unwrap();
    assert_eq!(ranges.len(), 3);
    assert_eq!(
        ranges[0],
        LeaseRange {
            subnet: "10.69.0.0/26".parse().unwrap(),
            first: ip("10.69.0.32"),
            last: ip("10.69.0.62"),
            gateway: ip("10.69.0.1"),
        }
    );
    assert_eq!(ranges[2].first, ip("10.69.0.160"));
    assert_eq!(sample().lease_ranges(1).unwrap()[0].first, ip("10.69.0.224"));
}

#[test]
fn indices() {
    let config = sample();
    assert_eq!(config.assign_index(0, "boot", &BTreeSet::new()), Ok(3));
    assert_eq!(
        config.assign_index(0, "boot", &BTreeSet::from([3])),
        Err(IpamError::BootTaken { rack: 0 })
    );
    assert_eq!(config.assign_index(0, "worker", &BTreeSet::new()), Ok(4));
    assert_eq!(config.assign_index(0, "worker", &BTreeSet::from([3, 4, 6])), Ok(5));
    let full: BTreeSet<u32> = (4..=31).collect();
    assert_eq!(
        config.assign_index(0, "worker", &full),
        Err(IpamError::RackFull { rack: 0, max: 28 })
    );
}

#[test]
fn the_pool_ends() {
    let config = sample();
    assert!(config.node_addresses(340, 4).is_ok());
    let told = config.node_addresses(341, 4).unwrap_err().to_string();
    let wanted =
        "rack 341 is beyond node-ipv4-pool 10.69.0.0/16, which has room for racks 0 to 340";
    assert!(told.contains(wanted), "{told}");
    assert!(config.bmc_address(127, 4).is_ok());
    assert!(config.bmc_address(128, 4).is_err());
}

#[test]
fn rules_that_cannot_work_are_refused() {
    let refused = |change: &dyn Fn(&mut IpamConfig)| {
        let mut config = sample();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    type Change = fn(&mut IpamConfig);
    let cases: [(&str, Change); 13] = [
        ("max-nodes-in-rack", |c| c.max_nodes_in_rack = 0),
        ("node-ipv4-range-size", |c| c.max_nodes_in_rack = 60),
        ("bmc-ipv4-range-size", |c| c.max_nodes_in_rack = 29),
        ("host bits", |c| c.bmc_ipv4_pool = "10.72.17.0/20".parse().unwrap()),
        ("overlap", |c| c.bmc_ipv4_pool = "10.69.16.0/20".parse().unwrap()),
        ("node-ipv4-range-mask", |c| c.node_ipv4_range_mask = 27),
        ("bmc-ipv4-range-mask", |c| c.bmc_ipv4_range_mask = 7),
        ("node-ip-per-node", |c| c.node_ip_per_node = 0),
        ("node-index-offset", |c| c.node_index_offset = 0),
        ("node-gateway-offset", |c| c.node_gateway_offset = Some(5)),
        ("node-gateway-offset", |c| c.node_gateway_offset = Some(0)),
        ("has 128 addresses behind its offset, and each rack takes 192", |c| {
            c.node_ipv4_pool = "10.69.0.0/25".parse().unwrap();
        }),
        ("bmc-ipv4-pool 10.72.16.0/28 is too small", |c| {
            c.bmc_ipv4_pool = "10.72.16.0/28".parse().unwrap();
        }),
    ];
    for (told, change) in cases {
        let message = refused(&change);
        assert!(message.contains(told), "{told}: {message}");
    }
}

proptest! {
    /// No two machines share an address, none has a gateway's or a leased one.
    #[test]
    fn addresses_never_meet(
        max in 1u32..40, bits in 3u8..9, per_node in 1u32..4, offset in 2u32..6, racks in 1u32..5,
    ) {
        let mut config = sample();
        config.max_nodes_in_rack = max;
        config.node_ipv4_range_size = bits;
        config.node_ipv4_range_mask = 32 - bits;
        config.bmc_ipv4_range_size = 8;
        config.node_ip_per_node = per_node;
        config.node_index_offset = offset;
        prop_assume!(config.validate().is_ok());
        let mut seen = std::collections::HashSet::new();
        for rack in 0..racks {
            for index in offset..=config.last_index() {
                for a in config.node_addresses(rack, index).unwrap() {
                    prop_assert!(seen.insert(a));
                }
                prop_assert!(seen.insert(config.bmc_address(rack, index).unwrap()));
            }
            for range in config.lease_ranges(rack).unwrap() {
                prop_assert!(range.first <= range.last);
                prop_assert!(range.subnet.contains(&range.first) && range.subnet.contains(&range.last));
                prop_assert!(range.last < range.subnet.broadcast());
                prop_assert!(seen.insert(range.gateway));
                for a in u32::from(range.first)..=u32::from(range.last) {
                    prop_assert!(seen.insert(Ipv4Addr::from(a)));
                }
            }
        }
    }
}
