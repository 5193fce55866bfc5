//! Core: whether instances are as they are to be, in the lines of Ganeti's `gnt-cluster verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::instance::state::{AdminState, Status};
use model::node::Node;
use model::{NodeName, Timestamp};

use crate::agents::contacts::Contacts;
use crate::config::Config;
use crate::config::finding::{Code, Finding};
use crate::instances::broken_policy;
use crate::instances::standing::Stands;

/// The faults of instances whose primary node is one of these, and what lives there unknown.
pub(super) fn check(
    config: &Config,
    nodes: &[Arc<Node>],
    contacts: &Contacts,
    now: Timestamp,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in nodes {
        let instances = config.instances.by.primary.of(node.name.clone());
        for instance in instances {
            let name = instance.name.as_str();
            let stands = Stands::of(config, instance, contacts, now);
            let error = |code, text: String| Finding::error(code, name, text);
            match stands.status() {
                Some(Status::ErrorDown) => found.push(error(
                    Code::InstanceDown,
                    format!("instance not running on its primary node {}", node.name),
                )),
                Some(Status::ErrorUp) => found.push(error(
                    Code::InstanceDown,
                    format!("instance is running on node {}, though it is not to", node.name),
                )),
                Some(Status::ErrorWrongNode) => {
                    let alive = contacts.instances.alive_on(instance.uuid);
                    let on = listed(alive.iter().filter(|other| **other != node.name));
                    let text = format!("instance should not run on node {on}");
                    found.push(error(Code::InstanceWrongNode, text));
                }
                Some(Status::ErrorNodeOffline) if instance.admin_state == AdminState::Up => {
                    let text = format!("instance lives on offline node {}", node.name);
                    found.push(error(Code::InstanceBadNode, text));
                }
                _ => {}
            }
            let broken = broken_policy(config, instance);
            if !broken.is_empty() {
                let text = format!("instance violates the policy: {}", broken.join(", "));
                found.push(Finding::warning(Code::InstancePolicy, name, text));
            }
        }
        let unknown = contacts.instances.alive_at(&node.name).into_iter();
        let unknown = unknown.filter(|sight| config.instance_of(sight.uuid).is_none());
        for sight in unknown {
            let text = format!("node is running unknown instance {}", sight.name);
            found.push(Finding::error(Code::NodeOrphanInstance, node.name.as_str(), text));
        }
    }
    found
}

/// The disks of instances that are not where they are to be, each with its node and its place there.
pub(super) fn disks(lost: BTreeMap<String, Vec<(NodeName, String)>>) -> Vec<Finding> {
    let of_one = |(name, disks): (String, Vec<(NodeName, String)>)| {
        let told = move |(node, path): (NodeName, String)| {
            let text = format!("volume {path} missing on node {node}");
            Finding::error(Code::InstanceMissingDisk, &name, text)
        };
        disks.into_iter().map(told)
    };
    lost.into_iter().flat_map(of_one).collect()
}

fn listed<'n>(names: impl Iterator<Item = &'n NodeName>) -> String {
    let names: BTreeSet<&str> = names.map(NodeName::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use model::Uuid;
    use model::instance::launch::{Sights, SightsKnown};
    use model::instance::state::Seen;
    use model::node::NodeRole;

    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{NOW, config, instance, node, sight};

    #[test]
    fn what_is_told_of_instances() {
        let mut config = config(&[node("n2.example", NodeRole::Regular)]);
        for name in ["well", "dead", "lost"] {
            config.apply([ConfigChange::Instance(instance(name, "n1.example"))]);
        }
        let contacts = Contacts::default();
        let tell = |node: &str, names: &[(&str, Seen)]| {
            let seen = |(name, seen): &(&str, Seen)| {
                let of = sight(&instance(name, "n1.example"));
                model::instance::launch::Sight { seen: *seen, ..of }
            };
            let known = SightsKnown { life: Uuid::nil(), number: 1 };
            let instances = names.iter().map(seen).collect();
            contacts.instances.take(&node.parse().unwrap(), Sights { known, all: true, instances });
        };
        tell("n1.example", &[("well", Seen::Running), ("dead", Seen::Crashed)]);
        tell("n2.example", &[("lost", Seen::Running), ("ghost", Seen::Running)]);
        let nodes: Vec<_> = config.nodes.values().cloned().collect();
        let found = check(&config, &nodes, &contacts, NOW);
        let mut told: Vec<String> = found
            .iter()
            .map(|one| format!("{} {}: {}", one.code.as_str(), one.item, one.text))
            .collect();
        told.retain(|line| !line.starts_with("EINSTANCEPOLICY"));
        assert_eq!(
            told,
            [
                "EINSTANCEDOWN dead: instance not running on its primary node n1.example",
                "EINSTANCEWRONGNODE lost: instance should not run on node n2.example",
                "ENODEORPHANINSTANCE n2.example: node is running unknown instance ghost",
            ]
        );
    }
}
