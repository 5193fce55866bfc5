//! What a master finds in its store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use model::{Job, JobId, JobStatus, Secret, Timestamp, document};
use queue_format::{Key, OpenError, Reader};

use crate::config::Config;
use crate::config::load::{LoadError, Loader};
use crate::jobs::depend::named;
use crate::jobs::repeat::{self, Remembered};
use crate::jobs::stored::{self, JobFileError};

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
    /// A job's file is damaged, or another job's.
    #[error("job file `{key}` cannot be used; restore it from a copy, or move it away")]
    Job {
        /// Its key.
        key: String,
        /// What is wrong with it.
        #[source]
        error: JobFileError,
    },
    /// A small file is damaged.
    #[error("`{key}` holds `{found}`, not {wanted}")]
    Queue {
        /// Its key.
        key: &'static str,
        /// What it holds.
        found: String,
        /// What it should.
        wanted: &'static str,
    },
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
    /// What is known of the requests of archived jobs.
    pub requests: ArchivedRequests,
}

/// Reads everything.
///
/// # Errors
/// Anything that does not read, or contradicts itself: a broken state is not gone on with.
pub fn load(store: &Reader) -> Result<Found, FoundError> {
    beside(store, jobs(store)?, ArchivedRequests::default())
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
    for id in changed.iter().filter_map(|key| stored::job_of(key.as_str())) {
        requests.0.remove(&id);
    }
    let live =
        |key: &Key| stored::job_of(key.as_str()).filter(|id| document::job(*id) == key.as_str());
    let changed: BTreeMap<JobId, &Key> =
        changed.iter().filter_map(|key| Some((live(key)?, key))).collect();
    jobs.retain(|job| !changed.contains_key(&job.id));
    for (id, key) in changed {
        let now = store.read(key)?.map(|content| job(id, key, &content)).transpose()?;
        jobs.extend(now);
    }
    jobs.sort_by_key(|job| job.id);
    beside(store, jobs, requests)
}

/// Reads the live jobs alone, in the order of their ids. Where the store changes meanwhile, each is as
/// it was at some moment.
///
/// # Errors
/// A file that does not read.
pub fn jobs(store: &Reader) -> Result<Vec<Job>, FoundError> {
    let read = |key: Key, content: Bytes| match stored::job_of(key.as_str()) {
        Some(id) => job(id, &key, &content).map(Some),
        None => {
            tracing::warn!(%key, "this is no job's file; it is left alone");
            Ok(None)
        }
    };
    let read = store.scan_each("queue/job-", read)?.into_iter();
    let mut jobs = read.filter_map(Result::transpose).collect::<Result<Vec<Job>, _>>()?;
    jobs.sort_by_key(|job| job.id);
    Ok(jobs)
}

fn job(id: JobId, key: &Key, content: &[u8]) -> Result<Job, FoundError> {
    let job = stored::read(id, content);
    job.map_err(|error| FoundError::Job { key: key.to_string(), error })
}

/// Reads all that there is beside the live jobs.
fn beside(store: &Reader, jobs: Vec<Job>, requests: ArchivedRequests) -> Result<Found, FoundError> {
    let config = config(store)?;
    let archived = archived(store, &jobs)?;
    check_version(store)?;
    let serial = serial(store)?;
    let highest = jobs.last().map_or(0, |job| job.id.0);
    if highest > serial {
        return Err(FoundError::Queue {
            key: document::QUEUE_SERIAL,
            found: serial.to_string(),
            wanted: "at least the highest job id; ids must never be used twice",
        });
    }
    let drained = store.read(&key(document::QUEUE_DRAIN))?.is_some();
    Ok(Found { config, jobs, serial, drained, archived, requests })
}

/// Reads the configuration alone.
///
/// # Errors
/// As [`load`].
pub fn config(store: &Reader) -> Result<Config, FoundError> {
    let mut loader = Loader::default();
    for prefix in ["config/", "machines/", "boots/", "leases/", "node-indices/"] {
        for entry in store.scan(prefix)? {
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
    let text = String::from_utf8(content.to_vec()).map_err(|error| FoundError::Queue {
        key: document::AUTHORITY,
        found: error.to_string(),
        wanted: "the authority's key, PEM",
    })?;
    Ok(Some(Secret::new(text)))
}

/// How the archived jobs ended that these depend on.
fn archived(store: &Reader, jobs: &[Job]) -> Result<HashMap<JobId, JobStatus>, FoundError> {
    let mut ended = HashMap::new();
    let unfinished = jobs.iter().filter(|job| !job.status().is_final());
    for id in unfinished.flat_map(|job| job.ops.iter()).flat_map(|op| named(op.input.depends())) {
        if jobs.binary_search_by_key(&id, |job| job.id).is_err()
            && let Some(job) = archived_job(store, id)?
        {
            ended.insert(id, job.status());
        }
    }
    Ok(ended)
}

/// An archived job, if there is one of this id.
///
/// # Errors
/// Its file cannot be read or used.
pub fn archived_job(reader: &Reader, id: JobId) -> Result<Option<Arc<Job>>, FoundError> {
    let name = document::archived_job(id);
    let Some(content) = reader.read(&key(&name))? else { return Ok(None) };
    let job = stored::read(id, &content);
    job.map(|job| Some(Arc::new(job))).map_err(|error| FoundError::Job { key: name, error })
}

/// Archived jobs that are read for the requests that they came of: a quarter of a second at the
/// most. Older ones are read by nobody, and a request of theirs that is sent again is a new one.
const ARCHIVED_READ_MAX: usize = 10_000;

/// Numbers without a job that are looked up meanwhile: jobs that were removed by hand. An override or
/// an import leaves out so many that what was archived before it is not known again.
const ABSENT_MAX: usize = 1_000;

/// What archived jobs say of their requests, each read once: from before a member leads to its role entry.
#[derive(Debug, Clone, Default)]
pub struct ArchivedRequests(HashMap<JobId, Option<Sent>>);

/// When a job was received, and of which request.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    received: Option<Timestamp>,
    request: Option<Remembered>,
}

/// What a look back from the newest job found.
#[derive(Debug, Default)]
struct LookedBack {
    requests: Vec<Remembered>,
    /// Archived jobs that were read, and numbers without a job.
    reads: usize,
    absent: usize,
    /// Whether one of these ended it.
    is_cut: bool,
}

impl ArchivedRequests {
    /// Reads those that [`requests`] will want for the live `jobs`, as the store is at this moment.
    ///
    /// # Errors
    /// As [`requests`].
    pub fn ahead(reader: &Reader, jobs: &[Job]) -> Result<Self, FoundError> {
        let mut archived = Self::default();
        archived.look_back(reader, jobs, serial(reader)?)?;
        Ok(archived)
    }

    fn get(&mut self, reader: &Reader, id: JobId) -> Result<Option<Sent>, FoundError> {
        if let Some(known) = self.0.get(&id) {
            return Ok(*known);
        }
        let sent = match archived_job(reader, id) {
            Ok(job) => job.map(|job| Sent {
                received: job.received_timestamp,
                request: Remembered::of(&job),
            }),
            Err(FoundError::Job { key, error }) => {
                tracing::warn!(key, %error, "archived job cannot be used");
                Some(Sent::default())
            }
            Err(error) => return Err(error),
        };
        self.0.insert(id, sent);
        Ok(sent)
    }

    /// Goes back from job `serial` to one that is old, past the live `jobs`.
    fn look_back(
        &mut self,
        reader: &Reader,
        jobs: &[Job],
        serial: u64,
    ) -> Result<LookedBack, FoundError> {
        let mut back = repeat::Back::default();
        let mut is_old = |at: Option<Timestamp>| at.is_some_and(|at| back.is_old(at));
        let mut found = LookedBack::default();
        // The newest first, up to one that is old: ids grow with time.
        for id in (1..=serial).rev().map(JobId) {
            if let Ok(place) = jobs.binary_search_by_key(&id, |job| job.id) {
                if jobs.get(place).is_some_and(|job| is_old(job.received_timestamp)) {
                    break;
                }
                continue;
            }
            if found.reads == ARCHIVED_READ_MAX || found.absent == ABSENT_MAX {
                found.is_cut = true;
                break;
            }
            match self.get(reader, id)? {
                None => found.absent += 1,
                Some(sent) if is_old(sent.received) => break,
                Some(sent) => {
                    found.reads += 1;
                    found.requests.extend(sent.request);
                }
            }
        }
        Ok(found)
    }
}

/// What jobs say of their requests: the live `jobs`, in the order of their ids, and the newest archived
/// ones of up to `serial`, down to one that is an hour older than the newest. This machine's clock does
/// not count: those of other ones said when they were received, of which none may have been right.
///
/// # Errors
/// The store cannot be read. An archived job that does not parse is told of in the log.
pub fn requests(
    reader: &Reader,
    jobs: &[Job],
    serial: u64,
    mut archived: ArchivedRequests,
) -> Result<Vec<Remembered>, FoundError> {
    let LookedBack { requests, reads, absent, is_cut } =
        archived.look_back(reader, jobs, serial)?;
    if is_cut {
        tracing::info!(reads, absent, "requests of older archived jobs are not known again");
    }
    Ok(jobs.iter().filter_map(Remembered::of).chain(requests).collect())
}

fn check_version(store: &Reader) -> Result<(), FoundError> {
    let content = store.read(&key(document::QUEUE_VERSION))?.unwrap_or_default();
    if content == document::QUEUE_FORMAT.as_bytes() {
        return Ok(());
    }
    Err(FoundError::Queue {
        key: document::QUEUE_VERSION,
        found: String::from_utf8_lossy(&content).trim().to_owned(),
        wanted: "1; a queue of another format needs the version that wrote it",
    })
}

/// The last job id that was given.
///
/// # Errors
/// It does not read.
pub fn serial(store: &Reader) -> Result<u64, FoundError> {
    let content = store.read(&key(document::QUEUE_SERIAL))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    text.trim().parse().map_err(|_not_a_number| FoundError::Queue {
        key: document::QUEUE_SERIAL,
        found: text.chars().take(40).collect(),
        wanted: "a whole number",
    })
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("keys of documents are good keys")
}
