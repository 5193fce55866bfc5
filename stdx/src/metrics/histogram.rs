//! A histogram whose observation is three additions to atomics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The unit of the integers that a histogram keeps, and the ends of its buckets.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Greatest integer of each bucket but the last, which has no end; in ascending order.
    bounds: &'static [u64],
    /// The value of one integer in the unit that is shown.
    unit: f64,
}

/// Seconds, kept as microseconds: from a flush of a fast disk to a call that its caller gives up.
pub const LATENCY: Scale = Scale {
    bounds: &[
        50,
        100,
        250,
        500,
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        10_000_000,
        30_000_000,
        300_000_000,
    ],
    unit: 1e-6,
};

/// Numbers of things, from one to what fits a large batch.
pub const SIZE: Scale =
    Scale { bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096], unit: 1.0 };

/// How many were at most how much.
#[derive(Debug)]
pub struct Histogram {
    scale: Scale,
    /// One for each bound, and the last for what is above all of them.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Nothing observed.
    pub fn new(scale: Scale) -> Self {
        let buckets = (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { scale, buckets, sum: AtomicU64::new(0) }
    }

    /// Observes a number, in the integers of its scale.
    pub fn observe(&self, value: u64) {
        let bucket = self.scale.bounds.partition_point(|&bound| bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Observes a time, on [`LATENCY`].
    pub fn observe_time(&self, took: Duration) {
        self.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// The counts so far. An observation made meanwhile may be missing in the sum.
    pub fn counts(&self) -> Counts {
        let unit = self.scale.unit;
        let ends = self.scale.bounds.iter().map(|&bound| shown(bound, unit));
        let ends = ends.chain(std::iter::once(f64::INFINITY));
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Counts { buckets, count, sum: shown(self.sum.load(Ordering::Relaxed), unit) }
    }
}

/// The content of a histogram at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// End of each bucket with how many are in it; the last one's end is [`f64::INFINITY`].
    pub buckets: Vec<(f64, u64)>,
    /// How many were observed.
    pub count: u64,
    /// Their sum, in the unit that is shown.
    pub sum: f64,
}

/// An integer in the unit that is shown, rounded as numbers of 15 digits are.
#[expect(clippy::cast_precision_loss, reason = "a double has 53 bits, which is more than is shown")]
fn shown(value: u64, unit: f64) -> f64 {
    let divided = unit.recip();
    value as f64 / divided.round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_holds_what_is_at_most_its_end() {
        let sizes = Histogram::new(SIZE);
        for value in [0, 1, 2, 3, 4_096, 4_097, 1 << 40] {
            sizes.observe(value);
        }
        let counts = sizes.counts();
        assert_eq!(counts.buckets[..3], [(1.0, 2), (2.0, 1), (4.0, 1)]);
        assert_eq!(counts.buckets[11..], [(4_096.0, 1), (f64::INFINITY, 2)]);
        assert_eq!(counts.count, 7);
    }

    #[test]
    fn times_are_shown_in_seconds() {
        let times = Histogram::new(LATENCY);
        times.observe_time(Duration::from_micros(70));
        times.observe_time(Duration::MAX);
        let counts = times.counts();
        assert_eq!(counts.buckets[..2], [(0.000_05, 0), (0.000_1, 1)]);
        assert_eq!(counts.buckets.last(), Some(&(f64::INFINITY, 1)));
    }

    #[test]
    fn scales_ascend() {
        for scale in [LATENCY, SIZE] {
            assert!(scale.bounds.is_sorted_by(|a, b| a < b));
        }
    }
}
