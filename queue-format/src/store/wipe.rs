//! Wiping a store: what a node held that is a member no more.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::aside::{self, ASIDE};
use super::header;
use super::open::LOCK;
use crate::disk::real::RealDisk;
use crate::disk::{Disk as _, Locked};

/// The name that the header gets first. No key begins with a dot, and a directory without a header is no
/// store. From then on nothing in it counts, and the next attempt wipes what is left.
const MARKER: &str = ".wiped-store.json";

/// Entries in the directory of a store that do not belong to the store.
const NEIGHBOURS: [&str; 4] = ["node", "ssconf", ASIDE, "lost+found"];

/// A store that was not wiped, or not to the end.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot wipe or move the store, at `{path}`; mend what is in the way, and it goes on by itself"
)]
pub struct WipeError {
    /// The path that could not be wiped or moved.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// Removes the store in `root` with all that it holds, which may be done again where it was
/// interrupted. Nothing happens where there is none.
///
/// # Errors
/// The store is in use, or something cannot be removed.
pub fn wipe(root: &Path) -> Result<(), WipeError> {
    let failed = WipeError::of;
    aside::finish(root)?;
    let (header, marker) = (root.join(header::NAME), root.join(MARKER));
    if exists(&header)? {
        let disk = RealDisk::new(root.to_owned(), 0, 0);
        let _held = lock(root)?;
        disk.rename_new(&header, &marker).map_err(failed(&header))?;
        disk.sync_directory(root).map_err(failed(root))?;
        return remove_marked(root);
    }
    finish_wipe(root)
}

/// Removes what an interrupted [`wipe`] left in `root`; a store that is none such stays.
///
/// # Errors
/// Something cannot be removed.
pub fn finish_wipe(root: &Path) -> Result<(), WipeError> {
    aside::finish(root)?;
    if !exists(&root.join(MARKER))? || exists(&root.join(header::NAME))? {
        return Ok(());
    }
    let _held = lock(root)?;
    remove_marked(root)
}

/// Whether a store below `root` is on its way out.
pub(super) fn is_going(root: &Path) -> bool {
    root.join(MARKER).exists() || aside::is_moving(root)
}

fn remove_marked(root: &Path) -> Result<(), WipeError> {
    let failed = WipeError::of;
    let (disk, marker) = (RealDisk::new(root.to_owned(), 0, 0), root.join(MARKER));
    for entry in fs::read_dir(root).map_err(failed(root))? {
        let entry = entry.map_err(failed(root))?;
        let name = entry.file_name();
        if name == MARKER || is_neighbour(&name) {
            continue;
        }
        let path = entry.path();
        let is_directory = entry.file_type().map_err(failed(&path))?.is_dir();
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed(&path))?;
    }
    fs::remove_file(&marker).map_err(failed(&marker))?;
    disk.sync_directory(root).map_err(failed(root))
}

impl WipeError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, error }
    }
}

/// Takes the lock of a store that is about to go; none where an interrupted attempt came that far.
pub(super) fn lock(root: &Path) -> Result<Option<Box<dyn Locked>>, WipeError> {
    let lock = root.join(LOCK);
    match RealDisk::new(root.to_owned(), 0, 0).lock(&lock) {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(WipeError::of(&lock)(error)),
    }
}

pub(super) fn is_neighbour(name: &OsStr) -> bool {
    NEIGHBOURS.iter().any(|neighbour| name == *neighbour)
}

pub(super) fn exists(path: &Path) -> Result<bool, WipeError> {
    path.try_exists().map_err(|error| WipeError { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AtRest, Callbacks, Store, StoreOptions};
    use crate::{Change, Epoch, Key};

    fn store(root: &Path) -> Store {
        let options = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
        Store::open(root, options).unwrap()
    }

    #[test]
    fn everything_goes_but_the_agents_files_and_a_store_in_use_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        wipe(root).unwrap();
        fs::create_dir(root.join("node")).unwrap();
        let committer = store(root)
            .start(Epoch { term: 1, node: 1 }, Callbacks::new(|_: Vec<()>, _| {}))
            .unwrap();
        let key = Key::parse("config/authority").unwrap();
        committer.submit(vec![Change::Put { key, content: "secret".into() }], ()).unwrap();
        assert!(wipe(root).is_err());
        committer.close().unwrap();
        assert!(root.join("config/authority").exists());
        wipe(root).unwrap();
        let left: Vec<_> = fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["node"]);
        assert!(store(root).recovered().created);
    }

    #[test]
    fn what_was_not_to_go_stays_where_an_attempt_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let made = store(dir.path()).recovered().incarnation;
        finish_wipe(dir.path()).unwrap();
        assert_eq!(AtRest::read(dir.path()).unwrap().unwrap().incarnation, made);
    }

    #[test]
    fn an_interrupted_attempt_leaves_no_store_and_is_finished_by_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        drop(store(root));
        let disk = RealDisk::new(root.to_owned(), 0, 0);
        disk.rename_new(&root.join(header::NAME), &root.join(MARKER)).unwrap();
        assert!(AtRest::read(root).unwrap().is_none());
        fs::remove_dir_all(root.join("queue")).unwrap();
        finish_wipe(root).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }
}
