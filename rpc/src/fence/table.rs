//! Core: which calls run under which epoch.

use std::collections::BTreeMap;

use queue_format::Epoch;

/// The calls that run, and the epoch that is obeyed. `S` is how a call is interrupted.
#[derive(Debug)]
pub struct Table<S> {
    held: Epoch,
    stopping: bool,
    next_ticket: u64,
    running: BTreeMap<u64, (Epoch, S)>,
}

/// What a call gets that asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It runs, and gives the ticket back at its end.
    Granted {
        /// Given back when the call ends.
        ticket: u64,
    },
    /// A higher epoch is obeyed.
    Refused {
        /// That epoch.
        held: Epoch,
    },
    /// Its epoch must be made durable first.
    Rise,
    /// Calls of an older epoch have not ended yet.
    Wait,
    /// Nothing runs any more.
    Stopping,
}

impl<S: Clone> Table<S> {
    /// The table of a node that obeys `held`, where nothing runs.
    #[must_use]
    pub fn new(held: Epoch) -> Self {
        Self { held, stopping: false, next_ticket: 0, running: BTreeMap::new() }
    }

    /// The epoch that is obeyed.
    #[must_use]
    pub fn held(&self) -> Epoch {
        self.held
    }

    /// Calls that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Asks for leave to run a call under `epoch`; `signal` interrupts it.
    pub fn enter(&mut self, epoch: Epoch, signal: &S) -> Entry {
        if self.stopping {
            return Entry::Stopping;
        }
        if epoch < self.held {
            return Entry::Refused { held: self.held };
        }
        if epoch > self.held {
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

    /// Obeys `epoch` from now on; gives the calls to interrupt.
    pub fn rise(&mut self, epoch: Epoch) -> Vec<S> {
        self.held = self.held.max(epoch);
        let older = self.running.values().filter(|(other, _)| *other < self.held);
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
            let mut table = Table::new(Epoch::default());
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
                        let interrupted = table.rise(Epoch { term, node: 1 });
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
