//! One `masterd` for each root: also where there is no store yet whose lock would tell.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::layout::{self, Layout};

/// Longest that is read of who has the lock: a process id.
const OWNER_BYTES_MAX: u64 = 32;

/// A lock that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process works below the same root.
    #[error(
        "another masterd works on this machine (`{path}` is locked by process {owner}); end it first, \
         or give this one another --root"
    )]
    Locked {
        /// The lock.
        path: PathBuf,
        owner: String,
    },
    /// The lock cannot be taken.
    #[error("cannot lock `{path}`")]
    File {
        /// The lock.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
}

/// The lock; it ends with this, or with the process.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock below this root.
///
/// # Errors
/// Another process has it, or the directory takes no file.
pub(crate) fn take(layout: &Layout) -> Result<Lock, LockError> {
    let path = layout.master_lock();
    let failed = |error| LockError::File { path: path.clone(), error };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(layout::PUBLIC_MODE).open(&path).map_err(failed)?;
    let lock = lock(file, &path)?;
    let told = format!("{}\n", std::process::id());
    let file = &lock._file;
    file.set_len(0).and_then(|()| file.write_all_at(told.as_bytes(), 0)).map_err(failed)?;
    Ok(lock)
}

/// Takes the lock below this root where a daemon made one. For a program that must be alone there, and
/// whose user makes no files for daemons.
///
/// # Errors
/// Another process has it, or it does not read.
pub(crate) fn take_if_there(layout: &Layout) -> Result<Option<Lock>, LockError> {
    let path = layout.master_lock();
    match File::open(&path) {
        Ok(file) => lock(file, &path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LockError::File { path, error }),
    }
}

fn lock(mut file: File, path: &Path) -> Result<Lock, LockError> {
    let failed = |error| LockError::File { path: path.to_owned(), error };
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            (&mut file).take(OWNER_BYTES_MAX).read_to_string(&mut owner).map_err(failed)?;
            Err(LockError::Locked { path: path.to_owned(), owner: owner.trim().to_owned() })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_one_is_refused_and_told_who_has_it() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let first = take(&layout).unwrap();
        let refused = take(&layout).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        let refused = take_if_there(&layout).unwrap_err().to_string();
        assert!(refused.contains("end it first"), "{refused}");
        drop(first);
        let second = take_if_there(&layout).unwrap();
        assert!(second.is_some() && take(&layout).is_err());
        drop(second);
        drop(take(&layout).unwrap());
        assert!(take_if_there(&Layout::new("/nowhere")).unwrap().is_none());
    }
}
