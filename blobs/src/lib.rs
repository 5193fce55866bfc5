//! Files that are named by what they hold: kernels, initrds, images.
//!
//! A blob arrives in pieces, at the offset that [`Blobs::held`] gives, and survives a restart in
//! between. It gets its name when all of it is on disk and has the digest that it is named by, so
//! what has a name is right. A file that somebody removed or cut counts as not here, and can be sent
//! again. An open file outlives its removal, so a reader needs no pin.
//!
//! All of it blocks; call it where that is allowed.

mod error;
mod staging;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::blob::{Blob, BlobDigest};
use model::layout::{DIRECTORY_MODE, DOCUMENT_MODE};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

pub use error::BlobError;
pub use staging::Staging;

/// Directory of those that are not whole yet.
const INCOMING: &str = "incoming";
/// Bytes that are read at a time.
const READ_BYTES: usize = 256 * 1_024;
/// Blobs that arrive at the same time: a few images, each with a kernel and an initrd.
const INCOMING_MAX: usize = 16;
/// MiB of the file system that stay free for the rest of the machine.
const FREE_MIB_MIN: u64 = 256;

/// The blobs below one directory. One process writes them; any may read.
#[derive(Debug)]
pub struct Blobs {
    directory: PathBuf,
    /// Bytes that all may take together.
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    whole: BTreeMap<BlobDigest, u64>,
    incoming: BTreeMap<BlobDigest, Incoming>,
}

/// A blob that is not whole.
#[derive(Debug)]
struct Incoming {
    size: u64,
    /// Bytes that are there.
    length: u64,
    /// Of those; read again from the file after a restart.
    digest: Option<Sha256>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Blobs {
    /// Opens the blobs of `directory`, which together may take `bytes_max`.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open(directory: &Path, bytes_max: u64) -> Result<Self, BlobError> {
        let failed = |action| move |error| BlobError::io(action, directory, error);
        let incoming = directory.join(INCOMING);
        make_directory(&incoming).map_err(failed("make the directory"))?;
        let whole = files(directory).map_err(failed("read the directory"))?;
        let begun = files(&incoming).map_err(failed("read the directory"))?;
        // The size is told by whoever goes on with it.
        let begun = begun
            .into_iter()
            .map(|(digest, length)| (digest, Incoming { size: u64::MAX, length, digest: None }));
        let state = State { whole, incoming: begun.collect() };
        Ok(Self { directory: directory.to_owned(), bytes_max, state: Mutex::new(state) })
    }

    /// All whole blobs.
    pub fn all(&self) -> Vec<Blob> {
        let state = self.state.lock();
        state.whole.iter().map(|(&sha256, &size)| Blob { sha256, size }).collect()
    }

    /// Bytes of `blob` that are here: all of them, those that have arrived, or none.
    pub fn held(&self, blob: Blob) -> u64 {
        let mut state = self.state.lock();
        self.forget_damaged(&mut state, blob);
        let incoming = || state.incoming.get(&blob.sha256).map(|incoming| incoming.length);
        state.whole.get(&blob.sha256).copied().or_else(incoming).unwrap_or(0)
    }

    /// The file of a whole blob, if it is as long as it was.
    pub fn path_of(&self, digest: BlobDigest) -> Option<PathBuf> {
        let size = self.state.lock().whole.get(&digest).copied()?;
        let path = self.path(digest);
        is_whole(&path, size).then_some(path)
    }

    /// Forgets what of `blob` is not on the disk any more, so that it begins anew.
    fn forget_damaged(&self, state: &mut State, blob: Blob) {
        let Blob { sha256, size } = blob;
        let whole = state.whole.get(&sha256);
        if whole.is_some_and(|held| *held != size || !is_whole(&self.path(sha256), size)) {
            tracing::warn!(digest = %sha256, "the file of a blob is gone or damaged");
            state.whole.remove(&sha256);
        }
        // The file may be longer: a failed attempt can leave bytes behind its end.
        let there = || fs::metadata(self.incoming_path(sha256)).map_or(0, |file| file.len());
        if state.incoming.get(&sha256).is_some_and(|begun| begun.length > there()) {
            state.incoming.remove(&sha256);
        }
    }

    /// Takes the bytes of `blob` from `offset` on, and gives how many are here then. The last piece
    /// makes it whole. A piece of a blob that is whole is passed over.
    ///
    /// # Errors
    /// `offset` is not where the bytes end, the piece is too long, or there is no room. Or the whole
    /// blob does not match its digest; it then begins anew.
    pub fn append(&self, blob: Blob, offset: u64, piece: &[u8]) -> Result<u64, BlobError> {
        let mut state = self.state.lock();
        self.forget_damaged(&mut state, blob);
        if let Some(&size) = state.whole.get(&blob.sha256) {
            return Ok(size);
        }
        // It may be gone with all that was in it.
        let incoming = self.directory.join(INCOMING);
        make_directory(&incoming)
            .map_err(|error| BlobError::io("make the directory", &incoming, error))?;
        self.admit(&mut state, blob)?;
        let path = self.incoming_path(blob.sha256);
        let State { whole, incoming: all } = &mut *state;
        let Some(incoming) = all.get_mut(&blob.sha256) else {
            return Err(BlobError::Missing { digest: blob.sha256 });
        };
        let digest = blob.sha256;
        if offset != incoming.length {
            return Err(BlobError::Offset { digest, offset, held: incoming.length });
        }
        let length = offset.saturating_add(piece.len() as u64);
        if length > blob.size {
            return Err(BlobError::TooLong { digest, size: blob.size, length });
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).mode(DOCUMENT_MODE).open(&path);
        let file = file.map_err(|error| BlobError::io("open", &path, error))?;
        let mut hasher = match incoming.digest.take() {
            Some(hasher) => hasher,
            None => hash(&file, offset).map_err(|error| BlobError::io("read", &path, error))?,
        };
        // This overwrites bytes that a failed attempt left behind the offset.
        file.write_all_at(piece, offset).map_err(|error| BlobError::io("write", &path, error))?;
        hasher.update(piece);
        incoming.length = length;
        if length < blob.size {
            incoming.digest = Some(hasher);
            return Ok(length);
        }
        all.remove(&digest);
        self.finish(&file, blob, hasher)?;
        whole.insert(digest, blob.size);
        Ok(length)
    }

    /// Makes room in the tables for a blob that begins, or refuses it.
    fn admit(&self, state: &mut State, blob: Blob) -> Result<(), BlobError> {
        let digest = blob.sha256;
        if let Some(incoming) = state.incoming.get_mut(&digest) {
            if incoming.size == u64::MAX && incoming.length <= blob.size {
                incoming.size = blob.size;
            }
            let size = incoming.size;
            let same = size == blob.size;
            return if same { Ok(()) } else { Err(BlobError::OtherSize { digest, size }) };
        }
        if state.incoming.len() >= INCOMING_MAX {
            return Err(BlobError::Busy { max: INCOMING_MAX });
        }
        let expected = |incoming: &Incoming| match incoming.size {
            u64::MAX => incoming.length,
            size => size,
        };
        let taken =
            state.whole.values().sum::<u64>() + state.incoming.values().map(expected).sum::<u64>();
        if taken.saturating_add(blob.size) > self.bytes_max {
            return Err(BlobError::Quota { size: blob.size, taken, max: self.bytes_max });
        }
        let space = stdx::file_system::space(&self.directory)
            .map_err(|error| BlobError::io("ask the room of", &self.directory, error))?;
        let free_mib = space.free_mib.saturating_sub(FREE_MIB_MIN);
        if blob.size.div_ceil(1_024 * 1_024) > free_mib {
            return Err(BlobError::NoRoom { size: blob.size, free_mib: space.free_mib });
        }
        state.incoming.insert(digest, Incoming { size: blob.size, length: 0, digest: None });
        Ok(())
    }

    /// Gives a blob its name, if it is what that says.
    fn finish(&self, file: &File, blob: Blob, hasher: Sha256) -> Result<(), BlobError> {
        let (from, to) = (self.incoming_path(blob.sha256), self.path(blob.sha256));
        let found = BlobDigest::from_bytes(hasher.finalize().into());
        if found != blob.sha256 {
            fs::remove_file(&from).map_err(|error| BlobError::io("remove", &from, error))?;
            return Err(BlobError::OtherContent { digest: blob.sha256, found });
        }
        // An earlier attempt may have written more than the blob is long.
        file.set_len(blob.size)
            .and_then(|()| file.sync_all())
            .and_then(|()| stdx::atomic::rename(&from, &to))
            .map_err(|error| BlobError::io("finish", &to, error))
    }

    /// Removes all blobs but those of `kept`, also those that are not whole.
    ///
    /// # Errors
    /// A file cannot be removed; the rest is gone all the same.
    pub fn keep(&self, kept: &BTreeSet<BlobDigest>) -> Result<Removed, BlobError> {
        let mut state = self.state.lock();
        let (mut removed, mut failed) = (Removed::default(), None);
        let mut remove = |path: PathBuf, bytes: u64| match fs::remove_file(&path) {
            Ok(()) => {
                removed.files += 1;
                removed.bytes += bytes;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                failed = Some(BlobError::io("remove", &path, error));
                false
            }
        };
        state
            .whole
            .retain(|digest, size| kept.contains(digest) || !remove(self.path(*digest), *size));
        state.incoming.retain(|digest, incoming| {
            kept.contains(digest) || !remove(self.incoming_path(*digest), incoming.length)
        });
        failed.map_or(Ok(removed), Err)
    }

    fn path(&self, digest: BlobDigest) -> PathBuf {
        self.directory.join(digest.to_string())
    }

    fn incoming_path(&self, digest: BlobDigest) -> PathBuf {
        self.directory.join(INCOMING).join(digest.to_string())
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Whether a file has so many bytes.
fn is_whole(path: &Path, size: u64) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == size)
}

/// The digest of the first `length` bytes of `file`.
fn hash(file: &File, length: u64) -> io::Result<Sha256> {
    let (mut hasher, mut buffer, mut at) = (Sha256::new(), vec![0; READ_BYTES], 0);
    while at < length {
        let left = usize::try_from(length - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let read = file.read_at(&mut buffer[..left], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&buffer[..read]);
        at += read as u64;
    }
    Ok(hasher)
}

/// Finds the blob that some bytes are.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    digest: Sha256,
    size: u64,
}

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
    }

    pub fn finish(self) -> Blob {
        let sha256 = BlobDigest::from_bytes(self.digest.finalize().into());
        Blob { sha256, size: self.size }
    }
}

/// The files of a directory that have the name of a blob, with their lengths.
fn files(directory: &Path) -> io::Result<BTreeMap<BlobDigest, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(digest) = name.to_str().and_then(|name| name.parse().ok()) {
            found.insert(digest, entry.metadata()?.len());
        } else if name != INCOMING {
            tracing::warn!(path = %entry.path().display(), "is no blob, and is left alone");
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
