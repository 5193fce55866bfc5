//! Keeping a store aside: what a member held whose history was cut, for people to look at.
//!
//! The whole store moves to a directory of its own beside the new one, where it is a store again. Its
//! header goes first, under a name that says where to. From then on there is no store in the data
//! directory, and a process that finds that name moves the rest.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::header;
use super::open::LOCK;
use super::wipe::{WipeError, exists, is_neighbour, lock};
use crate::disk::Disk as _;
use crate::disk::real::RealDisk;
use crate::key::Key;

/// Directory of what is kept aside, below the data directory.
pub const ASIDE: &str = "aside";

/// Stores that are kept aside on one node; the oldest go. One is the rule, each is the size of a
/// store, and who does not look for so many overrides is not going to.
pub const ASIDE_MAX: usize = 3;

/// Why a store was kept, beside it.
const REASON: &str = "REASON";

/// The directory of documents that only the log of the store has: nobody told it that they are
/// committed.
const TAIL: &str = "tail";

/// The start of the header's name while the rest is moved; the name of the directory follows.
const MOVING: &str = ".aside-";

/// Only the owner may look: the authority's key is among it.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A store that was not kept aside, or not to the end.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store cannot be kept aside, at `{path}`; it stays until what is in the way is mended, and is tried \
     again"
)]
pub struct AsideError {
    /// The path that resisted.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

impl From<WipeError> for AsideError {
    fn from(WipeError { path, error }: WipeError) -> Self {
        Self { path, error }
    }
}

/// Moves the store in `root` to `aside/NAME` below it, with a file that says why; gives that directory.
/// The documents of `tail`, which only the log has, go below `tail`. Nothing happens where there is no
/// store. An interrupted move is finished first.
///
/// Names are to sort by age: of more than [`ASIDE_MAX`], the first ones are removed.
///
/// # Errors
/// The store is in use, or something cannot be moved; the next attempt goes on from there.
pub fn keep_aside(
    root: &Path,
    (name, reason): (&str, &str),
    tail: &BTreeMap<Key, Bytes>,
) -> Result<Option<PathBuf>, AsideError> {
    Ok(put_aside(root, (name, reason), tail)?)
}

fn put_aside(
    root: &Path,
    (name, reason): (&str, &str),
    tail: &BTreeMap<Key, Bytes>,
) -> Result<Option<PathBuf>, WipeError> {
    finish(root)?;
    let header = root.join(header::NAME);
    if !exists(&header)? {
        return Ok(None);
    }
    let held = lock(root)?;
    let all = root.join(ASIDE);
    let kept = all.join(name);
    if let Err(error) = prepare(root, (&kept, reason), tail) {
        give_up(&kept);
        return Err(error);
    }
    let disk = disk(root);
    let moving = root.join(format!("{MOVING}{name}"));
    if let Err(error) = rename(&header, &moving) {
        give_up(&kept);
        return Err(error);
    }
    disk.sync_directory(root).map_err(WipeError::of(root))?;
    move_all(root, &moving, &kept)?;
    drop(held);
    remove_oldest(&all)?;
    Ok(Some(kept))
}

/// Removes everything that was kept aside in `root`.
///
/// # Errors
/// Something cannot be removed.
pub fn wipe_aside(root: &Path) -> Result<(), WipeError> {
    let all = root.join(ASIDE);
    match fs::remove_dir_all(&all) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(WipeError::of(&all)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes what was begun: the next attempt has a name of its own.
fn give_up(kept: &Path) {
    match fs::remove_dir_all(kept) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %kept.display(), %error, "what was begun to be kept aside stays");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Makes the directory that is to become a store, with what is beside that.
fn prepare(
    root: &Path,
    (kept, reason): (&Path, &str),
    tail: &BTreeMap<Key, Bytes>,
) -> Result<(), WipeError> {
    let all = root.join(ASIDE);
    make_directory(&all)?;
    make_directory(kept)?;
    write(&kept.join(REASON), format!("{reason}\n").as_bytes())?;
    write_tail(&kept.join(TAIL), tail)?;
    let disk = disk(root);
    for directory in [kept, &all] {
        disk.sync_directory(directory).map_err(WipeError::of(directory))?;
    }
    Ok(())
}

/// Moves the rest of a store whose move was interrupted.
pub(super) fn finish(root: &Path) -> Result<(), WipeError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(WipeError::of(root)(error)),
    };
    for entry in entries {
        let name = entry.map_err(WipeError::of(root))?.file_name();
        let Some(to) = name.to_str().and_then(|name| name.strip_prefix(MOVING)) else { continue };
        move_all(root, &root.join(&name), &root.join(ASIDE).join(to))?;
    }
    Ok(())
}

/// Whether a store below `root` is being moved aside.
pub(super) fn is_moving(root: &Path) -> bool {
    let names = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_str().is_some_and(|name| name.starts_with(MOVING)))
}

/// Moves everything that is the store's, and at the end its header, which makes it a store again.
fn move_all(root: &Path, moving: &Path, kept: &Path) -> Result<(), WipeError> {
    let disk = disk(root);
    for entry in fs::read_dir(root).map_err(WipeError::of(root))? {
        let entry = entry.map_err(WipeError::of(root))?;
        let (name, path) = (entry.file_name(), entry.path());
        if path != *moving && !is_neighbour(&name) {
            rename(&path, &kept.join(&name))?;
        }
    }
    // Of this process, or of one that is gone.
    match fs::remove_file(kept.join(LOCK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(WipeError::of(kept)(error));
        }
        Err(_) | Ok(()) => {}
    }
    let sync = |path: &Path| disk.sync_directory(path).map_err(WipeError::of(path));
    sync(kept)?;
    rename(moving, &kept.join(header::NAME))?;
    sync(kept)?;
    sync(root)
}

fn remove_oldest(all: &Path) -> Result<(), WipeError> {
    let entries = fs::read_dir(all).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        entries.map_err(WipeError::of(all))?.iter().map(fs::DirEntry::path).collect();
    // A directory that somebody else put there is not ours.
    paths.retain(|path| path.join(REASON).exists());
    // An attempt that was interrupted before it moved anything.
    for begun in paths.extract_if(.., |path| !path.join(header::NAME).exists()) {
        give_up(&begun);
    }
    paths.sort();
    let surplus = paths.len().saturating_sub(ASIDE_MAX);
    for path in paths.iter().take(surplus) {
        tracing::warn!(path = %path.display(), "the oldest store that was kept aside is removed");
        fs::remove_dir_all(path).map_err(WipeError::of(path))?;
    }
    Ok(())
}

fn write_tail(directory: &Path, tail: &BTreeMap<Key, Bytes>) -> Result<(), WipeError> {
    for (key, content) in tail {
        let path = directory.join(key.as_str());
        let parent = path.parent().unwrap_or(directory);
        let made = DirBuilder::new().mode(DIRECTORY_MODE).recursive(true).create(parent);
        made.map_err(WipeError::of(parent))?;
        write(&path, content)?;
    }
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<(), WipeError> {
    let written = || {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(FILE_MODE);
        let mut file = options.open(path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    written().map_err(WipeError::of(path))
}

/// Renames what must not replace anything.
fn rename(from: &Path, to: &Path) -> Result<(), WipeError> {
    let renamed = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
    renamed.map_err(|errno| WipeError::of(from)(errno.into()))
}

fn make_directory(path: &Path) -> Result<(), WipeError> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(WipeError::of(path)(error)),
        Err(_) | Ok(()) => Ok(()),
    }
}

fn disk(root: &Path) -> RealDisk {
    RealDisk::new(root.to_owned(), 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AtRest, Callbacks, Store, StoreOptions, wipe};
    use crate::{Change, Epoch};

    fn options() -> StoreOptions {
        StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() }
    }

    fn key() -> Key {
        Key::parse("config/authority").unwrap()
    }

    /// A store that holds one document.
    fn make(root: &Path) {
        let store = Store::open(root, options()).unwrap();
        let epoch = Epoch { term: 1, node: 1 };
        let committer = store.start(epoch, Callbacks::new(|_: Vec<()>, _| {})).unwrap();
        committer.submit(vec![Change::Put { key: key(), content: "secret".into() }], ()).unwrap();
        committer.close().unwrap();
    }

    fn tail() -> BTreeMap<Key, Bytes> {
        let key = |name: &str| Key::parse(name).unwrap();
        [(key("queue/job-7"), "late".into()), (key("ipam"), "x".into())].into()
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn assert_kept(kept: &Path) {
        assert_eq!(fs::read_to_string(kept.join(REASON)).unwrap(), "cut\n");
        let store = Store::open(kept, options()).unwrap();
        assert_eq!(store.read(&key()).unwrap().as_deref(), Some(&b"secret"[..]));
    }

    #[test]
    fn what_is_kept_aside_is_a_store_and_survives_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(keep_aside(root, ("1-member-2", "cut"), &tail()).unwrap(), None);
        make(root);
        fs::create_dir(root.join("node")).unwrap();
        let kept = keep_aside(root, ("1-member-2", "cut"), &tail()).unwrap().unwrap();
        assert_eq!(kept, root.join("aside/1-member-2"));
        assert_eq!(names(root), ["aside", "node"]);
        assert!(AtRest::read(root).unwrap().is_none());
        make(root);
        let all: Vec<_> = Store::open(root, options()).unwrap().scan("").unwrap().collect();
        assert_eq!(all.len(), 1, "what is kept aside is no key");
        wipe(root).unwrap();
        assert_eq!(names(root), ["aside", "node"]);
        assert_kept(&kept);
        assert_eq!(fs::read_to_string(kept.join("tail/queue/job-7")).unwrap(), "late");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what an interruption leaves")]
    fn a_move_is_finished_wherever_it_was_interrupted() {
        let whole = {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path());
            names(dir.path())
        };
        let parts: Vec<_> = whole.iter().filter(|name| *name != header::NAME).collect();
        for moved in 0..=parts.len() {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path();
            make(root);
            let kept = root.join("aside/1-member-2");
            fs::create_dir_all(&kept).unwrap();
            write(&kept.join(REASON), b"cut\n").unwrap();
            fs::rename(root.join(header::NAME), root.join(".aside-1-member-2")).unwrap();
            for name in &parts[..moved] {
                fs::rename(root.join(name), kept.join(name)).unwrap();
            }
            assert!(AtRest::read(root).unwrap().is_none());
            // As a start of the daemon does.
            wipe(root).unwrap();
            assert_eq!(names(root), ["aside"]);
            assert_kept(&kept);
        }
    }

    #[test]
    fn only_the_newest_are_kept_and_none_that_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for number in 1..=5 {
            make(root);
            let _kept =
                keep_aside(root, (&format!("{number}-member-2"), "cut"), &tail()).unwrap().unwrap();
        }
        assert_eq!(names(&root.join(ASIDE)), ["3-member-2", "4-member-2", "5-member-2"]);
        let open = Store::open(root, options()).unwrap();
        assert!(keep_aside(root, ("6-member-2", "cut"), &tail()).is_err());
        drop(open);
    }

    #[test]
    fn what_was_begun_goes_with_the_next_one_and_what_is_not_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        make(root);
        let begun = root.join("aside/1-member-2");
        fs::create_dir_all(&begun).unwrap();
        write(&begun.join(REASON), b"cut\n").unwrap();
        fs::create_dir(root.join("aside/notes")).unwrap();
        let _kept = keep_aside(root, ("2-member-2", "cut"), &tail()).unwrap().unwrap();
        assert_eq!(names(&root.join(ASIDE)), ["2-member-2", "notes"]);
        for _again in 0..2 {
            wipe_aside(root).unwrap();
            assert_eq!(names(root), Vec::<String>::new());
        }
    }

    #[test]
    fn an_attempt_that_fails_leaves_the_store_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        make(root);
        let before = names(root);
        // `ipam` is a document, so that no document can be below it.
        let key = |name: &str| Key::parse(name).unwrap();
        let broken = [(key("ipam"), "x".into()), (key("ipam/x"), "y".into())].into();
        assert!(keep_aside(root, ("1-member-2", "cut"), &broken).is_err());
        assert_eq!(names(&root.join(ASIDE)), Vec::<String>::new());
        let after: Vec<_> = names(root).into_iter().filter(|name| name != ASIDE).collect();
        assert_eq!(after, before);
        assert!(AtRest::read(root).unwrap().is_some());
    }
}
