//! The one source of wall-clock time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Tells the time of day in microseconds since the epoch; a test sets it by hand.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still at `micros` until [`Clock::set`] moves it.
    pub fn manual(micros: i64) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(micros))))
    }

    /// Microseconds since 1970-01-01 UTC; before it, zero.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
    pub fn now_micros(&self) -> i64 {
        match &self.0 {
            Source::System => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .ok()
                .and_then(|d| i64::try_from(d.as_micros()).ok())
                .unwrap_or(0),
            Source::Manual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Moves a manual clock; the machine's clock is left alone.
    pub fn set(&self, micros: i64) {
        if let Source::Manual(now) = &self.0 {
            now.store(micros, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::System => f.write_str("Clock(system)"),
            Source::Manual(now) => write!(f, "Clock({})", now.load(Ordering::Relaxed)),
        }
    }
}
