//! Exports the store of a master that is stopped, of a standby too.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use engine::{EngineOptions, OfflineStore};
use model::cluster::Cluster;
use model::layout::Layout;
use model::{Secret, Timestamp, document};
use queue_format::store::{AtRest, HeaderError};
use queue_format::{FileError, Key, OpenError, Position, Store, StoreOptions};
use stdx::atomic::NewFile;

use super::write::{About, Source, WriteError, Writer};
use crate::store::bootstrap::{self, InitError};

/// Mode bits of an export: it tells everything of a cluster.
const MODE: u32 = 0o600;
/// Bytes that are written at a time.
const PIECE_BYTES: usize = 4 << 20;

/// A store that was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is none.
    #[error("there is no store in `{0}`, and no master that could be asked")]
    NoStore(PathBuf),
    /// It does not tell what it is.
    #[error("cannot tell what store this is")]
    Header(#[from] HeaderError),
    /// It does not open.
    #[error("cannot open the store; a master or standby that runs must be stopped for this")]
    Open(#[from] OpenError),
    /// It is a member's, and does not open.
    #[error("cannot open the store")]
    Member(#[source] engine::OpenError),
    /// It does not read.
    #[error("cannot read the store")]
    File(#[from] FileError),
    /// It is that of no cluster.
    #[error("`{0}` in the store cannot be used")]
    Document(&'static str),
    /// The authority's certificate does not read.
    #[error("cannot read `{path}`")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The export cannot be made.
    #[error("cannot make the export")]
    Make(#[from] WriteError),
    /// The disk takes no more of it.
    #[error("cannot write the export")]
    Disk(#[from] std::io::Error),
    /// The file is there already.
    #[error("the export file `{0}` already exists; choose another name")]
    Exists(PathBuf),
    /// The file cannot be made.
    #[error("cannot write the export to `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// Files have the wrong owner now.
    #[error("the export is made, but a file of the store may have the wrong owner")]
    Owner(#[source] InitError),
}

/// Exports to `file`, which must not be there; gives the position.
///
/// # Errors
/// See [`ExportError`].
pub fn export(
    layout: &Layout,
    file: &Path,
    passphrase: Option<&Secret<String>>,
    now: Timestamp,
) -> Result<Position, ExportError> {
    let data = layout.data();
    let at_rest = AtRest::read(&data)?.ok_or_else(|| ExportError::NoStore(data.clone()))?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => ExportError::Exists(file.to_owned()),
        _ => ExportError::Write { path: file.to_owned(), error },
    };
    let new = NewFile::begin(file, MODE).map_err(failed)?;
    let written = from_store(layout, at_rest.member, (passphrase, now), new);
    // Opening the store may have written files.
    bootstrap::give_to_users(layout).map_err(ExportError::Owner)?;
    let (position, new) = written?;
    new.finish().map_err(failed)?;
    Ok(position)
}

/// Whichever store it is, its lock is held meanwhile.
fn from_store(
    layout: &Layout,
    member: Option<u64>,
    (passphrase, now): (Option<&Secret<String>>, Timestamp),
    mut new: NewFile,
) -> Result<(Position, NewFile), ExportError> {
    let (data, options) = (layout.data(), StoreOptions::default());
    match member {
        None => {
            let store = Store::open(&data, options)?;
            let position = store.recovered().position;
            let key = Key::parse(document::CLUSTER).expect("the name of a document is a key");
            let about = about(layout, store.reader().read(&key)?, position, now)?;
            let source = Source::AtRest(store.reader().scan("")?, BTreeMap::new());
            write(source, about, passphrase, &mut new)?;
            Ok((position, new))
        }
        Some(member) => {
            // Entries beyond the files may be acknowledged, and this may be their only copy.
            let resting = OfflineStore::open(&data, EngineOptions::new(member, "", options));
            let resting = resting.map_err(|error| match error {
                engine::OpenError::Store(error) => ExportError::Open(error),
                error => ExportError::Member(error),
            })?;
            let position = resting.last();
            let key = Key::parse(document::CLUSTER).expect("the name of a document is a key");
            let about = about(layout, resting.newest(&key)?, position, now)?;
            let source = Source::AtRest(resting.reader().scan("")?, resting.ahead().clone());
            write(source, about, passphrase, &mut new)?;
            Ok((position, new))
        }
    }
}

fn about(
    layout: &Layout,
    cluster: Option<Bytes>,
    position: Position,
    made: Timestamp,
) -> Result<About, ExportError> {
    let bad = || ExportError::Document(document::CLUSTER);
    let content = cluster.ok_or_else(bad)?;
    let cluster: Cluster = serde_json::from_slice(&content).map_err(|_parse| bad())?;
    let path = layout.ca_certificate();
    let authority = std::fs::read_to_string(&path);
    Ok(About {
        cluster_uuid: cluster.uuid.parse().map_err(|_parse| bad())?,
        cluster_name: cluster.cluster_name,
        authority: authority.map_err(|error| ExportError::Certificate { path, error })?,
        position,
        made,
    })
}

fn write(
    source: Source,
    about: About,
    passphrase: Option<&Secret<String>>,
    new: &mut NewFile,
) -> Result<(), ExportError> {
    let mut writer = Writer::new(source, about, passphrase)?;
    while let Some(piece) = writer.next_piece(PIECE_BYTES)? {
        new.write_all(&piece)?;
    }
    Ok(())
}
