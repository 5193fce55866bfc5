//! Core: what a job must pass before it starts, besides its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Job;
use model::filter::FilterAction;
use model::opcode::Reach;

use super::line::{Line, Turn};
use crate::filter::Rule;

/// Limits that a job can ask for by its reasons; further ones do not count. Each is looked at when
/// the job starts and ends.
pub const ASKED_LIMITS_MAX: usize = 16;
/// How a reason begins that asks for a limit: `rate-limit:n:name`.
const ASKED: &str = "rate-limit:";

/// How many jobs of a kind may run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// Which jobs count.
    pub on: Counted,
    /// How many of them may run; at least 1.
    pub max: u64,
}

/// Which jobs count for a [`Limit`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Those on which the filter rule of this id decides.
    Rule(Arc<str>),
    /// Those of which a reason asks for the limit of this name, which holds its number.
    Asked(Arc<str>),
}

/// The conditions that a job must pass before it starts. A clone is the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Gate {
    /// Nothing but its turn.
    #[default]
    Open,
    /// It does not start.
    Paused,
    /// As many jobs as may run at most, for each of these.
    Limited(Arc<[Limit]>),
}

impl Gate {
    /// The gate of a job on which `rule` decides and which asked for limits. A job that has `begun` is
    /// not stopped half-way by a pause.
    pub fn of(rule: Option<&Rule>, asked: &[Limit], begun: bool) -> Self {
        let mut limits = asked.to_vec();
        if let Some(rule) = rule {
            match rule.action() {
                FilterAction::Pause | FilterAction::Reject if !begun => return Self::Paused,
                FilterAction::RateLimit(max) => limits.push(Limit {
                    on: Counted::Rule(rule.document.uuid.as_str().into()),
                    max: max.into(),
                }),
                FilterAction::Pause
                | FilterAction::Reject
                | FilterAction::Accept
                | FilterAction::Continue => {}
            }
        }
        limits.sort_unstable();
        if limits.is_empty() { Self::Open } else { Self::Limited(limits.into()) }
    }

    pub(super) fn limits(&self) -> &[Limit] {
        match self {
            Self::Open | Self::Paused => &[],
            Self::Limited(limits) => limits,
        }
    }
}

/// The limits that a job asks for by its reasons, each once.
pub fn asked(job: &Job) -> Vec<Limit> {
    let reasons = job.ops.iter().flat_map(|op| op.input.reason());
    let mut limits = Vec::new();
    for limit in reasons.filter_map(|entry| asked_by(&entry.1)) {
        if limits.len() == ASKED_LIMITS_MAX {
            break;
        }
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    limits
}

/// The same name with another number is another limit.
fn asked_by(reason: &str) -> Option<Limit> {
    let name = reason.strip_prefix(ASKED)?;
    let number = name.split_once(':').map_or(name, |(number, _)| number);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let max = number.parse().ok().filter(|&max| digits && max > 0)?;
    Some(Limit { on: Counted::Asked(name.into()), max })
}

/// Jobs that have limits: those that wait, in lines of those with the same limits, and how many
/// run.
///
/// An event at one limit concerns the lines that it is in, and no others. With lines of their own for
/// jobs that differ in their limits, which clients choose, these are as many as jobs at most.
#[derive(Debug, Default)]
pub struct Limits {
    counts: BTreeMap<Limit, Count>,
    lines: BTreeMap<LineKey, Limited>,
    /// Of each line whose limits all have room, the job that is first.
    heads: BTreeMap<(Side, Turn), LineKey>,
}

/// The place where jobs run, with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Master,
    Agents,
}

impl From<Reach> for Side {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Master => Self::Master,
            Reach::Agents => Self::Agents,
        }
    }
}

type LineKey = (Side, Arc<[Limit]>);

#[derive(Debug, Default)]
struct Count {
    running: u64,
    /// Lines of jobs that have this limit.
    lines: BTreeSet<LineKey>,
}

#[derive(Debug, Default)]
struct Limited {
    line: Line,
    /// Its entry among the heads.
    head: Option<Turn>,
}

impl Limits {
    /// A job waits.
    pub fn insert(&mut self, turn: Turn, reach: Reach, limits: &Arc<[Limit]>) {
        let key = (reach.into(), Arc::clone(limits));
        if !self.lines.contains_key(&key) {
            for limit in limits.iter() {
                self.counts.entry(limit.clone()).or_default().lines.insert(key.clone());
            }
        }
        self.lines.entry(key.clone()).or_default().line.insert(turn);
        self.refresh(&key);
    }

    /// A job waits no longer; false if it did not.
    pub fn remove(&mut self, turn: Turn, reach: Reach, limits: &Arc<[Limit]>) -> bool {
        let key = (reach.into(), Arc::clone(limits));
        let Some(limited) = self.lines.get_mut(&key) else { return false };
        let was = limited.line.remove(turn);
        self.refresh(&key);
        was
    }

    /// The next of those that have room.
    pub fn first(&self, reach: Reach) -> Option<Turn> {
        let side = reach.into();
        let from = (side, (i32::MIN, model::JobId(0)));
        self.heads.range(from..).next().filter(|((of, _), _)| *of == side).map(|((_, t), _)| *t)
    }

    /// Takes the next of those that have room out of its line; it then counts as running.
    pub fn start_first(&mut self, reach: Reach) -> Option<Turn> {
        let turn = self.first(reach)?;
        let key = self.heads.get(&(reach.into(), turn))?.clone();
        self.lines.get_mut(&key)?.line.remove(turn);
        self.refresh(&key);
        self.started(&key.1);
        Some(turn)
    }

    /// A job with these limits runs.
    pub fn started(&mut self, limits: &[Limit]) {
        for limit in limits {
            let count = self.counts.entry(limit.clone()).or_default();
            count.running += 1;
            if count.running == limit.max {
                self.refresh_all(limit);
            }
        }
    }

    /// A job with these limits does not run any more.
    pub fn ended(&mut self, limits: &[Limit]) {
        for limit in limits {
            let Some(count) = self.counts.get_mut(limit) else { continue };
            count.running = count.running.checked_sub(1).expect("a job that ended was counted");
            if count.running + 1 == limit.max {
                self.refresh_all(limit);
            }
            self.forget(limit);
        }
    }

    /// Jobs with these limits that wait before this turn.
    pub fn before(&self, turn: Turn, reach: Reach, limits: &Arc<[Limit]>) -> usize {
        let key = (reach.into(), Arc::clone(limits));
        self.lines.get(&key).map_or(0, |limited| limited.line.before(turn))
    }

    /// How many jobs run that count for a limit.
    pub fn running(&self, limit: &Limit) -> u64 {
        self.counts.get(limit).map_or(0, |count| count.running)
    }

    /// Whether nobody waits, nothing runs and nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.lines.is_empty() && self.heads.is_empty()
    }

    fn refresh_all(&mut self, limit: &Limit) {
        let lines = self.counts.get(limit).map(|count| count.lines.clone()).unwrap_or_default();
        for key in &lines {
            self.refresh(key);
        }
    }

    /// Puts the first of a line among the heads if it has room, and forgets a line without jobs.
    fn refresh(&mut self, key: &LineKey) {
        let room = key.1.iter().all(|limit| self.running(limit) < limit.max);
        let Some(limited) = self.lines.get_mut(key) else { return };
        let head = limited.line.first().filter(|_| room);
        if limited.head != head {
            if let Some(before) = limited.head {
                self.heads.remove(&(key.0, before));
            }
            if let Some(turn) = head {
                self.heads.insert((key.0, turn), key.clone());
            }
            limited.head = head;
        }
        if limited.line.is_empty() {
            self.lines.remove(key);
            for limit in key.1.iter() {
                if let Some(count) = self.counts.get_mut(limit) {
                    count.lines.remove(key);
                }
                self.forget(limit);
            }
        }
    }

    fn forget(&mut self, limit: &Limit) {
        if self.counts.get(limit).is_some_and(|c| c.running == 0 && c.lines.is_empty()) {
            self.counts.remove(limit);
        }
    }
}
