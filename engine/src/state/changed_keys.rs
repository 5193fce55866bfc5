//! Core: which keys change while somebody reads the store. Serves the change of master, which reads
//! jobs before it leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use queue_format::{Batch, Change, Key};

/// Keys that are noted before it counts as everything: some seconds of a busy master.
const KEYS_MAX: usize = 100_000;

/// The notes on what is applied.
#[derive(Debug, Default)]
enum Noted {
    /// Nobody asked.
    #[default]
    Nothing,
    /// These keys changed.
    Keys(BTreeSet<Key>),
    /// Too many did, or all at once.
    Everything,
}

impl Noted {
    fn note(&mut self, batch: &Batch) {
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

    fn note_everything(&mut self) {
        if matches!(self, Self::Keys(_)) {
            *self = Self::Everything;
        }
    }
}

/// The notes, and how often somebody asked for them.
#[derive(Debug, Default)]
struct Asked {
    times: u64,
    noted: Noted,
}

/// Notes what changes in a member's store, if somebody asks for that.
///
/// All of it is noted before it shows and once more when it does: who asks in between may have read
/// what was before.
#[derive(Debug, Default, Clone)]
pub(crate) struct Notes(Arc<Mutex<Asked>>);

impl Notes {
    pub(crate) fn applying<T>(&self, batch: &Batch, apply: impl FnOnce() -> T) -> T {
        self.0.lock().noted.note(batch);
        let applied = apply();
        self.0.lock().noted.note(batch);
        applied
    }

    /// Another store's content takes the place of this one's until what is returned goes.
    pub(crate) fn replacing(&self) -> Replacing<'_> {
        self.0.lock().noted.note_everything();
        Replacing(self)
    }

    /// Begins for who asks; who asked before is told nothing any more.
    pub(crate) fn begin(&self) -> Noting {
        let mut asked = self.0.lock();
        asked.times += 1;
        asked.noted = Noted::Keys(BTreeSet::new());
        Noting { asked: Arc::clone(&self.0), time: asked.times }
    }
}

/// Lives for as long as the store's content is replaced.
#[derive(Debug)]
pub(crate) struct Replacing<'a>(&'a Notes);

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        self.0.0.lock().noted.note_everything();
    }
}

/// Notes which keys change in a member's store from a moment on, for as long as it lives. All that is
/// read after that moment stays as it was read, but for these.
#[derive(Debug)]
pub struct Noting {
    asked: Arc<Mutex<Asked>>,
    /// As [`Asked::times`] when it began.
    time: u64,
}

impl Noting {
    /// The keys that changed, of all that is applied by now; none where that cannot be told.
    pub fn changed(self) -> Option<BTreeSet<Key>> {
        match self.end() {
            Noted::Keys(keys) => Some(keys),
            Noted::Nothing | Noted::Everything => None,
        }
    }

    /// Nothing where another has begun since.
    fn end(&self) -> Noted {
        let mut asked = self.asked.lock();
        let mine = asked.times == self.time;
        if mine { std::mem::take(&mut asked.noted) } else { Noted::Nothing }
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.end();
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

    fn keys<const N: usize>(numbers: [usize; N]) -> Option<BTreeSet<Key>> {
        Some(numbers.map(key).into())
    }

    #[test]
    fn what_changes_is_told_once_and_only_behind_the_beginning() {
        let notes = Notes::default();
        let apply = |batch| notes.applying(&batch, || ());
        apply(put(1..3));
        let noting = notes.begin();
        apply(put(3..5));
        apply(Batch(vec![Change::Delete { key: key(4) }]));
        apply(Batch(vec![Change::Move { from: key(7), to: key(8) }]));
        assert_eq!(noting.changed(), keys([3, 4, 7, 8]));
        apply(put(5..6));
        let nobody_asks = || matches!(notes.0.lock().noted, Noted::Nothing);
        assert!(nobody_asks());
        drop(notes.begin());
        assert!(nobody_asks());
    }

    #[test]
    fn who_begins_while_a_batch_is_applied_is_told_of_it() {
        let notes = Notes::default();
        let noting = notes.applying(&put(1..3), || notes.begin());
        assert_eq!(noting.changed(), keys([1, 2]));
    }

    #[test]
    fn who_was_overtaken_is_told_nothing_and_takes_nothing_from_who_overtook() {
        let notes = Notes::default();
        let (one, two) = (notes.begin(), notes.begin());
        notes.applying(&put(1..2), || ());
        drop(one);
        notes.applying(&put(2..3), || ());
        assert_eq!(two.changed(), keys([1, 2]));
        let (one, two) = (notes.begin(), notes.begin());
        notes.applying(&put(1..2), || ());
        assert_eq!((one.changed(), two.changed()), (None, keys([1])));
    }

    #[test]
    fn too_much_and_a_new_store_are_everything() {
        let notes = Notes::default();
        let noting = notes.begin();
        notes.applying(&put(0..KEYS_MAX), || ());
        assert!(matches!(notes.0.lock().noted, Noted::Keys(_)));
        notes.applying(&put(KEYS_MAX..KEYS_MAX + 1), || ());
        assert_eq!(noting.changed(), None);
        let noting = notes.begin();
        drop(notes.replacing());
        notes.applying(&put(0..1), || ());
        assert_eq!(noting.changed(), None);
        let replacing = notes.replacing();
        let noting = notes.begin();
        drop(replacing);
        assert_eq!(noting.changed(), None, "it read neither the old content nor the new one");
    }
}
