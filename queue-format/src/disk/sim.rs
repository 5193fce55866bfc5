//! A disk in memory that forgets.
//!
//! It keeps apart what was written and what is durable. Names become durable in the order in which they
//! changed, as in file systems with a journal. Contents become durable only by their own fsync, sector
//! by sector in any order. The world ends between any two operations by [`SimDisk::stop_after`];
//! [`SimDisk::crash`] gives the disk as one possible next boot finds it.
#![expect(clippy::unwrap_used, reason = "a simulation that is wrong ends")]

mod opened;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::opened::{Growing, Segment};
use super::{Disk, GrowingFile, Locked, Name, SegmentFile};

/// Bytes that a disk writes whole.
const SECTOR: usize = 512;

/// A repeatable source of chance.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The chances of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`, zero if that is zero.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

/// How a stop looks to the operation that meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was not begun.
    Before,
    /// It was done, but its caller never learns.
    After,
}

/// An error that operations meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The system's error, as `EIO` or `ENOSPC`.
    pub errno: rustix::io::Errno,
    /// Whether the operation was done all the same.
    pub done: bool,
    /// So many operations meet it, one after the other.
    pub times: usize,
}

/// The data that the next boot finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All that was written: only the process died. Data that was not durable still is not.
    Nothing,
    /// Whatever was not durable may be lost or torn.
    PowerCut,
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// A flush has failed: what was written is taken for clean, and no later flush writes it.
    forgotten: bool,
}

impl Content {
    fn flush(&mut self) {
        if !self.forgotten {
            self.durable = self.now.clone();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(u64),
    Directory,
}

/// Names that change together, as a rename does.
type NameChange = Vec<(PathBuf, Option<Node>)>;

#[derive(Debug, Clone, Default)]
struct World {
    contents: HashMap<u64, Content>,
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    unsynced: Vec<NameChange>,
    next_file: u64,
    next_temporary: u64,
    operations: usize,
    stop: Option<(usize, Stop)>,
    fault: Option<(usize, Fault)>,
    full: bool,
}

/// A disk; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<World>>);

fn stopped() -> io::Error {
    io::Error::other("the world ended")
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
}

impl SimDisk {
    /// A disk with this one, durable, directory.
    pub(crate) fn with_root(root: &Path) -> Self {
        let disk = Self::default();
        let mut world = disk.0.lock();
        for path in root.ancestors() {
            world.names.insert(path.to_owned(), Node::Directory);
        }
        world.durable_names = world.names.clone();
        drop(world);
        disk
    }

    /// Changing operations so far.
    pub fn operations(&self) -> usize {
        self.0.lock().operations
    }

    /// Lets `operations` more changing operations happen; the next one meets the stop and
    /// everything after it fails.
    pub fn stop_after(&self, operations: usize, stop: Stop) {
        let mut world = self.0.lock();
        world.stop = Some((world.operations + operations, stop));
    }

    /// Takes a stop back that was not met.
    pub fn go_on(&self) {
        let mut world = self.0.lock();
        let operations = world.operations;
        world.stop = world.stop.filter(|(at, _stop)| *at < operations);
    }

    /// Lets `operations` more changing operations happen; the next ones meet the fault.
    pub fn fail_after(&self, operations: usize, fault: Fault) {
        let mut world = self.0.lock();
        world.fault = Some((world.operations + operations, fault));
    }

    /// Whether an operation met the fault.
    pub fn has_failed(&self) -> bool {
        let world = self.0.lock();
        world.fault.is_some_and(|(at, _fault)| world.operations > at)
    }

    /// Whether the stop was met.
    pub fn is_stopped(&self) -> bool {
        let world = self.0.lock();
        world.stop.is_some_and(|(at, _stop)| world.operations > at)
    }

    /// No room for new files until set back.
    pub fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }

    /// Whether there is no room for new files.
    pub fn is_full(&self) -> bool {
        self.0.lock().full
    }

    /// The disk as the next boot finds it.
    pub fn crash(&self, loss: Loss, chance: &mut Chance) -> Self {
        let mut world = self.0.lock().clone();
        world.stop = None;
        world.fault = None;
        for content in world.contents.values_mut() {
            content.forgotten = false;
        }
        if loss == Loss::PowerCut {
            let kept = chance.below(world.unsynced.len() + 1);
            for change in world.unsynced.drain(..).take(kept) {
                apply(&mut world.durable_names, &change);
            }
            world.names = world.durable_names.clone();
            let mut files: Vec<_> = world.contents.iter_mut().collect();
            files.sort_by_key(|(file, _content)| **file);
            for (_file, content) in files {
                content.now = torn(content, chance);
            }
            world.unsynced.clear();
            world.durable_names = world.names.clone();
            for content in world.contents.values_mut() {
                content.durable = content.now.clone();
            }
        }
        Self(Arc::new(Mutex::new(world)))
    }

    /// Changes bytes behind everyone's back.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.0.lock();
        let Some(Node::File(file)) = world.names.get(path).copied() else {
            panic!("{} is no file", path.display());
        };
        let content = world.contents.get_mut(&file).unwrap();
        change(&mut content.now);
        content.durable = content.now.clone();
    }

    /// Counts the operation; an error when the world has ended or ends before it.
    fn change<T>(&self, operation: impl FnOnce(&mut World) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.0.lock();
        let at = world.operations;
        world.operations += 1;
        if let Some((first, fault)) = world.fault
            && (first..first.saturating_add(fault.times)).contains(&at)
        {
            if fault.done {
                drop(operation(&mut world));
            }
            return Err(fault.errno.into());
        }
        match world.stop {
            Some((stop, Stop::After)) if stop == at => {
                drop(operation(&mut world));
                Err(stopped())
            }
            Some((stop, _)) if stop <= at => Err(stopped()),
            _ => operation(&mut world),
        }
    }

    fn flush(&self, file: u64) -> io::Result<()> {
        let flushed = self.change(|world| {
            world.contents.get_mut(&file).unwrap().flush();
            Ok(())
        });
        if flushed.is_err() {
            self.0.lock().contents.get_mut(&file).unwrap().forgotten = true;
        }
        flushed
    }

    fn look<T>(&self, operation: impl FnOnce(&World) -> io::Result<T>) -> io::Result<T> {
        let world = self.0.lock();
        match world.stop {
            Some((stop, _)) if stop < world.operations => Err(stopped()),
            _ => operation(&world),
        }
    }

    fn temporary(&self, content: &[u8], durable: bool) -> io::Result<PathBuf> {
        let path = self.change(|world| {
            if world.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let path = PathBuf::from(format!("/data/.tmp/{}", world.next_temporary));
            world.next_temporary += 1;
            world.add_file(&path, content)?;
            Ok(path)
        })?;
        if durable {
            self.sync_files(std::slice::from_ref(&path))?;
        }
        Ok(path)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.change(|world| {
            let node = world.names.get(from).copied().ok_or_else(|| missing(from))?;
            world.check_directory(to)?;
            if !replace && world.names.contains_key(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.rename(vec![(from.to_owned(), None), (to.to_owned(), Some(node))]);
            Ok(())
        })
    }
}

/// The content after a power cut: any mix of old and new sectors, of the old or the new length. A new
/// block that was allocated but never written has zeros.
fn torn(content: &Content, chance: &mut Chance) -> Vec<u8> {
    if content.now == content.durable {
        return content.now.clone();
    }
    let length = [content.now.len(), content.durable.len()][chance.below(2)];
    let mut bytes = vec![0; length];
    for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
        let source = [&content.now, &content.durable][chance.below(2)];
        let start = (number * SECTOR).min(source.len());
        let end = (start + sector.len()).min(source.len());
        sector[..end - start].copy_from_slice(&source[start..end]);
    }
    bytes
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
    for (path, node) in change {
        match node {
            Some(node) => names.insert(path.clone(), *node),
            None => names.remove(path),
        };
    }
}

impl World {
    fn rename(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.unsynced.push(change);
    }

    fn check_directory(&self, path: &Path) -> io::Result<()> {
        match path.parent().and_then(|parent| self.names.get(parent)) {
            Some(Node::Directory) => Ok(()),
            _ => Err(missing(path)),
        }
    }

    fn add_file(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.check_directory(path)?;
        let file = self.next_file;
        self.next_file += 1;
        self.contents.insert(file, Content { now: content.to_vec(), ..Content::default() });
        self.rename(vec![(path.to_owned(), Some(Node::File(file)))]);
        Ok(())
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(file)) => Ok(*file),
            _ => Err(missing(path)),
        }
    }
}

#[derive(Debug)]
struct Lock;

impl Locked for Lock {}

impl Disk for SimDisk {
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Locked>> {
        self.change(|world| {
            if world.names.contains_key(path) { Ok(()) } else { world.add_file(path, b"1\n") }
        })?;
        Ok(Box::new(Lock))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.change(|world| {
            world.check_directory(path)?;
            if world.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.rename(vec![(path.to_owned(), Some(Node::Directory))]);
            Ok(())
        })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Name>> {
        self.look(|world| {
            world.names.get(directory).ok_or_else(|| missing(directory))?;
            let below = world.names.iter().filter(|(path, _)| path.parent() == Some(directory));
            Ok(below
                .map(|(path, node)| Name {
                    name: path.file_name().unwrap().to_str().unwrap().to_owned(),
                    is_directory: *node == Node::Directory,
                })
                .collect())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.look(|world| Ok(world.contents[&world.file(path)?].now.clone()))
    }

    fn read_slowly(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.read(path)?)))
    }

    fn begin(&self, path: &Path) -> io::Result<Box<dyn GrowingFile>> {
        let file = self.change(|world| {
            if world.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if world.names.contains_key(path) {
                world.rename(vec![(path.to_owned(), None)]);
            }
            world.add_file(path, b"")?;
            world.file(path)
        })?;
        Ok(Box::new(Growing { disk: self.clone(), file }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.look(|world| Ok(world.names.contains_key(path)))
    }

    fn create(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.change(|world| {
            if world.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if world.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.add_file(path, content)
        })
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.temporary(content, false)?;
        self.rename(&temporary, path, true)
    }

    fn replace_synced(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.temporary(content, true)?;
        self.rename(&temporary, path, true)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to, false)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|world| {
            world.file(path)?;
            world.rename(vec![(path.to_owned(), None)]);
            Ok(())
        })
    }

    fn sync_files(&self, paths: &[PathBuf]) -> io::Result<()> {
        for path in paths {
            let file = self.0.lock().file(path);
            if let Ok(file) = file {
                self.flush(file)?;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.change(|world| {
            let touches =
                |change: &NameChange| change.iter().any(|(p, _)| p.parent() == Some(path));
            let count = world.unsynced.iter().rposition(touches).map_or(0, |last| last + 1);
            for change in world.unsynced.drain(..count).collect::<Vec<_>>() {
                apply(&mut world.durable_names, &change);
            }
            Ok(())
        })
    }

    fn make_segment(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(bytes).unwrap()];
        let temporary = self.temporary(&zeros, true)?;
        self.rename(&temporary, path, true)?;
        self.sync_directory(path.parent().unwrap())
    }

    fn open_segment(&self, path: &Path) -> io::Result<(Box<dyn SegmentFile>, u64)> {
        let file = self.look(|world| world.file(path))?;
        let bytes = u64::try_from(self.read(path)?.len()).unwrap();
        Ok((Box::new(Segment { disk: self.clone(), file }), bytes))
    }
}
