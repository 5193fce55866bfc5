//! Opcodes on images: operating systems that machines boot.

pub mod fields;
mod magic;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::Arc;

use jobs::locks::{Level, LockName, Mode};
use model::blob::Blob;
use model::error::ErrorCode;
use model::image::{
    BootTarget, INITRDS_MAX, Image, ImageFiles, ImageId, PARAMETERS_MAX, REMOVED_MAX, RemovedImage,
};
use model::machine::Machine;
use model::node::{Node, NodeRole};
use model::opcode::{ImageAdd, ImageRemove};
use model::{Coded as _, Exception, NodeName, Timestamp};
use rpc::RpcError;

use super::rack;
use crate::agents::blobs::{SendError, Sending};
use crate::config::{Config, ConfigChange};
use crate::machines::rack::document::image_of;
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};
use magic::Part;
pub(crate) use magic::{HEAD_BYTES, disk_bytes};

/// Lines of a job's log that tell how far one file is at one node.
const STEPS: u64 = 10;

impl LogicalUnit for ImageAdd {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.image, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        self.check_form()?;
        self.is_new(&context.config())?;
        let source = context.source();
        let is_good = |(part, blob): (Part, Blob)| -> Result<Result<(), String>, SendError> {
            let (file, path) = source.open(blob)?;
            let mut head = Vec::new();
            let read = file.take(HEAD_BYTES).read_to_end(&mut head);
            read.map_err(|error| SendError::Read { path, error })?;
            Ok(magic::check(part, &head, blob.size))
        };
        let checked = stdx::aside(|| {
            parts(&self.files).map(is_good).collect::<Result<Result<(), String>, SendError>>()
        });
        checked.map_err(|error| wrong(stdx::daemon::chain(&error)))?.map_err(wrong)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Image, Failure> {
        let blobs: Vec<Blob> = self.files.blobs().collect();
        let config = context.config();
        let keepers = config.nodes.values().filter(|node| node.role == NodeRole::Candidate);
        let of_name = config.machines.by.image.of(self.image.name.clone());
        let newest = |machine: &&Arc<Machine>| {
            matches!(machine.boots(), BootTarget::Image { version: None, .. })
        };
        let machines: Vec<_> = of_name.filter(newest).collect();
        let racks: BTreeSet<u32> = machines.iter().map(|machine| machine.rack).collect();
        let agents = racks.iter().flat_map(|&rack| config.agents_of(rack));
        let mut nodes: Vec<Arc<Node>> = keepers.chain(agents).cloned().collect();
        // This machine's own agent first: the master reads the files of others from it.
        nodes.sort_by_key(|node| (node.name != config.role.master, node.name.clone()));
        nodes.dedup_by(|a, b| a.name == b.name);
        let _pin = context.source().pin(&blobs).await;
        distribute(context, &nodes, &blobs, Some(&config.role.master)).await?;
        let now = context.now();
        let image = context
            .transact(move |config| {
                if let Some(same) = self.is_new(config)? {
                    return Ok((Vec::new(), same));
                }
                let Self { image: id, files, parameters } = self;
                let image = Image { id, files, parameters, ctime: now };
                Ok((vec![ConfigChange::Image(image.clone())], image))
            })
            .await?;
        let source = context.source();
        stdx::aside(|| source.clear(blobs));
        if !machines.is_empty() {
            let count = machines.len();
            context
                .say(format!(
                    "{count} machines that boot `{}` boot {} from now on",
                    image.id.name, image.id
                ))
                .await;
        }
        rack::push(context, &racks).await?;
        Ok(image)
    }
}

fn parts(files: &ImageFiles) -> impl Iterator<Item = (Part, Blob)> {
    let first = match files {
        ImageFiles::Uki(_) => Part::Uki,
        ImageFiles::Linux { .. } => Part::Kernel,
        ImageFiles::Disk(_) => Part::Disk,
    };
    std::iter::once(first).chain((1..).map(Part::Initrd)).zip(files.blobs())
}

/// Checks what the types alone do not.
trait Form {
    fn check_form(&self) -> Result<(), Exception>;

    /// Whether the image is new; gives the one that is the same: its files may have been lost.
    fn is_new(&self, config: &Config) -> Result<Option<Image>, Exception>;
}

impl Form for ImageAdd {
    fn check_form(&self) -> Result<(), Exception> {
        let parameters = self.parameters.len();
        if parameters > PARAMETERS_MAX {
            let text =
                format!("{parameters} kernel parameters; at most {PARAMETERS_MAX} are taken");
            return Err(wrong(text));
        }
        match &self.files {
            ImageFiles::Uki(_) if parameters > 0 => Err(wrong(
                "a unified kernel image holds its kernel parameters, and takes no others"
                    .to_owned(),
            )),
            ImageFiles::Disk(_) if parameters > 0 => Err(wrong(
                "an image of a disk has its own boot loader, and takes no kernel parameters",
            )),
            ImageFiles::Linux { initrds, .. } if initrds.len() > INITRDS_MAX => {
                let count = initrds.len();
                Err(wrong(format!("{count} initial file systems; at most {INITRDS_MAX} are taken")))
            }
            files if files.blobs().any(|blob| blob.size == 0) => {
                Err(wrong("a file of an image is empty".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn is_new(&self, config: &Config) -> Result<Option<Image>, Exception> {
        let id = &self.image;
        let is_same = |known: &&Arc<Image>| {
            (&known.files, &known.parameters) == (&self.files, &self.parameters)
        };
        let known = config.images.get(id);
        if let Some(same) = known.filter(is_same) {
            return Ok(Some(same.as_ref().clone()));
        }
        let text = if known.is_some() {
            format!("Image '{id}' exists already; a changed image is another version")
        } else if let Some(removed) = config.removed_images.get(id) {
            let at = removed.at;
            format!("Image '{id}' was removed at {at}; no other image ever has its version")
        } else {
            return Ok(None);
        };
        Err(Exception::prereq(text, ErrorCode::AlreadyExists))
    }
}

fn lock(id: &ImageId, level: Level) -> Wanted {
    if level != Level::Image {
        return Vec::new();
    }
    vec![(LockName::member(Level::Image, id.name.as_str()), Mode::Exclusive)]
}

/// Sends blobs to agents, and tells in the job's log how far they are. An agent that does not take them
/// gets them later; but the node in `must` has to take them.
pub(crate) async fn distribute(
    context: &mut Context,
    nodes: &[Arc<Node>],
    blobs: &[Blob],
    must: Option<&NodeName>,
) -> Result<(), Failure> {
    let source = context.source();
    let behalf = context.behalf();
    for node in nodes.iter().filter(|node| node.role != NodeRole::Offline) {
        for &blob in blobs {
            let agents = context.agents().await?.clone();
            let sent = async {
                let mut sending = Sending::begin((&agents, &source), node, blob, behalf).await?;
                let mut told = 0;
                while sending.next().await? {
                    let step = sending.offset().saturating_mul(STEPS) / blob.size;
                    if step > told {
                        told = step;
                        let (name, percent) = (&node.name, step * 100 / STEPS);
                        context.say(format!("{name}: {percent} % of {}", blob.sha256)).await;
                    }
                }
                Ok(())
            };
            let sent: Result<(), SendError> = sent.await;
            match sent {
                Ok(()) => {}
                Err(error) if must != Some(&node.name) && matches!(error, SendError::Agent(_)) => {
                    let why = stdx::daemon::chain(&error);
                    let text = format!(
                        "{} did not take {} ({why}); it is sent again",
                        node.name, blob.sha256
                    );
                    context.say(text).await;
                    break;
                }
                Err(SendError::Agent(error)) => return Err(not_taken(node, &error).into()),
                Err(error) => return Err(Exception::exec(stdx::daemon::chain(&error)).into()),
            }
        }
    }
    Ok(())
}

/// The agent is away, or takes no file now: whoever uploads tries again.
fn not_taken(node: &Node, error: &RpcError) -> Exception {
    let why = stdx::daemon::chain(error);
    let text = format!("The agent of {} does not take the file: {why}; upload it again", node.name);
    let failure = Exception::prereq(text, ErrorCode::TempInsufficientResources);
    match error.code() {
        Some(code) => failure.coded(code),
        None => failure,
    }
}

impl LogicalUnit for ImageRemove {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.image, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        Ok(may_go(&context.config(), &self.image)?)
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context
            .transact(move |config| {
                may_go(config, &self.image)?;
                let mut changes = vec![ConfigChange::ImageRemoved(self.image.clone())];
                changes.extend(remembered(config, self.image, now));
                Ok((changes, ()))
            })
            .await
    }
}

/// Remembers that an image had this version, in place of the oldest ones where there are too many.
fn remembered(config: &Config, id: ImageId, at: Timestamp) -> Vec<ConfigChange> {
    let removed = &config.removed_images;
    let too_many = (removed.len() + 1).saturating_sub(REMOVED_MAX);
    let mut oldest: Vec<_> = removed.values().filter(|_| too_many > 0).collect();
    oldest.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    let forgotten = oldest.into_iter().take(too_many);
    let forgotten = forgotten.map(|old| ConfigChange::RemovedImageForgotten(old.id.clone()));
    forgotten.chain([ConfigChange::RemovedImage(RemovedImage { id, at })]).collect()
}

/// An image that a machine is to boot stays.
fn may_go(config: &Config, id: &ImageId) -> Result<(), Exception> {
    if !config.images.contains_key(id) {
        let text = format!("Image '{id}' is not known; `gnt image list` names all");
        return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
    }
    let mut machines = config.machines.by.image.of(id.name.clone());
    let is_it = |target| image_of(config, target).is_some_and(|image| image.id == *id);
    let boots = machines.find(|machine| is_it(&machine.boot) || is_it(machine.boots()));
    let Some(machine) = boots else { return Ok(()) };
    let text = format!(
        "Machine '{}' is to boot image '{id}'; `gnt machine set-boot` changes that",
        machine.serial
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}
