//! Exports of instances: a directory each, with the content of the disks and a description. An export
//! that is not whole has a name with a dot in front, which no instance has.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::InstanceName;
use model::instance::launch::DiskLaunch;
use rustix::fs::{SeekFrom, seek};

use crate::records::io as failed;
use crate::storage::MIB;
use crate::{Storage, VirtError};

/// The description of an export, as Ganeti names it.
const DESCRIPTION: &str = "config.ini";
/// Longest description: an instance with all parameters is far below.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;
/// Exports of which a node tells.
pub const EXPORTS_MAX: usize = 1_000;
/// Longest name of a file in an export.
const FILE_NAME_MAX: usize = 255;
/// Bytes that are copied at once within a node.
const COPIED_BYTES: usize = 4 << 20;
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The exports of a node.
#[derive(Debug, Clone)]
pub struct Exports(PathBuf);

/// Something whose content is carried: a disk, or a file of an export.
#[derive(Debug, Clone, Copy)]
pub enum Volume<'a> {
    Disk(&'a DiskLaunch),
    /// A file of an export that is being made, or of one that is whole.
    Export {
        name: &'a InstanceName,
        file: &'a str,
        whole: bool,
    },
}

/// A piece of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its place; between the one before and this there are only zeros.
    pub offset: u64,
    /// Its content; empty where there are only zeros up to the end.
    pub data: Vec<u8>,
    /// Bytes of the whole volume.
    pub size: u64,
}

impl Exports {
    /// Those in `directory`, which need not be there.
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    fn whole(&self, name: &InstanceName) -> PathBuf {
        self.0.join(name.as_str())
    }

    fn begun(&self, name: &InstanceName) -> PathBuf {
        self.0.join(format!(".{name}.new"))
    }

    /// Begins an export; one of the same name stays until this one is whole.
    ///
    /// # Errors
    /// The system says no.
    pub fn begin(&self, name: &InstanceName) -> Result<(), VirtError> {
        let path = self.begun(name);
        remove(&path)?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE);
        builder.create(&path).map_err(failed("make the directory", &path))
    }

    /// Makes an export whole, which takes the place of one of the same name.
    ///
    /// # Errors
    /// It was not begun, or the system says no.
    pub fn finish(&self, name: &InstanceName, description: &str) -> Result<(), VirtError> {
        let (begun, whole) = (self.begun(name), self.whole(name));
        let path = begun.join(DESCRIPTION);
        stdx::atomic::write(&path, description.as_bytes(), FILE_MODE)
            .map_err(failed("write", &path))?;
        let old = self.0.join(format!(".{name}.old"));
        remove(&old)?;
        if whole.exists() {
            stdx::atomic::rename(&whole, &old).map_err(failed("rename", &whole))?;
        }
        stdx::atomic::rename(&begun, &whole).map_err(failed("rename", &begun))?;
        remove(&old)
    }

    /// Removes what was begun of an export that is not to become whole.
    ///
    /// # Errors
    /// The system says no.
    pub fn abandon(&self, name: &InstanceName) -> Result<(), VirtError> {
        remove(&self.begun(name))
    }

    /// A new file of an export that was begun.
    ///
    /// # Errors
    /// It may not lie there, or the system says no.
    pub fn file(
        &self,
        storage: &Storage,
        name: &InstanceName,
        file: &str,
    ) -> Result<File, VirtError> {
        self.open(storage, Volume::Export { name, file, whole: false }, true)
    }

    /// The names of those that are whole, in order.
    ///
    /// # Errors
    /// The system says no.
    pub fn names(&self) -> Result<Vec<InstanceName>, VirtError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &self.0)(error)),
        };
        let is_export = |entry: fs::DirEntry| {
            let name: InstanceName = entry.file_name().to_str()?.parse().ok()?;
            entry.path().join(DESCRIPTION).is_file().then_some(name)
        };
        let mut names: Vec<InstanceName> = entries.flatten().filter_map(is_export).collect();
        names.sort();
        names.truncate(EXPORTS_MAX);
        Ok(names)
    }

    /// The description of an export.
    ///
    /// # Errors
    /// It is not there, or no text of an acceptable length.
    pub fn description(&self, name: &InstanceName) -> Result<String, VirtError> {
        let path = self.whole(name).join(DESCRIPTION);
        let length = fs::metadata(&path).map_err(failed("read", &path))?.len();
        if length > DESCRIPTION_BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("{length} bytes"));
            return Err(failed("read", &path)(error));
        }
        fs::read_to_string(&path).map_err(failed("read", &path))
    }

    /// Removes an export, whole or not; gives whether there was one.
    ///
    /// # Errors
    /// The system says no.
    pub fn remove(&self, name: &InstanceName) -> Result<bool, VirtError> {
        let whole = self.whole(name);
        let was_there = whole.exists();
        remove(&self.begun(name))?;
        remove(&whole)?;
        Ok(was_there)
    }

    /// Opens a volume, to write to it or only to read.
    fn open(&self, storage: &Storage, volume: Volume<'_>, writes: bool) -> Result<File, VirtError> {
        let (name, file, whole) = match volume {
            Volume::Disk(disk) => return storage.open(disk, writes),
            Volume::Export { name, file, whole } => (name, file, whole),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_plain = !file.is_empty() && file.chars().all(is_plain);
        if !is_plain || file.starts_with('.') || file.len() > FILE_NAME_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file");
            return Err(failed("open", Path::new(file))(error));
        }
        let directory = if whole { self.whole(name) } else { self.begun(name) };
        let path = directory.join(file);
        let mut options = OpenOptions::new();
        options.read(true).write(writes).create(writes).truncate(false).mode(FILE_MODE);
        // No link leads elsewhere, and a pipe that somebody put there is not waited for.
        options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let file = options.open(&path).map_err(failed("open", &path))?;
        if file.metadata().map_err(failed("look at", &path))?.is_file() {
            return Ok(file);
        }
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
        Err(failed("open", &path)(error))
    }

    /// Reads the first piece of a volume at or behind `offset` that is not all zeros, at most `max` bytes.
    ///
    /// # Errors
    /// It is not there, or the system says no.
    pub fn read(
        &self,
        storage: &Storage,
        volume: Volume<'_>,
        offset: u64,
        max: usize,
    ) -> Result<Piece, VirtError> {
        piece(&self.open(storage, volume, false)?, offset, max)
            .map_err(failed("read", Path::new("a volume")))
    }

    /// Writes a piece of a volume; without data, makes it as long as `offset`, and durable.
    ///
    /// # Errors
    /// It may not lie there, or the system says no.
    pub fn write(
        &self,
        storage: &Storage,
        volume: Volume<'_>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), VirtError> {
        let file = self.open(storage, volume, true)?;
        fits(&volume, offset.saturating_add(data.len() as u64))?;
        put(&file, offset, data).map_err(failed("write", Path::new("a volume")))
    }

    /// Copies a volume to another one of this node.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::write`].
    pub fn copy(
        &self,
        storage: &Storage,
        from: Volume<'_>,
        to: Volume<'_>,
    ) -> Result<(), VirtError> {
        let (from, target) = (self.open(storage, from, false)?, to);
        let to = self.open(storage, to, true)?;
        let size = from.metadata().map_err(failed("look at", Path::new("a volume")))?.len();
        fits(&target, size)?;
        let copy = || {
            let mut offset = 0;
            loop {
                let piece = piece(&from, offset, COPIED_BYTES)?;
                if piece.data.is_empty() {
                    return put(&to, piece.size, &[]);
                }
                put(&to, piece.offset, &piece.data)?;
                offset = piece.offset + piece.data.len() as u64;
            }
        };
        copy().map_err(failed("copy", Path::new("a volume")))
    }
}

/// Looks whether a content with this end fits into a volume: a disk has the size of its record, whatever an
/// export says.
fn fits(volume: &Volume<'_>, end: u64) -> Result<(), VirtError> {
    match volume {
        Volume::Disk(disk) if end > disk.size.saturating_mul(MIB) => {
            let path = disk.place.path().to_owned();
            Err(VirtError::Behind { path, end, size: disk.size })
        }
        Volume::Disk(_) | Volume::Export { .. } => Ok(()),
    }
}

fn remove(path: &Path) -> Result<(), VirtError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

fn piece(file: &File, offset: u64, max: usize) -> io::Result<Piece> {
    let size = file.metadata()?.len();
    let none = Piece { offset: size, data: Vec::new(), size };
    if offset >= size {
        return Ok(none);
    }
    let begins = match seek(file, SeekFrom::Data(offset)) {
        Ok(begins) => begins,
        Err(rustix::io::Errno::NXIO) => return Ok(none),
        Err(error) => return Err(error.into()),
    };
    let ends = seek(file, SeekFrom::Hole(begins))?;
    let length = usize::try_from(ends.saturating_sub(begins)).unwrap_or(max).min(max);
    let mut data = vec![0; length];
    file.read_exact_at(&mut data, begins)?;
    Ok(Piece { offset: begins, data, size })
}

fn put(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    if !data.is_empty() {
        return file.write_all_at(data, offset);
    }
    if file.metadata()?.len() < offset {
        file.set_len(offset)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports() -> (tempfile::TempDir, Exports, Storage) {
        let directory = tempfile::tempdir().unwrap();
        let storage =
            Storage::new(directory.path().join("no list"), directory.path().join("disks"));
        let exports = Exports::new(directory.path().join("export"));
        (directory, exports, storage)
    }

    #[test]
    fn an_export_is_there_when_it_is_whole_and_the_old_one_until_then() {
        let (_directory, exports, storage) = exports();
        let name: InstanceName = "web1.example".parse().unwrap();
        assert_eq!(exports.names().unwrap(), []);
        for text in ["one", "two"] {
            exports.begin(&name).unwrap();
            let volume = Volume::Export { name: &name, file: "disk0.raw", whole: false };
            exports.write(&storage, volume, 5 << 20, text.as_bytes()).unwrap();
            exports.write(&storage, volume, 9 << 20, &[]).unwrap();
            if text == "two" {
                assert_eq!(exports.description(&name).unwrap(), "[one]");
            }
            exports.finish(&name, &format!("[{text}]")).unwrap();
            assert_eq!(exports.names().unwrap(), std::slice::from_ref(&name));
        }
        assert_eq!(exports.description(&name).unwrap(), "[two]");
        let volume = Volume::Export { name: &name, file: "disk0.raw", whole: true };
        let piece = exports.read(&storage, volume, 0, 1 << 20).unwrap();
        let end = piece.offset + piece.data.len() as u64;
        assert!(piece.data.len() <= 1 << 20 && piece.size == 9 << 20, "{piece:?}");
        assert!((piece.offset..end).contains(&(5 << 20)), "what is only zeros is left out");
        assert!(exports.remove(&name).unwrap());
        assert!(!exports.remove(&name).unwrap());
        assert_eq!(exports.names().unwrap(), []);
    }

    #[test]
    fn a_content_is_not_longer_than_its_disk() {
        let (directory, exports, storage) = exports();
        let path = directory.path().join("disks/web1/disk").display().to_string();
        let disk = DiskLaunch {
            uuid: model::Uuid::nil(),
            place: model::instance::disk::DiskPlace::File { path },
            size: 1,
            mode: model::instance::disk::DiskMode::ReadWrite,
            params: model::instance::parameters::Parameters::new(),
            replica: None,
        };
        storage.create(&disk).unwrap();
        exports.write(&storage, Volume::Disk(&disk), MIB - 1, b"x").unwrap();
        for (offset, data) in [(MIB, &b"x"[..]), (2 * MIB, b"")] {
            let refused = exports.write(&storage, Volume::Disk(&disk), offset, data);
            assert!(matches!(refused, Err(VirtError::Behind { .. })), "{refused:?}");
        }
    }

    #[test]
    fn names_of_files_lead_nowhere_else() {
        let (_directory, exports, storage) = exports();
        let name: InstanceName = "web1".parse().unwrap();
        exports.begin(&name).unwrap();
        for file in ["../x", "/etc/passwd", ".hidden", "a/b", ""] {
            let volume = Volume::Export { name: &name, file, whole: false };
            assert!(exports.write(&storage, volume, 0, b"x").is_err(), "{file}");
        }
    }

    #[test]
    fn a_copy_has_the_same_content_and_the_same_holes() {
        let (directory, exports, storage) = exports();
        let name: InstanceName = "web1".parse().unwrap();
        exports.begin(&name).unwrap();
        let volume = |file: &'static str| Volume::Export { name: &name, file, whole: false };
        for (offset, data) in [(0_u64, &b"head"[..]), (17 << 20, b"middle"), (64 << 20, b"")] {
            exports.write(&storage, volume("a"), offset, data).unwrap();
        }
        exports.copy(&storage, volume("a"), volume("b")).unwrap();
        let path = |file: &str| directory.path().join("export/.web1.new").join(file);
        assert_eq!(fs::read(path("a")).unwrap(), fs::read(path("b")).unwrap());
        let blocks =
            |file: &str| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path(file)).unwrap());
        assert!(blocks("b") * 512 < 1 << 20, "{} blocks", blocks("b"));
    }
}
