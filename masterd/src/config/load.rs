//! Core: the configuration from its documents.

use std::collections::{BTreeMap, BTreeSet};

use model::cluster::{Cluster, Role};
use model::group::{DEFAULT_GROUP, Group};
use model::{NodeName, document};
use serde::de::DeserializeOwned;

use super::objects::{Named as _, Object};
use super::{Config, ConfigChange};

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
        /// The fault in it.
        #[source]
        error: serde_json::Error,
    },
    /// A document under a name that does not fit its content.
    #[error("document `{key}` holds the object `{name}`; one of the two is wrong")]
    Misnamed {
        key: String,
        /// What it holds.
        name: String,
    },
    /// A file where none belongs.
    #[error("`{0}` is no document of this version; if it is a stray file, move it away")]
    Unknown(String),
    /// A node whose group is not there.
    #[error("node {node} is in the group `{group}`, which has no document below `config/groups`")]
    NoGroup { node: NodeName, group: String },
    /// The list of indices in use and the machines contradict each other.
    #[error("`node-indices/{rack}` lists {listed:?}, but the rack's machines have {used:?}")]
    Indices {
        rack: u32,
        /// The indices that the document lists.
        listed: BTreeSet<u32>,
        /// The indices that the machines have.
        used: BTreeSet<u32>,
    },
}

/// Gathers documents, in any order, and makes a [`Config`] of them.
#[derive(Debug, Default)]
pub struct Loader {
    cluster: Option<Cluster>,
    role: Option<Role>,
    rest: Vec<ConfigChange>,
    indices: BTreeMap<u32, BTreeSet<u32>>,
}

impl Loader {
    /// The prefixes of the keys of all documents but [`document::IPAM`].
    pub fn prefixes() -> BTreeSet<String> {
        let directories = ConfigChange::DIRECTORIES.iter().chain(&[document::NODE_INDICES]);
        let roots = directories.filter_map(|directory| directory.split('/').next());
        roots.map(|root| format!("{root}/")).collect()
    }

    /// Adds one document.
    ///
    /// # Errors
    /// It does not read, has the wrong name, or does not belong here.
    pub fn add(&mut self, key: &str, content: &[u8]) -> Result<(), LoadError> {
        let unknown = || LoadError::Unknown(key.to_owned());
        match ConfigChange::read(key, content)? {
            Some(ConfigChange::Cluster(cluster)) => self.cluster = Some(cluster),
            Some(ConfigChange::Role(role)) => self.role = Some(role),
            Some(other) => self.rest.push(other),
            // Not for the configuration, which many read.
            None if key == document::AUTHORITY => {}
            None => {
                let rack = name(document::NODE_INDICES, key).and_then(|name| name.parse().ok());
                self.indices.insert(rack.ok_or_else(unknown)?, parse(key, content)?);
            }
        }
        Ok(())
    }

    /// The configuration, once every document was added.
    ///
    /// # Errors
    /// A document is missing, or two contradict each other.
    pub fn finish(self) -> Result<Config, LoadError> {
        let cluster = self.cluster.ok_or(LoadError::Missing(document::CLUSTER))?;
        let role = self.role.ok_or(LoadError::Missing(document::ROLE))?;
        let mut config = Config::new(cluster, role);
        let has = |wanted: fn(&Group) -> bool| {
            let is = |change: &ConfigChange| matches!(change, ConfigChange::Group(g) if wanted(g));
            self.rest.iter().any(is)
        };
        if has(|_any| true) && !has(Group::is_first) {
            ConfigChange::GroupRemoved(DEFAULT_GROUP.to_owned()).enter(&mut config);
        }
        for change in self.rest {
            change.enter(&mut config);
        }
        for node in config.nodes.values() {
            let group = node.group.as_deref().unwrap_or(DEFAULT_GROUP);
            if !config.groups.contains_key(group) {
                let (node, group) = (node.name.clone(), group.to_owned());
                return Err(LoadError::NoGroup { node, group });
            }
        }
        let mut used: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for machine in config.machines.values() {
            used.entry(machine.rack).or_default().insert(machine.index_in_rack);
        }
        let racks = used.keys().chain(self.indices.keys());
        for &rack in racks {
            let of = |all: &BTreeMap<_, BTreeSet<_>>| all.get(&rack).cloned().unwrap_or_default();
            let (listed, used) = (of(&self.indices), of(&used));
            if listed != used {
                return Err(LoadError::Indices { rack, listed, used });
            }
        }
        Ok(config)
    }
}

pub(super) fn parse<T: DeserializeOwned>(key: &str, content: &[u8]) -> Result<T, LoadError> {
    serde_json::from_slice(content).map_err(|error| malformed(key, error))
}

/// Reads the document of an object of this kind, if `key` lies in its directory.
pub(super) fn below<T: Object>(key: &str, content: &[u8]) -> Result<Option<T>, LoadError> {
    let Some(name) = name(T::BELOW, key) else { return Ok(None) };
    let own = T::Key::of_name(name).ok_or_else(|| LoadError::Unknown(key.to_owned()))?;
    let object = T::read(&own, content).map_err(|error| malformed(key, error))?;
    match object.key() {
        held if held == own => Ok(Some(object)),
        held => Err(LoadError::Misnamed { key: key.to_owned(), name: held.to_string() }),
    }
}

/// The part of a key below a directory.
pub(super) fn name<'a>(directory: &str, key: &'a str) -> Option<&'a str> {
    key.strip_prefix(directory)?.strip_prefix('/')
}

fn malformed(key: &str, error: serde_json::Error) -> LoadError {
    LoadError::Malformed { key: key.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use jobs::Documents;
    use jobs::filter::Rule;

    use crate::machines::machine::register;
    use crate::testing::{NOW, config, node, spec};

    /// The documents of a cluster with a node and a machine.
    fn documents() -> Documents {
        let mut config = config(&[]);
        let mut changes = vec![
            ConfigChange::Cluster(config.cluster.as_ref().clone()),
            ConfigChange::Role(config.role.as_ref().clone()),
            ConfigChange::Node(node("n1.example", model::node::NodeRole::Candidate)),
            ConfigChange::Ipam(crate::testing::ipam()),
            ConfigChange::Filter(Rule::new(rule("f-1", "id")).unwrap()),
        ];
        let machines = register(&config, &[spec("s1", 2, "worker")], NOW).unwrap();
        changes.extend(machines.into_iter().map(ConfigChange::Machine));
        config.apply(changes).documents
    }

    fn rule(uuid: &str, field: &str) -> model::filter::FilterRule {
        serde_json::from_value(serde_json::json!({"uuid": uuid, "watermark": 3, "priority": 0,
            "predicates": [["jobid", [">", field, "watermark"]]], "action": ["RATE_LIMIT", 2],
            "reason_trail": []}))
        .unwrap()
    }

    fn load(documents: &Documents) -> Result<Config, LoadError> {
        let mut loader = Loader::default();
        for (key, content) in documents {
            loader.add(key, content.as_ref().unwrap())?;
        }
        loader.finish()
    }

    #[test]
    fn what_was_written_reads_back() {
        let config = load(&documents()).unwrap();
        assert_eq!(config.machines.len(), 1);
        assert_eq!(config.indices_in(2), BTreeSet::from([4]));
        assert_eq!(config.nodes.len(), 1);
        assert!(config.ipam.is_some());
        assert_eq!(config.filters["f-1"].document, rule("f-1", "id"));
    }

    #[test]
    fn a_group_that_was_never_changed_has_no_document() {
        let mut config = load(&documents()).unwrap();
        let initial = Group::initial(&config.cluster.uuid, config.cluster.ctime);
        assert_eq!(**config.group("default").unwrap(), initial);
        let mut group = initial;
        group.tags = vec!["rack:blue".to_owned()];
        let mut all = documents();
        all.extend(config.apply([ConfigChange::Group(group.clone())]).documents);
        assert_eq!(**load(&all).unwrap().group("default").unwrap(), group);
        let content = all.remove("config/groups/default").unwrap();
        all.insert("config/groups/other".to_owned(), content.clone());
        assert!(load(&all).unwrap_err().to_string().contains("`config/groups/other`"));
        // Another one alone: the first one was removed, and its nodes are nowhere.
        all.remove("config/groups/other");
        group.uuid = uuid::Uuid::new_v4().to_string();
        all.extend(config.apply([ConfigChange::Group(group)]).documents);
        assert!(
            load(&all).unwrap_err().to_string().contains("n1.example is in the group `default`")
        );
        all.insert("config/groups/default".to_owned(), content);
        assert_eq!(load(&all).unwrap().groups.len(), 2);
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let without = |key: &str| {
            let mut all = documents();
            all.remove(key);
            load(&all).unwrap_err().to_string()
        };
        assert!(without("config/cluster").contains("no `config/cluster`"));
        assert!(without("node-indices/2").contains("`node-indices/2` lists {}"));
        assert!(without("machines/s1").contains("the rack's machines have {}"));
        let changed = |from: &str, to: &str, content: &[u8]| {
            let mut all = documents();
            let mut document = all.remove(from).unwrap();
            if !content.is_empty() {
                document = Some(Bytes::copy_from_slice(content));
            }
            all.insert(to.to_owned(), document);
            stdx::daemon::chain(&load(&all).unwrap_err())
        };
        let filter = "config/filters/f-1";
        assert!(changed(filter, "config/filters/f-2", b"").contains("holds the object `f-1`"));
        let told = changed(filter, filter, &serde_json::to_vec(&rule("f-1", "name")).unwrap());
        assert!(told.contains("does not read") && told.contains("names `name`"), "{told}");
        assert!(changed("ipam", "ipam", b"{").contains("`ipam` does not read"));
        assert!(changed("machines/s1", "machines/s2", b"").contains("holds the object `s1`"));
        assert!(changed("ipam", "machines/x/y", b"").contains("no document of this version"));
        assert!(changed("ipam", "stray", b"").contains("no document of this version"));
    }
}
