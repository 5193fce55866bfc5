//! What requests count.

use std::time::Duration;

use axum::http::StatusCode;
use stdx::metrics::{Counter, Histogram, LATENCY};

/// Classes of status codes.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What requests count.
#[derive(Debug)]
pub struct Meters {
    /// Time until the answer is ready.
    pub seconds: Histogram,
    /// Answers, by the class of their status.
    pub answers: [Counter; CLASSES.len()],
}

impl Default for Meters {
    fn default() -> Self {
        Self { seconds: Histogram::new(LATENCY), answers: Default::default() }
    }
}

impl Meters {
    /// Counts a request that was answered after so long.
    pub fn answered(&self, status: StatusCode, took: Duration) {
        self.seconds.observe_time(took);
        let class = usize::from(status.as_u16() / 100).checked_sub(1);
        if let Some(counter) = class.and_then(|class| self.answers.get(class)) {
            counter.add();
        }
    }
}
