//! The operating system that is built in, `image`. Its variants are the images of disks that were uploaded:
//! `image+NAME` is the newest version of one, `image+NAME/VERSION` that one.

use std::io::Read as _;
use std::sync::Arc;

use model::Exception;
use model::blob::Blob;
use model::error::ErrorCode;
use model::image::{Image, ImageFiles};
use model::instance::launch::DiskLaunch;
use model::instance::parameters::Parameters;
use rpc::calls::DiskImage;

use super::super::agent;
use crate::agents::blobs::{SendError, Source};
use crate::config::Config;
use crate::machines::image::{HEAD_BYTES, disk_bytes, distribute};
use crate::units::{Context, Failure, wrong};

/// The name of the system before its variant.
pub(super) const NAME: &str = "image";
/// Bytes of a MiB.
const MIB: u64 = 1024 * 1024;

/// The parameters that it takes, with what each is.
pub(super) const PARAMETERS: [(&str, &str); 3] = [
    ("hostname", "the name that the guest gives itself; without one, the name of the instance"),
    ("ssh_keys", "public keys of OpenSSH that may log in, one in a line"),
    ("user_data", "what cloud-init is to do, as it is given to it; then the others do not count"),
];

/// The variant of a system that is the built-in one.
pub(in super::super) fn variant(os: &str) -> Option<&str> {
    os.strip_prefix(NAME)?.strip_prefix('+')
}

/// An image of a disk, with its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskFile<'c> {
    image: &'c Image,
    pub(super) blob: Blob,
}

/// The images of disks, each with its file.
fn disks(config: &Config) -> impl Iterator<Item = DiskFile<'_>> {
    config.images.values().map(Arc::as_ref).filter_map(|image| match image.files {
        ImageFiles::Disk(blob) => Some(DiskFile { image, blob }),
        ImageFiles::Uki(_) | ImageFiles::Linux { .. } => None,
    })
}

/// The image that a system is.
///
/// # Errors
/// It is none that this version knows.
pub(super) fn disk_file<'c>(config: &'c Config, os: &str) -> Result<DiskFile<'c>, Exception> {
    let wanted =
        variant(os).ok_or_else(|| wrong(format!("OS '{os}' is no image: use image+NAME")))?;
    let is_it = |file: &DiskFile<'_>| match wanted.split_once('/') {
        Some(_) => file.image.id.to_string() == wanted,
        None => file.image.id.name.as_str() == wanted,
    };
    disks(config).filter(is_it).max_by_key(|file| (file.image.ctime, &file.image.id)).ok_or_else(
        || {
            let text = format!(
                "OS '{os}' is not known: there is no image of a disk '{wanted}'; \
                 `gnt image upload --disk FILE {wanted}/VERSION` adds one"
            );
            Exception::prereq(text, ErrorCode::UnknownEntity)
        },
    )
}

/// Refuses parameters that the system does not take.
///
/// # Errors
/// One of them is not known, or no text.
pub(super) fn takes(parameters: &Parameters) -> Result<(), Exception> {
    for (name, value) in parameters {
        if !PARAMETERS.iter().any(|(known, _)| known == name) {
            let known = PARAMETERS.map(|(known, _)| known).join(", ");
            return Err(wrong(format!("OS parameter {name} is not known; `{NAME}` has {known}")));
        }
        if !value.is_string() {
            return Err(wrong(format!("OS parameter {name}: {value} is no text")));
        }
    }
    Ok(())
}

/// Refuses a disk into which the image does not go.
///
/// # Errors
/// It is too small, or the image cannot be read here.
pub(super) fn fits(source: &Source, file: DiskFile<'_>, size: u64) -> Result<(), Exception> {
    let look = || {
        let (opened, path) = source.open(file.blob)?;
        let mut head = Vec::new();
        let read = opened.take(HEAD_BYTES).read_to_end(&mut head);
        read.map_err(|error| SendError::Read { path, error })?;
        Ok::<_, SendError>(disk_bytes(&head, file.blob.size))
    };
    let bytes = stdx::aside(look).map_err(|error| wrong(stdx::daemon::chain(&error)))?;
    if bytes <= size.saturating_mul(MIB) {
        return Ok(());
    }
    let (needed, id) = (bytes.div_ceil(MIB), &file.image.id);
    Err(wrong(format!("disk/0 has {size} MiB, and image {id} needs {needed}")))
}

/// Writes a system onto the first disk of an instance.
///
/// # Errors
/// Its image does not come to the node, or not onto the disk.
pub(super) async fn install(
    context: &mut Context,
    node: &model::NodeName,
    os: &str,
    disk: DiskLaunch,
) -> Result<Result<(), Exception>, Failure> {
    let config = context.config();
    let blob = match disk_file(&config, os) {
        Ok(file) => file.blob,
        Err(error) => return Ok(Err(error)),
    };
    let Some(found) = config.nodes.get(node).cloned() else {
        return Ok(Err(wrong(format!("node {node} is gone"))));
    };
    context.say("* imaging instance disks...").await;
    let _pin = context.source().pin(&[blob]).await;
    match distribute(context, &[found], &[blob], Some(node)).await {
        Err(Failure::Exception(error)) => return Ok(Err(error)),
        done => done?,
    }
    let written = agent::call(context, node, DiskImage { disk, image: blob.sha256 }).await?;
    Ok(written.map_err(|not| not.exception("Could not write the image to disk/0")))
}

/// The variants that there are: images by their names, and each with its version.
pub(super) fn variants(config: &Config) -> Vec<String> {
    let mut variants: Vec<String> = Vec::new();
    for file in disks(config) {
        variants.extend([file.image.id.name.to_string(), file.image.id.to_string()]);
    }
    variants.sort();
    variants.dedup();
    variants
}
