//! The acknowledged changes, and whether they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use queue_format::{Batch, Change, Epoch, Key, Position};

use crate::simulation::Files;
use crate::{Committed, ProposeError};

fn key(name: &str) -> Key {
    Key::parse(name).unwrap()
}

/// The key of job `number` while it lives.
fn live(number: u64) -> Key {
    key(&format!("queue/job-{number}"))
}

fn archived(number: u64) -> Key {
    key(&format!("queue/archive/0/job-{number}"))
}

/// Everything that was said by anybody.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// The committed entry of each index, by any member's word.
    committed: BTreeMap<u64, Committed>,
    /// Numbers with the position that their proposer was told.
    acknowledged: BTreeMap<u64, Position>,
    /// Those of which it was said that nothing happened.
    refused: BTreeSet<u64>,
    /// Those whose move to the archive was acknowledged, or may have happened.
    moved: BTreeSet<u64>,
    perhaps_moved: BTreeSet<u64>,
    /// The highest epoch in which anything was acknowledged.
    newest: Epoch,
    next: u64,
    trace: DefaultHasher,
}

/// The aim of a proposal.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Add(u64),
    Move(u64),
}

impl Oracle {
    pub(super) fn note(&mut self, event: impl Hash) {
        event.hash(&mut self.trace);
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace.finish()
    }

    pub(super) fn acknowledgements(&self) -> usize {
        self.acknowledged.len()
    }

    /// Something to propose: a new number, now and then the move of one that is acknowledged. The
    /// epoch is the newest in which anything was acknowledged before.
    pub(super) fn wish(&mut self, pick: usize, bytes: usize) -> (What, Batch, Epoch) {
        let still: Vec<u64> =
            self.acknowledged.keys().filter(|n| !self.perhaps_moved.contains(n)).copied().collect();
        let (what, changes) = if pick.is_multiple_of(5) && !still.is_empty() {
            let number = still[pick % still.len()];
            self.perhaps_moved.insert(number);
            let rename = Change::Move { from: live(number), to: archived(number) };
            (What::Move(number), vec![rename])
        } else {
            self.next += 1;
            let content = Bytes::from(self.next.to_string().repeat(1 + bytes));
            let serial = Bytes::from(self.next.to_string());
            let changes = vec![
                Change::Put { key: live(self.next), content },
                Change::Put { key: key("queue/serial"), content: serial },
            ];
            (What::Add(self.next), changes)
        };
        (what, Batch(changes), self.newest)
    }

    /// A proposer was answered; `before` is what [`Self::wish`] said.
    pub(super) fn told(
        &mut self,
        (what, epoch, before): (What, Epoch, Epoch),
        answer: &Result<Position, ProposeError>,
    ) {
        match (what, answer) {
            (_, Ok(position)) => {
                assert_eq!(position.epoch, epoch, "{what:?} was proposed in another epoch");
                assert!(
                    epoch >= before,
                    "{what:?} was acknowledged in {epoch}, begun after something was in {before}"
                );
                self.newest = self.newest.max(epoch);
                self.note(("acknowledged", position.index, epoch.term));
                match what {
                    What::Add(number) => drop(self.acknowledged.insert(number, *position)),
                    What::Move(number) => drop(self.moved.insert(number)),
                }
            }
            (What::Add(number), Err(ProposeError::Refused)) => drop(self.refused.insert(number)),
            (What::Move(number), Err(ProposeError::Refused)) => {
                self.perhaps_moved.remove(&number);
            }
            (_, Err(ProposeError::Unknown { .. })) => {}
            (_, Err(error)) => panic!("{what:?}: {error:?}"),
        }
    }

    /// A member says that this is committed.
    pub(super) fn committed(&mut self, by: u64, committed: &Committed) {
        let index = committed.position.index;
        self.note(("committed", by, index));
        match self.committed.get(&index) {
            Some(before) => {
                assert_eq!(before, committed, "member {by} has something else at {index}");
            }
            None => drop(self.committed.insert(index, committed.clone())),
        }
    }

    /// All members hold `files` at the end.
    pub(super) fn check(&self, files: &Files) {
        for (number, position) in &self.acknowledged {
            let in_queue = files.contains_key(&live(*number));
            let in_archive = files.contains_key(&archived(*number));
            assert!(in_queue != in_archive, "{number} was acknowledged at {position}, and is lost");
            assert!(!in_archive || self.perhaps_moved.contains(number), "{number} moved by itself");
            assert!(!in_queue || !self.moved.contains(number), "the move of {number} is undone");
            if let Some(committed) = self.committed.get(&position.index) {
                assert_eq!(committed.position, *position, "{number} is elsewhere");
            }
        }
        for number in &self.refused {
            assert!(!files.contains_key(&live(*number)), "{number} was refused, and is there");
        }
    }
}
