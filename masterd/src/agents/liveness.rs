//! Signs of life of machines, as the agents of their racks told them last. They are in memory alone: a new
//! master is told all of them by each agent's first exchange.

use std::collections::HashMap;
use std::time::Duration;

use model::{NodeName, Serial, Timestamp};
use parking_lot::RwLock;
use rpc::calls::{SIGNS_TOLD_MAX, Sign};
use tokio::time::Instant;

use crate::config::Config;

/// The last sign of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSign {
    /// Which registration of it.
    pub registered: Option<Timestamp>,
    /// Its power cycle.
    pub cycle: u64,
    /// The agent that heard it.
    pub agent: NodeName,
    /// When, since this began: no clock that is set counts.
    pub heard: Duration,
    /// The same as a time of day.
    pub at: Timestamp,
    /// Seconds since the one before in the same boot.
    pub every: Option<u32>,
}

/// The last sign of each machine.
#[derive(Debug)]
pub struct Liveness {
    began: Instant,
    all: RwLock<HashMap<Serial, LastSign>>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { began: Instant::now(), all: RwLock::default() }
    }
}

impl Liveness {
    /// Takes what the agent of a rack tells of its machines.
    pub(crate) fn see(&self, node: &NodeName, config: &Config, now: Timestamp, told: Vec<Sign>) {
        let served = config.nodes.get(node).and_then(|node| node.rack);
        if told.is_empty() || served.is_none() {
            return;
        }
        let elapsed = self.began.elapsed();
        let mut all = self.all.write();
        for Sign { serial, registered, cycle, age_s, every_s } in
            told.into_iter().take(SIGNS_TOLD_MAX)
        {
            let its_own = |machine: &model::machine::Machine| Some(machine.rack) == served;
            if !config.machines.get(&serial).is_some_and(|machine| its_own(machine)) {
                continue;
            }
            let heard = elapsed.saturating_sub(Duration::from_secs(age_s.into()));
            let last = LastSign {
                registered,
                cycle,
                agent: node.clone(),
                heard,
                at: now.plus_seconds(-i64::from(age_s)),
                every: every_s,
            };
            let is_later = |known: &LastSign| (known.cycle, known.heard) <= (cycle, heard);
            if all.get(&serial).is_none_or(is_later) {
                all.insert(serial, last);
            }
        }
        if all.len() > config.machines.len() {
            all.retain(|serial, _| config.machines.contains_key(serial));
        }
    }

    /// Looks at all of them, and how long this has gone on.
    pub(crate) fn look<T>(&self, by: impl FnOnce(&HashMap<Serial, LastSign>, Duration) -> T) -> T {
        by(&self.all.read(), self.began.elapsed())
    }
}
