//! Reads archived jobs, which are on disk only; serves the listing of jobs and the queue's question
//! how a job ended that another one depends on.
//!
//! Files are read on threads of their own, a few at a time, so that a slow disk or a large archive
//! holds up nobody who does not ask for it.

use std::collections::HashMap;
use std::sync::Arc;

use model::error::ExceptionKind;
use model::{Exception, Job, JobId, document};
use queue_format::Reader;
use tokio::sync::Semaphore;

use crate::commits::Commits;
use crate::daemon::load::archived_job;
use crate::jobs::stored;

/// Readings at the same time; each holds a thread.
const READINGS_MAX: usize = 4;
/// Archived jobs that one listing takes into memory, some hundred megabytes.
const LISTED_MAX: usize = 100_000;

/// The archive of jobs; clones share it.
#[derive(Debug, Clone)]
pub struct Archive {
    commits: Arc<Commits>,
    permits: Arc<Semaphore>,
}

impl Archive {
    /// The archive of what was committed by `commits`.
    #[must_use]
    pub fn new(commits: Arc<Commits>) -> Self {
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

    /// Every archived job, in no order. A file that does not read is left out and told of in the
    /// log: it must not hide all others.
    ///
    /// # Errors
    /// The archive cannot be listed, or holds too many jobs for one answer.
    pub async fn all(&self) -> Result<Vec<Arc<Job>>, Exception> {
        self.read(|reader| {
            let scan = reader.scan(&format!("{}/", document::ARCHIVE));
            let scan = scan.map_err(|error| corrupted(stdx::daemon::chain(&error)))?;
            let mut jobs = Vec::new();
            for entry in scan {
                let (key, content) =
                    entry.map_err(|error| corrupted(stdx::daemon::chain(&error)))?;
                let Some(id) = stored::job_of(key.as_str()) else {
                    tracing::warn!(%key, "this is no archived job's file; it is left alone");
                    continue;
                };
                match stored::read(id, &content) {
                    Ok(job) => jobs.push(Arc::new(job)),
                    Err(error) => tracing::warn!(%key, %error, "archived job cannot be used"),
                }
                if jobs.len() > LISTED_MAX {
                    return Err(Exception::new(
                        ExceptionKind::GenericError,
                        format!(
                            "The archive holds more than {LISTED_MAX} jobs, too many for one \
                             list; ask for them by their ids"
                        ),
                    ));
                }
            }
            Ok(jobs)
        })
        .await
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

fn corrupted(text: String) -> Exception {
    Exception::new(ExceptionKind::JobFileCorrupted, text)
}
