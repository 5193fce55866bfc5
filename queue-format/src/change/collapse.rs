//! Core: one change per key where the order allows it.

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};

use super::{Batch, Change};
use crate::key::Key;

impl Batch {
    /// The same effect with fewer changes. Of several changes of one key only the last remains; a move
    /// of an object that this batch wrote becomes a write under the new name.
    pub fn collapse(self) -> Self {
        if self.0.len() < 2 {
            return self;
        }
        let mut collapsed = Collapsed::with_capacity(self.0.len());
        for change in self.0 {
            match change {
                Change::Put { key, content } => collapsed.set(key, Some(content)),
                Change::Delete { key } => collapsed.set(key, None),
                Change::Move { from, to } => collapsed.rename(from, to),
            }
        }
        Self(collapsed.changes)
    }
}

/// The changes kept so far, and for each key the place of its last one.
///
/// A key that took part in a kept move has no place, so that later changes of it stay behind the
/// move.
struct Collapsed {
    changes: Vec<Change>,
    places: HashMap<Key, usize>,
}

impl Collapsed {
    fn with_capacity(changes: usize) -> Self {
        Self { changes: Vec::with_capacity(changes), places: HashMap::with_capacity(changes) }
    }

    fn set(&mut self, key: Key, content: Option<Bytes>) {
        let change = match content {
            Some(content) => Change::Put { key: key.clone(), content },
            None => Change::Delete { key: key.clone() },
        };
        if let Some(&place) = self.places.get(&key) {
            self.changes[place] = change;
        } else {
            self.places.insert(key, self.changes.len());
            self.changes.push(change);
        }
    }

    fn rename(&mut self, from: Key, to: Key) {
        if from == to {
            return;
        }
        match self.places.get(&from).map(|&place| &self.changes[place]) {
            Some(Change::Put { content, .. }) => {
                let content = content.clone();
                self.set(from, None);
                self.set(to, Some(content));
            }
            // Gone already in this batch: there is nothing to move.
            Some(Change::Delete { .. }) => {}
            Some(Change::Move { .. }) | None => {
                self.places.remove(&from);
                self.places.remove(&to);
                self.changes.push(Change::Move { from, to });
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The meaning of a batch, said in the plainest way.
    pub(crate) fn apply(state: &mut BTreeMap<Key, Bytes>, batch: &Batch) {
        for change in &batch.0 {
            match change {
                Change::Put { key, content } => {
                    state.insert(key.clone(), content.clone());
                }
                Change::Delete { key } => {
                    state.remove(key);
                }
                Change::Move { from, to } => {
                    if from != to
                        && let Some(content) = state.remove(from)
                    {
                        state.insert(to.clone(), content);
                    }
                }
            }
        }
    }

    pub(crate) fn key() -> impl Strategy<Value = Key> {
        (0..6_u8).prop_map(|n| Key::parse(&format!("k/{n}")).unwrap())
    }

    pub(crate) fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            3 => (key(), proptest::collection::vec(any::<u8>(), 0..9))
                .prop_map(|(key, content)| Change::Put { key, content: content.into() }),
            2 => (key(), key()).prop_map(|(from, to)| Change::Move { from, to }),
            1 => key().prop_map(|key| Change::Delete { key }),
        ]
    }

    pub(crate) fn batch(changes: usize) -> impl Strategy<Value = Batch> {
        proptest::collection::vec(change(), 0..changes).prop_map(Batch)
    }

    #[test]
    fn repeated_puts_become_the_last() {
        let key = Key::parse("queue/job-1").unwrap();
        let put = |text: &'static str| Change::Put { key: key.clone(), content: text.into() };
        let collapsed = Batch(vec![put("queued"), put("running"), put("success")]).collapse();
        assert_eq!(collapsed, Batch(vec![put("success")]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_collapsed_batch_has_the_same_effect(
            before in proptest::collection::btree_map(key(), Just(Bytes::from_static(b"old")), 0..6),
            batch in batch(12),
        ) {
            let mut plain = before.clone();
            apply(&mut plain, &batch);
            let length = batch.0.len();
            let collapsed = batch.collapse();
            prop_assert!(collapsed.0.len() <= 2 * length);
            let mut short = before;
            apply(&mut short, &collapsed);
            prop_assert_eq!(plain, short);
        }
    }
}
