//! The committed jobs, the only ones that clients and waiters see.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use model::{Job, JobId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::status_counts::StatusCounts;

/// The committed jobs, and those who wait for one of them to change.
#[derive(Debug, Default)]
pub struct View {
    jobs: RwLock<BTreeMap<JobId, Arc<Job>>>,
    watched: Mutex<HashMap<JobId, Watched>>,
    status_counts: StatusCounts,
}

#[derive(Debug, Default)]
struct Watched {
    changed: Arc<Notify>,
    watchers: usize,
}

impl View {
    /// The job, unless it is archived or was never there.
    pub fn get(&self, id: JobId) -> Option<Arc<Job>> {
        self.jobs.read().get(&id).cloned()
    }

    /// Whether a job does nothing any more: it has ended, or is gone.
    pub fn has_ended(&self, id: JobId) -> bool {
        self.get(id).is_none_or(|job| job.status().is_final())
    }

    /// Every job, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<Job>> {
        self.jobs.read().values().cloned().collect()
    }

    /// Whether there is a job of which `is` holds.
    pub fn any(&self, is: impl Fn(&Job) -> bool) -> bool {
        self.jobs.read().values().any(|job| is(job))
    }

    /// The first job, by its id, of which `is` holds.
    pub fn first(&self, is: impl Fn(&Job) -> bool) -> Option<Arc<Job>> {
        self.jobs.read().values().find(|job| is(job)).cloned()
    }

    /// How many jobs there are.
    pub fn len(&self) -> usize {
        self.jobs.read().len()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs there are in each status.
    pub fn status_counts(&self) -> &StatusCounts {
        &self.status_counts
    }

    /// Shows jobs as they were committed, takes archived ones away, and wakes who waited.
    pub fn publish(&self, changed: Vec<Arc<Job>>, archived: &[JobId]) {
        let ids: Vec<JobId> = changed.iter().map(|job| job.id).collect();
        {
            let mut jobs = self.jobs.write();
            for job in changed {
                let after = job.status();
                let before = jobs.insert(job.id, job);
                self.status_counts.changed(before.map(|before| before.status()), after);
            }
            for id in archived {
                if let Some(before) = jobs.remove(id) {
                    self.status_counts.gone(before.status());
                }
            }
        }
        let watched = self.watched.lock();
        if watched.is_empty() {
            return;
        }
        for id in ids.iter().chain(archived) {
            if let Some(entry) = watched.get(id) {
                entry.changed.notify_waiters();
            }
        }
    }

    /// Watches one job. A change after this call wakes [`Watch::changed`] even if it is not being
    /// awaited yet, provided that its future was made before the job was looked at.
    pub fn watch(self: &Arc<Self>, job: JobId) -> Watch {
        let mut watched = self.watched.lock();
        let entry = watched.entry(job).or_default();
        entry.watchers += 1;
        Watch { view: Arc::clone(self), job, changed: Arc::clone(&entry.changed) }
    }
}

/// A place among those who wait for a job; given up when dropped.
#[derive(Debug)]
pub struct Watch {
    view: Arc<View>,
    job: JobId,
    changed: Arc<Notify>,
}

impl Watch {
    /// Ends at the first change after this call.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.view.watched.lock();
        if let Some(entry) = watched.get_mut(&self.job) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                watched.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn job(id: u64) -> Arc<Job> {
        Arc::new(Job::new(JobId(id), [], Timestamp::from_micros(0)))
    }

    #[tokio::test]
    async fn a_change_before_the_await_still_wakes() {
        let view = Arc::new(View::default());
        view.publish(vec![job(1)], &[]);
        let watch = view.watch(JobId(1));
        let changed = watch.changed();
        view.publish(vec![job(1)], &[]);
        changed.await;
        drop(watch);
        assert!(view.watched.lock().is_empty());
    }

    #[tokio::test]
    async fn archiving_wakes_too() {
        let view = Arc::new(View::default());
        view.publish(vec![job(1), job(2)], &[]);
        let watch = view.watch(JobId(2));
        let changed = watch.changed();
        view.publish(vec![], &[JobId(2)]);
        changed.await;
        assert!(view.get(JobId(2)).is_none());
        assert_eq!(view.len(), 1);
    }
}
