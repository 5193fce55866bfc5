//! `gnt image`.

mod info;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use luxi::method::What;
use model::OpCode;
use model::image::{ImageFiles, ImageId, Parameter};
use model::opcode::{ImageAdd, ImageRemove};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::session::{Session, confirm};
use crate::stage::stage;
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 5] = ["image", "kind", "size", "machines", "ctime"];

/// The verbs of `gnt image`.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Add a version of an operating system: a unified kernel image, a kernel and what it unpacks, or a
    /// disk for instances.
    Upload(UploadArguments),
    /// List images.
    List {
        /// Only these, each NAME/VERSION.
        images: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show all there is to know about images: files, digests, who holds them, which machines boot them.
    #[command(visible_alias = "show")]
    Info {
        /// NAME for all versions, or NAME/VERSION.
        #[arg(required = true)]
        images: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Remove an image that no machine is to boot.
    Remove {
        /// NAME/VERSION.
        image: ImageId,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Arguments of `upload`.
#[derive(Debug, Args)]
pub(crate) struct UploadArguments {
    /// NAME/VERSION, such as `debian/12.4`.
    image: ImageId,
    /// The unified kernel image: an EFI program that holds kernel, initrd and kernel parameters.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["kernel", "disk"],
        conflicts_with_all = ["kernel", "disk"]
    )]
    uki: Option<PathBuf>,
    /// A whole disk, raw or qcow2, such as a cloud image: instances are made of it.
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    disk: Option<PathBuf>,
    /// The kernel, an EFI program such as `vmlinuz`.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// An initial file system; several are unpacked one over the other.
    #[arg(long = "initrd", value_name = "FILE", requires = "kernel")]
    initrds: Vec<PathBuf>,
    /// A kernel parameter; may be given several times.
    #[arg(long = "append", value_name = "WORD", requires = "kernel")]
    parameters: Vec<Parameter>,
    #[command(flatten)]
    job: JobArguments,
}

/// Carries out one verb.
pub(crate) fn run(verb: Image, session: &Session) -> Result<(), CliError> {
    match verb {
        Image::Upload(arguments) => upload(arguments, session),
        Image::List { images, list } => {
            let chosen = list.chosen(&images, Named::By("image"))?;
            list.print(What::Image, list.fields(&USUAL), &chosen, session)
        }
        Image::Info { images, json } => info::run(&images, json, session),
        Image::ListFields(arguments) => arguments.print(What::Image, session),
        Image::Remove { image, yes, job } => {
            confirm(&format!("Remove image {image}?"), yes || job.dry_run)?;
            job.run(OpCode::ImageRemove(ImageRemove { image }), session).map(drop)
        }
    }
}

fn upload(arguments: UploadArguments, session: &Session) -> Result<(), CliError> {
    let UploadArguments { image, uki, disk, kernel, initrds, parameters, job } = arguments;
    let spool = session.layout().spool();
    let files = match (uki, disk, kernel) {
        (Some(uki), ..) => ImageFiles::Uki(stage(&uki, &spool)?),
        (None, Some(disk), _) => ImageFiles::Disk(stage(&disk, &spool)?),
        (None, None, Some(kernel)) => ImageFiles::Linux {
            kernel: stage(&kernel, &spool)?,
            initrds: initrds
                .iter()
                .map(|initrd| stage(initrd, &spool))
                .collect::<Result<_, _>>()?,
        },
        (None, None, None) => {
            return Err(CliError::Usage("give --uki, --kernel or --disk".to_owned()));
        }
    };
    job.run(OpCode::ImageAdd(ImageAdd { image, files, parameters }), session).map(drop)
}
