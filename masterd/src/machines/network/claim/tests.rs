use std::collections::BTreeMap;

use model::Serial;
use model::bmc::{BmcAccess, BmcTrust};
use model::vault::Sealed;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::*;
use crate::machines::bmc::is_unclaimed;
use crate::machines::machine::register;
use crate::machines::network::tests::{add, claim};
use crate::testing::{NOW, config, spec};

fn network(pool: &str) -> Config {
    let mut config = config(&[]);
    let op = json!({"network_name": "net0", "network": "192.0.2.0/24", "pools": [pool]});
    add(&mut config, op).unwrap();
    config
}

fn try_claims(config: &mut Config, claims: &Value, seconds: i64) -> Result<Vec<Claim>, String> {
    let specs: Vec<ClaimSpec> = serde_json::from_value(claims.clone()).unwrap();
    let done = made(config, &specs, NOW.plus_seconds(seconds), 0);
    let (changes, claims) = done.map_err(|error| error.to_string())?;
    config.apply(changes);
    Ok(claims)
}

fn end(config: &mut Config, owner: &str) {
    let changes = released_by(config, &owner.parse().unwrap(), 0);
    config.apply(changes);
}

fn addresses(config: &Config, owner: &str) -> Vec<String> {
    let key = format!("net0/{owner}").parse::<ClaimKey>().unwrap();
    config.claims[&key].addresses().iter().map(ToString::to_string).collect()
}

#[test]
fn a_claim_is_the_same_however_often_it_is_made() {
    let mut config = network("192.0.2.10-192.0.2.20");
    for _ in 0..3 {
        assert_eq!(claim(&mut config, "net0", "a"), "192.0.2.10");
    }
    let again = json!([{"network": "net0", "owner": "a", "address": "192.0.2.10"}]);
    assert_eq!(try_claims(&mut config, &again, 0).unwrap().len(), 1);
    let other = json!([{"network": "net0", "owner": "a", "address": "192.0.2.11"}]);
    let error = try_claims(&mut config, &other, 0).unwrap_err();
    assert!(error.contains("a has 192.0.2.10 of network net0; release"), "{error}");
    assert_eq!(config.claims.len(), 1);
}

/// The first one that cannot be served holds up nobody, and an address that becomes free goes to those
/// that wait, in their order.
#[test]
fn a_full_pool_ends_by_itself() {
    let mut config = network("192.0.2.10-192.0.2.11");
    for (owner, seconds) in [("z", 0), ("y", 1), ("x", 2), ("b", 3), ("a", 4)] {
        let claims = json!([{"network": "net0", "owner": owner}]);
        try_claims(&mut config, &claims, seconds).unwrap();
    }
    assert_eq!(addresses(&config, "x"), [""; 0]);
    // A claim that waits and goes again leaks nothing.
    end(&mut config, "x");
    end(&mut config, "z");
    assert_eq!(addresses(&config, "b"), ["192.0.2.10"]);
    end(&mut config, "y");
    assert_eq!(addresses(&config, "a"), ["192.0.2.11"]);
    assert!(config.claims.values().all(|claim| !claim.is_waiting()));
}

#[test]
fn what_is_kept_or_asked_for_waits_for_no_pool() {
    let mut config = network("192.0.2.10-192.0.2.11");
    for (owner, seconds) in [("a", 0), ("b", 1), ("c", 2), ("d", 3)] {
        let claims = json!([{"network": "net0", "owner": owner}]);
        try_claims(&mut config, &claims, seconds).unwrap();
    }
    let mut kept = config.network("net0").unwrap().as_ref().clone();
    kept.subnets[0].pre_allocated =
        BTreeMap::from([("192.0.2.50".parse().unwrap(), "d".parse().unwrap())]);
    config.apply([ConfigChange::Network(kept)]);
    settled(&mut config, &"net0".parse().unwrap(), 0);
    assert_eq!(addresses(&config, "d"), ["192.0.2.50"], "c waits, and holds up nobody");
    assert_eq!(addresses(&config, "c"), [""; 0]);
}

#[test]
fn a_pool_without_any_usable_address_is_no_pool_to_wait_for() {
    let mut config = network("192.0.2.0-192.0.2.1");
    let mut gateway = config.network("net0").unwrap().as_ref().clone();
    gateway.subnets[0].gateway = Some("192.0.2.1".parse().unwrap());
    config.apply([ConfigChange::Network(gateway)]);
    let claims = json!([{"network": "net0", "owner": "a"}]);
    let error = try_claims(&mut config, &claims, 0).unwrap_err();
    assert!(error.contains("have none that a host may have"), "{error}");
}

#[test]
fn nobody_claims_an_address_of_the_rules() {
    let mut config = config(&[]);
    let mut rules = crate::testing::ipam();
    rules.node_ipv6_pool = "fd00:69::/48".parse().ok();
    config.apply([ConfigChange::Ipam(rules)]);
    let op = json!({
        "network_name": "net0", "network": "10.68.0.0/15", "pools": ["10.68.0.10-10.68.0.20"],
        "network6": "fd00:69::/64",
    });
    add(&mut config, op).unwrap();
    for address in ["10.69.0.4", "10.69.0.40", "fd00:69::4"] {
        let claims = json!([{"network": "net0", "owner": "a", "address": address}]);
        let error = try_claims(&mut config, &claims, 0).unwrap_err();
        assert!(error.contains("belongs to the rules of addresses"), "{error}");
    }
    let pool = json!({"network_name": "net1", "network6": "fd00:69:0:1::/64", "pools": ["fd00:69:0:1::9"]});
    let error = add(&mut config, pool).unwrap_err();
    assert!(error.to_string().contains("meets node-ipv6-pool"), "{error}");
    assert!(config.unclaimed("x", "10.68.0.10".parse().unwrap()).is_ok());
    assert_eq!(claim(&mut config, "net0", "a"), "10.68.0.10");
    let error = config.unclaimed("node", "10.68.0.10".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("node: 10.68.0.10 belongs to a of network net0"), "{error}");
}

#[test]
fn all_claims_of_a_list_are_made_or_none() {
    let mut config = network("192.0.2.10-192.0.2.20");
    let claims = json!([
        {"network": "net0", "owner": "node-0", "address": "192.0.2.10"},
        {"network": "net0", "owner": "node-1", "address": "192.0.2.10"},
    ]);
    let error = try_claims(&mut config, &claims, 0).unwrap_err();
    assert!(error.contains("192.0.2.10 belongs to node-0"), "{error}");
    for (told, claim) in [
        ("Network 'net9' not found", json!({"network": "net9", "owner": "a"})),
        ("is of no subnet", json!({"network": "net0", "owner": "a", "address": "10.0.0.1"})),
        ("not known", json!({"network": "net0", "owner": "machine:none"})),
    ] {
        let error = try_claims(&mut config, &json!([claim]), 0).unwrap_err();
        assert!(error.contains(told), "{told}: {error}");
    }
    assert!(config.claims.is_empty());
}

#[test]
fn the_address_of_a_controller_is_given_to_nobody_and_a_claimed_one_is_no_controllers() {
    let mut config = network("192.0.2.10-192.0.2.12");
    let six = json!({"network_name": "six", "network6": "2001:db8::/126"});
    add(&mut config, six).unwrap();
    let machines =
        register(&config, &[spec("s1", 0, "worker"), spec("s2", 0, "worker")], NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    let (s1, s2): (Serial, Serial) = ("s1".parse().unwrap(), "s2".parse().unwrap());
    let access = |serial: &Serial, url: &str| BmcAccess {
        serial: serial.clone(),
        url: url.parse().unwrap(),
        trust: BmcTrust::Any,
        user: "root".to_owned(),
        privilege: None,
        sealed: Sealed { key: 1, bytes: Vec::new() },
        ctime: NOW,
    };
    for (serial, url) in [(&s1, "https://192.0.2.10:8443"), (&s2, "ipmi://[2001:db8::1]")] {
        config.apply([ConfigChange::Bmc(access(serial, url))]);
    }
    let subnet = config.network("net0").unwrap().subnets[0].clone();
    let network: Word = "net0".parse().unwrap();
    let used = UsedIn { config: &config, network: &network };
    let parts: Vec<String> = used.parts_within(&subnet).map(|part| part.to_string()).collect();
    assert_eq!(parts, ["192.0.2.10"]);
    assert_eq!(claim(&mut config, "net0", "a"), "192.0.2.11");
    assert_eq!(claim(&mut config, "six", "a"), "2001:db8::2");
    let wanted = json!([{"network": "net0", "owner": "b", "address": "192.0.2.10"}]);
    let error = try_claims(&mut config, &wanted, 0).unwrap_err();
    assert!(error.contains("192.0.2.10 belongs to s1"), "{error}");

    // The other way: what is claimed is the controller's only where the machine claims it.
    assert_eq!(claim(&mut config, "net0", "machine:s2"), "192.0.2.12");
    let told = |serial: &Serial, url: &str| {
        is_unclaimed(&config, serial, &url.parse().unwrap()).map_err(|error| error.to_string())
    };
    for (serial, url, good) in [
        (&s1, "https://192.0.2.11", false),
        (&s1, "https://192.0.2.12", false),
        (&s2, "https://192.0.2.12", true),
        (&s2, "https://192.0.2.13", true),
        (&s2, "https://bmc.example", true),
    ] {
        assert_eq!(told(serial, url).is_ok(), good, "{url}");
    }
    let error = told(&s1, "https://192.0.2.11").unwrap_err();
    assert!(error.contains("url: 192.0.2.11 belongs to a of network net0"), "{error}");
}

#[test]
fn claims_of_a_machine_end_with_it() {
    let mut config = network("192.0.2.10");
    let machines = register(&config, &[spec("s 1", 0, "worker")], NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    assert_eq!(claim(&mut config, "net0", "machine:s 1"), "192.0.2.10");
    end(&mut config, "machine:s 1");
    assert_eq!(claim(&mut config, "net0", "a"), "192.0.2.10");
}

proptest! {
    /// After any history no address has two holders, none that is free is kept from one that waits, and
    /// addresses in use are those of claims.
    #[test]
    fn histories(steps in proptest::collection::vec((any::<bool>(), 0_u8..12), 1..80)) {
        let mut config = network("192.0.2.10-192.0.2.15");
        for (at, (claims, owner)) in (0_i64..).zip(steps) {
            let owner = format!("o{owner}");
            if claims {
                let claims = json!([{"network": "net0", "owner": owner}]);
                try_claims(&mut config, &claims, at).unwrap();
            } else {
                end(&mut config, &owner);
            }
            let mut holders = BTreeMap::new();
            for claim in config.claims.values() {
                for address in claim.addresses() {
                    prop_assert!(holders.insert(*address, claim.owner.clone()).is_none());
                }
            }
            let waiting: Vec<_> = config.claims.values().filter(|claim| claim.is_waiting()).collect();
            prop_assert!(waiting.is_empty() || holders.len() == 6);
            prop_assert_eq!(config.claims.len(), holders.len() + waiting.len());
        }
    }
}
