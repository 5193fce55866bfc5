//! Core: jobs that wait for other jobs to end.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use model::opcode::common::{Dependency, DependsOn};
use model::{JobId, JobStatus};

/// The jobs that wait for others, and the ends of jobs that somebody still asks about.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// The jobs that wait for a job, and for which ends of it.
    waiters: HashMap<JobId, BTreeMap<JobId, Statuses>>,
    waiting: HashMap<JobId, Waiting>,
    ended: HashMap<JobId, Ended>,
}

/// A job that waits for others. Looking at all of them whenever one ends would take a time that
/// grows with the square of their number.
#[derive(Debug)]
struct Waiting {
    /// Jobs that have not ended.
    left: usize,
    /// Several of its opcodes have dependencies, so each end may count for one of them.
    several: bool,
}

/// A set of statuses that a job can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Statuses(u8);

impl Statuses {
    fn all() -> Self {
        Self(u8::MAX)
    }

    /// The statuses that a dependency names; all, if it names none.
    fn good(named: &[JobStatus]) -> Self {
        if named.is_empty() {
            return Self::all();
        }
        Self(named.iter().fold(0, |set, &status| set | Self::bit(status)))
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn has(self, status: JobStatus) -> bool {
        self.0 & Self::bit(status) != 0
    }

    fn bit(status: JobStatus) -> u8 {
        let ends = [JobStatus::Success, JobStatus::Error, JobStatus::Canceled];
        ends.iter().position(|&end| end == status).map_or(0, |place| 1 << place)
    }
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
    /// A job was accepted whose opcodes have these dependencies; `status` tells how each job that
    /// they name stands, none where there is no such job.
    pub fn add<'a>(
        &mut self,
        job: JobId,
        ops: impl IntoIterator<Item = &'a [Dependency]>,
        status: impl Fn(JobId) -> Option<JobStatus>,
    ) {
        let mut waiting = Waiting { left: 0, several: false };
        let mut dependent = 0;
        for depends in ops.into_iter().filter(|depends| !depends.is_empty()) {
            dependent += 1;
            for Dependency(on, good) in depends {
                let DependsOn::Job(id) = on else { continue };
                if *id >= job {
                    continue;
                }
                match status(*id) {
                    Some(status) if status.is_final() => {
                        let ended = self.ended.entry(*id);
                        let ended = ended.or_insert(Ended { status, asked_by: BTreeSet::new() });
                        ended.asked_by.insert(job);
                    }
                    Some(_) => {
                        let waiters = self.waiters.entry(*id).or_default();
                        let wanted = waiters.entry(job).or_insert_with(|| {
                            waiting.left += 1;
                            Statuses::all()
                        });
                        *wanted = wanted.and(Statuses::good(good));
                    }
                    None => {}
                }
            }
        }
        waiting.several = dependent > 1;
        if waiting.left > 0 {
            self.waiting.insert(job, waiting);
        }
    }

    /// A job ended. Gives the jobs that waited for it and have something to decide now: nothing is left
    /// to wait for, or this end is not as it should be.
    pub fn ended(&mut self, job: JobId, status: JobStatus) -> Vec<JobId> {
        let waiters = self.waiters.remove(&job).unwrap_or_default();
        let mut woken = Vec::new();
        for (&waiter, wanted) in &waiters {
            let Some(waiting) = self.waiting.get_mut(&waiter) else { continue };
            waiting.left = waiting.left.saturating_sub(1);
            if waiting.left == 0 || waiting.several || !wanted.has(status) {
                woken.push(waiter);
            }
            if waiting.left == 0 {
                self.waiting.remove(&waiter);
            }
        }
        if !waiters.is_empty() {
            self.ended.insert(job, Ended { status, asked_by: waiters.into_keys().collect() });
        }
        woken
    }

    /// A job that waited has ended itself and asks no more.
    pub fn forget(&mut self, job: JobId, on: impl IntoIterator<Item = JobId>) {
        self.waiting.remove(&job);
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

    /// Whether an opcode of `job` with these dependencies may begin. Only a job that was submitted
    /// before can be waited for, so that no two wait for each other.
    pub fn verdict(&self, job: JobId, depends: &[Dependency]) -> Verdict {
        let mut verdict = Verdict::Met;
        let fail = |why: String| Verdict::Fail(format!("Dependency error: {why}"));
        for Dependency(on, good) in depends {
            let id = match on {
                DependsOn::Job(id) if *id < job => id,
                DependsOn::Job(id) => {
                    return fail(format!("job {id} did not exist when this one was submitted"));
                }
                DependsOn::Back(n) => {
                    return fail(format!(
                        "relative job id -{n} leaves the submission; only jobs submitted together \
                         can be named so"
                    ));
                }
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
                None => return fail(format!("job {id} is not in the queue")),
            }
        }
        verdict
    }

    /// Whether nobody waits and nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.waiting.is_empty() && self.ended.is_empty()
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
        let all = [on(1, &[]), on(2, &[]), on(3, &[]), on(10, &[])].concat();
        d.add(JobId(11), [on(10, &[]).as_slice()], |_id| Some(JobStatus::Running));
        d.add(JobId(9), [all.as_slice()], |id| match id.0 {
            1 | 10 => Some(JobStatus::Running),
            2 => Some(JobStatus::Error),
            _ => None,
        });
        assert_eq!(d.verdict(JobId(9), &on(1, &[])), Verdict::Wait);
        assert_eq!(d.verdict(JobId(9), &on(2, &[])), Verdict::Met);
        assert_eq!(d.verdict(JobId(9), &on(2, &[JobStatus::Error])), Verdict::Met);
        assert!(matches!(d.verdict(JobId(9), &on(2, &[JobStatus::Success])), Verdict::Fail(_)));
        let failed = |on: &[Dependency], told: &str| match d.verdict(JobId(9), on) {
            Verdict::Fail(why) => assert_eq!(why, format!("Dependency error: {told}")),
            verdict => panic!("{verdict:?}"),
        };
        failed(&on(3, &[]), "job 3 is not in the queue");
        // Another one may wait for a job of that number by the time it is looked at.
        failed(&on(10, &[]), "job 10 did not exist when this one was submitted");
        failed(
            &[Dependency(DependsOn::Back(2), Vec::new())],
            "relative job id -2 leaves the submission; only jobs submitted together can be named so",
        );
        assert_eq!(d.ended(JobId(1), JobStatus::Canceled), [JobId(9)]);
        assert_eq!(d.verdict(JobId(9), &on(1, &[JobStatus::Success])), Verdict::Cancel);
        assert_eq!(d.verdict(JobId(9), &on(1, &[JobStatus::Canceled])), Verdict::Met);
        d.forget(JobId(9), [JobId(1), JobId(2), JobId(3), JobId(10)]);
        assert_eq!(d.ended(JobId(10), JobStatus::Success), [JobId(11)]);
        d.forget(JobId(11), [JobId(10)]);
        assert!(d.is_empty());
    }

    #[test]
    fn who_waits_for_many_is_woken_by_the_last_or_by_a_wrong_end() {
        let running = |_| Some(JobStatus::Running);
        let good = [JobStatus::Success];
        let three = [on(1, &good), on(2, &good), on(3, &good)].concat();
        let mut d = Dependencies::default();
        d.add(JobId(9), [three.as_slice()], running);
        assert!(d.ended(JobId(2), JobStatus::Success).is_empty());
        assert!(d.ended(JobId(1), JobStatus::Success).is_empty());
        assert_eq!(d.ended(JobId(3), JobStatus::Success), [JobId(9)]);
        assert_eq!(d.verdict(JobId(9), &three), Verdict::Met);
        d.forget(JobId(9), [JobId(1), JobId(2), JobId(3)]);
        assert!(d.is_empty());

        d.add(JobId(9), [three.as_slice()], running);
        assert_eq!(d.ended(JobId(2), JobStatus::Error), [JobId(9)]);
        assert!(matches!(d.verdict(JobId(9), &three), Verdict::Fail(_)));
        d.forget(JobId(9), [JobId(1), JobId(2), JobId(3)]);
        assert!(d.is_empty());

        // The first opcode may begin when its own dependency has ended.
        let (one, two) = (on(1, &good), on(2, &[]));
        d.add(JobId(9), [one.as_slice(), two.as_slice()], running);
        assert_eq!(d.ended(JobId(1), JobStatus::Success), [JobId(9)]);
        assert_eq!(
            (d.verdict(JobId(9), &one), d.verdict(JobId(9), &two)),
            (Verdict::Met, Verdict::Wait)
        );
        assert_eq!(d.ended(JobId(2), JobStatus::Canceled), [JobId(9)]);
    }
}
