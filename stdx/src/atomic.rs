//! Files that are replaced whole: a reader sees the old content or the new, and after a crash one
//! of them is there.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Replaces `path` by `content` with the given mode bits: temporary file, fsync, rename, fsync of
/// the directory.
///
/// # Errors
/// Any I/O error; the old content is then still in place.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_name(path);
    let written =
        write_temporary(&temporary, content, mode).and_then(|()| rename(&temporary, path));
    if written.is_err() {
        // The error that matters is the first; a leftover is overwritten by the next attempt.
        drop(std::fs::remove_file(&temporary));
    }
    written
}

/// A file that comes to be when all of it is written. Dropped before, it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins one that is to be `path`, with these mode bits. Something else must not have that
    /// name; what an interrupted attempt left is replaced.
    ///
    /// # Errors
    /// There is such a file, or it cannot be written there.
    pub fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let temporary = temporary_name(path);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(Self { file, temporary, path: path.to_owned() })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Any I/O error, or something got that name meanwhile.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::hard_link(&self.temporary, &self.path)?;
        std::fs::remove_file(&self.temporary)?;
        sync_parent(&self.path)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Gone already where it was finished.
        drop(std::fs::remove_file(&self.temporary));
    }
}

/// Renames `from` to `to` and makes the new name durable.
///
/// # Errors
/// Any I/O error of the rename or of the directory's fsync.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper that the lint asks for")]
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_parent(to)
}

/// Makes the names in the directory of `path` durable.
///
/// # Errors
/// Any I/O error of opening or syncing the directory.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn write_temporary(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    // `mode` above is cut by the umask; a key file must have exactly what was asked for.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_content_and_mode() {
        let dir = std::env::temp_dir().join(format!("gantry-atomic-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a");
        write(&path, b"one", 0o644).unwrap();
        write(&path, b"two", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
