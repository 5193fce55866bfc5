//! Opcodes on node groups.

pub mod fields;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::group::Group;
use model::instance::group::{GroupSettings, GroupTold};
use model::node::Node;
use model::opcode::{
    GroupAdd, GroupAssignNodes, GroupRemove, GroupRename, GroupSetParams, SubmittedJobs,
};
use model::{Exception, Timestamp, Uuid, Word};
use serde_json::{Value, json};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// Groups of a cluster: one for each rack of a large one.
const GROUPS_MAX: usize = 1_000;

fn refused<T>(text: String, code: ErrorCode) -> Result<T, Exception> {
    Err(Exception::prereq(text, code))
}

/// The lock of the group of this name.
fn lock(name: &str, level: Level, config: &Config) -> Result<Wanted, Exception> {
    let group = config.group(name)?;
    let lock = || (LockName::member(level, group.uuid.as_str()), Mode::Exclusive);
    Ok((level == Level::NodeGroup).then(lock).into_iter().collect())
}

/// Refuses what no group of this version has. Ganeti's clients send empty ones where none is given.
fn without(params: [&Option<Value>; 2]) -> Result<(), Exception> {
    if params.into_iter().flatten().all(|value| *value == json!({})) {
        return Ok(());
    }
    let text = "this version cannot set hv_state or disk_state of a node group; leave them out";
    refused(text.to_owned(), ErrorCode::WrongInput)
}

fn of_add(op: &GroupAdd) -> GroupTold<'_> {
    let GroupAdd { ndparams, diskparams, ipolicy, .. } = op;
    let (ndparams, ipolicy) = (ndparams.as_ref(), ipolicy.as_ref());
    GroupTold { ndparams, diskparams: diskparams.as_ref(), ipolicy }
}

fn of_change(op: &GroupSetParams) -> GroupTold<'_> {
    let GroupSetParams { ndparams, diskparams, ipolicy, .. } = op;
    let (ndparams, ipolicy) = (ndparams.as_ref(), ipolicy.as_ref());
    GroupTold { ndparams, diskparams: diskparams.as_ref(), ipolicy }
}

/// The settings of a group after a change.
fn told(
    own: &GroupSettings,
    told: GroupTold<'_>,
    config: &Config,
) -> Result<GroupSettings, Exception> {
    let changed = own.changed(told, &config.instance_settings());
    changed.map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))
}

/// Refuses a name by which another group is known.
fn is_free(config: &Config, name: &Word) -> Result<(), Exception> {
    match config.group(name.as_str()) {
        Ok(group) => refused(
            format!("Node group '{name}' exists already, with the UUID {}", group.uuid),
            ErrorCode::AlreadyExists,
        ),
        Err(_none) if name.as_str().parse::<Uuid>().is_ok() => refused(
            format!("'{name}' looks like the UUID of a node group; choose another name"),
            ErrorCode::WrongInput,
        ),
        Err(_none) => Ok(()),
    }
}

/// The group after a change.
fn changed(group: &Group, now: Timestamp, change: impl FnOnce(&mut Group)) -> ConfigChange {
    let mut group = group.clone();
    change(&mut group);
    group.mtime = now;
    group.serial_no += 1;
    ConfigChange::Group(group)
}

impl LogicalUnit for GroupAdd {
    type Plan = ();

    /// None: no other job knows it yet, and the transaction refuses a name that is taken.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        without([&self.hv_state, &self.disk_state])?;
        told(&GroupSettings::default(), of_add(self), &context.config())?;
        Ok(is_free(&context.config(), &self.group_name)?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Option<SubmittedJobs>, Failure> {
        let now = context.now();
        let added = move |config: &Config| {
            is_free(config, &self.group_name)?;
            if config.groups.len() >= GROUPS_MAX {
                let text = format!("The cluster has {GROUPS_MAX} node groups already");
                return refused(text, ErrorCode::WrongState);
            }
            let group = Group {
                name: self.group_name.to_string(),
                uuid: Uuid::new_v4().to_string(),
                alloc_policy: self.alloc_policy.unwrap_or_default(),
                serial_no: 1,
                ctime: now,
                mtime: now,
                tags: Vec::new(),
                settings: told(&GroupSettings::default(), of_add(&self), config)?,
            };
            // From now on there are documents of groups, and the first one is no longer understood.
            let first = config.groups.values().filter(|group| group.is_first());
            let first = first.map(|group| ConfigChange::Group(group.as_ref().clone()));
            Ok((first.chain([ConfigChange::Group(group)]).collect(), None))
        };
        context.transact(added).await
    }
}

impl LogicalUnit for GroupRemove {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock(&self.group_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        removed(&self.group_name, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context.transact(move |config| Ok((removed(&self.group_name, config, now)?, ()))).await
    }
}

/// The changes that remove a group: itself, and what networks say of it. The master is in some group, so
/// one is left.
fn removed(name: &str, config: &Config, now: Timestamp) -> Result<Vec<ConfigChange>, Exception> {
    let group = config.group(name)?;
    let nodes: Vec<&str> = config.nodes_of(group).map(|node| node.name.as_str()).collect();
    if !nodes.is_empty() {
        let (name, nodes) = (&group.name, nodes.join(", "));
        let text = format!("Group '{name}' not empty, has the following nodes: {nodes}");
        return refused(text, ErrorCode::WrongState);
    }
    let connected = config.networks.values();
    let connected = connected.filter(|network| network.groups.contains_key(&group.uuid));
    let disconnected = connected.map(|network| {
        let mut network = network.as_ref().clone();
        network.groups.remove(&group.uuid);
        network.mtime = now;
        network.serial_no += 1;
        ConfigChange::Network(network)
    });
    Ok(disconnected.chain([ConfigChange::GroupRemoved(group.key())]).collect())
}

impl LogicalUnit for GroupRename {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock(&self.group_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        Ok(is_free(&context.config(), &self.new_name)?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Word, Failure> {
        let now = context.now();
        let renamed = move |config: &Config| {
            is_free(config, &self.new_name)?;
            let name = self.new_name.to_string();
            let change = changed(config.group(&self.group_name)?, now, |group| group.name = name);
            Ok((vec![change], self.new_name))
        };
        context.transact(renamed).await
    }
}

impl LogicalUnit for GroupSetParams {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        lock(&self.group_name, level, config)
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        without([&self.hv_state, &self.disk_state])?;
        let config = context.config();
        told(&config.group(&self.group_name)?.settings, of_change(self), &config)?;
        let is_told = [&self.hv_state, &self.disk_state].into_iter().any(Option::is_some)
            || self.ndparams.is_some()
            || self.diskparams.is_some()
            || self.ipolicy.is_some();
        if self.alloc_policy.is_none() && !is_told {
            let text = "Please pass at least one modification".to_owned();
            return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<(String, Value)>, Failure> {
        let now = context.now();
        let set = move |config: &Config| {
            let group = config.group(&self.group_name)?;
            let settings = told(&group.settings, of_change(&self), config)?;
            let mut said = Vec::new();
            said.extend(self.alloc_policy.map(|policy| ("alloc_policy", json!(policy))));
            let is_told = |told: bool, name, value| told.then_some((name, value));
            let own = &settings;
            said.extend(is_told(
                own.ndparams != group.settings.ndparams,
                "ndparams",
                json!(own.ndparams),
            ));
            said.extend(is_told(
                own.diskparams != group.settings.diskparams,
                "diskparams",
                json!(own.diskparams),
            ));
            said.extend(is_told(
                own.ipolicy != group.settings.ipolicy,
                "ipolicy",
                json!(own.ipolicy),
            ));
            if said.is_empty() {
                return Ok((Vec::new(), Vec::new()));
            }
            let change = changed(group, now, |group| {
                group.alloc_policy = self.alloc_policy.unwrap_or(group.alloc_policy);
                group.settings = settings;
            });
            let said = said.into_iter().map(|(name, value)| (name.to_owned(), value));
            Ok((vec![change], said.collect()))
        };
        context.transact(set).await
    }
}

impl LogicalUnit for GroupAssignNodes {
    type Plan = ();

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        match level {
            Level::Node => {
                let lock = |name: &String| {
                    let name = &config.node(name)?.name;
                    Ok((LockName::member(level, name.as_str()), Mode::Exclusive))
                };
                self.nodes.iter().map(lock).collect()
            }
            _ => lock(&self.group_name, level, config),
        }
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        assigned(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context.transact(move |config| Ok((assigned(&self, config, now)?, ()))).await
    }
}

/// The nodes that change their group.
fn assigned(
    asked: &GroupAssignNodes,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<ConfigChange>, Exception> {
    let group = config.group(&asked.group_name)?;
    let mut changes = std::collections::BTreeMap::new();
    for name in &asked.nodes {
        let node = config.node(name)?;
        if config.group_of(node).uuid != group.uuid {
            let serial_no = node.serial_no + 1;
            let node =
                Node { group: reference(group), serial_no, mtime: now, ..node.as_ref().clone() };
            changes.insert(node.name.clone(), ConfigChange::Node(node));
        }
    }
    Ok(changes.into_values().collect())
}

/// How a node names its group.
pub(super) fn reference(group: &Group) -> Option<String> {
    (!group.is_first()).then(|| group.uuid.clone())
}

#[cfg(test)]
mod tests {
    use model::node::NodeRole;

    use super::*;
    use crate::testing::{NOW, config, node};

    #[test]
    fn a_group_is_removed_without_nodes_and_never_the_last() {
        let mut config = config(&[node("n2.example", NodeRole::Regular)]);
        let told = |config: &Config, name: &str| {
            removed(name, config, NOW).map(|changes| changes.len()).map_err(|why| why.to_string())
        };
        assert!(told(&config, "default").unwrap_err().contains("the following nodes: n1.example"));
        let blue = Group {
            name: "blue".to_owned(),
            uuid: Uuid::new_v4().to_string(),
            ..config.group("default").unwrap().as_ref().clone()
        };
        config.apply([ConfigChange::Group(blue)]);
        let nodes = ["n1", "n2", "n2"].map(str::to_owned).to_vec();
        let group_name = "blue".to_owned();
        let op = GroupAssignNodes { group_name, nodes, node_uuids: None, force: false };
        let changes = assigned(&op, &config, NOW).unwrap();
        assert_eq!(changes.len(), 2);
        config.apply(changes);
        assert!(assigned(&op, &config, NOW).unwrap().is_empty(), "they are in it");
        assert!(told(&config, "blue").unwrap_err().contains("n1.example, n2.example"));
        assert_eq!(told(&config, "default"), Ok(1));
        config.apply(removed("default", &config, NOW).unwrap());
        assert!(told(&config, "default").unwrap_err().contains("not found"));
        assert_eq!(config.group_of(config.node("n1").unwrap()).name, "blue");
        assert!(is_free(&config, &"blue".parse().unwrap()).is_err());
        assert!(is_free(&config, &"default".parse().unwrap()).is_ok());
    }
}
