//! Core: fields of images.

use std::sync::Arc;

use model::image::{Image, ImageFiles};

use super::{Cell, Field, field, json};
use crate::config::Config;

/// An image with what is to be told of its use.
#[derive(Debug, Clone)]
pub struct ImageRow {
    /// The image.
    pub image: Arc<Image>,
    /// Which machines boot it.
    pub config: Arc<Config>,
}

/// The table.
pub const FIELDS: &[Field<ImageRow>] = &[
    field!("image", "Image", Text, "Name and version", |r| Cell::normal(r.image.id.to_string())),
    field!("name", "Name", Text, "Name of the operating system", |r| {
        Cell::normal(r.image.id.name.as_str())
    }),
    field!("version", "Version", Text, "Its version", |r| {
        Cell::normal(r.image.id.version.as_str())
    }),
    field!(
        "kind",
        "Kind",
        Text,
        "`uki`, a unified kernel image, or `linux`, kernel and initrd",
        |r| {
            Cell::normal(match r.image.files {
                ImageFiles::Uki(_) => "uki",
                ImageFiles::Linux { .. } => "linux",
            })
        }
    ),
    field!("size", "Size", Number, "Bytes of all its files", |r| {
        Cell::normal(r.image.files.blobs().map(|blob| blob.size).sum::<u64>())
    }),
    field!("files", "Files", Other, "Its files, by length and SHA-256", |r| json(&r.image.files)),
    field!("kernel_parameters", "KernelParameters", Other, "Kernel parameters", |r| {
        json(&r.image.parameters)
    }),
    field!("machines", "Machines", Number, "Machines that are to boot this version", |r| {
        let machines = r.config.machines.by.image.of(r.image.id.name.clone());
        let boots = machines.filter(|machine| {
            let image = crate::rack_document::image_of(&r.config, &machine.boot);
            image.is_some_and(|image| image.id == r.image.id)
        });
        Cell::normal(boots.count())
    }),
    field!("ctime", "CTime", Timestamp, "When it was uploaded", |r| json(&r.image.ctime)),
];
