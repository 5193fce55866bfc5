//! Reading committed state: one key, or all keys with a prefix.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::files::{FileError, Files};
use crate::disk::Disk;
use crate::key::Key;

/// Files read at a time: some milliseconds of work, a few MB of small files.
const CHUNK_FILES: usize = 1024;

/// Threads that read. The work is waiting (cold) or system calls (warm); more gained nothing.
const READ_THREADS: usize = 4;

/// Reads the store. Clones read the same store.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) files: Arc<Files>,
}

impl Reader {
    /// The committed content of a key, also while its file lags behind; none if there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        self.files.content(key)
    }

    /// All keys that start with this text, such as `queue/job-` or `config/`, in their order, with
    /// their committed contents. A key that changes meanwhile is given as it was or as it is.
    ///
    /// # Errors
    /// A directory cannot be listed. The iterator tells of a file that cannot be read.
    pub fn scan(&self, prefix: &str) -> Result<Scan, FileError> {
        Ok(self.contents(self.keys(prefix)?))
    }

    /// These keys in this order, with their committed contents; those that do not exist are left out.
    pub fn contents(&self, keys: Vec<Key>) -> Scan {
        Scan { reader: self.clone(), keys: keys.into_iter(), read: Vec::new().into_iter() }
    }

    /// The results of `make` for each key with this prefix and its content, as [`Reader::scan`] gives
    /// them. They are made on the threads that read, so that these share its work, too.
    ///
    /// # Errors
    /// A directory cannot be listed, or a file not read.
    pub fn scan_each<R: Send>(
        &self,
        prefix: &str,
        make: impl Fn(Key, Bytes) -> R + Sync,
    ) -> Result<Vec<R>, FileError> {
        self.read_all(&self.keys(prefix)?, make).into_iter().collect()
    }

    /// All keys that start with this text, in their order.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn keys(&self, prefix: &str) -> Result<Vec<Key>, FileError> {
        // A change on its way to a file now is a file later: asked for first, it is not missed.
        let mut keys = self.files.coming(prefix);
        let start = prefix.rsplit_once('/').map_or("", |(directory, _name)| directory);
        self.list(start, prefix, &mut keys)?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    fn list(&self, directory: &str, prefix: &str, keys: &mut Vec<Key>) -> Result<(), FileError> {
        let path = self.root.join(directory);
        let names = match self.disk.list(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::Read { path, error }),
        };
        for name in names {
            let text = match directory {
                "" => name.name,
                _ => format!("{directory}/{}", name.name),
            };
            // Temporaries and the store's own files cannot be keys.
            let Ok(key) = Key::parse(&text) else { continue };
            if name.is_directory {
                if key.as_str().starts_with(prefix) || prefix.starts_with(&format!("{key}/")) {
                    self.list(key.as_str(), prefix, keys)?;
                }
            } else if key.as_str().starts_with(prefix) {
                keys.push(key);
            }
        }
        Ok(())
    }

    fn read_all<R: Send>(
        &self,
        keys: &[Key],
        make: impl Fn(Key, Bytes) -> R + Sync,
    ) -> Vec<Result<R, FileError>> {
        // Removed since it was listed, where there is none.
        let read = |key: &Key| match self.files.content(key) {
            Ok(content) => content.map(|content| Ok(make(key.clone(), content))),
            Err(error) => Some(Err(error)),
        };
        let read = &read;
        let share = keys.len().div_ceil(READ_THREADS).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = keys
                .chunks(share)
                .map(|share| scope.spawn(move || share.iter().filter_map(read).collect::<Vec<_>>()))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().flat_map(join).collect()
        })
    }
}

/// The keys with a prefix, in their order.
#[derive(Debug)]
pub struct Scan {
    reader: Reader,
    keys: std::vec::IntoIter<Key>,
    read: std::vec::IntoIter<Result<(Key, Bytes), FileError>>,
}

impl Iterator for Scan {
    type Item = Result<(Key, Bytes), FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.read.next() {
                return Some(item);
            }
            let chunk: Vec<Key> = self.keys.by_ref().take(CHUNK_FILES).collect();
            if chunk.is_empty() {
                return None;
            }
            self.read = self.reader.read_all(&chunk, |key, content| (key, content)).into_iter();
        }
    }
}
