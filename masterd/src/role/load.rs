//! The state that a master finds in its store.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use jobs::load::ArchivedRequests;
use model::{Job, JobId, JobStatus, Secret, document};
use queue_format::{Key, OpenError, Reader};

use crate::config::Config;
use crate::config::load::{LoadError, Loader};

/// A store that cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// The store does not open.
    #[error("cannot open the store `{path}`")]
    Open {
        /// The data directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: OpenError,
    },
    /// A file of the store does not read.
    #[error("cannot read the store")]
    Read(#[from] queue_format::FileError),
    /// The configuration is damaged.
    #[error("the configuration is damaged; nothing was changed")]
    Config(#[from] LoadError),
    /// The queue is damaged.
    #[error(transparent)]
    Queue(#[from] ::jobs::load::LoadError),
}

/// All that a store held.
#[derive(Debug)]
pub struct Found {
    /// Every object but the jobs.
    pub config: Config,
    /// Live jobs, as they were stored.
    pub jobs: Vec<Job>,
    /// Last job id that was given out.
    pub serial: u64,
    /// Whether new jobs are refused.
    pub drained: bool,
    /// How archived jobs ended that live ones depend on.
    pub archived: HashMap<JobId, JobStatus>,
    /// The known requests of archived jobs.
    pub requests: ArchivedRequests,
}

/// Reads everything.
///
/// # Errors
/// Anything that does not read, or contradicts itself: a broken state is not gone on with.
pub fn load(store: &Reader) -> Result<Found, FoundError> {
    beside(store, ::jobs::load::jobs(store)?, ArchivedRequests::default())
}

/// Reads everything but the jobs that were read before, live ones and requests of archived ones, and are
/// not among the keys that `changed` since that began.
///
/// # Errors
/// As [`load`].
pub fn load_behind(
    store: &Reader,
    (mut jobs, mut requests): (Vec<Job>, ArchivedRequests),
    changed: &BTreeSet<Key>,
) -> Result<Found, FoundError> {
    ::jobs::load::update(store, (&mut jobs, &mut requests), changed)?;
    beside(store, jobs, requests)
}

/// Reads all that there is beside the live jobs.
fn beside(store: &Reader, jobs: Vec<Job>, requests: ArchivedRequests) -> Result<Found, FoundError> {
    let config = config(store)?;
    let archived = ::jobs::load::archived(store, &jobs)?;
    let (serial, drained) = ::jobs::load::serial_and_drain(store, &jobs)?;
    Ok(Found { config, jobs, serial, drained, archived, requests })
}

/// Reads the configuration alone.
///
/// # Errors
/// As [`load`].
pub fn config(store: &Reader) -> Result<Config, FoundError> {
    let mut loader = Loader::default();
    for prefix in Loader::prefixes() {
        for entry in store.scan(&prefix)? {
            let (key, content) = entry?;
            loader.add(key.as_str(), &content)?;
        }
    }
    if let Some(content) = store.read(&key(document::IPAM))? {
        loader.add(document::IPAM, &content)?;
    }
    Ok(loader.finish()?)
}

/// The authority's key, where the store has it.
///
/// # Errors
/// It cannot be read.
pub fn authority(store: &Reader) -> Result<Option<Secret<String>>, FoundError> {
    let Some(content) = store.read(&key(document::AUTHORITY))? else { return Ok(None) };
    let text =
        String::from_utf8(content.to_vec()).map_err(|error| ::jobs::load::LoadError::Queue {
            key: document::AUTHORITY,
            found: error.to_string(),
            wanted: "the authority's key, PEM",
        })?;
    Ok(Some(Secret::new(text)))
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("keys of documents are good keys")
}
