//! Core: whether the configuration is sound by itself.

use std::collections::{BTreeMap, BTreeSet};

use model::Timestamp;
use model::node::NodeRole;

use crate::config::Config;
use crate::config::finding::{Code, Finding, simulated};

/// Days before the end of a certificate from which it is an error, and from which it is a warning;
/// Ganeti's.
pub const CERTIFICATE_DAYS: (i64, i64) = (7, 30);
const SECONDS_PER_DAY: i64 = 86_400;

/// The faults of the configuration.
pub fn check(config: &Config, simulate: bool) -> Vec<Finding> {
    let mut findings = if simulate { simulated(&[Code::Configuration], "") } else { Vec::new() };
    let mut wrong = |text: String| findings.push(Finding::error(Code::Configuration, "", text));
    master(config, &mut wrong);
    nodes(config, &mut wrong);
    machines(config, &mut wrong);
    let size = config.cluster.candidate_pool_size;
    let candidates = config.nodes.values().filter(|n| n.role == NodeRole::Candidate).count();
    let capable = config.nodes.values().filter(|node| {
        node.may_be_master() && matches!(node.role, NodeRole::Candidate | NodeRole::Regular)
    });
    let wanted = capable.count().min(usize::try_from(size).unwrap_or(usize::MAX));
    if candidates < wanted {
        findings.push(Finding::warning(
            Code::Configuration,
            "",
            format!(
                "{candidates} master candidates where there could be {wanted}; `gnt node modify \
                 --master-candidate yes NODE`"
            ),
        ));
    }
    findings
}

fn member(node: &model::node::Node) -> Option<u64> {
    node.member.map(|member| member.id)
}

fn master(config: &Config, wrong: &mut impl FnMut(String)) {
    let name = &config.role.master;
    match config.nodes.get(name) {
        None => wrong(format!("the master {name} is no node")),
        Some(node) if node.role != NodeRole::Candidate => {
            wrong(format!("the master {name} is no candidate, but {:?}", node.role).to_lowercase());
        }
        // A leadership's epoch has the id of a member, which a master has that was never alone.
        Some(node) if node.id != config.role.node && member(node) != Some(config.role.node) => {
            wrong(format!("the master {name} has the id {}, not {}", node.id, config.role.node));
        }
        Some(_) => {}
    }
}

fn nodes(config: &Config, wrong: &mut impl FnMut(String)) {
    let nodes = || config.nodes.values();
    let mut several = |what: &str, values: Vec<(String, &str)>| {
        let mut holders: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        values.into_iter().for_each(|(value, name)| holders.entry(value).or_default().push(name));
        for (value, names) in holders.into_iter().filter(|(_value, names)| names.len() > 1) {
            wrong(format!("nodes {} have the same {what} {value}", names.join(", ")));
        }
    };
    several("address", nodes().map(|n| (n.rpc_address().to_string(), n.name.as_str())).collect());
    several("id", nodes().map(|n| (n.id.to_string(), n.name.as_str())).collect());
    several("UUID", nodes().map(|n| (n.uuid.clone(), n.name.as_str())).collect());
    several("certificate", nodes().map(|n| (n.fingerprint.to_string(), n.name.as_str())).collect());
    for node in nodes().filter(|node| node.id >= config.cluster.next_node_id) {
        let (id, next) = (node.id, config.cluster.next_node_id);
        wrong(format!("node {} has the id {id}, and the next one would get {next}", node.name));
    }
}

fn machines(config: &Config, wrong: &mut impl FnMut(String)) {
    let mut places: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut addresses = BTreeMap::new();
    for machine in config.machines.values() {
        let (serial, rack, index) = (&machine.serial, machine.rack, machine.index_in_rack);
        if !places.insert((rack, index)) {
            wrong(format!("machine {serial} has index {index} of rack {rack}, as another one has"));
        }
        let all = machine.network.values().flat_map(|a| &a.ipv4).chain(&machine.bmc.ipv4);
        for address in all {
            if let Some(other) = addresses.insert(*address, serial) {
                wrong(format!("machines {other} and {serial} both have {address}"));
            }
        }
        let Some(ipam) = &config.ipam else {
            wrong(format!("machine {serial} has addresses, and no rules of addresses are set"));
            continue;
        };
        let held: Vec<_> = machine.network.values().flat_map(|a| a.ipv4.iter().copied()).collect();
        if ipam.node_addresses(rack, index).ok().as_ref() != Some(&held) {
            wrong(format!("machine {serial} has other addresses than the rules give it"));
        }
        let ipv6 = machine.network.values().flat_map(|a| a.ipv6.iter().flatten().copied());
        let held: Vec<_> = ipv6.collect();
        if ipam.node_ipv6(rack, index).ok().as_ref() != Some(&held) {
            wrong(format!(
                "machine {serial} has other IPv6 addresses than the rules give it; if it has none, \
                 `gnt ipam set` with the same rules gives them"
            ));
        }
    }
}

/// The finding on a certificate's end, if it is past or near.
pub fn certificate(code: Code, item: &str, ends: Timestamp, now: Timestamp) -> Option<Finding> {
    let left = ends.seconds() - now.seconds();
    let days = left.div_euclid(SECONDS_PER_DAY);
    let text = if left < 0 {
        "the certificate has ended".to_owned()
    } else {
        format!("the certificate ends in {days} days")
    };
    match days {
        days if days < CERTIFICATE_DAYS.0 => Some(Finding::error(code, item, text)),
        days if days < CERTIFICATE_DAYS.1 => Some(Finding::warning(code, item, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::ConfigChange;
    use crate::config::finding::Severity;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, node, spec};

    /// Two machines in the same place.
    fn alike() -> Vec<ConfigChange> {
        let made = |serial| register(&config(&[]), &[spec(serial, 1, "worker")], NOW).unwrap();
        ["s1", "s2"].into_iter().flat_map(made).map(ConfigChange::Machine).collect()
    }

    fn told(config: &Config) -> Vec<String> {
        check(config, false).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_sound_configuration_has_no_findings() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let told = told(&config);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("1 master candidates where there could be 2"), "{told:?}");
        assert_eq!(check(&config, true).len(), 2);
    }

    #[test]
    fn what_contradicts_itself_is_told() {
        let sound = config(&[node("n2.example", NodeRole::Candidate)]);
        assert_eq!(told(&sound), Vec::<String>::new());
        let changed = |change: &dyn Fn(&mut Config)| {
            let mut config = sound.clone();
            change(&mut config);
            told(&config).join("\n")
        };
        let node = |config: &mut Config, change: &dyn Fn(&mut model::node::Node)| {
            let mut node = config.nodes["n2.example"].as_ref().clone();
            change(&mut node);
            config.apply([ConfigChange::Node(node)]);
        };
        for (change, words) in [
            (
                &(|c: &mut Config| node(c, &|n| n.primary_ip = [10, 0, 0, 1].into()))
                    as &dyn Fn(&mut Config),
                "have the same address 10.0.0.1:1811",
            ),
            (&|c| node(c, &|n| n.id = 1), "have the same id 1"),
            (&|c| node(c, &|n| n.id = 10), "the next one would get 10"),
            (&|c| Arc::make_mut(&mut c.role).master = "n3".parse().unwrap(), "n3 is no node"),
            (&|c| Arc::make_mut(&mut c.role).node = 5, "has the id 1, not 5"),
            (&|c| drop(c.apply(alike())), "machine s2 has index 4 of rack 1, as another one has"),
        ] {
            let told = changed(change);
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn certificates_end() {
        let now = Timestamp::from_micros(0);
        let severity = |days: i64| {
            let ends = now.plus_seconds(days * SECONDS_PER_DAY);
            certificate(Code::ClusterCertificate, "", ends, now).map(|found| found.severity)
        };
        assert_eq!(severity(31), None);
        assert_eq!(severity(29), Some(Severity::Warning));
        assert_eq!(severity(6), Some(Severity::Error));
        assert_eq!(severity(-1), Some(Severity::Error));
    }
}
