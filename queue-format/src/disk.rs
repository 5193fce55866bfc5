//! The door to the file system: what the store asks of a disk, and nothing else.
//!
//! [`real::RealDisk`] is the machine's. In tests `sim` keeps apart what is written from what is durable,
//! stops between any two operations and loses what a power cut may lose.

pub(crate) mod real;
#[cfg(any(test, feature = "simulation"))]
pub(crate) mod sim;

use std::fmt::Debug;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A segment of the journal, opened for writing.
pub(crate) trait SegmentFile: Debug + Send {
    /// Writes `bytes` at `offset`, within the size of the segment, and makes them durable.
    ///
    /// After an error nothing is known about these bytes, nor about any later attempt.
    fn write_durably(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// A file that grows at its end.
pub(crate) trait GrowingFile: Debug + Send {
    /// Writes behind what is there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name, without its directory. Names that are not UTF-8 are not listed.
    pub(crate) name: String,
    pub(crate) is_directory: bool,
}

/// A lock that ends with the value.
pub(crate) trait Locked: Debug + Send + Sync {}

/// The operations of the store on files. Unless the name says so, nothing is durable afterwards.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Takes the lock of this file for the process and writes the process id into it.
    /// A lock that is taken gives `WouldBlock`.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Locked>>;

    /// Makes one directory; `AlreadyExists` if the name is taken.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn list(&self, directory: &Path) -> io::Result<Vec<Name>>;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The content of a file, piece by piece.
    fn read_slowly(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// An empty file to write into, in the place of what has the name.
    fn begin(&self, path: &Path) -> io::Result<Box<dyn GrowingFile>>;

    /// Whether the name is taken.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Gives a new file its name once it has its content; `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Writes a temporary file and renames it over `path`, whether or not that exists.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// As [`Disk::replace`], but the content is durable before the rename; the name is not.
    fn replace_synced(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Renames a file to a name that is free; `AlreadyExists` if it is taken.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the contents of these files durable, in any order; a missing file is passed over.
    fn sync_files(&self, paths: &[PathBuf]) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes a file of `bytes` written zeros, durable with its name, under `path`, replacing any.
    fn make_segment(&self, path: &Path, bytes: u64) -> io::Result<()>;

    /// Opens a segment for writing and tells its size.
    fn open_segment(&self, path: &Path) -> io::Result<(Box<dyn SegmentFile>, u64)>;
}

/// The remedy for a disk that takes nothing, for the end of an error's text.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    if is_full(error) { " (make room, or make it writable, then start again)" } else { "" }
}

/// Whether the error says that the disk takes no more for now, rather than that it is broken.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::PermissionDenied
    ) || matches!(
        error.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM)
    )
}
