//! Core: what must be put aside so that a reader sees one moment while changes go on.
//!
//! The reader goes through the keys in the order of [`Placed`]. The content of a key at the moment is
//! put aside when its file is about to change, unless the reader is past it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::digest::Group;
use crate::key::{Key, Placed};

/// Content that may be put aside for one view: a reader that falls so far behind starts anew, and
/// memory stays bounded. Room for 400,000 new jobs, or 40,000 that are rewritten, while the archive
/// is read.
pub const ASIDE_BYTES_MAX: usize = 64 << 20;

/// Bytes that a key put aside costs in memory beside its text and content.
const KEY_OVERHEAD_BYTES: usize = 128;

/// Why a view is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Too much had to be put aside.
    Outrun,
    /// All files were replaced.
    Replaced,
    /// The content of a key could not be read.
    Unread(String),
}

/// How far the reader is.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    Nothing,
    Upto(Placed),
    Everything,
}

/// The contents that are put aside for one view.
#[derive(Debug)]
pub(crate) struct Aside {
    group: Option<Group>,
    reached: Reached,
    kept: BTreeMap<Placed, Option<Bytes>>,
    bytes: usize,
    bytes_max: usize,
    broken: Option<Broken>,
}

impl Aside {
    /// A view whose reader has read nothing, of this group or of everything.
    pub(crate) fn new(group: Option<Group>, bytes_max: usize) -> Self {
        let kept = BTreeMap::new();
        Self { group, reached: Reached::Nothing, kept, bytes: 0, bytes_max, broken: None }
    }

    /// Whether what the key has must be put aside before it changes.
    pub(crate) fn wants(&self, key: &Key) -> bool {
        if self.broken.is_some() || self.group.as_ref().is_some_and(|group| !group.holds(key)) {
            return false;
        }
        let key = Placed(key.clone());
        let ahead = match &self.reached {
            Reached::Nothing => true,
            Reached::Upto(last) => *last < key,
            Reached::Everything => false,
        };
        ahead && !self.kept.contains_key(&key)
    }

    /// Puts aside what a key had, none if it did not exist, if that is wanted.
    pub(crate) fn keep(&mut self, key: &Key, content: Option<Bytes>) {
        if !self.wants(key) {
            return;
        }
        self.bytes += weight(key, content.as_ref());
        self.kept.insert(Placed(key.clone()), content);
        if self.bytes > self.bytes_max {
            self.break_off(Broken::Outrun);
        }
    }

    /// Ends the view.
    pub(crate) fn break_off(&mut self, why: Broken) {
        self.broken.get_or_insert(why);
        self.kept.clear();
        self.bytes = 0;
    }

    /// The reader has read these files, which are all up to the last of them, or all the rest if `last`.
    /// Gives the contents of the keys at the moment. Contents put aside count, for then the file was
    /// read when it had changed, or might have.
    pub(crate) fn settle(
        &mut self,
        read: Vec<(Key, Option<Bytes>)>,
        last: bool,
    ) -> Result<Vec<(Key, Bytes)>, Broken> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let mut settled: BTreeMap<Placed, Option<Bytes>> = BTreeMap::new();
        if last {
            settled.append(&mut self.kept);
            self.bytes = 0;
        } else if let Some((key, _content)) = read.last() {
            let upto = Placed(key.clone());
            let mut rest = self.kept.split_off(&upto);
            settled.append(&mut self.kept);
            settled.extend(rest.remove_entry(&upto));
            self.kept = rest;
            self.bytes -= settled
                .iter()
                .map(|(key, content)| weight(&key.0, content.as_ref()))
                .sum::<usize>();
        }
        if last {
            self.reached = Reached::Everything;
        } else if let Some((key, _content)) = read.last() {
            self.reached = Reached::Upto(Placed(key.clone()));
        }
        for (key, content) in read {
            settled.entry(Placed(key)).or_insert(content);
        }
        let there =
            |(key, content): (Placed, Option<Bytes>)| content.map(|content| (key.0, content));
        Ok(settled.into_iter().filter_map(there).collect())
    }
}

fn weight(key: &Key, content: Option<&Bytes>) -> usize {
    KEY_OVERHEAD_BYTES + key.as_str().len() + content.map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn some(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from(text))
    }

    fn texts(settled: Vec<(Key, Bytes)>) -> Vec<(String, Bytes)> {
        settled.into_iter().map(|(key, content)| (key.to_string(), content)).collect()
    }

    #[test]
    fn what_was_put_aside_counts_more_than_the_file() {
        let mut aside = Aside::new(None, 10_000);
        aside.keep(&key("a"), some("old"));
        aside.keep(&key("a"), some("not so old"));
        aside.keep(&key("b"), None);
        aside.keep(&key("c"), some("gone since"));
        aside.keep(&key("x"), some("later"));
        let read = vec![(key("a"), some("new")), (key("b"), some("made since")), (key("d"), None)];
        let settled = aside.settle(read, false).unwrap();
        let expected = [("a".to_owned(), "old".into()), ("c".to_owned(), "gone since".into())];
        assert_eq!(texts(settled), expected);
        assert!(!aside.wants(&key("b")) && aside.wants(&key("e")) && !aside.wants(&key("x")));
        let settled = aside.settle(vec![], true).unwrap();
        assert_eq!(texts(settled), [("x".to_owned(), "later".into())]);
        assert!(!aside.wants(&key("z")));
        assert_eq!(aside.bytes, 0);
    }

    #[test]
    fn too_much_breaks_the_view_and_frees_what_was_kept() {
        let mut aside = Aside::new(None, 1000);
        aside.keep(&key("a"), Some(vec![0; 600].into()));
        assert!(aside.wants(&key("b")));
        aside.keep(&key("b"), Some(vec![0; 600].into()));
        assert!(!aside.wants(&key("c")) && aside.kept.is_empty());
        assert_eq!(aside.settle(vec![], true), Err(Broken::Outrun));
    }

    #[test]
    fn other_groups_do_not_matter() {
        let aside = Aside::new(Group::named("config"), 1000);
        assert!(aside.wants(&key("config/cluster")) && !aside.wants(&key("queue/serial")));
    }
}
