//! Making the files those of a spooled snapshot.
//!
//! In two passes: keys that are not in it are deleted, then its keys are written; so a key may take
//! the place of a directory's last file. Every step can be repeated, and neither the snapshot nor the
//! store is in memory as a whole.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::SpoolDirectory;
use super::spool::{Decoder, SpoolError};
use crate::disk;
use crate::key::{Key, Placed};
use crate::store::dirty::Dirty;
use crate::store::files::FileError;
use crate::store::files::write::make_directories;
use crate::store::walk::Walk;

/// Changed files that are made durable together: enough for one flush of the whole file system to
/// pay, few enough to be named in memory.
const SYNC_KEYS: usize = 16_384;

/// Files that cannot be replaced by those of a snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("the spooled snapshot cannot be used")]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ReplaceError {
    /// Whether the disk only takes no more for now.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::File(FileError::Write { error, .. }) if disk::is_full(error))
    }
}

/// The decision on a disk that takes nothing: true to try again.
pub(crate) type Patience<'p> = &'p dyn Fn(&Path, &io::Error) -> bool;

/// Makes the files those of the snapshot, durably.
pub(crate) fn replace_all(
    place: &SpoolDirectory,
    patience: Patience<'_>,
) -> Result<(), ReplaceError> {
    let dirty = Dirty::default();
    let mut replacing = Replacing { place, patience, dirty, changed: 0 };
    replacing.delete_others()?;
    replacing.write_all()?;
    Ok(replacing.sync()?)
}

struct Replacing<'p> {
    place: &'p SpoolDirectory,
    patience: Patience<'p>,
    dirty: Dirty,
    /// Keys in `dirty`, or more.
    changed: usize,
}

impl Replacing<'_> {
    fn delete_others(&mut self) -> Result<(), ReplaceError> {
        let mut walk = Walk::new(self.place.disk.clone(), &self.place.root, None)?;
        let mut spooled = Keys::new(self.place.read()?)?;
        while let Some(key) = walk.next()? {
            if !spooled.skip_to(&key)? {
                let path = self.place.root.join(key.as_str());
                self.patiently(&path, || match self.place.disk.remove(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    done => done,
                })?;
                self.dirty.add_name(&key, 0);
                self.count()?;
            }
        }
        Ok(())
    }

    fn write_all(&mut self) -> Result<(), ReplaceError> {
        let mut spool = self.place.read()?;
        while let Some(chunk) = spool.next()? {
            for (key, content) in chunk {
                self.write(&key, &content)?;
                // Also what is there already may have been written a moment ago.
                self.dirty.add_content(&key, 0);
                self.count()?;
            }
        }
        Ok(())
    }

    fn write(&mut self, key: &Key, content: &[u8]) -> Result<(), FileError> {
        let (disk, root) = (self.place.disk.as_ref(), &self.place.root);
        let path = root.join(key.as_str());
        if disk.read(&path).is_ok_and(|found| found == content) {
            return Ok(());
        }
        let mut made = Dirty::default();
        self.patiently(&path, || match disk.replace(&path, content) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_directories(disk, root, key, &mut made)?;
                disk.replace(&path, content)
            }
            done => done,
        })?;
        self.dirty.merge(made);
        Ok(())
    }

    /// Does something that needs room, waiting for it if that is wanted.
    fn patiently(
        &self,
        path: &Path,
        mut operation: impl FnMut() -> io::Result<()>,
    ) -> Result<(), FileError> {
        loop {
            match operation() {
                Ok(()) => return Ok(()),
                Err(error) if disk::is_full(&error) && (self.patience)(path, &error) => {}
                Err(error) => return Err(FileError::Write { path: path.to_owned(), error }),
            }
        }
    }

    fn count(&mut self) -> Result<(), FileError> {
        self.changed += 1;
        if self.changed >= SYNC_KEYS { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), FileError> {
        self.changed = 0;
        let (files, directories) = std::mem::take(&mut self.dirty).paths(&self.place.root);
        let disk = self.place.disk.as_ref();
        disk.sync_files(&files).map_err(|error| FileError::Sync {
            path: files.first().cloned().unwrap_or_default(),
            error,
        })?;
        for path in directories {
            disk.sync_directory(&path).map_err(|error| FileError::Sync { path, error })?;
        }
        Ok(())
    }
}

/// The keys of a spooled snapshot, one by one.
struct Keys<R> {
    spool: Decoder<R>,
    chunk: std::vec::IntoIter<(Key, Bytes)>,
    current: Option<Placed>,
}

impl<R: io::Read> Keys<R> {
    fn new(spool: Decoder<R>) -> Result<Self, SpoolError> {
        let mut keys = Self { spool, chunk: Vec::new().into_iter(), current: None };
        keys.advance()?;
        Ok(keys)
    }

    fn advance(&mut self) -> Result<(), SpoolError> {
        loop {
            if let Some((key, _content)) = self.chunk.next() {
                self.current = Some(Placed(key));
                return Ok(());
            }
            match self.spool.next()? {
                Some(chunk) => self.chunk = chunk.into_iter(),
                None => {
                    self.current = None;
                    return Ok(());
                }
            }
        }
    }

    /// Passes over the keys before this one; whether it is there.
    fn skip_to(&mut self, key: &Key) -> Result<bool, SpoolError> {
        let wanted = Placed(key.clone());
        while self.current.as_ref().is_some_and(|current| *current < wanted) {
            self.advance()?;
        }
        Ok(self.current.as_ref() == Some(&wanted))
    }
}
