//! Numbers for Prometheus: counted by atomics where things happen, written as text when asked for.
//!
//! In reading order: a [`Family`] is one name with its kind, labels and meaning, as it stands in the
//! table of a program. The counting types are [`Counter`] and [`Histogram`] (`histogram`). A [`Page`]
//! (`page`) is the answer to one request; [`serve`] answers over HTTP, at the `endpoint` of a command
//! line.

mod endpoint;
mod histogram;
mod page;
mod serve;

use std::sync::atomic::{AtomicU64, Ordering};

pub use endpoint::{Endpoint, EndpointError};
pub use histogram::{Counts, Histogram, LATENCY, SIZE, Scale};
pub use page::{Page, Unlisted};
pub use serve::{CONTENT_TYPE, serve};

/// The kind of a family's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from zero at the start of the program. Its name on the wire ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many were at most how much.
    Histogram,
}

impl Kind {
    /// The word in documents and on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One name, with what its numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The name, without the `_total` of counters.
    pub name: &'static str,
    /// The kind of the numbers.
    pub kind: Kind,
    /// Names of the labels that tell its numbers apart.
    pub labels: &'static [&'static str],
    /// The meaning, as one sentence without its full stop.
    pub help: &'static str,
}

/// The table of a program: name, kind, labels and meaning of each family.
#[macro_export]
macro_rules! families {
    ($($name:literal $kind:ident [$($label:literal),*] $help:literal;)+) => {
        &[$($crate::metrics::Family {
            name: $name,
            kind: $crate::metrics::Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        },)+]
    };
}

impl Family {
    /// Its row in a document: `| name | kind | labels | meaning |`.
    pub fn row(&self) -> String {
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        let labels = self.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}{suffix}` | {} | {labels} | {}. |", self.name, self.kind.word(), self.help)
    }
}

/// A number that grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn add(&self) {
        self.add_many(1);
    }

    /// So many more.
    pub fn add_many(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were since the start.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts from zero again: for what was counted before anybody could ask.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
