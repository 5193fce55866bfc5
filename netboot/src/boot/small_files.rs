//! Small files in memory: a rack of machines that boot asks for the same few, and each read from the disk
//! costs more than the answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use model::blob::BlobDigest;
use parking_lot::Mutex;

/// Bytes of a small file. Larger ones are kernels and initial file systems, which the kernel sends from
/// its own cache in large pieces.
const SMALL_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of all small files in memory: more than the configuration files of every role of a rack.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// The files by their digests, which say what they hold.
#[derive(Debug, Default)]
pub struct SmallFiles(Mutex<BTreeMap<BlobDigest, Bytes>>);

impl SmallFiles {
    /// The content of a file of this size, from memory or from its path; none where it is too large or
    /// cannot be read.
    pub(super) async fn read(&self, digest: BlobDigest, path: &Path, size: u64) -> Option<Bytes> {
        if size > SMALL_FILE_BYTES_MAX {
            return None;
        }
        if let Some(content) = self.0.lock().get(&digest) {
            return Some(content.clone());
        }
        let path = path.to_owned();
        let content = tokio::task::spawn_blocking(move || fs::read(path)).await.ok()?.ok()?;
        let content = Bytes::from(content);
        self.keep(digest, content.clone());
        Some(content)
    }

    /// Keeps a file, alone if there is no room beside the others: those that are still asked for come back.
    fn keep(&self, digest: BlobDigest, content: Bytes) {
        let mut files = self.0.lock();
        let bytes: usize = files.values().map(Bytes::len).sum();
        if bytes + content.len() > MEMORY_BYTES_MAX {
            files.clear();
        }
        files.insert(digest, content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_read_once_and_memory_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        stdx::atomic::write(&path, b"content", 0o600).unwrap();
        let files = SmallFiles::default();
        let digest = |byte: u8| BlobDigest::from_bytes([byte; 32]);
        assert_eq!(files.read(digest(1), &path, 7).await.unwrap(), "content");
        fs::remove_file(&path).unwrap();
        assert_eq!(files.read(digest(1), &path, 7).await.unwrap(), "content", "from memory");
        assert_eq!(files.read(digest(2), &path, 7).await, None, "it cannot be read");
        assert_eq!(files.read(digest(1), &path, SMALL_FILE_BYTES_MAX + 1).await, None);
        for byte in 3..=255 {
            files.keep(digest(byte), vec![byte; 64 * 1024].into());
            let bytes: usize = files.0.lock().values().map(Bytes::len).sum();
            assert!(bytes <= MEMORY_BYTES_MAX);
        }
    }
}
