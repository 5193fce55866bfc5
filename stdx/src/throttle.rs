//! A limit for lines of the log that somebody could cause too often.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Least time between two lines of one kind: enough to see that it goes on.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets one line of a kind through in ten seconds, and counts the others.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Passed>);

#[derive(Debug, Default)]
struct Passed {
    last: Option<Instant>,
    withheld: u64,
}

impl Throttle {
    /// A throttle that lets the first line through.
    pub const fn new() -> Self {
        Self(Mutex::new(Passed { last: None, withheld: 0 }))
    }

    /// If a line may be logged now, the number of those that were withheld before it.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut passed = self.0.lock();
        if passed.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            passed.withheld += 1;
            return None;
        }
        passed.last = Some(now);
        Some(std::mem::take(&mut passed.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withheld_is_counted() {
        let throttle = Throttle::new();
        let now = Instant::now();
        assert_eq!(throttle.pass_at(now), Some(0));
        assert_eq!(throttle.pass_at(now), None);
        assert_eq!(throttle.pass_at(now + PAUSE - Duration::from_millis(1)), None);
        assert_eq!(throttle.pass_at(now + PAUSE), Some(2));
        assert_eq!(throttle.pass_at(now + PAUSE), None);
    }
}
