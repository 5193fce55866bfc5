//! Core: why jobs do not go on, as far as the queue knows; locks are the lock manager's business.

use model::JobId;
use model::job::Wait;
use model::opcode::common::{Dependency, DependsOn};

use super::{Live, Phase, Queue};
use crate::event::Replies;
use crate::schedule::Obstacle;
use crate::schedule::rate_limit::{Counted, Gate};

/// Most jobs that one reason names; nobody reads more.
const NAMED_MAX: usize = 64;

impl<R: Replies> Queue<R> {
    /// Why each of these jobs waits; nothing for one that runs, has ended or is not here. Costs
    /// the square root of the number of jobs for each, at most.
    pub fn waits(&self, ids: &[JobId]) -> Vec<(JobId, Vec<Wait>)> {
        let waits = |id| self.jobs.get(id).map(|live| self.waits_of(*id, live));
        ids.iter().map(|id| (*id, waits(id).unwrap_or_default())).collect()
    }

    fn waits_of(&self, id: JobId, live: &Live<R>) -> Vec<Wait> {
        match live.phase {
            Phase::Started | Phase::Final => Vec::new(),
            Phase::Depends => {
                let paused = matches!(live.next_gate(), Gate::Paused).then(|| live.paused());
                [self.jobs_ahead(live)].into_iter().chain(paused).collect()
            }
            Phase::Ready => {
                let obstacles =
                    self.schedule.obstacles(id, live.job.priority(), live.reach, &live.gate);
                obstacles.into_iter().map(|obstacle| live.wait_for(obstacle)).collect()
            }
        }
    }

    /// The jobs that must end before the next opcode begins.
    fn jobs_ahead(&self, live: &Live<R>) -> Wait {
        let op = live.job.current().and_then(|place| live.job.ops.get(place));
        let depends = op.map(|op| op.input.depends()).unwrap_or_default();
        let unfinished = |Dependency(on, good): &Dependency| match on {
            DependsOn::Job(id) => {
                let other = self.jobs.get(id)?;
                (other.phase != Phase::Final).then(|| (*id, good.clone()))
            }
            DependsOn::Back(_) => None,
        };
        Wait::Jobs { jobs: depends.iter().filter_map(unfinished).take(NAMED_MAX).collect() }
    }
}

impl<R: Replies> Live<R> {
    fn paused(&self) -> Wait {
        let rule = self.rule.as_ref();
        Wait::Filter {
            uuid: rule.map(|rule| rule.document.uuid.clone()),
            action: rule.map(|rule| rule.action().to_string()).unwrap_or_default(),
            running: 0,
            why: rule.and_then(|rule| rule.why()).map(str::to_owned),
        }
    }

    fn wait_for(&self, obstacle: Obstacle) -> Wait {
        match obstacle {
            Obstacle::Pause => self.paused(),
            Obstacle::Limit(limit, running) => Wait::Filter {
                uuid: match limit.on {
                    Counted::Rule(uuid) => Some(uuid.to_string()),
                    Counted::Asked(_) => None,
                },
                action: format!("RATE_LIMIT {}", limit.max),
                running,
                why: None,
            },
            Obstacle::Turn { max, ahead } => {
                let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
                Wait::Turn { limit: number(max), ahead: number(ahead) }
            }
        }
    }
}
