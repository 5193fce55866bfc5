//! The machine's file system.

mod whole;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Disk, GrowingFile, Locked, Name, SegmentFile};
use crate::key::mode_of;
use whole::Whole;

/// Threads that wait for fsyncs of a checkpoint. The file system merges the flushes of threads that wait
/// together. Small files, 10,000 of them, took 7.5 s one by one, 0.8 s on 16 threads, 0.7 s on 32.
const SYNC_THREADS: usize = 32;

/// Zeros are written in pieces of this size, so that a new segment needs little memory.
const ZERO_BYTES: usize = 1 << 20;

/// Bytes asked of the system at a time where a file is read piece by piece.
const READ_BYTES: usize = 1 << 18;

/// Files below one data directory, all on one file system.
#[derive(Debug)]
pub(crate) struct RealDisk {
    temporaries: PathBuf,
    whole: Whole,
    next_temporary: AtomicU64,
    file_mode: u32,
    directory_mode: u32,
    /// The umask took bits away from `file_mode`, so that each new file needs a chmod.
    umask_interferes: AtomicBool,
    /// The file system has no unnamed files.
    no_unnamed: AtomicBool,
    /// An open file gets a name only by way of `/proc`.
    named_by_proc: AtomicBool,
}

impl RealDisk {
    /// A disk that gives new files and directories these modes, and puts files that have no name
    /// yet into `temporaries`.
    pub(crate) fn new(temporaries: PathBuf, file_mode: u32, directory_mode: u32) -> Self {
        let whole = Whole::of(temporaries.parent().unwrap_or(Path::new(".")));
        Self {
            temporaries,
            whole,
            next_temporary: AtomicU64::new(0),
            file_mode,
            directory_mode,
            umask_interferes: AtomicBool::new(true),
            no_unnamed: AtomicBool::new(false),
            named_by_proc: AtomicBool::new(false),
        }
    }

    /// Mode bits of the file that has this path, or is to have it.
    fn mode(&self, path: &Path) -> u32 {
        let root = self.temporaries.parent().unwrap_or(Path::new("."));
        let key = path.strip_prefix(root).ok().and_then(Path::to_str);
        key.and_then(mode_of).unwrap_or(self.file_mode)
    }

    /// Gives a new file the mode asked for, whatever the umask; learns whether that is needed.
    fn set_mode(&self, file: &File, mode: u32) -> io::Result<()> {
        let usual = mode == self.file_mode;
        if usual && !self.umask_interferes.load(Ordering::Relaxed) {
            return Ok(());
        }
        if file.metadata()?.permissions().mode() & 0o7777 == mode {
            if usual {
                self.umask_interferes.store(false, Ordering::Relaxed);
            }
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(mode))
    }

    fn create_unnamed(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = self.mode(path);
        let bits = Mode::from_raw_mode(mode);
        let mut file = File::from(rustix::fs::openat(CWD, directory, flags, bits)?);
        self.set_mode(&file, mode)?;
        file.write_all(content)?;
        self.give_name(&file, path)
    }

    /// Gives an unnamed file its name. Kernels before 6.10 do that without the way by `/proc` only
    /// for who may read everything; for others they say that there is no such file.
    fn give_name(&self, file: &File, path: &Path) -> io::Result<()> {
        if !self.named_by_proc.load(Ordering::Relaxed) {
            match rustix::fs::linkat(file, "", CWD, path, AtFlags::EMPTY_PATH) {
                Err(Errno::NOENT) => {}
                named => return Ok(named?),
            }
        }
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        self.named_by_proc.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A new file with content in the directory of temporaries, which is to become `target`.
    fn temporary(&self, target: &Path, content: &[u8], durable: bool) -> io::Result<PathBuf> {
        let mode = self.mode(target);
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let path = self.temporaries.join(number.to_string());
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path)?;
        let written = self
            .set_mode(&file, mode)
            .and_then(|()| file.write_all(content))
            .and_then(|()| if durable { file.sync_all() } else { Ok(()) });
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                drop(std::fs::remove_file(&path));
                Err(error)
            }
        }
    }

    fn place(&self, temporary: &Path, path: &Path, flags: RenameFlags) -> io::Result<()> {
        let placed = rustix::fs::renameat_with(CWD, temporary, CWD, path, flags);
        if placed.is_err() {
            // The error that matters is the first; a leftover is removed at the next start.
            drop(std::fs::remove_file(temporary));
        }
        Ok(placed?)
    }
}

impl Disk for RealDisk {
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Locked>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(self.file_mode)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner)?;
                return Err(io::Error::new(io::ErrorKind::WouldBlock, owner.trim().to_owned()));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(Box::new(LockFile { _file: file }))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(self.directory_mode).create(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(self.directory_mode))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let is_directory = entry.file_type()?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                names.push(Name { name, is_directory });
            }
        }
        Ok(names)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn read_slowly(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, File::open(path)?)))
    }

    fn begin(&self, path: &Path) -> io::Result<Box<dyn GrowingFile>> {
        let temporary = self.temporary(path, &[], false)?;
        let file = OpenOptions::new().append(true).open(&temporary)?;
        self.place(&temporary, path, RenameFlags::empty())?;
        Ok(Box::new(Growing(file)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        if !self.no_unnamed.load(Ordering::Relaxed) {
            match self.create_unnamed(path, content) {
                Err(error) if lacks_unnamed_files(&error) => {
                    self.no_unnamed.store(true, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        let temporary = self.temporary(path, content, false)?;
        self.place(&temporary, path, RenameFlags::NOREPLACE)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.temporary(path, content, false)?;
        self.place(&temporary, path, RenameFlags::empty())
    }

    fn replace_synced(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.temporary(path, content, true)?;
        self.place(&temporary, path, RenameFlags::empty())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.mode(from) != self.mode(to) {
            std::fs::set_permissions(from, Permissions::from_mode(self.mode(to)))?;
        }
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_files(&self, paths: &[PathBuf]) -> io::Result<()> {
        if self.whole.flush(paths.len()) {
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        let threads = SYNC_THREADS.min(paths.len());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| -> io::Result<()> {
                        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                            sync_file(path)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_panic| Err(io::Error::other("fsync panicked")))
            })
        })
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn make_segment(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let temporary = self.temporary(path, &[], false)?;
        let filled = fill_with_zeros(&temporary, bytes);
        if filled.is_err() {
            drop(std::fs::remove_file(&temporary));
        }
        filled?;
        self.place(&temporary, path, RenameFlags::empty())?;
        self.sync_directory(path.parent().unwrap_or(Path::new(".")))
    }

    fn open_segment(&self, path: &Path) -> io::Result<(Box<dyn SegmentFile>, u64)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let found = file.metadata()?;
        let mode = self.mode(path);
        if found.permissions().mode() & 0o7777 != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        let bytes = found.len();
        Ok((Box::new(Segment(file)), bytes))
    }
}

fn lacks_unnamed_files(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)
    )
}

fn sync_file(path: &Path) -> io::Result<()> {
    let file: OwnedFd =
        match rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => file,
            // Renamed or removed since: the journal knows, and the directory is synced as well.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
    Ok(rustix::fs::fdatasync(&file)?)
}

fn fill_with_zeros(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let zeros = vec![0; ZERO_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let rest = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(ZERO_BYTES);
        file.write_all_at(&zeros[..rest], offset)?;
        offset += u64::try_from(rest).expect("a piece is 1 MiB at most");
    }
    file.sync_all()
}

#[derive(Debug)]
struct LockFile {
    _file: File,
}

impl Locked for LockFile {}

#[derive(Debug)]
struct Growing(File);

impl GrowingFile for Growing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[derive(Debug)]
struct Segment(File);

impl SegmentFile for Segment {
    fn write_durably(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)?;
        self.0.sync_data()?;
        // A file without a name takes everything, and holds it for nobody.
        if self.0.metadata()?.nlink() == 0 {
            return Err(io::Error::other("the file was removed while it was in use"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(mode: u32) -> (tempfile::TempDir, RealDisk) {
        let dir = tempfile::tempdir().unwrap();
        let temporaries = dir.path().join(".tmp");
        std::fs::create_dir(&temporaries).unwrap();
        (dir, RealDisk::new(temporaries, mode, 0o750))
    }

    #[test]
    fn new_and_existing_names_get_content_and_mode() {
        for (no_unnamed, named_by_proc) in [(false, false), (false, true), (true, false)] {
            let (dir, disk) = disk(0o666);
            disk.no_unnamed.store(no_unnamed, Ordering::Relaxed);
            disk.named_by_proc.store(named_by_proc, Ordering::Relaxed);
            let path = dir.path().join("a");
            disk.create(&path, b"one").unwrap();
            let taken = disk.create(&path, b"two").unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(disk.read(&path).unwrap(), b"one");
            disk.replace(&path, b"three").unwrap();
            assert_eq!(disk.read(&path).unwrap(), b"three");
            // 0o666 is cut by any usual umask, and restored.
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o666);
            assert_eq!(disk.list(&dir.path().join(".tmp")).unwrap(), []);
        }
    }

    #[test]
    fn what_is_secret_is_for_the_owner_alone_however_it_comes() {
        for no_unnamed in [false, true] {
            let (dir, disk) = disk(0o644);
            disk.no_unnamed.store(no_unnamed, Ordering::Relaxed);
            let mode = |name: &str| {
                let found = std::fs::metadata(dir.path().join(name)).unwrap();
                found.permissions().mode() & 0o777
            };
            let at = |name: &str| dir.path().join(name);
            disk.make_directory(&at("config")).unwrap();
            disk.make_directory(&at("journal")).unwrap();
            let authority = at("config/authority");
            disk.create(&authority, b"key").unwrap();
            assert_eq!(mode("config/authority"), 0o600);
            disk.replace(&authority, b"key").unwrap();
            assert_eq!(mode("config/authority"), 0o600);
            disk.remove(&authority).unwrap();
            disk.create(&at("config/cluster"), b"key").unwrap();
            assert_eq!(mode("config/cluster"), 0o644);
            disk.rename_new(&at("config/cluster"), &authority).unwrap();
            assert_eq!(mode("config/authority"), 0o600);
            disk.begin(&at("incoming")).unwrap().append(b"key").unwrap();
            disk.make_segment(&at("journal/segment-0"), 512).unwrap();
            assert_eq!((mode("incoming"), mode("journal/segment-0")), (0o600, 0o600));
            let wider = Permissions::from_mode(0o640);
            std::fs::set_permissions(at("journal/segment-0"), wider).unwrap();
            disk.open_segment(&at("journal/segment-0")).unwrap();
            assert_eq!(mode("journal/segment-0"), 0o600);
        }
    }

    #[test]
    fn renaming_never_replaces() {
        let (dir, disk) = disk(0o640);
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        disk.create(&a, b"a").unwrap();
        disk.create(&b, b"b").unwrap();
        let taken = disk.rename_new(&a, &b).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        disk.remove(&b).unwrap();
        disk.rename_new(&a, &b).unwrap();
        assert_eq!(disk.read(&b).unwrap(), b"a");
        disk.sync_files(&[a, b]).unwrap();
    }

    #[test]
    fn many_files_are_made_durable_at_once() {
        let (dir, disk) = disk(0o640);
        let paths: Vec<PathBuf> = (0..300).map(|n| dir.path().join(n.to_string())).collect();
        paths.iter().for_each(|path| disk.create(path, b"content").unwrap());
        disk.sync_files(&paths).unwrap();
    }

    #[test]
    fn a_segment_is_zero_and_keeps_its_size() {
        let (dir, disk) = disk(0o640);
        let path = dir.path().join("segment-0");
        disk.make_segment(&path, 4096).unwrap();
        let (mut segment, bytes) = disk.open_segment(&path).unwrap();
        segment.write_durably(512, b"x").unwrap();
        let content = disk.read(&path).unwrap();
        assert_eq!((bytes, content.len(), content[512]), (4096, 4096, b'x'));
        std::fs::remove_file(&path).unwrap();
        let lost = segment.write_durably(1024, b"x").unwrap_err();
        assert!(lost.to_string().contains("removed while it was in use"), "{lost}");
    }

    #[test]
    fn the_lock_names_its_owner() {
        let (dir, disk) = disk(0o640);
        let path = dir.path().join("lock");
        let held = disk.lock(&path).unwrap();
        let refused = disk.lock(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(refused.to_string(), std::process::id().to_string());
        drop(held);
        disk.lock(&path).unwrap();
    }
}
