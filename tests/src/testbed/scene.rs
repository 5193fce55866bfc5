//! A testbed with its clients, from a moment in which all is well to the next.

use std::path::Path;
use std::time::{Duration, Instant};

use super::clients::{Clients, Words};
use super::reckoning::Reckoning;
use super::{SETTLED_WITHIN, Testbed};
use crate::run::pass;
use crate::seed::Seed;

/// Load on what came of trouble, before it is looked at.
const LOAD_AFTER: Duration = Duration::from_millis(500);
/// The command that moves the role; opcodes of this load end within a moment.
const FAILOVER: &str = "cluster master-failover --drain-timeout 10";

/// Nodes, clients, and the answers that these got.
#[derive(Debug)]
pub struct Scene {
    /// The clients, which end before their nodes.
    pub clients: Clients,
    /// The comparisons so far.
    pub reckoning: Reckoning,
    /// The nodes.
    pub testbed: Testbed,
    /// The master when all was well.
    pub master: usize,
    /// The answers to clients since then, once they rest.
    pub words: Words,
}

/// The outcome of a time of trouble.
#[derive(Debug, Clone, Copy)]
pub struct Rested {
    /// How long it took until all was well.
    pub settled: Duration,
    /// The longest time in which no job was acknowledged.
    pub outage: Duration,
}

impl Scene {
    /// Three nodes that are well, and clients that work.
    ///
    /// # Panics
    /// If they do not come to be.
    pub fn begin(seed: &mut Seed) -> Self {
        let testbed = Testbed::begin();
        // It counts from here on, so no client may have begun.
        let reckoning = Reckoning::begin(&testbed, 0);
        Self {
            clients: Clients::start(&testbed, seed),
            reckoning,
            testbed,
            master: 0,
            words: Words::new(),
        }
    }

    /// Waits until all is well, has the clients rest, and compares: nothing is lost or doubled, all
    /// replicas are equal, `gnt cluster verify` finds nothing, and nothing alarms.
    ///
    /// # Errors
    /// Everything that is not as it should be.
    pub fn rest(&mut self) -> Result<Rested, String> {
        let begun = Instant::now();
        self.master = self.testbed.settle(SETTLED_WITHIN)?;
        let settled = begun.elapsed();
        pass(LOAD_AFTER);
        self.words = self.clients.pause();
        let outage = self.clients.outage();
        self.master = self.testbed.settle_alike(SETTLED_WITHIN)?;
        self.reckoning.compare(&self.testbed, self.master, &self.words)?;
        self.finds_nothing("cluster verify")?;
        // The watcher ends an alarm at its next look, after verify no longer finds its cause.
        let master = self.testbed.settle(SETTLED_WITHIN)?;
        if master != self.master {
            return Err(format!("the role went to {} at rest", self.testbed.name(master)));
        }
        self.finds_nothing("cluster status")?;
        Ok(Rested { settled, outage })
    }

    fn finds_nothing(&self, line: &str) -> Result<(), String> {
        let told = self.testbed.gnt(self.master, line);
        match told.code() {
            0 => Ok(()),
            _ => Err(format!("`gnt {line}` is not content: {told:#?}")),
        }
    }

    /// Looks once more at every job that was ever acknowledged.
    ///
    /// # Errors
    /// Those that are gone, or are not as they ended.
    pub fn compare_all(&self) -> Result<(), String> {
        self.reckoning.compare_all(&self.testbed, self.master)
    }

    /// Keeps logs, stores and the answers to clients, for the search for the cause of a finding.
    pub fn keep(&self, place: &Path) {
        self.testbed.keep(place);
        let words = format!("{:#?}\n", self.words);
        drop(stdx::atomic::write(&place.join("words"), words.as_bytes(), 0o644));
    }

    /// Sets whether the role moves by itself.
    ///
    /// # Panics
    /// If that is refused.
    pub fn set_auto_failover(&self, wanted: bool) {
        let word = if wanted { "yes" } else { "no" };
        let line = format!("cluster modify --auto-failover {word}");
        let _set = self.testbed.gnt(self.master, &line).ok();
    }

    /// Makes a node the master.
    ///
    /// # Errors
    /// What it says instead.
    pub fn fail_over(&self, to: usize) -> Result<(), String> {
        let told = self.testbed.gnt(to, FAILOVER);
        match told.code() {
            0 => Ok(()),
            _ => Err(format!("the failover to {} failed: {told:#?}", self.testbed.name(to))),
        }
    }
}
