//! Opcodes on the storage of nodes, and checks of the disks that lie there.
//!
//! This version has disks in files. It has no volume groups, so that there are no volumes to list, and
//! nothing of its storage can be changed or repaired by an opcode.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::instance::{Disk, Instance};
use model::node::{Node, NodeRole};
use model::opcode::storage::{RepairedSize, StorageType};
use model::opcode::{
    ClusterRepairDiskSizes, NodeModifyStorage, NodeQueryStorage, NodeQueryvols, RepairNodeStorage,
};
use model::{Exception, NodeName};
use rpc::calls::{DiskSizes, StorageList};
use serde_json::{Value, json};

use super::{agent, launch, warning};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Fields of `OP_NODE_QUERY_STORAGE`.
const STORAGE_FIELDS: [&str; 7] = ["node", "type", "name", "used", "size", "free", "allocatable"];
/// Fields of `OP_NODE_QUERYVOLS`.
const VOLUME_FIELDS: [&str; 6] = ["node", "phys", "vg", "name", "size", "instance"];

/// Refuses fields that do not exist.
fn exist(asked: &[String], known: &[&str]) -> Result<(), Exception> {
    let unknown: Vec<&str> =
        asked.iter().map(String::as_str).filter(|field| !known.contains(field)).collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(wrong(format!("Unknown output fields selected: {}", unknown.join(", ")))),
    }
}

/// The nodes of these names, or all.
fn chosen(config: &Config, names: &[String]) -> Result<Vec<Arc<Node>>, Exception> {
    if names.is_empty() {
        return Ok(config.nodes.values().cloned().collect());
    }
    names.iter().map(|name| config.node(name).cloned()).collect()
}

/// The directories of a kind of storage, none where that has no directories.
fn directories(config: &Config, kind: StorageType) -> Vec<String> {
    let settings = config.instance_settings();
    match kind {
        StorageType::File => vec![settings.file_storage_dir.clone()],
        StorageType::SharedFile => vec![settings.shared_file_storage_dir.clone()],
        StorageType::LvmPv
        | StorageType::LvmVg
        | StorageType::Diskless
        | StorageType::BlockDevice
        | StorageType::Rados
        | StorageType::Ext
        | StorageType::Gluster => Vec::new(),
    }
}

/// The kind of storage behind the first disk template that has one.
fn usual(config: &Config) -> StorageType {
    let templates = &config.instance_settings().enabled_disk_templates;
    let kinds = templates.iter().filter_map(|template| match template.as_str() {
        "file" => Some(StorageType::File),
        "sharedfile" => Some(StorageType::SharedFile),
        _ => None,
    });
    kinds.into_iter().next().unwrap_or(StorageType::File)
}

impl LogicalUnit for NodeQueryStorage {
    type Plan = (StorageType, Vec<Arc<Node>>);

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        exist(&self.output_fields, &STORAGE_FIELDS)?;
        let config = context.config();
        let kind = self.storage_type.unwrap_or_else(|| usual(&config));
        let is_asked = |node: &Arc<Node>| node.vm_capable && node.role != NodeRole::Offline;
        let nodes = chosen(&config, &self.nodes)?.into_iter().filter(is_asked).collect();
        Ok((kind, nodes))
    }

    async fn exec(
        self,
        (kind, nodes): Self::Plan,
        context: &mut Context,
    ) -> Result<Vec<Vec<Value>>, Failure> {
        let is_wanted = |name: &String| self.name.as_ref().is_none_or(|only| only == name);
        let directories: Vec<String> =
            directories(&context.config(), kind).into_iter().filter(is_wanted).collect();
        let mut rows = Vec::new();
        for node in nodes {
            if directories.is_empty() {
                break;
            }
            let list = StorageList { directories: directories.clone() };
            let spaces = match agent::call(context, &node.name, list).await? {
                Ok(spaces) => spaces,
                Err(not) => {
                    let text =
                        format!("node {} does not tell of its storage: {}", node.name, not.why);
                    context.say(warning(&text)).await;
                    continue;
                }
            };
            for (name, space) in directories.iter().zip(spaces) {
                let Some(space) = space else { continue };
                let cell = |field: &String| match field.as_str() {
                    "node" => json!(node.name),
                    "type" => json!(kind),
                    "name" => json!(name),
                    "used" => json!(space.used_mib),
                    "size" => json!(space.total_mib),
                    "free" => json!(space.free_mib),
                    _ => json!(true),
                };
                rows.push(self.output_fields.iter().map(cell).collect());
            }
        }
        Ok(rows)
    }
}

impl LogicalUnit for NodeQueryvols {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        exist(&self.output_fields, &VOLUME_FIELDS)?;
        chosen(&context.config(), &self.nodes)?;
        Ok(())
    }

    /// There are no volume groups, and therefore no volumes.
    async fn exec(self, (): (), _context: &mut Context) -> Result<Vec<Value>, Failure> {
        Ok(Vec::new())
    }
}

/// The refusal of what no storage of this version can have done to it.
fn refused(kind: StorageType, what: &str) -> Failure {
    let text = format!("Storage units of type '{}' can not be {what}", kind.as_str());
    Exception::prereq(text, ErrorCode::WrongInput).into()
}

impl LogicalUnit for NodeModifyStorage {
    type Plan = Infallible;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Infallible, Failure> {
        context.config().node_with(&self.node_name, self.node_uuid.as_deref())?;
        Err(refused(self.storage_type, "modified"))
    }

    async fn exec(self, never: Infallible, _context: &mut Context) -> Result<(), Failure> {
        match never {}
    }
}

impl LogicalUnit for RepairNodeStorage {
    type Plan = Infallible;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<Infallible, Failure> {
        context.config().node_with(&self.node_name, self.node_uuid.as_deref())?;
        Err(refused(self.storage_type, "repaired"))
    }

    async fn exec(self, never: Infallible, _context: &mut Context) -> Result<(), Failure> {
        match never {}
    }
}

/// Disks of instances, by the node that is asked for them.
type ByNode = BTreeMap<NodeName, Vec<(Arc<Instance>, usize, Arc<Disk>)>>;

/// The disks of whole instances, by their nodes.
fn by_node(config: &Config, instances: impl IntoIterator<Item = Arc<Instance>>) -> ByNode {
    let mut found = ByNode::new();
    let has_disks = |one: &Arc<Instance>| !one.forthcoming && !one.is_unfinished(|_| true);
    for instance in instances.into_iter().filter(has_disks) {
        let disks = config.disks_of(&instance).cloned().enumerate();
        let of_node = found.entry(instance.primary_node.clone()).or_default();
        of_node.extend(disks.map(|(place, disk)| (Arc::clone(&instance), place, disk)));
    }
    found.retain(|_, disks| !disks.is_empty());
    found
}

/// The sizes of disks on a node, in their order; or why it does not tell.
async fn sizes(
    context: &mut Context,
    node: &NodeName,
    disks: &[(Arc<Instance>, usize, Arc<Disk>)],
) -> Result<Result<Vec<Option<u64>>, String>, Failure> {
    let config = context.config();
    let filled =
        disks.iter().map(|(instance, _, disk)| launch::disk(disk, &config.settings_of(instance)));
    let call = DiskSizes { disks: filled.collect() };
    Ok(agent::call(context, node, call).await?.map_err(|not| not.why))
}

impl LogicalUnit for ClusterRepairDiskSizes {
    type Plan = Vec<Arc<Instance>>;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Instance {
            return Ok(Vec::new());
        }
        if self.instances.is_empty() {
            return Ok(vec![(LockName::set(level), Mode::Shared)]);
        }
        let lock = |name: &String| {
            let instance = config.instance(name)?;
            Ok((LockName::member(level, instance.name.as_str()), Mode::Shared))
        };
        let mut wanted = self.instances.iter().map(lock).collect::<Result<Wanted, Exception>>()?;
        wanted.sort();
        wanted.dedup();
        Ok(wanted)
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        if self.instances.is_empty() {
            return Ok(config.instances.values().cloned().collect());
        }
        let found = self.instances.iter().map(|name| config.instance(name).cloned());
        Ok(found.collect::<Result<_, Exception>>()?)
    }

    async fn exec(
        self,
        instances: Self::Plan,
        context: &mut Context,
    ) -> Result<Vec<RepairedSize>, Failure> {
        let mut repaired = Vec::new();
        for (node, disks) in by_node(&context.config(), instances) {
            let found = match sizes(context, &node, &disks).await? {
                Ok(found) => found,
                Err(why) => {
                    let text = format!(
                        "Failure in blockdev_getdimensions call to node {node}, ignoring: {why}"
                    );
                    context.say(warning(&text)).await;
                    continue;
                }
            };
            for ((instance, place, disk), size) in disks.into_iter().zip(found) {
                let name = &instance.name;
                let Some(size) = size else {
                    let text = format!(
                        "Disk {place} of instance {name} did not return size information, ignoring"
                    );
                    context.say(warning(&text)).await;
                    continue;
                };
                if size == disk.size {
                    continue;
                }
                let text = format!(
                    "Disk {place} of instance {name} has mismatched size, correcting: recorded {}, actual {size}",
                    disk.size
                );
                context.say(super::info(&text)).await;
                let (uuid, now) = (disk.uuid, context.now());
                context
                    .transact(move |config| {
                        let disk =
                            config.disks.get(&uuid).map(|disk| Disk { size, ..disk.changed(now) });
                        Ok((disk.map(ConfigChange::Disk).into_iter().collect(), ()))
                    })
                    .await?;
                repaired.push((name.to_string(), place as u64, "size", size));
            }
        }
        Ok(repaired)
    }
}

/// The disks of a group that are not where they are to be: nodes that do not tell, with why; and by
/// instance the nodes and volumes that are missing.
pub(crate) async fn missing(
    context: &mut Context,
    group: &str,
) -> Result<(BTreeMap<String, String>, BTreeMap<String, Vec<(NodeName, String)>>), Failure> {
    let config = context.config();
    let group = config.group(group)?;
    let mut instances = Vec::new();
    for node in config.nodes_of(group).filter(|node| node.role != NodeRole::Offline) {
        instances.extend(config.instances.by.primary.of(node.name.clone()).cloned());
    }
    let (mut silent, mut lost) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
    for (node, disks) in by_node(&config, instances) {
        match sizes(context, &node, &disks).await? {
            Err(why) => {
                silent.insert(node.to_string(), why);
            }
            Ok(found) => {
                for ((instance, _, disk), _) in
                    disks.iter().zip(found).filter(|(_, size)| size.is_none())
                {
                    let volume = (node.clone(), disk.place.path().to_owned());
                    lost.entry(instance.name.to_string()).or_default().push(volume);
                }
            }
        }
    }
    Ok((silent, lost))
}
