//! The stamp of a file: it tells one content from another without reading it, and whether other users
//! may read or change the file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Bits of a mode that let users of this machine read or change a file who are neither owner nor of its group.
const OTHERS: u32 = 0o006;

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    mode: u32,
}

impl Stamp {
    /// The stamp of an open file.
    pub fn of(file: &Metadata) -> Self {
        let (inode, bytes, mode) = (file.ino(), file.len(), file.mode());
        Self { inode, bytes, changed: (file.ctime(), file.ctime_nsec()), mode }
    }

    /// The stamp of the file with this name, if it is there.
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|file| Self::of(&file))
    }

    /// How long the file is.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Logs that a file with secrets is open to every user of this machine, where it is.
    pub fn warn_if_open(&self, path: &Path, secrets: &'static str) {
        if self.mode & OTHERS != 0 {
            let mode = format!("{:04o}", self.mode & 0o7777);
            tracing::warn!(
                path = %path.display(),
                mode,
                secrets,
                "every user of this machine may read or change a file with secrets; take that away by \
                 `chmod o-rw`, and change the secrets"
            );
        }
    }
}
