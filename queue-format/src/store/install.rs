//! The steps of an installation: from the note in the header until the files are the snapshot's.
//!
//! They are the checkpointer's, who owns the header. A stop before the note leaves the old state, one
//! behind it makes the next start repeat everything from the spool file.

use super::checkpoint::Checkpoint;
use super::commit::FatalError;
use super::files::{FileError, Reach};
use super::incoming::replace::{ReplaceError, replace_all};
use super::incoming::{Installing, SpoolDirectory};

/// How long to wait before trying again on a disk that takes nothing.
const FULL_RETRY: std::time::Duration = std::time::Duration::from_millis(500);

/// Tells the last frame that nobody needs once the files are the snapshot's.
type Covered = Box<dyn FnOnce() -> u64 + Send>;

/// A snapshot that is spooled and checked, to be installed.
pub(crate) struct Request {
    pub(crate) installing: Installing,
    pub(crate) covered: Covered,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("installing", &self.installing).finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Installs what is spooled. None when all ends, or when the disk takes nothing and `patient` is
    /// false: then the next start finishes it, if it was noted.
    pub(crate) fn install(
        &mut self,
        request: Request,
        patient: bool,
    ) -> Result<Option<Reach>, FatalError> {
        let Request { installing, covered } = request;
        if !self.files.hold() {
            return Ok(None);
        }
        self.header.installing = Some(installing.clone());
        if !self.write_header(patient)? {
            return Ok(None);
        }
        self.files.forget();
        let patience = |path: &std::path::Path, error: &std::io::Error| {
            self.files.set_full(path, error);
            patient && self.files.pause(FULL_RETRY)
        };
        let place = self.place();
        match replace_all(&place, &patience) {
            Ok(()) => {}
            Err(error) if error.is_full() => return Ok(None),
            Err(ReplaceError::File(error)) => return Err(FatalError::File(error)),
            Err(ReplaceError::Spool(error)) => {
                let (path, error) = (place.path(), std::io::Error::other(error));
                return Err(FatalError::File(FileError::Read { path, error }));
            }
        }
        let Installing { position, members } = installing;
        self.header.installing = None;
        self.header.position = position;
        self.header.lsn = self.header.lsn.max(covered());
        self.header.committed = self.header.committed.max(position.index);
        self.header.note = self.files.note_with(members);
        if !self.write_header(patient)? {
            return Ok(None);
        }
        let reach = Reach { lsn: self.header.lsn, position };
        self.files.begin_anew(reach);
        if let Err(error) = place.remove() {
            // The next start does it.
            let path = place.path();
            tracing::warn!(path = %path.display(), %error, "cannot remove an installed snapshot");
        }
        Ok(Some(reach))
    }

    fn place(&self) -> SpoolDirectory {
        let (disk, root) = (self.disk.clone(), self.root.clone());
        SpoolDirectory { disk, root, salt: self.header.salt() }
    }
}
