//! The agent's numbers, for Prometheus.
//!
//! `table` names them, `page` puts them together when they are asked for. DHCP counts for itself
//! ([`netboot::dhcp::server::Counters`]), as does the store; the rest is counted here.

mod page;
mod table;

use std::sync::Arc;
use std::time::Duration;

use rpc::{FailureKind, Request};
use stdx::metrics::{Counter, Histogram, LATENCY};

use netboot::boot::BootAnswers;
use netboot::dhcp::server::Counters;
use netboot::ledger::Ledger;
use netboot::rack::Racks;

pub(crate) use page::page;
pub use table::FAMILIES;

/// Calls of the master.
#[derive(Debug)]
pub struct Calls(Vec<CallMeter>);

#[derive(Debug)]
struct CallMeter {
    name: &'static str,
    seconds: Histogram,
    /// In the order of [`FailureKind::TABLE`].
    failures: Vec<Counter>,
}

impl Default for Calls {
    fn default() -> Self {
        let meter = |name| CallMeter {
            name,
            seconds: Histogram::new(LATENCY),
            failures: FailureKind::TABLE.iter().map(|_| Counter::default()).collect(),
        };
        Self(Request::TABLE.iter().map(|traits| meter(traits.name)).collect())
    }
}

impl Calls {
    /// Counts a call that was answered, after so long.
    pub fn answered(&self, name: &str, took: Duration, failure: Option<FailureKind>) {
        let Some(meter) = self.0.iter().find(|meter| meter.name == name) else { return };
        meter.seconds.observe_time(took);
        let place = |kind: FailureKind| {
            FailureKind::TABLE.iter().position(|(name, ..)| *name == kind.name())
        };
        if let Some(at) = failure.and_then(place) {
            meter.failures[at].add();
        }
    }
}

/// Everything that numbers are taken from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Calls of the master.
    pub calls: Arc<Calls>,
    /// Boot requests.
    pub boot: Arc<BootAnswers>,
    pub dhcp: Arc<Counters>,
    /// Leases, and what is to be told.
    pub ledger: Arc<Ledger>,
    /// Rack documents.
    pub racks: Arc<Racks>,
    /// The time.
    pub clock: stdx::Clock,
}
