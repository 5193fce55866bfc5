//! `gnt asset`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use blobs::Hasher;
use clap::{Args, Subcommand};
use luxi::method::{Query, What};
use model::asset::{ContentType, OptionName, OptionValue};
use model::blob::Blob;
use model::opcode::{AssetRemove, AssetSet};
use model::{OpCode, Word};
use serde_json::Value;

use crate::all_fields;
use crate::details;
use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named, as_json};
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::{Session, confirm};
use crate::stage::stage;
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 5] = ["name", "id", "content_type", "size", "ctime"];
/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1024 * 1024;

/// The verbs of `gnt asset`.
#[derive(Debug, Subcommand)]
pub(crate) enum Asset {
    /// Add an asset, or replace what one holds: agents serve it to every machine that asks.
    #[command(visible_alias = "upload")]
    Add(AddArguments),
    /// List assets.
    List {
        /// Only these.
        assets: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show all there is to know about assets: digests, options, and which nodes hold them.
    #[command(visible_alias = "show")]
    Info {
        /// Names.
        #[arg(required = true)]
        assets: Vec<String>,
        /// Print a JSON list with an object for each; times are seconds since the epoch.
        #[arg(long)]
        json: bool,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Write what an asset holds to a file or standard output, from the files of this machine.
    Get {
        /// Its name.
        asset: Word,
        /// The file; standard output if none is given.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove an asset.
    Remove {
        /// Its name.
        asset: Word,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// The name by which machines fetch it.
    name: Word,
    /// The file.
    file: PathBuf,
    /// Its type of content, which machines are told.
    #[arg(long, value_name = "TYPE/SUBTYPE", default_value = "application/octet-stream")]
    content_type: ContentType,
    /// An option of the asset; may be given several times.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = pair)]
    options: Vec<(OptionName, OptionValue)>,
    #[command(flatten)]
    job: JobArguments,
}

/// An option as NAME=VALUE.
pub(crate) fn pair(text: &str) -> Result<(OptionName, OptionValue), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name, value.parse().map_err(|error| format!("{error}"))?))
}

/// Carries out one verb.
pub(crate) fn run(verb: Asset, session: &Session) -> Result<(), CliError> {
    match verb {
        Asset::Add(arguments) => {
            let AddArguments { name, file, content_type, options, job } = arguments;
            let blob = stage(&file, &session.layout().spool())?;
            let options: BTreeMap<_, _> = options.into_iter().collect();
            let op = AssetSet { name, content_type, blob, options };
            job.run(OpCode::AssetSet(op), session).map(drop)
        }
        Asset::List { assets, list } => {
            let chosen = list.chosen(&assets, Named::By("name"))?;
            list.print(What::Asset, list.fields(&USUAL), &chosen, session)
        }
        Asset::Info { assets, json } => info(&assets, json, session),
        Asset::ListFields(arguments) => arguments.print(What::Asset, session),
        Asset::Get { asset, output } => get(&asset, output, session),
        Asset::Remove { asset, yes, job } => {
            confirm(&format!("Remove asset {asset}?"), yes || job.dry_run)?;
            job.run(OpCode::AssetRemove(AssetRemove { name: asset }), session).map(drop)
        }
    }
}

fn info(assets: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let chosen = Selection::named("name", assets);
    let table = all_fields::ask(What::Asset, &chosen, &[], session)?;
    if json {
        say_json(&as_json(&table))?;
    } else if !table.data.is_empty() {
        let assets = all_fields::entries(What::Asset, &table, session, |_field, _cell| None);
        say_lines(&details::lines(assets))?;
    }
    chosen.all_in(What::Asset, &table)
}

/// Copies the file of this machine's agent, and checks what it holds.
fn get(asset: &Word, output: Option<PathBuf>, session: &Session) -> Result<(), CliError> {
    let blob = blob_of(asset, session)?;
    let path = session.layout().blobs().join(blob.sha256.to_string());
    let read = |error| CliError::Read { path: path.clone(), error };
    let mut from = File::open(&path).map_err(read)?;
    let (mut to, name): (Box<dyn io::Write>, PathBuf) = match output {
        None => (Box::new(io::stdout().lock()), "standard output".into()),
        Some(file) => {
            let made = File::create(&file);
            let made = made.map_err(|error| CliError::Write { path: file.clone(), error })?;
            (Box::new(made), file)
        }
    };
    let write = |error| CliError::Write { path: name.clone(), error };
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; COPY_BYTES]);
    loop {
        let bytes = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => &buffer[..bytes],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(read(error)),
        };
        hasher.update(bytes);
        to.write_all(bytes).map_err(write)?;
    }
    to.flush().map_err(write)?;
    if hasher.finish() == blob {
        return Ok(());
    }
    Err(CliError::Failed(format!("`{}` is damaged: it is not {}", path.display(), blob.sha256)))
}

fn blob_of(asset: &Word, session: &Session) -> Result<Blob, CliError> {
    let chosen = Selection::named("name", &[asset.to_string()]);
    let fields = ["name", "sha256", "size"].into();
    let table = session.ask(&Query { what: What::Asset, fields, filter: chosen.filter() })?;
    chosen.all_in(What::Asset, &table)?;
    let row = table.data.first();
    let cell = |at: usize| row.and_then(|row| row.get(at)?.value()).cloned();
    let [sha256, size] = [1, 2].map(|at| cell(at).unwrap_or(Value::Null));
    let read = serde_json::from_value(serde_json::json!({"sha256": sha256, "size": size}));
    read.map_err(|_error| {
        CliError::Failed(format!("what the master tells of {asset} does not read"))
    })
}
