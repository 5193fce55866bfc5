//! Core: which keys change while somebody reads the store. Serves the change of master, which reads
//! jobs before it leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use queue_format::{Batch, Change, Key};

/// Keys that are noted before it counts as everything: some seconds of a busy master.
const KEYS_MAX: usize = 100_000;

/// What is noted of what is applied.
#[derive(Debug, Default)]
pub(crate) enum Noted {
    /// Nobody asked.
    #[default]
    Nothing,
    /// These keys changed.
    Keys(BTreeSet<Key>),
    /// Too many did, or all at once.
    Everything,
}

impl Noted {
    /// Notes what a batch changes that is about to be applied, and again once it is.
    pub(crate) fn note(&mut self, batch: &Batch) {
        let Self::Keys(keys) = self else { return };
        for change in &batch.0 {
            match change {
                Change::Put { key, .. } | Change::Delete { key } => drop(keys.insert(key.clone())),
                Change::Move { from, to } => keys.extend([from.clone(), to.clone()]),
            }
        }
        if keys.len() > KEYS_MAX {
            *self = Self::Everything;
        }
    }

    /// Notes that another store's content is about to take the place of this one's, and again once it
    /// has.
    pub(crate) fn note_everything(&mut self) {
        if matches!(self, Self::Keys(_)) {
            *self = Self::Everything;
        }
    }
}

/// Notes which keys change in a member's store from a moment on, for as long as it lives. What is read
/// behind that moment is as it was read, but for these.
#[derive(Debug)]
pub struct Noting(Arc<Mutex<Noted>>);

impl Noting {
    /// Begins; what somebody else noted is forgotten.
    pub(crate) fn begin(noted: &Arc<Mutex<Noted>>) -> Self {
        *noted.lock() = Noted::Keys(BTreeSet::new());
        Self(Arc::clone(noted))
    }

    /// The keys that changed, of all that is applied by now; none where that cannot be told.
    #[must_use]
    pub fn changed(self) -> Option<BTreeSet<Key>> {
        match std::mem::take(&mut *self.0.lock()) {
            Noted::Keys(keys) => Some(keys),
            Noted::Nothing | Noted::Everything => None,
        }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        *self.0.lock() = Noted::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::parse(&format!("queue/job-{number}")).unwrap()
    }

    fn put(numbers: std::ops::Range<usize>) -> Batch {
        let put = |number| Change::Put { key: key(number), content: bytes::Bytes::new() };
        Batch(numbers.map(put).collect())
    }

    #[test]
    fn what_changes_is_told_once_and_only_behind_the_beginning() {
        let noted = Arc::<Mutex<Noted>>::default();
        let note = |batch| Noted::note(&mut noted.lock(), &batch);
        note(put(1..3));
        let noting = Noting::begin(&noted);
        note(put(3..5));
        note(Batch(vec![Change::Delete { key: key(4) }]));
        note(Batch(vec![Change::Move { from: key(7), to: key(8) }]));
        assert_eq!(noting.changed(), Some([3, 4, 7, 8].map(key).into()));
        note(put(5..6));
        assert!(matches!(*noted.lock(), Noted::Nothing), "nobody asks any more");
        drop(Noting::begin(&noted));
        assert!(matches!(*noted.lock(), Noted::Nothing));
    }

    #[test]
    fn too_much_and_a_new_store_are_everything() {
        let noted = Arc::<Mutex<Noted>>::default();
        let noting = Noting::begin(&noted);
        Noted::note(&mut noted.lock(), &put(0..KEYS_MAX));
        assert!(matches!(*noted.lock(), Noted::Keys(_)));
        Noted::note(&mut noted.lock(), &put(KEYS_MAX..KEYS_MAX + 1));
        assert_eq!(noting.changed(), None);
        let noting = Noting::begin(&noted);
        noted.lock().note_everything();
        Noted::note(&mut noted.lock(), &put(0..1));
        assert_eq!(noting.changed(), None);
    }
}
