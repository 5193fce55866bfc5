//! One `masterd` for each root: also where there is no store yet whose lock would tell.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use model::layout::{self, Layout};

use super::DaemonError;

/// Longest that is read of who has the lock: a process id.
const OWNER_BYTES_MAX: u64 = 32;

/// The lock; it ends with this, or with the process.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock below this root.
///
/// # Errors
/// Another process has it, or the directory takes no file.
pub(super) fn take(layout: &Layout) -> Result<Lock, DaemonError> {
    let path = layout.master_lock();
    let failed = |error| DaemonError::Lock { path: path.clone(), error };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.mode(layout::PUBLIC_MODE).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            (&mut file).take(OWNER_BYTES_MAX).read_to_string(&mut owner).map_err(failed)?;
            return Err(DaemonError::Locked { path, owner: owner.trim().to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let told = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.write_all_at(told.as_bytes(), 0)).map_err(failed)?;
    Ok(Lock { _file: file })
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
        drop(first);
        drop(take(&layout).unwrap());
    }
}
