//! The creation of an instance from an export: its description fills what the client leaves out.

use std::path::Path;

use model::error::ErrorCode;
use model::layout::Layout;
use model::opcode::InstanceCreate;
use model::opcode::instance::CreateMode;
use model::{Code, Exception, InstanceName, NodeName};
use rpc::calls::{ExportDescribe, Volume};
use serde_json::json;

use super::description::Description;
use crate::instances::agent;
use crate::instances::transfer::Place;
use crate::units::{Context, Failure, wrong};

/// A disk of an export: its size in MiB, and the file with its content; none where there is none.
type DiskContent = (u64, Option<String>);

/// The export of an import.
#[derive(Debug)]
pub(crate) struct Source {
    node: NodeName,
    name: InstanceName,
    disks: Vec<DiskContent>,
}

impl Source {
    /// The content of a disk, by its index; none where there is none.
    pub(crate) fn content(&self, place: usize) -> Option<Place> {
        let file = self.disks.get(place)?.1.clone()?;
        let volume = Volume::Export { name: self.name.clone(), file, whole: true };
        Some(Place { node: self.node.clone(), volume })
    }

    /// Refuses disks of these sizes, in MiB, if the content does not go into them.
    ///
    /// # Errors
    /// One is too small, or there are too few.
    pub(crate) fn fits(&self, sizes: &[u64]) -> Result<(), Exception> {
        let (has, asked) = (self.disks.len(), sizes.len());
        if asked < has {
            return Err(wrong(format!(
                "the export {} has {has} disks, and {asked} are asked for",
                self.name
            )));
        }
        match self.disks.iter().zip(sizes).position(|((has, _), asked)| has > asked) {
            None => Ok(()),
            Some(place) => Err(wrong(format!(
                "disk/{place} of the export {} has {} MiB, and that asked for is smaller, {} MiB",
                self.name, self.disks[place].0, sizes[place]
            ))),
        }
    }
}

/// The creation that an import is, without an operating system, and the place of its content.
///
/// # Errors
/// There is no such export, or it is none that can be imported.
pub(crate) async fn imported(
    op: &InstanceCreate,
    context: &mut Context,
) -> Result<Option<(InstanceCreate, Source)>, Failure> {
    if op.mode != CreateMode::Import {
        return Ok(None);
    }
    let (node, name, description) = found(op, context).await?;
    let (op, disks) = merged(op, &description).map_err(|why| {
        wrong(format!("the export {name} on node {node} cannot be imported: {why}"))
    })?;
    Ok(Some((op, Source { node, name, disks })))
}

/// The name of the export that an import is of.
///
/// # Errors
/// It is none.
pub(crate) fn named(op: &InstanceCreate) -> Result<InstanceName, Exception> {
    let path = op.src_path.as_deref().unwrap_or(&op.instance_name);
    let directory = Layout::new(Path::new("/")).exports();
    let name = Path::new(path).strip_prefix(&directory).unwrap_or(Path::new(path));
    name.to_string_lossy().to_ascii_lowercase().parse().map_err(|_no_name| {
        wrong(format!(
            "src_path {path}: exports are in {}, by the names of their instances",
            directory.display()
        ))
    })
}

/// The export with its description: on the node that is named, or the newest of its name.
async fn found(
    op: &InstanceCreate,
    context: &mut Context,
) -> Result<(NodeName, InstanceName, Description), Failure> {
    let config = context.config();
    let name = named(op)?;
    let nodes: Vec<NodeName> = match &op.src_node {
        Some(node) => vec![config.node_with(node, op.src_node_uuid.as_deref())?.name.clone()],
        None => nodes_with(context, &name),
    };
    let mut newest: Option<(NodeName, Description)> = None;
    let mut why = None;
    for node in nodes {
        let text = match agent::call(context, &node, ExportDescribe { name: name.clone() }).await? {
            Ok(text) => text,
            Err(not) => {
                why = Some(format!("node {node} does not tell of its export {name}: {}", not.why));
                continue;
            }
        };
        match Description::read(&text) {
            Ok(read) if newest.as_ref().is_none_or(|(_, known)| known.made() < read.made()) => {
                newest = Some((node, read));
            }
            Ok(_) => {}
            Err(error) => {
                why = Some(format!("the export {name} on node {node} does not read: {error}"));
            }
        }
    }
    match (newest, why) {
        (Some((node, description)), _) => Ok((node, name, description)),
        (None, Some(why)) => {
            Err(Exception::prereq(why, ErrorCode::EnvironmentError).coded(Code::Agent).into())
        }
        (None, None) => {
            let text = format!("No export found for relative path {name}");
            Err(Exception::prereq(text, ErrorCode::WrongInput).into())
        }
    }
}

/// The nodes that have an export of this name.
pub(super) fn nodes_with(context: &Context, name: &InstanceName) -> Vec<NodeName> {
    let facts = context.contacts().facts();
    let has = |(node, facts): (&NodeName, &std::sync::Arc<rpc::calls::NodeFacts>)| {
        facts.exports.contains(name).then(|| node.clone())
    };
    let mut nodes: Vec<NodeName> = facts.iter().filter_map(has).collect();
    nodes.sort();
    nodes
}

/// A creation that the description fills, and its disks.
fn merged(
    op: &InstanceCreate,
    described: &Description,
) -> Result<(InstanceCreate, Vec<DiskContent>), String> {
    let mut op = op.clone();
    let told = described.disks()?;
    (op.mode, op.no_install) = (CreateMode::Create, Some(true));
    if op.disk_template.is_none() {
        op.disk_template = described.of_instance("disk_template").map(str::to_owned);
    }
    if op.disks.is_empty() && op.disk_template.as_deref() != Some("diskless") {
        let disk = |(place, (size, _)): (usize, &DiskContent)| {
            let name = described.of_instance(&format!("disk{place}_name"));
            let name = name.map(|name| ("name".to_owned(), json!(name)));
            [("size".to_owned(), json!(size))].into_iter().chain(name).collect()
        };
        op.disks = told.iter().enumerate().map(disk).collect();
    }
    if op.nics.is_empty() {
        op.nics = described.nics()?;
    }
    if op.hypervisor.is_none() {
        op.hypervisor = described.of_instance("hypervisor").map(str::to_owned);
    }
    if op.os_type.is_none() {
        op.os_type = described.os().map(str::to_owned);
    }
    if op.tags.is_empty() {
        let tags = described.of_instance("tags").unwrap_or_default();
        op.tags = tags.split_whitespace().map(str::to_owned).collect();
    }
    // Parameters of one hypervisor are none of another.
    let same = op.hypervisor.as_deref() == described.of_instance("hypervisor");
    let sections = [
        (&mut op.hvparams, "hypervisor", same),
        (&mut op.beparams, "backend", true),
        (&mut op.osparams, "os", true),
    ];
    for (own, section, counts) in sections {
        for (name, value) in described.parameters(section).into_iter().filter(|_| counts) {
            // An export does not choose a program of this node, nor its words.
            if ["kvm_path", "kvm_extra"].contains(&name.as_str()) {
                continue;
            }
            own.entry(name).or_insert(value);
        }
    }
    Ok((op, told))
}
