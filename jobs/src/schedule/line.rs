//! Core: jobs in the order of their turns, with the number of those ahead of one.

use std::collections::{BTreeMap, BTreeSet};

use model::JobId;

/// A job's turn: by priority, then by id.
pub type Turn = (i32, JobId);

/// Jobs of one priority whose ids differ in the lower bits only are counted together: with a
/// million jobs there are a thousand such groups of a thousand.
const GROUP_BITS: u32 = 10;

/// Jobs in the order of their turns. Adding and taking costs the logarithm of their number, the
/// place of one its square root at most.
#[derive(Debug, Default)]
pub struct Line {
    turns: BTreeSet<Turn>,
    counts: BTreeMap<(i32, u64), usize>,
}

impl Line {
    /// Adds a job.
    pub fn insert(&mut self, turn: Turn) {
        if self.turns.insert(turn) {
            *self.counts.entry(group(turn)).or_default() += 1;
        }
    }

    /// Takes a job out; false if it was not there.
    pub fn remove(&mut self, turn: Turn) -> bool {
        let was = self.turns.remove(&turn);
        if was {
            self.uncount(turn);
        }
        was
    }

    /// The job whose turn is next.
    pub fn first(&self) -> Option<Turn> {
        self.turns.first().copied()
    }

    /// Whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many jobs have their turn before this one, which need not be there.
    pub fn before(&self, turn: Turn) -> usize {
        let group = group(turn);
        let earlier: usize = self.counts.range(..group).map(|(_, count)| count).sum();
        let begin = (group.0, JobId(group.1 << GROUP_BITS));
        earlier + self.turns.range(begin..turn).count()
    }

    fn uncount(&mut self, turn: Turn) {
        let group = group(turn);
        if let Some(count) = self.counts.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&group);
            }
        }
    }
}

fn group((priority, job): Turn) -> (i32, u64) {
    (priority, job.0 >> GROUP_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The place of a job is what counting one by one gives.
        #[test]
        fn places_are_counted(
            steps in proptest::collection::vec((any::<bool>(), -2i32..3, 1u64..4_000), 0..200),
            asked in (-2i32..3, 1u64..4_000),
        ) {
            let mut line = Line::default();
            let mut plain = BTreeSet::new();
            for (add, priority, id) in steps {
                let turn = (priority, JobId(id));
                if add {
                    line.insert(turn);
                    plain.insert(turn);
                } else {
                    prop_assert_eq!(line.remove(turn), plain.remove(&turn));
                }
                let turn = (asked.0, JobId(asked.1));
                prop_assert_eq!(line.before(turn), plain.range(..turn).count());
                prop_assert_eq!(line.first(), plain.first().copied());
                prop_assert_eq!(line.counts.values().sum::<usize>(), plain.len());
            }
        }
    }
}
