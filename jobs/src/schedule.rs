//! Core: which job starts next: by priority, then by id, within two limits, and those that filter
//! rules and reasons set ([`rate_limit`]).
//!
//! A job that may not start yet never keeps another one waiting. Without rules a step costs the
//! logarithm of the number of jobs.

pub mod line;
pub mod rate_limit;

use model::JobId;
use model::opcode::Reach;

use line::Line;
use rate_limit::{Gate, Limit, Limits};

/// Jobs on the master alone that run at the same time. They hold no thread, so this is a bound on
/// memory; the work they find to do is what limits them.
pub const MASTER_JOBS_MAX: usize = 10_000;

/// Jobs that are ready to start, and how many run.
#[derive(Debug)]
pub struct Schedule {
    master: Lane,
    agents: Lane,
    limits: Limits,
    /// Jobs that are ready but for a pause.
    paused: Line,
}

#[derive(Debug)]
struct Lane {
    reach: Reach,
    ready: Line,
    running: usize,
    max: usize,
}

/// An obstacle between a job and its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    Pause,
    /// As many run as this limit allows.
    Limit(Limit, u64),
    /// Its turn: as many run as may, and so many jobs are before it.
    Turn {
        /// How many may run.
        max: usize,
        /// Jobs before it in the line.
        ahead: usize,
    },
}

impl Lane {
    fn new(reach: Reach, max: usize) -> Self {
        Self { reach, ready: Line::default(), running: 0, max }
    }

    fn start_next(&mut self, limits: &mut Limits) -> Option<JobId> {
        if self.running >= self.max {
            return None;
        }
        let (free, limited) = (self.ready.first(), limits.first(self.reach));
        let (_, job) = match (free, limited) {
            (Some(free), limited) if limited.is_none_or(|limited| free < limited) => {
                self.ready.remove(free);
                free
            }
            _ => limits.start_first(self.reach)?,
        };
        self.running += 1;
        Some(job)
    }
}

impl Schedule {
    /// An empty schedule that lets `running_max` jobs call agents at the same time.
    pub fn new(running_max: u32) -> Self {
        let mut schedule = Self {
            master: Lane::new(Reach::Master, MASTER_JOBS_MAX),
            agents: Lane::new(Reach::Agents, 0),
            limits: Limits::default(),
            paused: Line::default(),
        };
        schedule.set_running_max(running_max);
        schedule
    }

    /// Changes how many jobs may call agents at the same time; those that run go on.
    pub fn set_running_max(&mut self, running_max: u32) {
        self.agents.max = usize::try_from(running_max).unwrap_or(usize::MAX).max(1);
    }

    /// A job can start once it has passed its gate.
    pub fn ready(&mut self, job: JobId, priority: i32, reach: Reach, gate: &Gate) {
        let turn = (priority, job);
        match gate {
            Gate::Open => self.lane(reach).ready.insert(turn),
            Gate::Paused => self.paused.insert(turn),
            Gate::Limited(limits) => self.limits.insert(turn, reach, limits),
        }
    }

    /// A job that was ready is not any more; false if it was not.
    pub fn withdraw(&mut self, job: JobId, priority: i32, reach: Reach, gate: &Gate) -> bool {
        let turn = (priority, job);
        match gate {
            Gate::Open => self.lane(reach).ready.remove(turn),
            Gate::Paused => self.paused.remove(turn),
            Gate::Limited(limits) => self.limits.remove(turn, reach, limits),
        }
    }

    /// A job that ran has ended.
    pub fn ended(&mut self, reach: Reach, gate: &Gate) {
        let lane = self.lane(reach);
        lane.running = lane.running.checked_sub(1).expect("a job that ended was running");
        self.limits.ended(gate.limits());
    }

    /// A job that runs counts for other limits.
    pub fn counts_for(&mut self, before: &Gate, gate: &Gate) {
        self.limits.ended(before.limits());
        self.limits.started(gate.limits());
    }

    /// The next job to start, which then counts as running.
    pub fn start_next(&mut self) -> Option<JobId> {
        let Self { master, agents, limits, .. } = self;
        agents.start_next(limits).or_else(|| master.start_next(limits))
    }

    /// Jobs that run, on the master alone and with agents.
    pub fn running(&self) -> (usize, usize) {
        (self.master.running, self.agents.running)
    }

    /// The obstacles between a job that is ready and its start.
    pub fn obstacles(&self, job: JobId, priority: i32, reach: Reach, gate: &Gate) -> Vec<Obstacle> {
        let turn = (priority, job);
        let lane = match reach {
            Reach::Master => &self.master,
            Reach::Agents => &self.agents,
        };
        let alike = match gate {
            Gate::Open => 0,
            Gate::Paused => return vec![Obstacle::Pause],
            Gate::Limited(limits) => {
                let full = |limit: &&Limit| self.limits.running(limit) >= limit.max;
                let full: Vec<Obstacle> = limits
                    .iter()
                    .filter(full)
                    .map(|limit| Obstacle::Limit(limit.clone(), self.limits.running(limit)))
                    .collect();
                if !full.is_empty() {
                    return full;
                }
                self.limits.before(turn, reach, limits)
            }
        };
        vec![Obstacle::Turn { max: lane.max, ahead: lane.ready.before(turn) + alike }]
    }

    fn lane(&mut self, reach: Reach) -> &mut Lane {
        match reach {
            Reach::Master => &mut self.master,
            Reach::Agents => &mut self.agents,
        }
    }
}

#[cfg(test)]
mod tests;
