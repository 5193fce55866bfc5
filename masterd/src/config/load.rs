//! Core: the configuration from its documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jobs::filter::{Rule, RuleError, RuleMap};
use model::cluster::{Cluster, Role};
use model::document;
use model::group::{DEFAULT_GROUP, Group};
use serde::de::DeserializeOwned;

use super::Config;

/// Documents that do not make a configuration. Going on with part of it would spread the damage,
/// so this ends the daemon.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A document that the cluster cannot be without.
    #[error(
        "the store has no `{0}`; restore it from a copy, or begin a cluster with `gnt cluster init`"
    )]
    Missing(&'static str),
    /// A document that does not read.
    #[error("document `{key}` does not read; restore it from a copy, or from another candidate")]
    Malformed {
        /// Its key, which is its path below the data directory.
        key: String,
        /// What is wrong with it.
        #[source]
        error: serde_json::Error,
    },
    /// A filter rule that cannot be.
    #[error("document `{key}` holds a filter rule that cannot be; mend it, or move it away")]
    Filter {
        /// Its key.
        key: String,
        /// What is wrong with it.
        #[source]
        error: RuleError,
    },
    /// A document under a name that does not fit its content.
    #[error("document `{key}` holds the object `{name}`; one of the two is wrong")]
    Misnamed {
        /// Its key.
        key: String,
        /// What it holds.
        name: String,
    },
    /// A file where none belongs.
    #[error("`{0}` is no document of this version; if it is a stray file, move it away")]
    Unknown(String),
    /// The list of indices in use and the machines contradict each other.
    #[error("`node-indices/{rack}` lists {listed:?}, but the rack's machines have {used:?}")]
    Indices {
        /// The rack.
        rack: u32,
        /// What the document lists.
        listed: BTreeSet<u32>,
        /// What the machines have.
        used: BTreeSet<u32>,
    },
}

/// Gathers documents, in any order, and makes a [`Config`] of them.
#[derive(Debug, Default)]
pub struct Loader {
    cluster: Option<Cluster>,
    role: Option<Role>,
    group: Option<Group>,
    rest: Rest,
}

#[derive(Debug, Default)]
struct Rest {
    nodes: BTreeMap<model::NodeName, Arc<model::node::Node>>,
    filters: RuleMap,
    ipam: Option<Arc<model::ipam::IpamConfig>>,
    machines: BTreeMap<model::Serial, Arc<model::machine::Machine>>,
    indices: BTreeMap<u32, BTreeSet<u32>>,
    boots: BTreeMap<model::Serial, Arc<model::machine::Boot>>,
    leases: BTreeMap<(u32, model::MacAddress), Arc<model::rack::Lease>>,
}

impl Loader {
    /// Adds one document.
    ///
    /// # Errors
    /// It does not read, has the wrong name, or does not belong here.
    pub fn add(&mut self, key: &str, content: &[u8]) -> Result<(), LoadError> {
        let (directory, name) = key.rsplit_once('/').unwrap_or(("", key));
        match (directory, key) {
            (_, document::CLUSTER) => self.cluster = Some(parse(key, content)?),
            (_, document::ROLE) => self.role = Some(parse(key, content)?),
            // Not for the configuration, which many read.
            (_, document::AUTHORITY) => {}
            (_, document::IPAM) => self.rest.ipam = Some(Arc::new(parse(key, content)?)),
            (document::NODES, _) => {
                let node: model::node::Node = parse(key, content)?;
                named(key, name, node.name.as_str())?;
                self.rest.nodes.insert(node.name.clone(), Arc::new(node));
            }
            (document::FILTERS, _) => {
                let rule: model::filter::FilterRule = parse(key, content)?;
                named(key, name, &rule.uuid)?;
                let rule = Rule::new(rule)
                    .map_err(|error| LoadError::Filter { key: key.to_owned(), error })?;
                self.rest.filters.insert(name.to_owned(), Arc::new(rule));
            }
            (document::GROUPS, _) => {
                let group: Group = parse(key, content)?;
                named(key, name, &group.name)?;
                if name != DEFAULT_GROUP {
                    return Err(LoadError::Unknown(key.to_owned()));
                }
                self.group = Some(group);
            }
            (document::MACHINES, _) => {
                let machine: model::machine::Machine = parse(key, content)?;
                named(key, name, machine.serial.as_str())?;
                self.rest.machines.insert(machine.serial.clone(), Arc::new(machine));
            }
            (document::BOOTS, _) => {
                let serial = name.parse().map_err(|_not_one| LoadError::Unknown(key.to_owned()))?;
                self.rest.boots.insert(serial, Arc::new(parse(key, content)?));
            }
            (document::NODE_INDICES, _) => {
                let rack = name.parse().map_err(|_not_one| LoadError::Unknown(key.to_owned()))?;
                self.rest.indices.insert(rack, parse(key, content)?);
            }
            (directory, _) if directory.starts_with(document::LEASES) => {
                let lease: model::rack::Lease = parse(key, content)?;
                named(key, key, &document::lease(lease.rack, lease.mac))?;
                self.rest.leases.insert(lease.key(), Arc::new(lease));
            }
            _ => return Err(LoadError::Unknown(key.to_owned())),
        }
        Ok(())
    }

    /// The configuration, once every document was added.
    ///
    /// # Errors
    /// A document is missing, or two contradict each other.
    pub fn finish(self) -> Result<Config, LoadError> {
        let Rest { nodes, filters, ipam, machines, mut indices, boots, leases } = self.rest;
        let mut used: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for machine in machines.values() {
            used.entry(machine.rack).or_default().insert(machine.index_in_rack);
        }
        indices.retain(|_, listed| !listed.is_empty());
        for rack in used.keys().chain(indices.keys()) {
            let (used, listed) = (used.get(rack), indices.get(rack));
            if used != listed {
                return Err(LoadError::Indices {
                    rack: *rack,
                    listed: listed.cloned().unwrap_or_default(),
                    used: used.cloned().unwrap_or_default(),
                });
            }
        }
        let cluster = self.cluster.ok_or(LoadError::Missing(document::CLUSTER))?;
        let initial = || Group::initial(&cluster.uuid, cluster.ctime);
        Ok(Config {
            group: Arc::new(self.group.unwrap_or_else(initial)),
            cluster: Arc::new(cluster),
            role: Arc::new(self.role.ok_or(LoadError::Missing(document::ROLE))?),
            nodes,
            filters: Arc::new(filters),
            ipam,
            machines,
            indices,
            boots,
            leases,
        })
    }
}

fn parse<T: DeserializeOwned>(key: &str, content: &[u8]) -> Result<T, LoadError> {
    serde_json::from_slice(content)
        .map_err(|error| LoadError::Malformed { key: key.to_owned(), error })
}

fn named(key: &str, expected: &str, name: &str) -> Result<(), LoadError> {
    if expected == name {
        Ok(())
    } else {
        Err(LoadError::Misnamed { key: key.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::lu::machine::register;
    use crate::testing::{NOW, config, node, spec};
    use jobs::Document;

    /// The documents of a cluster with two nodes and a machine.
    fn documents() -> Vec<Document> {
        let mut config = config(&[]);
        let mut documents = Vec::new();
        let mut changes = vec![
            ConfigChange::Cluster(config.cluster.as_ref().clone()),
            ConfigChange::Role(config.role.as_ref().clone()),
            ConfigChange::Node(node("n1.example", model::node::NodeRole::Candidate)),
            ConfigChange::Ipam(crate::testing::ipam()),
            ConfigChange::Filter(Rule::new(rule("f-1", "id")).unwrap()),
        ];
        let machines = register(&config, &[spec("s1", 2, "worker")], NOW).unwrap();
        changes.extend(machines.into_iter().map(ConfigChange::Machine));
        for change in changes {
            change.apply(&mut config, &mut documents);
        }
        documents
    }

    fn rule(uuid: &str, field: &str) -> model::filter::FilterRule {
        serde_json::from_value(serde_json::json!({"uuid": uuid, "watermark": 3, "priority": 0,
            "predicates": [["jobid", [">", field, "watermark"]]], "action": ["RATE_LIMIT", 2],
            "reason_trail": []}))
        .unwrap()
    }

    fn load(documents: &[Document]) -> Result<Config, LoadError> {
        let mut loader = Loader::default();
        for document in documents {
            loader.add(&document.key, document.content.as_deref().unwrap())?;
        }
        loader.finish()
    }

    #[test]
    fn what_was_written_reads_back() {
        let config = load(&documents()).unwrap();
        assert_eq!(config.machines.len(), 1);
        assert_eq!(config.indices[&2], BTreeSet::from([4]));
        assert_eq!(config.nodes.len(), 1);
        assert!(config.ipam.is_some());
        assert_eq!(config.filters["f-1"].document, rule("f-1", "id"));
    }

    #[test]
    fn a_group_that_was_never_changed_has_no_document() {
        let mut config = load(&documents()).unwrap();
        let initial = Group::initial(&config.cluster.uuid, config.cluster.ctime);
        assert_eq!(*config.group, initial);
        let mut group = config.group.as_ref().clone();
        group.tags = vec!["rack:blue".to_owned()];
        let mut all = documents();
        ConfigChange::Group(group.clone()).apply(&mut config, &mut all);
        assert_eq!(*load(&all).unwrap().group, group);
        group.name = "other".to_owned();
        ConfigChange::Group(group).apply(&mut config, &mut all);
        assert!(load(&all).unwrap_err().to_string().contains("`config/groups/other`"));
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let without = |key: &str| {
            let mut all = documents();
            all.retain(|document| document.key != key);
            load(&all).unwrap_err().to_string()
        };
        assert!(without("config/cluster").contains("no `config/cluster`"));
        assert!(without("node-indices/2").contains("`node-indices/2` lists {}"));
        assert!(without("machines/s1").contains("the rack's machines have {}"));
        let changed = |from: &str, to: &str, content: &'static [u8]| {
            let mut all = documents();
            let document = all.iter_mut().find(|d| d.key == from).unwrap();
            to.clone_into(&mut document.key);
            if !content.is_empty() {
                document.content = Some(content.into());
            }
            load(&all).unwrap_err().to_string()
        };
        let filter = "config/filters/f-1";
        assert!(changed(filter, "config/filters/f-2", b"").contains("holds the object `f-1`"));
        let wrong = serde_json::to_vec(&rule("f-1", "name")).unwrap();
        let told = changed(filter, filter, wrong.leak());
        assert!(told.contains("holds a filter rule that cannot be"), "{told}");
        assert!(changed("ipam", "ipam", b"{").contains("`ipam` does not read"));
        assert!(changed("machines/s1", "machines/s2", b"").contains("holds the object `s1`"));
        assert!(changed("ipam", "machines/x/y", b"").contains("no document of this version"));
    }
}
