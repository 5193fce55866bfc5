//! A switch that does on demand what switches do wrong.

use std::sync::Arc;

use model::switch::{Actual, Actuals, PortChange, PortOutcome, PortSettings};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::SwitchError;
use crate::provider::Provider;

/// One thing that it does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends after the changes are made, and before they are answered.
    LostAfter,
    /// The connection ends before the changes are made.
    LostBefore,
    /// It says that it is done, and does nothing.
    Lies,
    /// It does not answer.
    Hangs,
    /// No connection comes about.
    Away,
}

/// Its inside, which tests look at.
#[derive(Debug, Default)]
pub(crate) struct SimulatedState {
    pub(crate) ports: Actuals,
    /// The next faults, the first one first.
    pub(crate) faults: Vec<Fault>,
    /// How many ports each batch changed.
    pub(crate) batches: Vec<usize>,
    pub(crate) connections: usize,
}

/// The provider of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Simulated {
    pub(crate) state: Arc<Mutex<SimulatedState>>,
    pub(crate) news: Arc<Notify>,
    /// A batch waits for this, if a test holds it up.
    pub(crate) gate: Arc<Mutex<Option<Arc<Notify>>>>,
}

impl Simulated {
    pub(crate) fn with_ports(names: &[&str]) -> Self {
        let made = Self::default();
        let blank =
            |name: &&str| ((*name).to_owned(), Actual::Other("trunk of all VLANs".to_owned()));
        made.state.lock().ports = names.iter().map(blank).collect();
        made
    }

    pub(crate) fn set(&self, port: &str, settings: PortSettings) {
        self.state.lock().ports.insert(port.to_owned(), Actual::Set(settings));
        self.news.notify_one();
    }

    fn fault(&self, among: &[Fault]) -> Option<Fault> {
        let faults = &mut self.state.lock().faults;
        let first = faults.first().copied().filter(|fault| among.contains(fault))?;
        faults.remove(0);
        Some(first)
    }
}

fn lost() -> SwitchError {
    SwitchError::Unreached { at: "simulated".to_owned(), why: "the connection ended".to_owned() }
}

impl Provider for Simulated {
    async fn connect(&mut self) -> Result<(), SwitchError> {
        if self.fault(&[Fault::Away]).is_some() {
            return Err(lost());
        }
        self.state.lock().connections += 1;
        Ok(())
    }

    async fn ports(&mut self) -> Result<Actuals, SwitchError> {
        Ok(self.state.lock().ports.clone())
    }

    async fn apply(&mut self, changes: &[PortChange]) -> Result<Vec<PortOutcome>, SwitchError> {
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate {
            gate.notified().await;
        }
        let fault = self.fault(&[Fault::LostAfter, Fault::LostBefore, Fault::Lies, Fault::Hangs]);
        match fault {
            Some(Fault::LostBefore) => return Err(lost()),
            Some(Fault::Hangs) => std::future::pending().await,
            _ => {}
        }
        let mut state = self.state.lock();
        state.batches.push(changes.len());
        let mut outcomes = Vec::new();
        for PortChange { port, wanted, if_current, .. } in changes {
            let Some(actual) = state.ports.get_mut(port) else {
                outcomes.push(PortOutcome::Refused(format!("there is no port {port}")));
                continue;
            };
            let differs = if_current.as_ref().is_some_and(|expected| expected != actual);
            outcomes.push(if actual.is(wanted) {
                PortOutcome::Applied
            } else if differs {
                PortOutcome::Differs(actual.clone())
            } else {
                if fault != Some(Fault::Lies) {
                    *actual = Actual::Set(wanted.clone());
                }
                if actual.is(wanted) {
                    PortOutcome::Applied
                } else {
                    PortOutcome::Differs(actual.clone())
                }
            });
        }
        if fault == Some(Fault::LostAfter) { Err(lost()) } else { Ok(outcomes) }
    }

    async fn changed(&mut self) -> Result<(), SwitchError> {
        self.news.notified().await;
        Ok(())
    }
}
