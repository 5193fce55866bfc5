//! A file system of its own in a file, which can end as in a power cut.

use std::fs::{File, create_dir, read_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::is_root;

/// Bytes of the image, most of them a hole: the least that `mkfs.xfs` takes is 300 MB.
const IMAGE_BYTES: u64 = 320 << 20;
/// The directory for the image, if it exists. Flushes of memory take no time, so much more happens
/// between two cuts.
const MEMORY: &str = "/dev/shm";

/// The kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4, as made and mounted by default: contents are written before the log has their names.
    Ext4,
    /// XFS, which gives no such promise.
    Xfs,
}

/// A mounted file system, gone with this value.
#[derive(Debug)]
pub struct LoopFs {
    /// The image and the place to mount it; dropped last.
    dir: TempDir,
    /// The loop device: one for the whole life, since an image that is attached again while the
    /// former device lets go of it has two caches over it.
    device: String,
    /// Keeps the device while nothing is mounted; with the last of its users it is gone, however
    /// this process ends.
    _held: File,
}

impl LoopFs {
    /// A new file system.
    ///
    /// # Errors
    /// Why this machine cannot have one; a test that needs it is skipped.
    pub fn make(kind: Kind) -> Result<Self, String> {
        if !is_root() {
            return Err("only root mounts file systems".to_owned());
        }
        let memory = Path::new(MEMORY);
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::tempdir_in(place).map_err(|error| error.to_string())?;
        let image = dir.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES));
        made.map_err(|error| error.to_string())?;
        let mkfs = match kind {
            Kind::Ext4 => ["mkfs.ext4", "-q"],
            Kind::Xfs => ["mkfs.xfs", "-q"],
        };
        run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&image))?;
        let attach = ["--find", "--show", "--nooverlap"];
        let device = run(Command::new("losetup").args(attach).arg(&image))?.trim().to_owned();
        let held = File::open(&device).map_err(|error| error.to_string())?;
        // Of a device that is in use this only marks that its last user ends it.
        run(Command::new("losetup").args(["--detach", &device]))?;
        let made = Self { dir, device, _held: held };
        create_dir(made.path()).map_err(|error| error.to_string())?;
        made.mount()?;
        Ok(made)
    }

    /// Its mount point.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    /// Something to cut the power by; it must be dropped before [`LoopFs::come_back`].
    pub fn switch(&self) -> Switch {
        Switch(File::open(self.path()).unwrap())
    }

    /// The next boot. Nobody may have a file open on it: only a file system that has let go of
    /// everything is read from the disk again.
    pub fn come_back(&self) {
        self.try_come_back().unwrap();
    }

    /// As [`LoopFs::come_back`].
    ///
    /// # Errors
    /// Somebody has a file open on it, perhaps for a moment only; or it does not mount.
    pub fn try_come_back(&self) -> Result<(), String> {
        run(Command::new("umount").arg(self.path()))?;
        self.mount()
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").arg(&self.device).arg(self.path())).map(drop)
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        // After a failed test something may still be open; it must not stay for ever.
        drop(run(Command::new("umount").arg("--lazy").arg(self.path())));
    }
}

/// Ends a file system.
#[derive(Debug)]
pub struct Switch(File);

impl Switch {
    /// Loses what the file system has not written.
    pub fn cut(&self) {
        stdx::file_system::cut_power(&self.0).unwrap();
    }
}

/// Files below a directory.
pub fn count_files(directory: &Path) -> usize {
    let entries = read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|e| if e.path().is_dir() { count_files(&e.path()) } else { 1 }).sum()
}

fn run(command: &mut Command) -> Result<String, String> {
    let ended = command.output();
    let ended = ended.map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("{:?} failed: {}", command.get_program(), said.trim()))
}
