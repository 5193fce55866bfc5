//! A blob that could not be kept or read.

use std::io;
use std::path::{Path, PathBuf};

use model::blob::BlobDigest;

/// A blob that could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The system refused.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// It is not here, or not whole.
    #[error("blob {digest} is not here")]
    Missing { digest: BlobDigest },
    /// A piece does not follow what is here: go on at `held`.
    #[error("blob {digest}: a piece begins at {offset}, and {held} bytes are here")]
    Offset {
        digest: BlobDigest,
        /// The offset of the piece.
        offset: u64,
        /// Bytes that are here.
        held: u64,
    },
    /// It is longer than was told.
    #[error("blob {digest} is told to have {size} bytes, and has {length} or more")]
    TooLong {
        digest: BlobDigest,
        /// Its length as told.
        size: u64,
        /// Its length with the last piece.
        length: u64,
    },
    /// Two senders disagree about its length.
    #[error("blob {digest} was begun with {size} bytes")]
    OtherSize {
        digest: BlobDigest,
        /// As it was begun.
        size: u64,
    },
    /// The bytes that arrived do not match the digest.
    #[error("blob {digest} arrived as {found}: the file changed, or was damaged on its way")]
    OtherContent {
        /// Its name.
        digest: BlobDigest,
        /// The digest of the bytes that arrived.
        found: BlobDigest,
    },
    /// Too many arrive at the same time.
    #[error("{max} blobs arrive already; try again when one of them is whole")]
    Busy {
        /// The limit.
        max: usize,
    },
    /// All together would take more than they may.
    #[error("a blob of {size} bytes does not fit: {taken} of {max} bytes are taken; remove images")]
    Quota {
        /// Its length.
        size: u64,
        /// Bytes of the others.
        taken: u64,
        /// The limit.
        max: u64,
    },
    /// The file system is too full.
    #[error("a blob of {size} bytes does not fit: {free_mib} MiB of the file system are free")]
    NoRoom {
        /// Its length.
        size: u64,
        free_mib: u64,
    },
}

impl BlobError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}
