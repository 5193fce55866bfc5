//! Files for HTTP, read without a thread of their own as far as the kernel has them in memory.
//!
//! A rack that boots reads the same few files a thousand times. `tokio::fs` goes to another thread for each
//! step of each of them, which costs more than the step. Here a step is done at once, unless the
//! kernel says that it would wait for the disk (`RESOLVE_CACHED`, `RWF_NOWAIT`).

use std::fs::Metadata;
use std::future::{Ready, ready};
use std::io::{self, IoSliceMut, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as ready_or_pending};

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use tokio::task::{JoinHandle, spawn_blocking};
use tower_http::services::fs::{Backend, File};

/// One file, whatever path is asked for; what the kernel has not in memory is read on another thread.
#[derive(Debug, Clone)]
pub(super) struct PageCache {
    path: Arc<Path>,
    metadata: Metadata,
}

impl PageCache {
    /// # Errors
    /// There is no such file.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { metadata: std::fs::metadata(path)?, path: path.into() })
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> u64 {
        self.metadata.len()
    }
}

impl Backend for PageCache {
    type File = CachedFile;
    type Metadata = Metadata;
    type OpenFuture = Pin<Box<dyn Future<Output = io::Result<CachedFile>> + Send>>;
    type MetadataFuture = Ready<io::Result<Metadata>>;

    fn open(&self, _asked: PathBuf) -> Self::OpenFuture {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let path = Arc::clone(&self.path);
        match openat2(CWD, &*path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(file) => Box::pin(ready(Ok(CachedFile::new(file.into())))),
            Err(_not_cached) => Box::pin(async move {
                let opened = apart(move || std::fs::File::open(path)).await?;
                Ok(CachedFile::new(opened))
            }),
        }
    }

    fn metadata(&self, _asked: PathBuf) -> Self::MetadataFuture {
        ready(Ok(self.metadata.clone()))
    }
}

async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// An open file.
#[derive(Debug)]
pub(super) struct CachedFile {
    file: Arc<std::fs::File>,
    at: u64,
    /// The read of another thread at `at`.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl CachedFile {
    fn new(file: std::fs::File) -> Self {
        Self { file: Arc::new(file), at: 0, reading: None }
    }
}

impl File for CachedFile {
    type Metadata = Metadata;
    type MetadataFuture<'a> = Ready<io::Result<Metadata>>;

    /// The kernel has it in memory since the file was opened.
    fn metadata(&self) -> Self::MetadataFuture<'_> {
        ready(self.file.metadata())
    }
}

impl AsyncRead for CachedFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(reading) = &mut self.reading {
            let read = ready_or_pending!(Pin::new(reading).poll(context));
            self.reading = None;
            let bytes = read.map_err(io::Error::other)??;
            buffer.put_slice(&bytes);
            self.at += bytes.len() as u64;
            return Poll::Ready(Ok(()));
        }
        let free = buffer.initialize_unfilled();
        let wanted = free.len();
        let flags = ReadWriteFlags::NOWAIT;
        if let Ok(read) = preadv2(&*self.file, &mut [IoSliceMut::new(free)], self.at, flags) {
            buffer.advance(read);
            self.at += read as u64;
            return Poll::Ready(Ok(()));
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        self.reading = Some(spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            let read = file.read_at(&mut bytes, at)?;
            bytes.truncate(read);
            Ok(bytes.into())
        }));
        self.poll_read(context, buffer)
    }
}

impl AsyncSeek for CachedFile {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let moved = match position {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = moved.ok_or(io::ErrorKind::InvalidInput)?;
        self.reading = None;
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.at))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

    use super::*;

    #[tokio::test]
    async fn a_file_reads_whole_and_from_the_middle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        stdx::atomic::write(&path, &content, 0o600).unwrap();
        let cache = PageCache::new(&path).unwrap();
        let mut file = cache.open(PathBuf::new()).await.unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).await.unwrap();
        assert!(read == content, "{} bytes of {}", read.len(), content.len());
        file.seek(SeekFrom::End(-5)).await.unwrap();
        read.clear();
        file.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, content[content.len() - 5..]);
        assert!(file.seek(SeekFrom::Current(-9_999_999)).await.is_err());
        assert_eq!(cache.len(), 1_200_000);
        std::fs::remove_file(&path).unwrap();
        let missing = cache.open(PathBuf::new()).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn what_is_read_on_another_thread_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        stdx::atomic::write(&path, b"0123456789", 0o600).unwrap();
        let mut file = PageCache::new(&path).unwrap().open(path).await.unwrap();
        file.seek(SeekFrom::Start(4)).await.unwrap();
        let opened = Arc::clone(&file.file);
        file.reading = Some(spawn_blocking(move || {
            let mut bytes = vec![0; 3];
            opened.read_at(&mut bytes, 4)?;
            Ok(bytes.into())
        }));
        let mut read = String::new();
        file.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "456789");
    }
}
