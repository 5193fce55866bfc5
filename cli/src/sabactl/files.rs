//! `sabactl images` and `sabactl assets`.

use std::path::PathBuf;

use clap::Subcommand;
use luxi::method::What;
use luxi::query::Filter;
use model::asset::{Asset, ContentType, OptionName, OptionValue};
use model::blob::Blob;
use model::image::{ImageFiles, ImageId};
use model::opcode::{AssetRemove, AssetSet, AssetWritten, ImageAdd, ImageRemove};
use model::{OpCode, Word, sabakan};
use serde_json::{Value, json};

use super::{missing, quietly, rows};
use crate::asset::pair;
use crate::error::CliError;
use crate::output::say_json;
use crate::session::Session;
use crate::stage::stage;

/// The only operating system.
const COREOS: &str = "coreos";

/// The verbs for images.
#[derive(Debug, Subcommand)]
pub(super) enum Images {
    /// Print the versions as JSON.
    Index,
    /// Add a version.
    Upload {
        /// The version.
        id: Word,
        /// The kernel.
        kernel: PathBuf,
        /// The initial file system.
        initrd: PathBuf,
    },
    /// Remove a version.
    Delete {
        /// The version.
        id: Word,
    },
}

/// The verbs for assets.
#[derive(Debug, Subcommand)]
pub(super) enum Assets {
    /// Print the names as JSON.
    Index,
    /// Print what is known of an asset as JSON.
    Info {
        /// Its name.
        name: Word,
        /// JSON is what is printed anyway.
        #[arg(long, hide = true)]
        json: bool,
    },
    /// Add an asset, or replace what one holds.
    Upload {
        /// More to tell of it.
        #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
        meta: Vec<(OptionName, OptionValue)>,
        /// Its name.
        name: Word,
        /// The file.
        file: PathBuf,
    },
    /// Remove an asset.
    Delete {
        /// Its name.
        name: Word,
    },
}

/// Carries out one verb on images.
pub(super) fn images(verb: Images, session: &Session) -> Result<(), CliError> {
    let image = |version: Word| {
        let name = COREOS.parse().expect("it is a word");
        ImageId { name, version }
    };
    match verb {
        Images::Index => {
            let filter = Some(Filter::any_of("name", [COREOS]));
            let found = rows(What::Image, ["version", "ctime", "size"], filter, session)?;
            say_json(&found.into_iter().map(sabakan::image).collect::<Vec<_>>())
        }
        Images::Upload { id, kernel, initrd } => {
            let spool = session.layout().spool();
            let kernel = stage(&kernel, &spool)?;
            let files = ImageFiles::Linux { kernel, initrds: vec![stage(&initrd, &spool)?] };
            let op = ImageAdd { image: image(id), files, parameters: Vec::new() };
            quietly(OpCode::ImageAdd(op), session).map(drop)
        }
        Images::Delete { id } => {
            let op = ImageRemove { image: image(id) };
            quietly(OpCode::ImageRemove(op), session).map(drop)
        }
    }
}

/// Carries out one verb on assets.
pub(super) fn assets(verb: Assets, session: &Session) -> Result<(), CliError> {
    match verb {
        Assets::Index => {
            let found = rows(What::Asset, ["name"], None, session)?;
            say_json(&found.into_iter().flatten().collect::<Vec<_>>())
        }
        Assets::Info { name, json: _ } => {
            let asset = asset(&name, session)?;
            let file = session.layout().blobs().join(asset.blob.sha256.to_string());
            say_json(&sabakan::asset(&asset, file.exists()))
        }
        Assets::Upload { meta, name, file } => {
            let blob = stage(&file, &session.layout().spool())?;
            let content_type: ContentType =
                "application/octet-stream".parse().expect("it is a type of content");
            let options = meta.into_iter().collect();
            let op = AssetSet { name, content_type, blob, options };
            let written = quietly(OpCode::AssetSet(op), session)?;
            let written: AssetWritten = serde_json::from_value(written)
                .map_err(|error| CliError::Failed(format!("the result does not read: {error}")))?;
            let status = if written.created { 201 } else { 200 };
            say_json(&json!({"status": status, "id": written.id.to_string()}))
        }
        Assets::Delete { name } => {
            quietly(OpCode::AssetRemove(AssetRemove { name }), session).map(drop)
        }
    }
}

fn asset(name: &Word, session: &Session) -> Result<Asset, CliError> {
    let fields = ["name", "id", "content_type", "sha256", "size", "options", "ctime"];
    let filter = Some(Filter::any_of("name", [name.as_str()]));
    let row = rows(What::Asset, fields, filter, session)?.into_iter().next();
    let row = row.ok_or_else(|| missing(format!("there is no asset {name}")))?;
    let read = serde_json::from_value(Value::from(row));
    let (name, id, content_type, sha256, size, options, ctime) =
        read.map_err(|error| CliError::Failed(format!("the asset does not read: {error}")))?;
    Ok(Asset { name, id, content_type, blob: Blob { sha256, size }, options, ctime })
}
