//! Core: fields of images.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::NodeName;
use model::image::{Image, ImageFiles};
use model::machine::Machine;
use model::node::NodeRole;

use crate::config::Config;
use crate::units::list::{Cell, Field, fields, json};

/// An image with what is to be told of its use.
#[derive(Debug, Clone)]
pub struct ImageRow {
    pub image: Arc<Image>,
    /// Which machines boot it.
    pub config: Arc<Config>,
    /// Nodes whose agents have all of its files, as they said last.
    pub held_by: BTreeSet<NodeName>,
}

impl ImageRow {
    /// The machines that are to boot this version.
    fn machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        let machines = self.config.machines.by.image.of(self.image.id.name.clone());
        machines.filter(|machine| {
            let image = crate::machines::rack::document::image_of(&self.config, machine.boots());
            image.is_some_and(|image| image.id == self.image.id)
        })
    }

    /// The nodes that are to have its files: candidates, and agents of racks.
    fn wanted_by(&self) -> impl Iterator<Item = &NodeName> {
        let nodes = self.config.nodes.values();
        let wanted = nodes.filter(|node| node.role == NodeRole::Candidate || node.rack.is_some());
        wanted.map(|node| &node.name)
    }
}

/// The table.
pub const FIELDS: &[Field<ImageRow>] = fields! {
    "image", "Image", Text, "Name and version", |r| Cell::normal(r.image.id.to_string());
    "name", "Name", Text, "Name of the operating system",
        |r| Cell::normal(r.image.id.name.as_str());
    "version", "Version", Text, "Its version", |r| Cell::normal(r.image.id.version.as_str());
    "kind", "Kind", Text, "`uki`, a unified kernel image, `linux`, kernel and initrd, or `disk`", |r| {
        Cell::normal(match r.image.files {
            ImageFiles::Uki(_) => "uki",
            ImageFiles::Linux { .. } => "linux",
            ImageFiles::Disk(_) => "disk",
        })
    };
    "size", "Size", Number, "Bytes of all its files",
        |r| Cell::normal(r.image.files.blobs().map(|blob| blob.size).sum::<u64>());
    "files", "Files", Other, "Its files, by length and SHA-256", |r| json(&r.image.files);
    "kernel_parameters", "KernelParameters", Other, "Kernel parameters",
        |r| json(&r.image.parameters);
    "machines", "Machines", Number, "Machines that are to boot this version",
        |r| Cell::normal(r.machines().count());
    "machine_list", "MachineList", Other, "Serial numbers of these machines",
        |r| json(&r.machines().map(|machine| &machine.serial).collect::<Vec<_>>());
    "held_by", "HeldBy", Other, "Nodes that have all its files", |r| json(&r.held_by);
    "lacking", "Lacking", Other, "Nodes that are to have all its files and do not", |r| {
        let lacking = r.wanted_by().filter(|name| !r.held_by.contains(*name));
        json(&lacking.collect::<Vec<_>>())
    };
    "ctime", "CTime", Timestamp, "When it was uploaded", |r| json(&r.image.ctime);
};
