//! Core: the order of what is appended, where the log begins anew behind a snapshot.
//!
//! An engine may append what follows a snapshot before that is installed. In the journal such entries
//! would be a hole, and after a crash nothing would tell it from damage. So they wait, with all that
//! comes behind them, until the files are that far.

use std::collections::VecDeque;

use crate::journal::Record;

/// An append that waits: its records, its tag, and its bytes.
type Parked<T> = (Vec<Record>, T, usize);

/// The end of the log, and the records that wait behind a hole.
#[derive(Debug)]
pub(super) struct Order<T> {
    /// The last entry in the log, or in the files if that is later.
    last: u64,
    parked: VecDeque<Parked<T>>,
    parked_bytes: usize,
    bytes_max: usize,
}

impl<T> Order<T> {
    pub(super) fn new(last: u64, bytes_max: usize) -> Self {
        Self { last, parked: VecDeque::new(), parked_bytes: 0, bytes_max }
    }

    /// Whether these may be appended now; then they count as appended. A hole waits only if a
    /// snapshot is on its way, which alone can fill it.
    pub(super) fn admits(&mut self, records: &[Record], receiving: bool) -> bool {
        if !self.parked.is_empty() {
            return false;
        }
        match end_behind(self.last, records) {
            Some(last) => {
                self.last = last;
                true
            }
            None if receiving => false,
            None => {
                let last = records.iter().rev().find_map(|record| match record {
                    Record::Entry(entry) => Some(entry.position.index),
                    Record::Vote(_) | Record::Truncate { .. } | Record::Purge { .. } => None,
                });
                self.last = last.unwrap_or(self.last);
                true
            }
        }
    }

    /// Lets them wait; gives the tag back if too much waits.
    pub(super) fn park(&mut self, records: Vec<Record>, tag: T) -> Result<(), T> {
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        if self.parked_bytes + bytes > self.bytes_max {
            return Err(tag);
        }
        self.parked_bytes += bytes;
        self.parked.push_back((records, tag, bytes));
        Ok(())
    }

    /// The files hold everything up to entry `index`: gives what need not wait any more.
    pub(super) fn reached(&mut self, index: u64) -> Vec<(Vec<Record>, T)> {
        self.last = self.last.max(index);
        let mut free = Vec::new();
        while let Some((records, ..)) = self.parked.front()
            && let Some(last) = end_behind(self.last, records)
        {
            self.last = last;
            if let Some((records, tag, bytes)) = self.parked.pop_front() {
                self.parked_bytes -= bytes;
                free.push((records, tag));
            }
        }
        free
    }
}

/// The end of the log once these are behind `last`; none if an entry would leave a hole.
fn end_behind(last: u64, records: &[Record]) -> Option<u64> {
    records.iter().try_fold(last, |last, record| match record {
        Record::Entry(entry) => {
            let index = entry.position.index;
            (index <= last.saturating_add(1)).then_some(index.max(last))
        }
        Record::Truncate { after_index } => Some(last.min(*after_index)),
        Record::Vote(_) | Record::Purge { .. } => Some(last),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::journal::{Entry, Payload};
    use crate::position::{Epoch, Position};

    fn entry(index: u64) -> Record {
        let position = Position { epoch: Epoch::default(), index };
        Record::Entry(Entry { position, payload: Payload::Blank })
    }

    #[test]
    fn what_follows_a_snapshot_waits_for_it_with_all_behind() {
        let mut order = Order::new(4, 1000);
        assert!(order.admits(&[entry(5), entry(6)], true));
        assert!(order.admits(&[Record::Truncate { after_index: 5 }, entry(6)], true));
        let vote = vec![Record::Vote(Bytes::from("v"))];
        assert!(!order.admits(&[entry(11)], true));
        order.park(vec![entry(11)], 'a').unwrap();
        assert!(!order.admits(&vote, true));
        order.park(vote.clone(), 'b').unwrap();
        assert_eq!(order.reached(9), []);
        assert_eq!(order.reached(10), [(vec![entry(11)], 'a'), (vote, 'b')]);
        assert!(order.admits(&[entry(12)], true));
        assert_eq!(order.parked_bytes, 0);
        assert!(order.admits(&[entry(20)], false) && order.admits(&[entry(21)], true));
    }

    #[test]
    fn no_more_waits_than_may() {
        let mut order = Order::new(0, 40);
        assert!(!order.admits(&[entry(9)], true));
        assert_eq!(order.park(vec![entry(9)], 'a'), Ok(()));
        assert_eq!(order.park(vec![entry(10)], 'b'), Err('b'));
    }
}
