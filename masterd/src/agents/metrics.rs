//! The master's numbers, for Prometheus.
//!
//! `table` names them; this module counts what is not counted elsewhere, the door counts its requests,
//! `page` puts all of it together when it is asked for.

mod page;
mod table;

use std::time::Duration;

use ::luxi::Request;
use queue_format::Flushed;
use rpc::RpcError;
use rpc::peer::PeerError;
use rpc::peer::control::CONTROL_TABLE;
use stdx::metrics::{Counter, Histogram, LATENCY, SIZE};

pub use table::FAMILIES;

/// The numbers that are counted where events happen; each costs a few additions to atomics.
#[derive(Debug)]
pub struct Metrics {
    commit_seconds: Histogram,
    commit_submissions: Histogram,
    commit_changes: Histogram,
    /// How long opcodes waited for locks, those too that had them at once.
    pub lock_wait_seconds: Histogram,
    /// Events of agents that were committed.
    pub agent_events: Counter,
    /// In the order of the table of calls.
    calls: Vec<CallMeter>,
    /// In the order of the table of questions.
    questions: Vec<QuestionMeter>,
    pub(crate) luxi: LuxiMeter,
}

/// One call to agents.
#[derive(Debug)]
struct CallMeter {
    name: &'static str,
    seconds: Histogram,
    /// In the order of [`RpcError::WORDS`].
    failures: [Counter; RpcError::WORDS.len()],
}

/// One question to `masterd` of other members.
#[derive(Debug)]
struct QuestionMeter {
    name: &'static str,
    seconds: Histogram,
    /// In the order of [`PeerError::WORDS`].
    failures: [Counter; PeerError::WORDS.len()],
}

/// The clients' side.
#[derive(Debug)]
pub(crate) struct LuxiMeter {
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
    pub(crate) turned_away: Counter,
    passed: Counter,
    /// In the order of [`PeerError::WORDS`], then those for which there was no place.
    not_passed: [Counter; PeerError::WORDS.len() + 1],
    /// In the order of the table of methods.
    pub(crate) methods: Vec<MethodMeter>,
}

#[derive(Debug)]
pub(crate) struct MethodMeter {
    pub(crate) name: &'static str,
    pub(crate) seconds: Histogram,
    pub(crate) failures: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let call = |name| CallMeter {
            name,
            seconds: Histogram::new(LATENCY),
            failures: std::array::from_fn(|_| Counter::default()),
        };
        let question = |name| QuestionMeter {
            name,
            seconds: Histogram::new(LATENCY),
            failures: std::array::from_fn(|_| Counter::default()),
        };
        let method = |name| MethodMeter {
            name,
            seconds: Histogram::new(LATENCY),
            failures: Counter::default(),
        };
        Self {
            commit_seconds: Histogram::new(LATENCY),
            commit_submissions: Histogram::new(SIZE),
            commit_changes: Histogram::new(SIZE),
            lock_wait_seconds: Histogram::new(LATENCY),
            agent_events: Counter::default(),
            calls: rpc::Request::TABLE.iter().map(|traits| call(traits.name)).collect(),
            questions: CONTROL_TABLE.iter().map(|line| question(line.name)).collect(),
            luxi: LuxiMeter {
                opened: Counter::default(),
                closed: Counter::default(),
                turned_away: Counter::default(),
                passed: Counter::default(),
                not_passed: std::array::from_fn(|_| Counter::default()),
                methods: Request::TABLE.iter().map(|line| method(line.0)).collect(),
            },
        }
    }
}

impl Metrics {
    /// Counts a group that became durable.
    pub fn flushed(&self, flushed: Flushed) {
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        self.commit_seconds.observe_time(flushed.took);
        self.commit_submissions.observe(number(flushed.submissions));
        self.commit_changes.observe(number(flushed.changes));
    }

    /// The reason of a request that was not passed on since there was no place for it.
    pub const BUSY: &str = "busy";

    /// Counts a question to `masterd` of another member that ended, after so long.
    pub fn asked(&self, name: &str, took: Duration, failure: Option<&PeerError>) {
        let Some(meter) = self.questions.iter().find(|meter| meter.name == name) else { return };
        meter.seconds.observe_time(took);
        let at = failure.and_then(|why| PeerError::WORDS.iter().position(|w| *w == why.word()));
        if let Some(at) = at {
            meter.failures[at].add();
        }
    }

    /// Counts a request that was to be passed on to the master; `failure` is why it was not answered.
    pub fn passed(&self, failure: Option<&str>) {
        self.luxi.passed.add();
        let at = failure.and_then(|why| Self::not_passed_words().position(|word| word == why));
        if let Some(at) = at {
            self.luxi.not_passed[at].add();
        }
    }

    /// Why requests are not passed on.
    fn not_passed_words() -> impl Iterator<Item = &'static str> {
        PeerError::WORDS.into_iter().chain([Self::BUSY])
    }

    /// Counts a call to an agent that ended, after so long.
    pub fn called(&self, name: &str, took: Duration, failure: Option<&RpcError>) {
        self.call_ended(name, took, failure.map(RpcError::word));
    }

    /// Counts a call to an agent that was given up after so long.
    pub fn called_in_vain(&self, name: &str, took: Duration) {
        self.call_ended(name, took, Some("timed-out"));
    }

    fn call_ended(&self, name: &str, took: Duration, failure: Option<&str>) {
        let Some(meter) = self.calls.iter().find(|meter| meter.name == name) else { return };
        meter.seconds.observe_time(took);
        let at = failure.and_then(|why| RpcError::WORDS.iter().position(|word| *word == why));
        if let Some(at) = at {
            meter.failures[at].add();
        }
    }
}
