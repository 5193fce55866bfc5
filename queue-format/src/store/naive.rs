//! One file at a time: the slow, simple way to keep the same promise, without a journal.
//!
//! Each change is a temporary file, fsync, rename, fsync of the directory. The tests compare the
//! journal with it, and `durability = file` selects it for those who want the file itself to be
//! durable before the answer. A crash may leave a batch half applied; what was answered is whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dirty::Dirty;
use super::files::FileError;
use super::files::write::make_directories;
use super::header::{Header, HeaderError};
use crate::change::{Batch, Change};
use crate::disk::Disk;
use crate::key::Key;
use crate::position::Position;

/// A store of files that are durable one by one.
#[derive(Debug)]
pub(crate) struct Naive {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    header: Header,
}

/// A batch that could not be made durable, or not all of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NaiveError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl Naive {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: &Path, header: Header) -> Self {
        Self { disk, root: root.to_owned(), header }
    }

    /// Applies a batch, change by change, and then says that the files stand at `position`.
    pub(crate) fn apply(&mut self, batch: &Batch, position: Position) -> Result<(), NaiveError> {
        for change in &batch.0 {
            match change {
                Change::Put { key, content } => self.put(key, content)?,
                Change::Move { from, to } => self.rename(from, to)?,
                Change::Delete { key } => self.delete(key)?,
            }
        }
        self.header.position = position;
        Ok(self.header.write(self.disk.as_ref(), &self.root)?)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    fn put(&self, key: &Key, content: &[u8]) -> Result<(), FileError> {
        let path = self.path(key);
        self.make_directories(key)?;
        self.disk
            .replace_synced(&path, content)
            .map_err(|error| FileError::Write { path, error })?;
        self.sync_directory(key)
    }

    fn rename(&self, from: &Key, to: &Key) -> Result<(), FileError> {
        let (old, new) = (self.path(from), self.path(to));
        let read = |path: &Path| match self.disk.exists(path) {
            Ok(exists) => Ok(exists),
            Err(error) => Err(FileError::Read { path: path.to_owned(), error }),
        };
        if from == to || !read(&old)? {
            return Ok(());
        }
        self.make_directories(to)?;
        if read(&new)? {
            self.delete(to)?;
        }
        self.disk.rename_new(&old, &new).map_err(|error| FileError::Write { path: new, error })?;
        self.sync_directory(to)?;
        if from.directory() != to.directory() {
            self.sync_directory(from)?;
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<(), FileError> {
        let path = self.path(key);
        match self.disk.remove(&path) {
            Ok(()) => self.sync_directory(key),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(FileError::Write { path, error }),
        }
    }

    fn make_directories(&self, key: &Key) -> Result<(), FileError> {
        let mut made = Dirty::default();
        make_directories(self.disk.as_ref(), &self.root, key, &mut made)
            .map_err(|error| FileError::Write { path: self.path(key), error })?;
        let (_files, directories) = made.paths(&self.root);
        for path in directories {
            self.disk
                .sync_directory(&path)
                .map_err(|error| FileError::Sync { path: path.clone(), error })?;
        }
        Ok(())
    }

    fn sync_directory(&self, key: &Key) -> Result<(), FileError> {
        let path = self.root.join(key.directory());
        self.disk.sync_directory(&path).map_err(|error| FileError::Sync { path, error })
    }
}
