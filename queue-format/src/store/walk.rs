//! A walk through the directories that meets every key once, in the order of [`Placed`] keys.
//!
//! A directory is listed when the walk gets to it, so no more names are in memory than those of the
//! directories on the way to one key.
//!
//! [`Placed`]: crate::key::Placed

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::FileError;
use crate::digest::Group;
use crate::disk::{Disk, Name};
use crate::key::Key;

/// The place of a walk.
#[derive(Debug)]
pub(crate) struct Walk {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// Only the keys of this group, if there is one.
    group: Option<Group>,
    /// The directories on the way, each with the names that are not met yet.
    stack: Vec<(String, std::vec::IntoIter<Name>)>,
}

impl Walk {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        root: &Path,
        group: Option<Group>,
    ) -> Result<Self, FileError> {
        let mut walk = Self { disk, root: root.to_owned(), group, stack: Vec::new() };
        walk.enter("")?;
        Ok(walk)
    }

    /// The next key that has a file; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Key>, FileError> {
        while let Some((directory, names)) = self.stack.last_mut() {
            let Some(name) = names.next() else {
                self.stack.pop();
                continue;
            };
            let text = match directory.as_str() {
                "" => name.name,
                _ => format!("{directory}/{}", name.name),
            };
            // Temporaries and the store's own files cannot be keys.
            let Ok(key) = Key::parse(&text) else { continue };
            let group = self.group.as_ref();
            if !name.is_directory {
                if group.is_none_or(|group| group.holds(&key)) {
                    return Ok(Some(key));
                }
            } else if group.is_none_or(|group| group.enters(&key)) {
                self.enter(key.as_str())?;
            }
        }
        Ok(None)
    }

    fn enter(&mut self, directory: &str) -> Result<(), FileError> {
        let path = self.root.join(directory);
        let mut names = match self.disk.list(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(FileError::Read { path, error }),
        };
        let place = |name: &Name| (name.is_directory, name.name.clone());
        names.sort_by_cached_key(place);
        // A name that is renamed over meanwhile may be listed twice.
        names.dedup_by(|one, other| one.name == other.name);
        self.stack.push((directory.to_owned(), names.into_iter()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::key::Placed;

    fn met(disk: &SimDisk, group: Option<&str>) -> Vec<String> {
        let group = group.map(|name| Group::named(name).unwrap());
        let mut walk = Walk::new(Arc::new(disk.clone()), Path::new("/data"), group).unwrap();
        let mut keys = Vec::new();
        while let Some(key) = walk.next().unwrap() {
            keys.push(key);
        }
        assert!(keys.windows(2).all(|pair| Placed(pair[0].clone()) < Placed(pair[1].clone())));
        keys.iter().map(Key::to_string).collect()
    }

    #[test]
    fn every_key_is_met_once_and_nothing_else() {
        let root = Path::new("/data");
        let disk = SimDisk::with_root(root);
        for name in
            [".tmp", "journal", "node", "queue", "queue/archive", "queue/archive/0", "queue-b"]
        {
            disk.make_directory(&root.join(name)).unwrap();
        }
        let keys = ["ipam", "queue/job-2", "queue/serial", "queue/archive/0/job-1", "queue-b/x"];
        let others = ["store.json", "incoming", "journal/segment-0", "node/owner", "queue/lock"];
        for name in keys.iter().chain(&others).chain(&[".tmp/1", "queue/.job-2.swp"]) {
            disk.create(&root.join(name), b"").unwrap();
        }
        assert_eq!(met(&disk, None), keys);
        assert_eq!(met(&disk, Some("queue")), keys[1..3]);
        assert_eq!(met(&disk, Some("queue/archive")), keys[3..4]);
        assert_eq!(met(&disk, Some("ipam")), keys[..1]);
        assert_eq!(met(&disk, Some("machines")), Vec::<String>::new());
    }
}
