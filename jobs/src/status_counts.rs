//! How many jobs there are in each status, kept up to date by what changes, so that nobody has to
//! look at every job.

use std::sync::atomic::{AtomicU64, Ordering};

use model::JobStatus;
use stdx::metrics::Counter;

/// Numbers of committed jobs.
#[derive(Debug, Default)]
pub struct StatusCounts {
    /// Jobs that are not archived, in the order of [`JobStatus::ALL`].
    now: [AtomicU64; JobStatus::ALL.len()],
    submitted: Counter,
    /// Jobs that came to this status, in the same order; of those that are final.
    ended: [Counter; JobStatus::ALL.len()],
}

impl StatusCounts {
    /// Counts a job that is committed with the status `after`; `before` is none for a new one.
    pub(super) fn changed(&self, before: Option<JobStatus>, after: JobStatus) {
        if before == Some(after) {
            return;
        }
        match before {
            Some(before) => self.gone(before),
            None => self.submitted.add(),
        }
        let after_at = place(after);
        self.now[after_at].fetch_add(1, Ordering::Relaxed);
        if after.is_final() {
            self.ended[after_at].add();
        }
    }

    /// Counts a job no more.
    pub(super) fn gone(&self, before: JobStatus) {
        self.now[place(before)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the jobs that a master found for no news.
    pub fn forget_found(&self) {
        self.submitted.reset();
        self.ended.iter().for_each(Counter::reset);
    }

    /// How many jobs there are, by status.
    pub fn now(&self) -> impl Iterator<Item = (JobStatus, u64)> {
        JobStatus::ALL.into_iter().zip(self.now.iter().map(|n| n.load(Ordering::Relaxed)))
    }

    /// How many jobs were submitted.
    pub fn submitted(&self) -> u64 {
        self.submitted.get()
    }

    /// How many jobs ended, by final status.
    pub fn ended(&self) -> impl Iterator<Item = (JobStatus, u64)> {
        let all = JobStatus::ALL.into_iter().zip(self.ended.iter().map(Counter::get));
        all.filter(|(status, _)| status.is_final())
    }
}

fn place(status: JobStatus) -> usize {
    let found = JobStatus::ALL.iter().position(|&one| one == status);
    found.expect("every status is in the list of all")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(numbers: impl Iterator<Item = (JobStatus, u64)>) -> String {
        let there = numbers.filter(|(_, number)| *number > 0);
        there.map(|(status, number)| format!("{status} {number};")).collect()
    }

    #[test]
    fn numbers_follow_the_changes() {
        let counts = StatusCounts::default();
        counts.changed(None, JobStatus::Error);
        counts.changed(None, JobStatus::Queued);
        counts.forget_found();
        assert_eq!((shown(counts.now()), counts.submitted()), ("queued 1;error 1;".to_owned(), 0));
        counts.changed(Some(JobStatus::Queued), JobStatus::Running);
        counts.changed(Some(JobStatus::Running), JobStatus::Running);
        counts.changed(None, JobStatus::Success);
        assert_eq!((shown(counts.ended()), counts.submitted()), ("success 1;".to_owned(), 1));
        counts.changed(Some(JobStatus::Running), JobStatus::Canceled);
        counts.gone(JobStatus::Error);
        assert_eq!(shown(counts.now()), "canceled 1;success 1;");
        assert_eq!(shown(counts.ended()), "canceled 1;success 1;");
    }
}
