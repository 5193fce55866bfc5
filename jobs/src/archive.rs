//! Reads archived jobs, which are on disk only; serves the listing of jobs and the queue's question
//! how a job ended that another one depends on.
//!
//! Files are read on threads of their own, a few at a time. So a slow disk or a large archive holds up
//! nobody who does not ask for it.

use std::collections::HashMap;
use std::sync::Arc;

use model::error::ExceptionKind;
use model::{Exception, Job, JobId, document};
use queue_format::{Key, Reader};
use tokio::sync::Semaphore;

use crate::commits::Commits;
use crate::configuration::Configuration;
use crate::load::archived_job;
use crate::stored;

/// Readings at the same time; each holds a thread.
const READINGS_MAX: usize = 4;
/// Archived jobs that one listing takes into memory, some hundred megabytes.
const LISTED_MAX: usize = 100_000;

/// Archived jobs for a listing.
#[derive(Debug, Default)]
pub struct Listed {
    /// The newest, in no order.
    pub jobs: Vec<Arc<Job>>,
    /// The others, which were too many.
    pub left_out: Option<LeftOut>,
}

/// The oldest archived jobs, which a listing leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// How many they are.
    pub count: usize,
    /// The newest of them.
    pub newest: JobId,
}

/// The archive of jobs; clones share it.
#[derive(Debug)]
pub struct Archive<C: Configuration> {
    commits: Arc<Commits<C>>,
    permits: Arc<Semaphore>,
}

impl<C: Configuration> Clone for Archive<C> {
    fn clone(&self) -> Self {
        Self { commits: Arc::clone(&self.commits), permits: Arc::clone(&self.permits) }
    }
}

impl<C: Configuration> Archive<C> {
    /// The archive of what was committed by `commits`.
    pub fn new(commits: Arc<Commits<C>>) -> Self {
        Self { commits, permits: Arc::new(Semaphore::new(READINGS_MAX)) }
    }

    /// One archived job.
    ///
    /// # Errors
    /// Its file does not read.
    pub async fn job(&self, id: JobId) -> Result<Option<Arc<Job>>, Exception> {
        Ok(self.jobs(vec![id]).await?.remove(&id))
    }

    /// Those of these jobs that are archived.
    ///
    /// # Errors
    /// The file of one does not read.
    pub async fn jobs(&self, ids: Vec<JobId>) -> Result<HashMap<JobId, Arc<Job>>, Exception> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        self.read(move |reader| {
            let mut found = HashMap::new();
            for id in ids {
                let job = archived_job(reader, id);
                let job = job.map_err(|error| corrupted(stdx::daemon::chain(&error)))?;
                found.extend(job.map(|job| (id, job)));
            }
            Ok(found)
        })
        .await
    }

    /// The newest archived jobs, as many as fit a listing. A file that does not read is left out and
    /// told of in the log: it must not hide all others.
    ///
    /// # Errors
    /// The archive cannot be listed.
    pub async fn all(&self) -> Result<Listed, Exception> {
        self.newest(LISTED_MAX).await
    }

    /// The same of the newest `max`, or as many as fit a listing.
    ///
    /// # Errors
    /// The archive cannot be listed.
    pub async fn newest(&self, max: usize) -> Result<Listed, Exception> {
        self.read(move |reader| list(reader, max.min(LISTED_MAX))).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, Exception> + Send + 'static,
    ) -> Result<T, Exception> {
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        let reader = self.commits.reader();
        // The permit stays with the reading, which goes on should nobody wait for it any more.
        let read = move || {
            let done = read(&reader);
            drop(permit);
            done
        };
        let done = stdx::apart(read).await;
        done.unwrap_or_else(|ended| Err(corrupted(format!("reading the archive failed: {ended}"))))
    }
}

/// The newest `max` archived jobs.
fn list(reader: &Reader, max: usize) -> Result<Listed, Exception> {
    let unreadable = |error| corrupted(stdx::daemon::chain(&error));
    let keys = reader.keys(&format!("{}/", document::ARCHIVE)).map_err(unreadable)?;
    let mut found: Vec<(JobId, Key)> = Vec::with_capacity(keys.len());
    for key in keys {
        match stored::job_of(key.as_str()) {
            Some(id) => found.push((id, key)),
            None => tracing::warn!(%key, "this is no archived job's file; it is left alone"),
        }
    }
    found.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
    let rest = found.split_off(max.min(found.len()));
    let left_out = rest.first().map(|(newest, _)| LeftOut { count: rest.len(), newest: *newest });
    let mut jobs = Vec::with_capacity(found.len());
    for entry in reader.contents(found.into_iter().map(|(_, key)| key).collect()) {
        let (key, content) = entry.map_err(unreadable)?;
        let Some(id) = stored::job_of(key.as_str()) else { continue };
        match stored::read(id, &content) {
            Ok(job) => jobs.push(Arc::new(job)),
            Err(error) => tracing::warn!(%key, %error, "archived job cannot be used"),
        }
    }
    Ok(Listed { jobs, left_out })
}

fn corrupted(text: String) -> Exception {
    Exception::new(ExceptionKind::JobFileCorrupted, text)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::Timestamp;
    use model::opcode::{Input, OpInput};
    use queue_format::simulation::{SimDisk, Step};
    use queue_format::{Callbacks, Change, Epoch, Store, StoreOptions};

    use super::*;

    #[test]
    fn a_listing_has_the_newest_and_says_what_it_leaves_out() {
        let input = OpInput::parse(r#"{"OP_ID":"OP_TEST_DELAY","duration":0}"#).unwrap();
        let input = Arc::new(Input::Known(Box::new(input)));
        let put = |id: u64| {
            let job = Job::new(JobId(id), [Arc::clone(&input)], Timestamp::default());
            let key = Key::parse(&document::archived_job(job.id)).unwrap();
            Change::Put { key, content: Bytes::from(serde_json::to_vec(&job).unwrap()) }
        };
        // Numbers whose names are in another order, and in two directories.
        let numbers = [9, 10, 99, 100, 9_999, 10_000, 10_001];
        let store = Store::open_simulated(&SimDisk::empty(), StoreOptions::default()).unwrap();
        let reader = store.reader();
        let epoch = Epoch { term: 1, node: 1 };
        let (committer, mut hand) =
            store.start_by_hand(epoch, Callbacks::new(|_: Vec<()>, _| {})).unwrap();
        committer.submit(numbers.map(put).into(), ()).unwrap();
        hand.take(Step::Log).unwrap();
        let ids = |max: usize| {
            let Listed { jobs, left_out } = list(&reader, max).unwrap();
            let mut ids: Vec<u64> = jobs.iter().map(|job| job.id.0).collect();
            ids.sort_unstable();
            (ids, left_out.map(|left| (left.count, left.newest.0)))
        };
        assert_eq!(ids(7), (numbers.to_vec(), None));
        assert_eq!(ids(6), (numbers[1..].to_vec(), Some((1, 9))));
        assert_eq!(ids(2), (vec![10_000, 10_001], Some((5, 9_999))));
        hand.finish().unwrap();
    }
}
