use proptest::prelude::*;

use super::*;

pub(super) fn sample() -> IpamConfig {
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
    config.validate().unwrap();
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

type Change = fn(&mut IpamConfig);

fn refused(cases: &[(&str, Change)]) {
    for (told, change) in cases {
        let mut config = sample();
        change(&mut config);
        let message = config.validate().unwrap_err().to_string();
        assert!(message.contains(told), "{told}: {message}");
    }
}

#[test]
fn rules_that_cannot_work_are_refused() {
    refused(&[
        ("max-nodes-in-rack", |c| c.max_nodes_in_rack = 0),
        ("node-ipv4-range-size", |c| c.max_nodes_in_rack = 60),
        ("bmc-ipv4-range-size", |c| c.max_nodes_in_rack = 29),
        ("host bits", |c| c.bmc_ipv4_pool = net("10.72.17.0/20")),
        ("overlap", |c| c.bmc_ipv4_pool = net("10.69.16.0/20")),
        ("node-ipv4-range-mask", |c| c.node_ipv4_range_mask = 27),
        ("bmc-ipv4-range-mask", |c| c.bmc_ipv4_range_mask = 7),
        ("node-ip-per-node", |c| c.node_ip_per_node = 0),
        ("node-index-offset", |c| c.node_index_offset = 0),
        ("node-gateway-offset", |c| c.node_gateway_offset = Some(0)),
        ("node-ipv4-pool 127.0.0.0/9 meets 127.0.0.0/8", |c| c.node_ipv4_pool = net("127.0.0.0/9")),
        ("bmc-ipv4-pool 0.0.0.0/1 meets 0.0.0.0/8", |c| c.bmc_ipv4_pool = net("0.0.0.0/1")),
        ("meets 224.0.0.0/4, which is for multicast", |c| c.bmc_ipv4_pool = net("239.0.0.0/16")),
        ("meets 240.0.0.0/4, which is reserved", |c| c.node_ipv4_pool = net("255.0.0.0/16")),
        ("has 128 addresses behind its offset, and each rack takes 192", |c| {
            c.node_ipv4_pool = net("10.69.0.0/25");
        }),
        ("bmc-ipv4-pool 10.72.16.0/28 is too small", |c| c.bmc_ipv4_pool = net("10.72.16.0/28")),
        ("behind its offset", |c| c.node_ipv4_offset = Some(ip("0.1.0.0"))),
    ]);
}

#[test]
fn every_address_is_looked_at() {
    refused(&[
        (
            "the machine of index 31 of rack 0 would get 10.69.0.63, the broadcast address of 10.69.0.0/26",
            |c| c.node_ipv4_offset = Some(ip("0.0.0.32")),
        ),
        ("the machine of index 3 of rack 0 would get 10.69.0.65, outside the network", |c| {
            c.node_ipv4_offset = Some(ip("0.0.0.62"));
        }),
        ("a lease of rack 0 would get 10.69.0.63, the broadcast address of 10.69.0.0/26", |c| {
            c.node_ipv4_offset = Some(ip("0.0.0.16"));
        }),
        // The controllers' networks end with each rack, and so does the last index.
        ("the controller of index 31 of rack 0 would get 10.72.16.31, the broadcast", |c| {
            c.bmc_ipv4_range_mask = 27;
        }),
        ("the controller of index 31 of rack 7 would get 10.72.16.255, the broadcast", |c| {
            c.bmc_ipv4_range_mask = 24;
        }),
        (
            "node-gateway-offset 5 puts the gateway of rack 0 at 10.69.0.5, which is that of the machine \
          of rack 0, index 5",
            |c| c.node_gateway_offset = Some(5),
        ),
        ("at 10.69.0.40, which rack 0 leases", |c| c.node_gateway_offset = Some(40)),
        ("at 10.69.0.63, the broadcast address of 10.69.0.0/26", |c| {
            c.node_gateway_offset = Some(63);
        }),
        ("at 10.69.0.64, outside the network 10.69.0.0/26", |c| c.node_gateway_offset = Some(64)),
        // In the second range of a network that has four.
        ("at 10.69.0.70, which is that of the machine of rack 0, index 6", |c| {
            c.node_ipv4_range_mask = 24;
            c.node_gateway_offset = Some(70);
        }),
        (
            "bmc-ipv4-gateway-offset 4 puts the gateway of rack 0 at 10.72.16.4, which is that of the \
          controller of rack 0, index 4",
            |c| c.bmc_ipv4_gateway_offset = Some(4),
        ),
        ("at 10.72.31.255, the broadcast address of 10.72.16.0/20", |c| {
            c.bmc_ipv4_gateway_offset = Some(4_095);
        }),
        // Both pools in one network, where the controllers' gateway is a machine.
        (
            "bmc-ipv4-gateway-offset 5 puts the gateway of rack 0 at 10.69.0.5, which is that of the \
          machine of rack 0, index 5",
            |c| {
                c.node_ipv4_pool = net("10.69.0.0/17");
                c.bmc_ipv4_pool = net("10.69.128.0/20");
                c.bmc_ipv4_range_mask = 16;
                c.bmc_ipv4_gateway_offset = Some(5);
            },
        ),
    ]);
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

#[test]
fn rules_that_can_work_are_taken() {
    let cases: [Change; 7] = [
        |_| {},
        |c| c.bmc_ipv4_offset = Some(ip("0.0.1.0")),
        |c| c.node_ipv4_offset = Some(ip("0.0.1.0")),
        |c| c.node_ipv4_range_mask = 16,
        |c| c.node_gateway_offset = Some(2),
        // Its own range leaves it out, and it is no broadcast address of the larger network.
        |c| (c.node_ipv4_range_mask, c.node_gateway_offset) = (24, Some(63)),
        |c| (c.bmc_ipv4_range_mask, c.max_nodes_in_rack) = (27, 27),
    ];
    for (at, change) in cases.into_iter().enumerate() {
        let mut config = sample();
        change(&mut config);
        assert_eq!(config.faults(), [], "case {at}");
    }
}

#[test]
fn all_faults_are_told() {
    let mut config = sample();
    config.bmc_ipv4_pool = net("127.72.17.0/20");
    config.max_nodes_in_rack = 60;
    let told: Vec<String> = config.faults().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
}

/// The document's own rules end with a controller at a broadcast address.
#[test]
fn the_last_machine_of_the_last_rack_is_refused_alone() {
    let config = sample();
    assert_eq!(config.racks(), 128);
    assert!(config.bmc_address(127, 30).is_ok() && config.bmc_address(126, 31).is_ok());
    let told = config.bmc_address(127, 31).unwrap_err().to_string();
    assert!(
        told.contains("would get 10.72.31.255, the broadcast address of 10.72.16.0/20"),
        "{told}"
    );
}

/// The largest pools are looked at whole, and in time.
#[test]
fn large_pools() {
    let mut config = sample();
    config.node_ipv4_pool = net("64.0.0.0/3");
    config.bmc_ipv4_pool = net("128.0.0.0/2");
    config.node_ip_per_node = 16;
    config.bmc_ipv4_range_mask = 8;
    config.node_ipv4_range_mask = 8;
    assert_eq!(config.faults(), []);
    assert_eq!(config.racks(), 65_536);
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
