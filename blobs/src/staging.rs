//! A file on its way into the spool, where the master finds it by its digest.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use model::blob::{Blob, BlobDigest};
use model::layout::DOCUMENT_MODE;

use crate::{BlobError, FREE_MIB_MIN, Hasher};

/// Bytes after which the room of the file system is looked at again: fewer than stay free, so that a file of
/// unknown length does not fill it.
const LOOK_BYTES: u64 = 64 << 20;
/// Tells apart the files that one process writes at the same time.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A file that is being written. A drop before its end removes it.
#[derive(Debug)]
pub struct Staging {
    spool: PathBuf,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    looked_at: u64,
}

impl Staging {
    /// Begins a file in the spool.
    ///
    /// # Errors
    /// It cannot be made, or the file system is too full.
    pub fn begin(spool: &Path) -> Result<Self, BlobError> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = spool.join(format!(".upload-{}-{number}", std::process::id()));
        let mut options = File::options();
        let made = options.write(true).create_new(true).mode(DOCUMENT_MODE).open(&path);
        let file = made.map_err(|error| BlobError::io("write", &path, error))?;
        let hasher = Hasher::default();
        let staging = Self { spool: spool.to_owned(), path, file, hasher, looked_at: 0 };
        staging.look()?;
        Ok(staging)
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// They cannot be written, or the file system is too full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if self.hasher.size.saturating_sub(self.looked_at) >= LOOK_BYTES {
            self.looked_at = self.hasher.size;
            self.look()?;
        }
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(|error| BlobError::io("write", &self.path, error))
    }

    /// Bytes that were written.
    pub const fn size(&self) -> u64 {
        self.hasher.size
    }

    /// What was written.
    pub fn digest(&self) -> BlobDigest {
        self.hasher.clone().finish().sha256
    }

    /// Gives the file the name of its digest, where the master looks for it.
    ///
    /// # Errors
    /// It does not come to the disk.
    pub fn finish(self) -> Result<Blob, BlobError> {
        let blob = self.hasher.clone().finish();
        let name = self.spool.join(blob.sha256.to_string());
        let named = self.file.sync_all().and_then(|()| stdx::atomic::rename(&self.path, &name));
        named.map_err(|error| BlobError::io("write", &self.path, error))?;
        Ok(blob)
    }

    fn look(&self) -> Result<(), BlobError> {
        let space = stdx::file_system::space(&self.spool)
            .map_err(|error| BlobError::io("ask the room of", &self.spool, error))?;
        if space.free_mib > FREE_MIB_MIN {
            return Ok(());
        }
        Err(BlobError::NoRoom { size: self.hasher.size, free_mib: space.free_mib })
    }
}

impl Drop for Staging {
    /// After its end it has another name.
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_is_found_by_its_digest_and_all_else_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = || fs::read_dir(dir.path()).unwrap().count();
        let mut staging = Staging::begin(dir.path()).unwrap();
        let mut other = Staging::begin(dir.path()).unwrap();
        staging.write(b"ker").unwrap();
        other.write(b"other").unwrap();
        assert_eq!(files(), 2);
        drop(other);
        staging.write(b"nel").unwrap();
        let blob = staging.finish().unwrap();
        assert_eq!((blob.size, files()), (6, 1));
        assert_eq!(fs::read(dir.path().join(blob.sha256.to_string())).unwrap(), b"kernel");
        assert!(Staging::begin(&dir.path().join("nowhere")).is_err());
    }
}
