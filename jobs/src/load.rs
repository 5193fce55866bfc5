//! Reads the queue of a store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use model::{Job, JobId, JobStatus, Timestamp, document};
use queue_format::{FileError, Key, Reader};

use crate::deduplication::{self, Remembered};
use crate::depend::named;
use crate::stored::{self, JobFileError};

/// A queue that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file of the store does not read.
    #[error("cannot read the store")]
    Read(#[from] FileError),
    /// A job's file is damaged, or another job's.
    #[error("job file `{key}` cannot be used; restore it from a copy, or move it away")]
    Job {
        key: String,
        /// The fault in the file.
        #[source]
        error: JobFileError,
    },
    /// A small file is damaged.
    #[error("`{key}` holds `{found}`, not {wanted}")]
    Queue {
        key: &'static str,
        /// What it holds.
        found: String,
        /// What it should.
        wanted: &'static str,
    },
}

/// Brings jobs and requests that were read before up to date with the keys that `changed` since.
///
/// # Errors
/// A file that does not read.
pub fn update(
    store: &Reader,
    (jobs, requests): (&mut Vec<Job>, &mut ArchivedRequests),
    changed: &BTreeSet<Key>,
) -> Result<(), LoadError> {
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
    Ok(())
}

/// Reads the live jobs alone, in the order of their ids. If the store changes meanwhile, each job is as
/// it was at some moment.
///
/// # Errors
/// A file that does not read.
pub fn jobs(store: &Reader) -> Result<Vec<Job>, LoadError> {
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

fn job(id: JobId, key: &Key, content: &[u8]) -> Result<Job, LoadError> {
    let job = stored::read(id, content);
    job.map_err(|error| LoadError::Job { key: key.to_string(), error })
}

/// The last job id that was given, and whether the queue is drained; `jobs` are the live ones, in the
/// order of their ids.
///
/// # Errors
/// A file that does not read, a queue of another format, or a serial below a job's id.
pub fn serial_and_drain(store: &Reader, jobs: &[Job]) -> Result<(u64, bool), LoadError> {
    check_version(store)?;
    let serial = serial(store)?;
    let highest = jobs.last().map_or(0, |job| job.id.0);
    if highest > serial {
        return Err(LoadError::Queue {
            key: document::QUEUE_SERIAL,
            found: serial.to_string(),
            wanted: "at least the highest job id; ids must never be used twice",
        });
    }
    Ok((serial, store.read(&key(document::QUEUE_DRAIN))?.is_some()))
}

/// How the archived jobs ended that these depend on.
pub fn archived(store: &Reader, jobs: &[Job]) -> Result<HashMap<JobId, JobStatus>, LoadError> {
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
pub fn archived_job(reader: &Reader, id: JobId) -> Result<Option<Arc<Job>>, LoadError> {
    let name = document::archived_job(id);
    let Some(content) = reader.read(&key(&name))? else { return Ok(None) };
    let job = stored::read(id, &content);
    job.map(|job| Some(Arc::new(job))).map_err(|error| LoadError::Job { key: name, error })
}

/// Archived jobs that are read for the requests that they came of: a quarter of a second at the
/// most. Older ones are read by nobody, and a request of theirs that is sent again is a new one.
const ARCHIVED_READ_MAX: usize = 10_000;

/// Numbers without a job that are looked up meanwhile: jobs that were removed by hand. An override or
/// an import leaves out so many that what was archived before it is not known again.
const ABSENT_MAX: usize = 1_000;

/// The requests of archived jobs, each read once. The value is kept from before a member leads to its
/// role entry.
#[derive(Debug, Clone, Default)]
pub struct ArchivedRequests(HashMap<JobId, Option<Sent>>);

/// When a job was received, and of which request.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    received: Option<Timestamp>,
    request: Option<Remembered>,
}

/// The findings of a look back from the newest job.
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
    pub fn ahead(reader: &Reader, jobs: &[Job]) -> Result<Self, LoadError> {
        let mut archived = Self::default();
        archived.look_back(reader, jobs, serial(reader)?)?;
        Ok(archived)
    }

    fn get(&mut self, reader: &Reader, id: JobId) -> Result<Option<Sent>, LoadError> {
        if let Some(known) = self.0.get(&id) {
            return Ok(*known);
        }
        let sent = match archived_job(reader, id) {
            Ok(job) => job.map(|job| Sent {
                received: job.received_timestamp,
                request: Remembered::of(&job),
            }),
            Err(LoadError::Job { key, error }) => {
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
    ) -> Result<LookedBack, LoadError> {
        let mut back = deduplication::Back::default();
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

/// Reads the requests of the live `jobs`, which are in the order of their ids, and of the newest
/// archived jobs. It goes back from `serial` to a job that is an hour older than the newest. This
/// machine's clock does not count: clocks of other machines said when the jobs were received, and none
/// may have been right.
///
/// # Errors
/// The store cannot be read. An archived job that does not parse is told of in the log.
pub fn requests(
    reader: &Reader,
    jobs: &[Job],
    serial: u64,
    mut archived: ArchivedRequests,
) -> Result<Vec<Remembered>, LoadError> {
    let LookedBack { requests, reads, absent, is_cut } =
        archived.look_back(reader, jobs, serial)?;
    if is_cut {
        tracing::info!(reads, absent, "requests of older archived jobs are not known again");
    }
    Ok(jobs.iter().filter_map(Remembered::of).chain(requests).collect())
}

fn check_version(store: &Reader) -> Result<(), LoadError> {
    let content = store.read(&key(document::QUEUE_VERSION))?.unwrap_or_default();
    if content == document::QUEUE_FORMAT.as_bytes() {
        return Ok(());
    }
    Err(LoadError::Queue {
        key: document::QUEUE_VERSION,
        found: String::from_utf8_lossy(&content).trim().to_owned(),
        wanted: "1; a queue of another format needs the version that wrote it",
    })
}

/// The last job id that was given.
///
/// # Errors
/// It does not read.
pub fn serial(store: &Reader) -> Result<u64, LoadError> {
    let content = store.read(&key(document::QUEUE_SERIAL))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    text.trim().parse().map_err(|_not_a_number| LoadError::Queue {
        key: document::QUEUE_SERIAL,
        found: text.chars().take(40).collect(),
        wanted: "a whole number",
    })
}

fn key(text: &str) -> Key {
    Key::parse(text).expect("keys of documents are good keys")
}
