//! Core: how much of the log stays in memory. Serves members that are a little behind, below `log`.

use queue_format::StoreOptions;

/// Entries that stay: what comes in some seconds of small ones, so that a member whose process was
/// started anew does not need all files.
const ENTRIES: usize = 10_000;

/// Bytes that stay, whatever the number of entries: one of a busy master holds hundreds of jobs.
const BYTES: usize = 64 << 20;

/// The bytes of an entry beside its content.
const ENTRY_BYTES: usize = 200;

/// The part of the applied log that stays in memory, for members that lack some of it. As much again
/// comes before it is cut back, so that this is done rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// So many entries.
    pub entries: usize,
    /// So many bytes.
    pub bytes: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self { entries: ENTRIES, bytes: BYTES }
    }
}

/// The part of a journal that may stay: with as much again before it is cut back, a quarter of it. A new
/// leader may send all of that before anything of it counts as committed. Until then its receiver keeps
/// it in its journal, beside what was there.
const JOURNAL_PART: u64 = 8;

/// Bytes that may be in the log and not applied: half of the journal of this `store`. A new leader with
/// the same journal sends at most a quarter of it, and as much came to that leader meanwhile. The other
/// half is for frames and for the ends of segments, which an entry does not always fit.
pub(crate) fn tail_max(store: &StoreOptions) -> usize {
    usize::try_from(journal_bytes(store) / 2).unwrap_or(usize::MAX)
}

fn journal_bytes(store: &StoreOptions) -> u64 {
    let segments = u64::try_from(store.segments).unwrap_or(u64::MAX);
    store.segment_bytes.saturating_mul(segments)
}

impl Kept {
    /// As much of this as members with journals like this one take from a new leader.
    pub(crate) fn within(self, store: &StoreOptions) -> Self {
        let most = journal_bytes(store) / JOURNAL_PART;
        Self { bytes: self.bytes.min(usize::try_from(most).unwrap_or(usize::MAX)), ..self }
    }

    /// The bytes of an entry with so many bytes of content.
    pub(crate) fn weight(content: usize) -> usize {
        content + ENTRY_BYTES
    }

    /// Whether `entries` of together `bytes` are so much that some must go.
    pub(crate) fn is_exceeded(&self, entries: usize, bytes: usize) -> bool {
        entries > 2 * self.entries || bytes > 2 * self.bytes
    }

    /// How many entries stay of those with these weights, the newest first.
    pub(crate) fn stay(&self, weights: impl Iterator<Item = usize>) -> usize {
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        sums.take(self.entries).take_while(|sum| *sum <= self.bytes).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn many_small_ones_are_too_much_and_so_are_few_large_ones() {
        let kept = Kept { entries: 10, bytes: 100 };
        for (weights, exceeded, stay) in [
            (vec![], false, 0),
            (vec![1; 20], false, 10),
            (vec![1; 21], true, 10),
            (vec![100, 100], false, 1),
            (vec![60, 60, 60, 60], true, 1),
            (vec![50, 50, 101], true, 2),
            // The newest may be too large by itself.
            (vec![201, 1], true, 0),
        ] {
            let sum = weights.iter().sum();
            assert_eq!(kept.is_exceeded(weights.len(), sum), exceeded, "{weights:?}");
            assert_eq!(kept.stay(weights.iter().copied()), stay, "{weights:?}");
        }
    }

    proptest! {
        #[test]
        fn what_stays_is_within_the_limits_and_no_more_of_it_would_be(
            weights in proptest::collection::vec(1_usize..50, 0..40),
            entries in 1_usize..30,
            bytes in 1_usize..300,
        ) {
            let kept = Kept { entries, bytes };
            let stay = kept.stay(weights.iter().copied());
            let sum = |count: usize| weights[..count].iter().sum::<usize>();
            prop_assert!(stay <= entries && sum(stay) <= bytes);
            prop_assert!(!kept.is_exceeded(stay, sum(stay)));
            let all = stay == weights.len();
            prop_assert!(all || stay + 1 > entries || sum(stay + 1) > bytes);
        }
    }
}
