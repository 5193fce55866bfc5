//! Core: jobs that wait for other jobs to end.

use std::collections::{BTreeSet, HashMap};

use model::opcode::common::{Dependency, DependsOn};
use model::{JobId, JobStatus};

/// Who waits for whom, and how those ended that somebody still asks about.
#[derive(Debug, Default)]
pub struct Dependencies {
    waiters: HashMap<JobId, BTreeSet<JobId>>,
    ended: HashMap<JobId, Ended>,
}

#[derive(Debug)]
struct Ended {
    status: JobStatus,
    asked_by: BTreeSet<JobId>,
}

/// Whether an opcode's dependencies let it begin.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All ended as they should.
    Met,
    /// One has not ended.
    Wait,
    /// One was canceled, and that is not good enough: the job is canceled too.
    Cancel,
    /// One ended otherwise, or does not exist.
    Fail(String),
}

impl Dependencies {
    /// A job was accepted; `status` tells how each job that it depends on stands, none where there
    /// is no such job.
    pub fn add(
        &mut self,
        job: JobId,
        on: impl IntoIterator<Item = JobId>,
        status: impl Fn(JobId) -> Option<JobStatus>,
    ) {
        for id in on {
            match status(id) {
                Some(status) if status.is_final() => {
                    let ended = self.ended.entry(id);
                    let ended = ended.or_insert(Ended { status, asked_by: BTreeSet::new() });
                    ended.asked_by.insert(job);
                }
                Some(_) => {
                    self.waiters.entry(id).or_default().insert(job);
                }
                None => {}
            }
        }
    }

    /// A job ended; gives the jobs that waited for it.
    pub fn ended(&mut self, job: JobId, status: JobStatus) -> BTreeSet<JobId> {
        let waiters = self.waiters.remove(&job).unwrap_or_default();
        if !waiters.is_empty() {
            self.ended.insert(job, Ended { status, asked_by: waiters.clone() });
        }
        waiters
    }

    /// A job that waited has ended itself and asks no more.
    pub fn forget(&mut self, job: JobId, on: impl IntoIterator<Item = JobId>) {
        for id in on {
            if let Some(waiters) = self.waiters.get_mut(&id) {
                waiters.remove(&job);
                if waiters.is_empty() {
                    self.waiters.remove(&id);
                }
            }
            if let Some(ended) = self.ended.get_mut(&id) {
                ended.asked_by.remove(&job);
                if ended.asked_by.is_empty() {
                    self.ended.remove(&id);
                }
            }
        }
    }

    /// Whether an opcode with these dependencies may begin.
    #[must_use]
    pub fn verdict(&self, depends: &[Dependency]) -> Verdict {
        let mut verdict = Verdict::Met;
        for Dependency(on, good) in depends {
            let DependsOn::Job(id) = on else {
                return Verdict::Fail("Relative job id was not resolved".to_owned());
            };
            match self.ended.get(id) {
                Some(ended) if good.is_empty() || good.contains(&ended.status) => {}
                Some(ended) if ended.status == JobStatus::Canceled => return Verdict::Cancel,
                Some(ended) => {
                    return Verdict::Fail(format!(
                        "Dependency job {id} finished with status {}, not one of {}",
                        ended.status,
                        good.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ")
                    ));
                }
                None if self.waiters.contains_key(id) => verdict = Verdict::Wait,
                None => return Verdict::Fail(format!("Dependency job {id} is not in the queue")),
            }
        }
        verdict
    }

    /// Whether nobody waits and nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.ended.is_empty()
    }
}

/// The jobs that a list of dependencies names.
pub fn named(depends: &[Dependency]) -> impl Iterator<Item = JobId> {
    depends.iter().filter_map(|Dependency(on, _)| match on {
        DependsOn::Job(id) => Some(*id),
        DependsOn::Back(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(id: u64, good: &[JobStatus]) -> Vec<Dependency> {
        vec![Dependency(DependsOn::Job(JobId(id)), good.to_vec())]
    }

    #[test]
    fn verdicts() {
        let mut d = Dependencies::default();
        d.add(JobId(9), [JobId(1), JobId(2), JobId(3)], |id| match id.0 {
            1 => Some(JobStatus::Running),
            2 => Some(JobStatus::Error),
            _ => None,
        });
        assert_eq!(d.verdict(&on(1, &[])), Verdict::Wait);
        assert_eq!(d.verdict(&on(2, &[])), Verdict::Met);
        assert_eq!(d.verdict(&on(2, &[JobStatus::Error])), Verdict::Met);
        assert!(matches!(d.verdict(&on(2, &[JobStatus::Success])), Verdict::Fail(_)));
        assert!(matches!(d.verdict(&on(3, &[])), Verdict::Fail(_)));
        assert_eq!(d.ended(JobId(1), JobStatus::Canceled), BTreeSet::from([JobId(9)]));
        assert_eq!(d.verdict(&on(1, &[JobStatus::Success])), Verdict::Cancel);
        assert_eq!(d.verdict(&on(1, &[JobStatus::Canceled])), Verdict::Met);
        d.forget(JobId(9), [JobId(1), JobId(2), JobId(3)]);
        assert!(d.is_empty());
    }
}
