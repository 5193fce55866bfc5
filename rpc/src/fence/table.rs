//! Core: which calls run under which epoch.

use std::collections::BTreeMap;

use model::NodeName;
use queue_format::Epoch;
use serde::{Deserialize, Serialize};

/// The master that a node obeys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Obeyed {
    /// The highest epoch under which the node was called.
    #[serde(flatten)]
    pub epoch: Epoch,
    /// The first caller under it. Null means that it is not known: the epoch came with the enrolment, or
    /// was kept by a version that did not ask.
    #[serde(default)]
    pub master: Option<NodeName>,
}

impl From<Epoch> for Obeyed {
    fn from(epoch: Epoch) -> Self {
        Self { epoch, master: None }
    }
}

/// The calls that run, and the epoch that is obeyed. `S` is how a call is interrupted.
#[derive(Debug)]
pub struct Table<S> {
    held: Obeyed,
    stopping: bool,
    next_ticket: u64,
    running: BTreeMap<u64, (Epoch, S)>,
}

/// The answer to a call that asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It runs, and gives the ticket back at its end.
    Granted {
        /// Given back when the call ends.
        ticket: u64,
    },
    /// A higher epoch is obeyed.
    Refused { held: Epoch },
    /// Its epoch, or who it is, must be made durable first.
    Rise,
    /// Calls of an older epoch have not ended yet.
    Wait,
    /// Nothing runs any more.
    Stopping,
}

impl<S: Clone> Table<S> {
    /// The table of a node that obeys `held`, where nothing runs.
    pub fn new(held: Obeyed) -> Self {
        Self { held, stopping: false, next_ticket: 0, running: BTreeMap::new() }
    }

    /// The epoch that is obeyed.
    pub fn held(&self) -> Epoch {
        self.held.epoch
    }

    /// Whether a call under `epoch` tells something that is to be kept: a higher epoch, or whose the
    /// one is that is obeyed.
    pub fn is_news(&self, epoch: Epoch) -> bool {
        epoch > self.held.epoch || epoch == self.held.epoch && self.held.master.is_none()
    }

    /// Calls that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Asks for leave to run a call under `epoch`; `signal` interrupts it.
    pub fn enter(&mut self, epoch: Epoch, signal: &S) -> Entry {
        if self.stopping {
            return Entry::Stopping;
        }
        if epoch < self.held.epoch {
            return Entry::Refused { held: self.held.epoch };
        }
        if self.is_news(epoch) {
            return Entry::Rise;
        }
        if self.running.values().any(|(other, _)| *other != epoch) {
            return Entry::Wait;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.running.insert(ticket, (epoch, signal.clone()));
        Entry::Granted { ticket }
    }

    /// The call with this ticket has ended.
    pub fn leave(&mut self, ticket: u64) {
        self.running.remove(&ticket);
    }

    /// Obeys `obeyed` from now on, if it is news; gives the calls to interrupt.
    pub fn rise(&mut self, obeyed: Obeyed) -> Vec<S> {
        if self.is_news(obeyed.epoch) {
            self.held = obeyed;
        }
        let older = self.running.values().filter(|(other, _)| *other < self.held.epoch);
        older.map(|(_, signal)| signal.clone()).collect()
    }

    /// Grants nothing more; gives the calls to interrupt.
    pub fn stop(&mut self) -> Vec<S> {
        self.stopping = true;
        self.running.values().map(|(_, signal)| signal.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Enter(u64),
        Leave(usize),
        Rise(u64),
    }

    #[test]
    fn whose_an_epoch_is_stays_as_it_was_told_first() {
        let epoch = Epoch { term: 3, node: 1 };
        let by = |name: &str| Obeyed { epoch, master: Some(name.parse().unwrap()) };
        let mut table = Table::new(epoch.into());
        assert_eq!(table.enter(epoch, &()), Entry::Rise);
        table.rise(by("n1"));
        assert_eq!(table.enter(epoch, &()), Entry::Granted { ticket: 0 });
        assert!(table.rise(by("n2")).is_empty());
        assert_eq!(table.held, by("n1"));
    }

    #[test]
    fn what_an_older_version_kept_is_read() {
        let old = r#"{"term":3,"node":1}"#;
        let read: Obeyed = serde_json::from_str(old).unwrap();
        assert_eq!(read, Epoch { term: 3, node: 1 }.into());
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(text, r#"{"term":3,"node":1,"master":null}"#);
        // And the other way round: who goes back to that version still obeys.
        assert_eq!(serde_json::from_str::<Epoch>(&text).unwrap(), read.epoch);
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0_u64..5).prop_map(Step::Enter),
            (0_usize..8).prop_map(Step::Leave),
            (0_u64..5).prop_map(Step::Rise),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn two_epochs_never_run_together(steps in steps()) {
            let known = |epoch| Obeyed { epoch, master: Some("n1".parse().unwrap()) };
            let mut table = Table::new(known(Epoch::default()));
            let mut running: Vec<(u64, Epoch)> = Vec::new();
            for step in steps {
                match step {
                    Step::Enter(term) => {
                        let epoch = Epoch { term, node: 1 };
                        let held = table.held();
                        match table.enter(epoch, &epoch) {
                            Entry::Granted { ticket } => {
                                prop_assert_eq!(epoch, held);
                                running.push((ticket, epoch));
                            }
                            Entry::Refused { .. } => prop_assert!(epoch < held),
                            Entry::Rise => prop_assert!(epoch > held),
                            Entry::Wait => prop_assert!(running.iter().any(|(_, e)| *e < epoch)),
                            Entry::Stopping => prop_assert!(false),
                        }
                    }
                    Step::Leave(at) => {
                        if at < running.len() {
                            table.leave(running.swap_remove(at).0);
                        }
                    }
                    Step::Rise(term) => {
                        let before = table.held();
                        let interrupted = table.rise(known(Epoch { term, node: 1 }));
                        prop_assert!(table.held() >= before);
                        let older = running.iter().filter(|(_, e)| *e < table.held()).count();
                        prop_assert_eq!(interrupted.len(), older);
                    }
                }
                let epochs: std::collections::BTreeSet<_> = running.iter().map(|r| r.1).collect();
                prop_assert!(epochs.len() <= 1);
            }
        }
    }
}
