use std::collections::BTreeMap;

use proptest::prelude::{Just, any, prop_assert, prop_oneof, proptest};

use super::*;
use crate::network::Strategy as Give;
use crate::network::testing::{named, network, subnet};

/// The owner of each address; runs are found by looking at each.
#[derive(Default)]
struct Holders(BTreeMap<IpAddr, Owner>);

impl Used for Holders {
    fn run_end(&self, address: IpAddr) -> Option<IpAddr> {
        let mut last = self.0.contains_key(&address).then_some(address)?;
        while let Some(next) = range::next(last).filter(|next| self.0.contains_key(next)) {
            last = next;
        }
        Some(last)
    }

    fn owner(&self, address: IpAddr) -> Option<String> {
        self.0.get(&address).map(ToString::to_string)
    }
}

impl Holders {
    fn give(&mut self, network: &Network, owner: &str, seed: u128) -> Result<Vec<String>, String> {
        let owner = named(owner);
        let given =
            allocate(network, &owner, None, self, seed).map_err(|error| error.to_string())?;
        for address in &given {
            assert!(self.0.insert(*address, owner.clone()).is_none(), "{address} was given twice");
        }
        Ok(given.iter().map(ToString::to_string).collect())
    }
}

fn is_full(network: &Network, holders: &mut Holders) -> bool {
    holders.give(network, "one-more", 0).is_err_and(|error| error.contains("full"))
}

/// Pools give the addresses that ip-address-manager computes (`GetIPAddress`, `GetPoolSize`), but never
/// the address of the network, its broadcast address or its gateway.
#[test]
fn pools_give_their_addresses_in_order() {
    for (prefix, gateway, pools, wanted) in [
        (
            "192.168.0.0/24",
            "192.168.0.1",
            vec!["192.168.0.10-192.168.0.12"],
            vec!["192.168.0.10", "192.168.0.11", "192.168.0.12"],
        ),
        (
            "192.168.0.0/29",
            "192.168.0.1",
            vec!["192.168.0.0-192.168.0.7"],
            vec!["192.168.0.2", "192.168.0.3", "192.168.0.4", "192.168.0.5", "192.168.0.6"],
        ),
        (
            "192.168.1.0/24",
            "",
            vec!["192.168.1.15", "192.168.1.10-192.168.1.11"],
            vec!["192.168.1.15", "192.168.1.10", "192.168.1.11"],
        ),
        ("10.0.0.0/31", "", vec!["10.0.0.0-10.0.0.1"], vec!["10.0.0.0", "10.0.0.1"]),
        ("10.0.0.7/32", "", vec!["10.0.0.7"], vec!["10.0.0.7"]),
        (
            "10.255.255.254/31",
            "",
            vec!["10.255.255.254-10.255.255.255"],
            vec!["10.255.255.254", "10.255.255.255"],
        ),
        (
            "2001:db8::/126",
            "2001:db8::1",
            vec!["2001:db8::-2001:db8::3"],
            vec!["2001:db8::2", "2001:db8::3"],
        ),
        (
            "2001:db8::2/127",
            "",
            vec!["2001:db8::2-2001:db8::3"],
            vec!["2001:db8::2", "2001:db8::3"],
        ),
        ("2001:db8::9/128", "", vec!["2001:db8::9"], vec!["2001:db8::9"]),
    ] {
        let subnet = subnet(prefix, gateway, &pools);
        assert_eq!(subnet.capacity(), wanted.len() as u128, "{prefix}");
        let network = network([subnet]);
        let mut holders = Holders::default();
        for (number, wanted) in wanted.iter().enumerate() {
            let given = holders.give(&network, &format!("n{number}"), 0).unwrap();
            assert_eq!(given, [*wanted], "{prefix}");
        }
        assert!(is_full(&network, &mut holders), "{prefix}");
    }
}

#[test]
fn a_claim_has_an_address_of_each_family_or_none() {
    let v4 = subnet("192.0.2.0/24", "", &["192.0.2.10-192.0.2.11"]);
    let v6 = subnet("2001:db8::/64", "", &["2001:db8::10"]);
    let network = network([v6, v4]);
    let mut holders = Holders::default();
    assert_eq!(holders.give(&network, "a", 0).unwrap(), ["192.0.2.10", "2001:db8::10"]);
    let error = holders.give(&network, "b", 0).unwrap_err();
    assert_eq!(error, "the IPv6 pools of network net0 are full");
    assert_eq!(holders.0.len(), 2);
}

#[test]
fn a_wanted_address_is_given_or_refused_with_the_reason() {
    let mut subnet = subnet("192.0.2.0/24", "192.0.2.1", &["192.0.2.10-192.0.2.11"]);
    subnet.reserved = vec!["192.0.2.100-192.0.2.200".parse().unwrap()];
    subnet.pre_allocated.insert("192.0.2.10".parse().unwrap(), named("kept"));
    let network = network([subnet]);
    let mut holders = Holders::default();
    holders.0.insert("192.0.2.50".parse().unwrap(), named("other"));
    let ask = |owner: &str, address: &str| {
        let wanted = Some(address.parse().unwrap());
        allocate(&network, &named(owner), wanted, &holders, 0).map_err(|error| error.to_string())
    };
    for (owner, address, why) in [
        ("a", "192.0.3.1", "192.0.3.1 is of no subnet of network net0"),
        ("a", "2001:db8::1", "is of no subnet"),
        ("a", "192.0.2.0", "is no address of a host"),
        ("a", "192.0.2.255", "is no address of a host"),
        ("a", "192.0.2.1", "is the gateway"),
        ("a", "192.0.2.150", "is reserved"),
        ("a", "192.0.2.10", "is kept for kept"),
        ("a", "192.0.2.50", "belongs to other"),
        ("kept", "192.0.2.11", "is not 192.0.2.10, which is kept for kept"),
    ] {
        let error = ask(owner, address).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // Outside the pools, too, as its own again, and as the kept one.
    for (owner, address) in [("a", "192.0.2.30"), ("other", "192.0.2.50"), ("kept", "192.0.2.10")] {
        assert_eq!(ask(owner, address), Ok(vec![address.parse().unwrap()]));
    }
    assert_eq!(holders.give(&network, "kept", 0).unwrap(), ["192.0.2.10"]);
    assert_eq!(holders.give(&network, "a", 0).unwrap(), ["192.0.2.11"]);
}

#[test]
fn an_owner_that_comes_back_has_its_address_again() {
    let subnet = subnet("192.0.2.0/24", "192.0.2.1", &["192.0.2.10-192.0.2.250"]);
    let network = Network { strategy: Give::Sticky, ..network([subnet]) };
    let mut holders = Holders::default();
    let first = holders.give(&network, "a", 1).unwrap();
    holders.0.clear();
    assert_ne!(holders.give(&network, "b", 2).unwrap(), first);
    assert_eq!(holders.give(&network, "a", 3).unwrap(), first);
}

#[test]
fn a_network_without_pools_gives_what_is_asked_for_alone() {
    let network = network([subnet("192.0.2.0/24", "", &[])]);
    let error = Holders::default().give(&network, "a", 0).unwrap_err();
    assert!(error.contains("--pool"), "{error}");
}

proptest! {
    /// Each strategy gives every address of every pool once, and then none.
    #[test]
    fn every_address_is_given_once(
        pools in proptest::collection::btree_set(0_u8..64, 1..8),
        lengths in proptest::collection::vec(1_u8..4, 8),
        reserved in proptest::collection::vec(0_u8..=255, 0..8),
        strategy in prop_oneof![
            Just(Give::Sequential), Just(Give::Random), Just(Give::Sticky)
        ],
        seeds in proptest::collection::vec(any::<u128>(), 256),
    ) {
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut subnet = subnet("192.0.2.0/24", "192.0.2.9", &[]);
        subnet.pools = pools.iter().rev().zip(&lengths).map(|(pool, length)| {
            IpRange::new(address(pool * 4), address(pool * 4 + length)).unwrap()
        }).collect();
        subnet.reserved = reserved.iter().map(|last| IpRange::one(address(*last))).collect();
        let network = Network { strategy, ..network([subnet]) }.normalized();
        let mut holders = Holders::default();
        let capacity = network.subnets[0].capacity();
        for number in 0..capacity {
            let given = holders.give(&network, &format!("n{number}"), seeds[number as usize]);
            prop_assert!(given.is_ok(), "{given:?}");
        }
        prop_assert!(capacity == 0 || is_full(&network, &mut holders));
        for address in holders.0.keys() {
            let subnet = &network.subnets[0];
            prop_assert!(subnet.pools.iter().any(|pool| pool.contains(*address)));
            prop_assert!(!subnet.reserved.iter().any(|range| range.contains(*address)));
            prop_assert!(subnet.hosts().contains(*address) && subnet.gateway != Some(*address));
        }
    }
}
