//! Core: which job starts next: by priority, then by id, within two limits.

use std::collections::BTreeSet;

use model::JobId;
use model::opcode::Reach;

/// Jobs on the master alone that run at the same time. They hold no thread, so this is a bound on
/// memory; the work they find to do is what limits them.
pub const MASTER_JOBS_MAX: usize = 10_000;

/// Jobs that are ready to start, and how many run.
#[derive(Debug)]
pub struct Schedule {
    master: Lane,
    agents: Lane,
}

#[derive(Debug)]
struct Lane {
    ready: BTreeSet<(i32, JobId)>,
    running: usize,
    max: usize,
}

impl Lane {
    fn new(max: usize) -> Self {
        Self { ready: BTreeSet::new(), running: 0, max }
    }

    fn start_next(&mut self) -> Option<JobId> {
        if self.running >= self.max {
            return None;
        }
        let (_, job) = self.ready.pop_first()?;
        self.running += 1;
        Some(job)
    }
}

impl Schedule {
    /// An empty schedule that lets `running_max` jobs call agents at the same time.
    #[must_use]
    pub fn new(running_max: u32) -> Self {
        let mut schedule = Self { master: Lane::new(MASTER_JOBS_MAX), agents: Lane::new(0) };
        schedule.set_running_max(running_max);
        schedule
    }

    /// Changes how many jobs may call agents at the same time; those that run go on.
    pub fn set_running_max(&mut self, running_max: u32) {
        self.agents.max = usize::try_from(running_max).unwrap_or(usize::MAX).max(1);
    }

    /// A job can start.
    pub fn ready(&mut self, job: JobId, priority: i32, reach: Reach) {
        self.lane(reach).ready.insert((priority, job));
    }

    /// A job that was ready is not any more; false if it was not.
    pub fn withdraw(&mut self, job: JobId, priority: i32, reach: Reach) -> bool {
        self.lane(reach).ready.remove(&(priority, job))
    }

    /// A job that ran has ended.
    pub fn ended(&mut self, reach: Reach) {
        let lane = self.lane(reach);
        lane.running = lane.running.checked_sub(1).expect("a job that ended was running");
    }

    /// The next job to start, which then counts as running.
    pub fn start_next(&mut self) -> Option<JobId> {
        self.agents.start_next().or_else(|| self.master.start_next())
    }

    /// Jobs that run, on the master alone and with agents.
    #[must_use]
    pub fn running(&self) -> (usize, usize) {
        (self.master.running, self.agents.running)
    }

    fn lane(&mut self, reach: Reach) -> &mut Lane {
        match reach {
            Reach::Master => &mut self.master,
            Reach::Agents => &mut self.agents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_then_id() {
        let mut schedule = Schedule::new(2);
        for (id, priority) in [(5, 0), (3, 0), (4, -10), (1, 10)] {
            schedule.ready(JobId(id), priority, Reach::Agents);
        }
        assert_eq!(schedule.start_next(), Some(JobId(4)));
        assert_eq!(schedule.start_next(), Some(JobId(3)));
        assert_eq!(schedule.start_next(), None);
        schedule.ended(Reach::Agents);
        assert_eq!(schedule.start_next(), Some(JobId(5)));
        assert!(schedule.withdraw(JobId(1), 10, Reach::Agents));
        assert!(!schedule.withdraw(JobId(1), 10, Reach::Agents));
    }

    #[test]
    fn jobs_on_the_master_pass_by() {
        let mut schedule = Schedule::new(1);
        schedule.ready(JobId(1), 0, Reach::Agents);
        schedule.ready(JobId(2), 0, Reach::Agents);
        schedule.ready(JobId(3), 0, Reach::Master);
        assert_eq!(schedule.start_next(), Some(JobId(1)));
        assert_eq!(schedule.start_next(), Some(JobId(3)));
        assert_eq!(schedule.start_next(), None);
        assert_eq!(schedule.running(), (1, 1));
        schedule.set_running_max(2);
        assert_eq!(schedule.start_next(), Some(JobId(2)));
    }
}
