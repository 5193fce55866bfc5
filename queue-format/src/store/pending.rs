//! Core: what the files do not show yet.
//!
//! One entry per key, however often it changed, in the order of its first change that is not
//! written. Writing the entries in that order, each as it is when its turn comes, always leads to
//! the committed state.

use std::collections::VecDeque;

use bytes::Bytes;
use foldhash::HashMap;

use crate::change::{Batch, Change};
use crate::key::Key;

/// The future of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Content(Bytes),
    /// It is gone.
    Absent,
    /// It is the file that had this name.
    RenamedFrom(Key),
}

/// A file that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) key: Key,
    pub(crate) target: Target,
    /// The entry with the first change that this makes visible in the file.
    pub(crate) index: u64,
    /// The entry with the last one.
    pub(crate) last_index: u64,
}

/// A move that is neither of a content known here nor of a file that nothing touched.
///
/// Such moves never reach a journal: see [`super::resolve`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{from}` was moved to `{to}` while one of them was being changed")]
pub(crate) struct Entangled {
    from: Key,
    to: Key,
}

#[derive(Debug)]
struct Entry {
    target: Target,
    index: u64,
    last_index: u64,
    since_ms: u64,
}

/// Bytes that a key costs in memory beside its text and content.
const KEY_OVERHEAD_BYTES: usize = 128;

/// The entries, and their order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    entries: HashMap<Key, Entry>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Pending {
    /// Takes over what a committed batch says; `index` is that of its entry, `now_ms` any steady
    /// time.
    pub(crate) fn apply(
        &mut self,
        batch: &Batch,
        index: u64,
        now_ms: u64,
    ) -> Result<(), Entangled> {
        for change in &batch.0 {
            match change {
                Change::Put { key, content } => {
                    self.set(key, Target::Content(content.clone()), (index, now_ms));
                }
                Change::Delete { key } => self.set(key, Target::Absent, (index, now_ms)),
                Change::Move { from, to } => self.rename(from, to, (index, now_ms))?,
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Key, to: &Key, at: (u64, u64)) -> Result<(), Entangled> {
        if from == to {
            return Ok(());
        }
        match self.target(from) {
            Some(Target::Content(content)) => {
                let content = content.clone();
                self.set(from, Target::Absent, at);
                self.set(to, Target::Content(content), at);
            }
            Some(Target::Absent) => {}
            // The new name comes first in the order, so that nothing happens to the file under
            // its old name before it is renamed.
            None if self.target(to).is_none() => {
                self.set(to, Target::RenamedFrom(from.clone()), at);
                self.set(from, Target::Absent, at);
            }
            Some(Target::RenamedFrom(_)) | None => {
                return Err(Entangled { from: from.clone(), to: to.clone() });
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &Key, target: Target, (index, since_ms): (u64, u64)) {
        self.bytes += weight(key, &target);
        if let Some(entry) = self.entries.get_mut(key) {
            self.bytes -= weight(key, &entry.target);
            entry.target = target;
            entry.last_index = index;
        } else {
            self.entries.insert(key.clone(), Entry { target, index, last_index: index, since_ms });
            self.order.push_back(key.clone());
        }
    }

    /// The future of this key's file, if that differs from its present state.
    pub(crate) fn target(&self, key: &Key) -> Option<&Target> {
        self.entries.get(key).map(|entry| &entry.target)
    }

    /// The futures of all files that will change, in no order.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&Key, &Target)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.target))
    }

    /// The keys whose files will be there, of those that begin with this text.
    pub(crate) fn coming(&self, prefix: &str) -> impl Iterator<Item = &Key> {
        let comes = |entry: &Entry| entry.target != Target::Absent;
        let entries = self.entries.iter().filter(move |(_, entry)| comes(entry));
        entries.map(|(key, _)| key).filter(move |key| key.as_str().starts_with(prefix))
    }

    /// Entry and time of the change that has waited longest.
    pub(crate) fn oldest(&self) -> Option<(u64, u64)> {
        let entry = self.entries.get(self.order.front()?)?;
        Some((entry.index, entry.since_ms))
    }

    /// Takes out what has waited longest.
    pub(crate) fn take(&mut self) -> Option<Due> {
        let key = self.order.pop_front()?;
        let entry = self.entries.remove(&key).expect("every key in the order has an entry");
        self.bytes -= weight(&key, &entry.target);
        let Entry { target, index, last_index, since_ms: _ } = entry;
        Some(Due { key, target, index, last_index })
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory that the entries take, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn weight(key: &Key, target: &Target) -> usize {
    let content = match target {
        Target::Content(content) => content.len(),
        Target::Absent | Target::RenamedFrom(_) => 0,
    };
    KEY_OVERHEAD_BYTES + key.as_str().len() + content
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::change::collapse::tests::{apply, batch, key};

    fn write(files: &mut BTreeMap<Key, Bytes>, due: Due) {
        match due.target {
            Target::Content(content) => {
                files.insert(due.key, content);
            }
            Target::Absent => {
                files.remove(&due.key);
            }
            Target::RenamedFrom(from) => {
                if let Some(content) = files.remove(&from) {
                    files.insert(due.key, content);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn writing_in_order_at_any_time_leads_to_the_committed_state(
            before in proptest::collection::btree_map(key(), Just(Bytes::from_static(b"old")), 0..6),
            batches in proptest::collection::vec((batch(6), 0..4_usize), 0..12),
        ) {
            let (mut committed, mut files) = (before.clone(), before);
            let mut pending = Pending::default();
            for (index, (batch, writes)) in (1..).zip(batches) {
                // Moves that are entangled never get here; neither do those onto files.
                let mut plain = Batch::default();
                for change in batch.0 {
                    let mut next = committed.clone();
                    apply(&mut next, &Batch(vec![change.clone()]));
                    let onto_a_file = matches!(&change, Change::Move { from, to }
                        if files.contains_key(to) && pending.target(from).is_none());
                    let one = Batch(vec![change.clone()]);
                    if !onto_a_file && pending.apply(&one, index, index).is_ok() {
                        plain.0.push(change);
                        committed = next;
                    }
                }
                for _ in 0..writes {
                    pending.take().into_iter().for_each(|due| write(&mut files, due));
                }
            }
            let mut last = 0;
            while let Some(due) = pending.take() {
                prop_assert!(due.index >= last);
                last = due.index;
                write(&mut files, due);
            }
            prop_assert_eq!(pending.bytes(), 0);
            prop_assert_eq!(files, committed);
        }
    }

    #[test]
    fn a_key_that_changes_twice_is_written_once() {
        let key = Key::parse("queue/job-1").unwrap();
        let put = |text: &'static str| {
            Batch(vec![Change::Put { key: key.clone(), content: text.into() }])
        };
        let mut pending = Pending::default();
        pending.apply(&put("queued"), 1, 10).unwrap();
        pending.apply(&put("success"), 2, 20).unwrap();
        assert_eq!(pending.oldest(), Some((1, 10)));
        let due = pending.take().unwrap();
        assert_eq!((due.index, due.last_index), (1, 2));
        assert_eq!(due.target, Target::Content("success".into()));
        assert_eq!(pending.take(), None);
    }
}
