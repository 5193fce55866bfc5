//! Core: which files and directories are written but not durable.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use foldhash::HashMap;

use crate::key::Key;

/// Keys whose file changed, and directories that got a directory.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    keys: HashMap<Key, Mark>,
    directories: BTreeSet<PathBuf>,
}

/// The change of a key.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The content must be made durable, not only the name.
    content: bool,
    /// The entry with the last change.
    index: u64,
}

impl Dirty {
    /// The key has a new content, from this entry.
    pub(crate) fn add_content(&mut self, key: &Key, index: u64) {
        self.add(key.clone(), Mark { content: true, index });
    }

    /// The name of the key came or went; a content that it got before goes with it.
    pub(crate) fn add_name(&mut self, key: &Key, index: u64) {
        self.add(key.clone(), Mark { content: false, index });
    }

    fn add(&mut self, key: Key, mark: Mark) {
        let known = self.keys.entry(key).or_insert(mark);
        known.content |= mark.content;
        known.index = known.index.max(mark.index);
    }

    /// The directory got another one.
    pub(crate) fn add_directory(&mut self, directory: PathBuf) {
        self.directories.insert(directory);
    }

    /// Whether the key is in here.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// Takes over what another set holds.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.keys.is_empty() && self.directories.is_empty() {
            *self = other;
            return;
        }
        for (key, mark) in other.keys {
            self.add(key, mark);
        }
        self.directories.extend(other.directories);
    }

    /// The files to sync, in order, so that one history always does the same; and then the directories.
    pub(crate) fn paths(&self, root: &Path) -> (Vec<PathBuf>, BTreeSet<PathBuf>) {
        let contents = self.keys.iter().filter(|(_key, mark)| mark.content);
        let mut files: Vec<PathBuf> =
            contents.map(|(key, _mark)| root.join(key.as_str())).collect();
        files.sort_unstable();
        let mut directories = self.directories.clone();
        let names: BTreeSet<&str> = self.keys.keys().map(Key::directory).collect();
        directories.extend(names.into_iter().map(|name| root.join(name)));
        (files, directories)
    }

    /// Everything in here is durable, and a checkpoint says so of the changes up to `index`. Later
    /// ones are still in the journal, so their keys stay.
    pub(crate) fn keep_after(&mut self, index: u64) {
        self.directories.clear();
        self.keys.retain(|_key, mark| mark.index > index);
        self.keys.values_mut().for_each(|mark| mark.content = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[test]
    fn contents_are_synced_once_and_each_directory_once() {
        let mut dirty = Dirty::default();
        dirty.add_content(&key("queue/job-1"), 1);
        dirty.add_content(&key("queue/job-1"), 2);
        dirty.add_name(&key("queue/job-1"), 3);
        let mut other = Dirty::default();
        other.add_name(&key("queue/archive/0/job-2"), 4);
        other.add_name(&key("ipam"), 5);
        other.add_directory("/d/queue".into());
        dirty.merge(other);
        let (files, directories) = dirty.paths(Path::new("/d"));
        assert_eq!(files, [PathBuf::from("/d/queue/job-1")]);
        let expected = ["/d", "/d/queue", "/d/queue/archive/0"].map(PathBuf::from);
        assert_eq!(directories.into_iter().collect::<Vec<_>>(), expected);
        assert!(dirty.has(&key("ipam")) && !dirty.has(&key("ipad")));
    }

    #[test]
    fn keys_that_changed_behind_the_checkpoint_stay_but_need_no_sync() {
        let mut dirty = Dirty::default();
        dirty.add_content(&key("a"), 1);
        dirty.add_content(&key("b"), 1);
        dirty.add_content(&key("b"), 3);
        dirty.keep_after(2);
        assert!(dirty.has(&key("b")) && !dirty.has(&key("a")));
        assert!(dirty.paths(Path::new("/d")).0.is_empty());
    }
}
