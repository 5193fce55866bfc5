//! What tells one content of a file from another without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// That of an open file.
    #[must_use]
    pub fn of(file: &Metadata) -> Self {
        Self { inode: file.ino(), bytes: file.len(), changed: (file.ctime(), file.ctime_nsec()) }
    }

    /// That of the file of this name, if it is there.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|file| Self::of(&file))
    }

    /// How long the file is.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}
