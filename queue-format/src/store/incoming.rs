//! A snapshot from another member: spooled into one file, noted in the header, installed.
//!
//! Until it is noted nothing has changed, and a start removes the file. From then on the old state is
//! void, and a start repeats the installation (`replace`) from the file (`spool`) until it is done.

pub(crate) mod replace;
pub(crate) mod spool;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::spool::{Decoder, Encoder, SpoolError};
use crate::disk::{self, Disk, GrowingFile};
use crate::key::Key;
use crate::position::Position;

/// Name of the spool file in the data directory.
const NAME: &str = "incoming";

/// Keys and contents in one frame, unless a single one has more: what is in memory at a time while
/// it is installed.
const FRAME_BYTES: usize = 1 << 20;

/// Bytes that a key costs in a frame beside its text and content, or more.
const KEY_BYTES: usize = 16;

/// A snapshot that cannot be received or installed. Unless it says otherwise, the store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Another one is on its way.
    #[error("another snapshot is being received: wait until it is installed or given up")]
    Receiving,
    /// The spool file cannot be written.
    #[error("cannot spool a snapshot into `{path}`{}", disk::remedy(.error))]
    Write {
        /// The file, or its directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The sender mixed up the keys.
    #[error("key `{key}` comes too late in the snapshot: it must be sent in the order of its view")]
    Order {
        /// The key that should have come before.
        key: Key,
    },
    /// A call before it failed, or [`Incoming::finish`] was not called.
    #[error("the snapshot was not received to its end: receive it anew")]
    Incomplete,
    /// The spool file does not hold what was written.
    #[error("the snapshot in `{path}` cannot be used: check the disk, then receive it anew")]
    Spool {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        #[source]
        error: SpoolError,
    },
    /// It would lead backwards.
    #[error("the snapshot is of entry {at}, but {position} is applied here: none is needed")]
    Older {
        /// The position of the snapshot.
        at: Position,
        /// The last position that is applied.
        position: Position,
    },
    /// The store ended meanwhile.
    #[error(
        "the store has ended; if the snapshot was being installed, the next start finishes that"
    )]
    Ended,
}

/// A snapshot that the store is to become, as `store.json` notes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installing {
    pub(crate) position: Position,
    /// The members as of that position, and the entry that named them.
    pub(crate) members: (Position, String),
}

/// The place where snapshots are spooled.
#[derive(Debug, Clone)]
pub(crate) struct SpoolDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    /// The start of the checksums.
    pub(crate) salt: u32,
}

impl SpoolDirectory {
    pub(crate) fn path(&self) -> PathBuf {
        self.root.join(NAME)
    }

    fn read(&self) -> Result<Decoder<Box<dyn std::io::Read + Send>>, SpoolError> {
        let file = self.disk.read_slowly(&self.path()).map_err(SpoolError::Read)?;
        Decoder::new(file, self.salt)
    }

    /// Reads all that was spooled, which must be whole and of this position.
    pub(crate) fn check(&self, at: Position) -> Result<(), SpoolError> {
        let mut spool = self.read()?;
        if spool.position() != at {
            return Err(SpoolError::Misplaced { number: 0 });
        }
        while spool.next()?.is_some() {}
        Ok(())
    }

    /// Removes the file, if there is one.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        match self.disk.remove(&self.path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

/// A snapshot on its way into the spool file. Dropped before it is installed, it is given up.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) place: SpoolDirectory,
    pub(crate) installing: Installing,
    file: Box<dyn GrowingFile>,
    encoder: Encoder,
    stage: Stage,
    /// Set while there is one.
    taken: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Failed,
    Finished,
    /// The file may be noted: it belongs to the store, and nobody else may begin one.
    HandedOver,
    Installed,
}

impl Incoming {
    pub(crate) fn begin(
        place: SpoolDirectory,
        installing: Installing,
        taken: Arc<AtomicBool>,
    ) -> Result<Self, InstallError> {
        if taken.swap(true, Ordering::AcqRel) {
            return Err(InstallError::Receiving);
        }
        let begun = place.disk.begin(&place.path());
        let file = match begun {
            Ok(file) => file,
            Err(error) => {
                taken.store(false, Ordering::Release);
                return Err(InstallError::Write { path: place.path(), error });
            }
        };
        let encoder = Encoder::new(place.salt);
        let stage = Stage::Open;
        let mut incoming = Self { place, installing, file, encoder, stage, taken };
        let first = incoming.encoder.position(incoming.installing.position);
        incoming.write(&first)?;
        Ok(incoming)
    }

    /// Takes the next keys and contents, in the order in which [`super::Frozen::next_chunk`] gave
    /// them. Blocks.
    ///
    /// # Errors
    /// The disk takes nothing, or a key comes too late; then the snapshot is to be given up.
    pub fn push(&mut self, chunk: &[(Key, Bytes)]) -> Result<(), InstallError> {
        if self.stage != Stage::Open {
            return Err(InstallError::Incomplete);
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            let (frame, behind) = rest.split_at(frame_keys(rest));
            rest = behind;
            let frame = self.encoder.puts(frame).map_err(|key| {
                self.stage = Stage::Failed;
                InstallError::Order { key }
            })?;
            self.write(&frame)?;
        }
        Ok(())
    }

    /// Says that this was all, and makes it durable. Blocks.
    ///
    /// # Errors
    /// The disk fails; then the snapshot is to be given up.
    pub fn finish(&mut self) -> Result<(), InstallError> {
        if self.stage != Stage::Open {
            return Err(InstallError::Incomplete);
        }
        let last = self.encoder.end();
        self.write(&last)?;
        self.stage = Stage::Failed;
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error| InstallError::Write { path, error }
        };
        self.file.sync().map_err(fail(&self.place.path()))?;
        let root = &self.place.root;
        self.place.disk.sync_directory(root).map_err(fail(root))?;
        self.stage = Stage::Finished;
        Ok(())
    }

    /// Whether all is there, as it was written. From then on the file belongs to the store.
    pub(crate) fn hand_over(&mut self) -> Result<(), InstallError> {
        if self.stage != Stage::Finished {
            return Err(InstallError::Incomplete);
        }
        let checked = self.place.check(self.installing.position);
        checked.map_err(|error| InstallError::Spool { path: self.place.path(), error })?;
        self.stage = Stage::HandedOver;
        Ok(())
    }

    /// The store is what was received, and needs the file no more.
    pub(crate) fn installed(&mut self) {
        self.stage = Stage::Installed;
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), InstallError> {
        self.file.append(frame).map_err(|error| {
            self.stage = Stage::Failed;
            InstallError::Write { path: self.place.path(), error }
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.stage == Stage::HandedOver {
            return;
        }
        if self.stage != Stage::Installed
            && let Err(error) = self.place.remove()
        {
            let path = self.place.path();
            tracing::warn!(path = %path.display(), %error, "cannot remove what was received");
        }
        self.taken.store(false, Ordering::Release);
    }
}

/// How many of these keys go into one frame; at least one.
fn frame_keys(chunk: &[(Key, Bytes)]) -> usize {
    let mut bytes = 0;
    let fits = |(key, content): &&(Key, Bytes)| {
        bytes += KEY_BYTES + key.as_str().len() + content.len();
        bytes <= FRAME_BYTES
    };
    chunk.iter().take_while(fits).count().max(1)
}
