//! Disks: files in directories that the node's owner allows.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use model::instance::launch::DiskLaunch;

use crate::VirtError;
use crate::records::io as failed;

pub(crate) const MIB: u64 = 1024 * 1024;
/// Bytes of what `st_blocks` counts (stat(2)).
const BLOCK: u64 = 512;
/// Directories below one another that are looked through: that of an instance, and one more.
const DEPTH_MAX: u32 = 3;
/// Mode of a disk.
const DISK_MODE: u32 = 0o600;
/// A disk is no link to elsewhere.
const FLAGS: i32 = nix::libc::O_NOFOLLOW;
/// Directories that a list may name.
const DIRECTORIES_MAX: usize = 64;

/// The disks of a node. Each operation may be repeated, and blocks.
#[derive(Debug, Clone)]
pub struct Storage {
    /// The file with the directories in which disks may lie; a line each.
    list: PathBuf,
    /// The directory in which they may lie where there is no list.
    usual: PathBuf,
}

impl Storage {
    /// Disks may lie in the directories that the file `list` names, or below `usual` where it is not there.
    pub fn new(list: PathBuf, usual: PathBuf) -> Self {
        Self { list, usual }
    }

    /// The directories in which disks may lie.
    fn allowed(&self) -> Vec<PathBuf> {
        let Ok(text) = fs::read_to_string(&self.list) else { return vec![self.usual.clone()] };
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        lines.take(DIRECTORIES_MAX).map(PathBuf::from).collect()
    }

    /// The path of a disk, if it may lie there: also behind every symbolic link on the way.
    fn path(&self, path: &str) -> Result<PathBuf, VirtError> {
        let forbidden = || VirtError::Forbidden { path: path.to_owned(), list: self.list.clone() };
        let wanted = PathBuf::from(path);
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let allowed = self.allowed();
        let allows = |path: &Path| {
            allowed.iter().any(|directory| path != directory && path.starts_with(directory))
        };
        if !wanted.is_absolute() || !wanted.components().all(is_plain) || !allows(&wanted) {
            return Err(forbidden());
        }
        // The part of the way that is there: a link in it must not lead elsewhere.
        let there = wanted.ancestors().skip(1).find_map(|path| path.canonicalize().ok());
        let real = |directory: &PathBuf| directory.canonicalize().ok();
        let is_inside = there.is_none_or(|there| {
            allowed.iter().any(|directory| {
                let real = real(directory);
                real.is_none_or(|real| there.starts_with(&real) || real.starts_with(&there))
            })
        });
        if is_inside { Ok(wanted) } else { Err(forbidden()) }
    }

    /// Makes a disk, sparse; one that is there keeps its content.
    ///
    /// # Errors
    /// It may not lie there, or the system says no.
    pub fn create(&self, disk: &DiskLaunch) -> Result<(), VirtError> {
        let path = self.path(disk.place.path())?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed("make the directory", directory))?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(DISK_MODE).custom_flags(FLAGS);
        let file = options.open(&path).map_err(failed("make the disk", &path))?;
        enlarge(&file, &path, disk.size)?;
        file.sync_all().map_err(failed("write", &path))?;
        stdx::atomic::sync_parent(&path).map_err(failed("write", &path))
    }

    /// Opens a disk for a guest, which may then write to it or not.
    ///
    /// # Errors
    /// It may not lie there, or is not there.
    pub fn open(&self, disk: &DiskLaunch, writes: bool) -> Result<File, VirtError> {
        let path = self.path(disk.place.path())?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(writes).custom_flags(FLAGS).open(&path);
        file.map_err(failed("open the disk", &path))
    }

    /// Writes the image in the file `image` over all of a disk.
    ///
    /// # Errors
    /// The disk is too small or not there, or the image does not read.
    pub fn write_image(&self, disk: &DiskLaunch, image: &Path) -> Result<(), VirtError> {
        let path = self.path(disk.place.path())?;
        let from = File::open(image).map_err(failed("open the image", image))?;
        let to = self.open(disk, true)?;
        crate::image::write(from, &to, disk.size * MIB).map_err(|error| VirtError::Image {
            image: image.to_owned(),
            disk: path,
            error,
        })
    }

    /// Removes a disk, and its directory if that is empty then.
    ///
    /// # Errors
    /// It may not lie there, or the system says no.
    pub fn remove(&self, disk: &DiskLaunch) -> Result<(), VirtError> {
        let path = self.path(disk.place.path())?;
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove the disk", &path)(error)),
        }
        self.tidy(&path);
        Ok(())
    }

    /// Removes the directory of a disk that was there, if nothing is in it and it is none of the list's.
    fn tidy(&self, path: &Path) {
        let directory =
            path.parent().filter(|directory| !self.allowed().iter().any(|d| d == directory));
        // Whatever else is in it stays, and so does the directory.
        if let Some(directory) = directory
            && fs::remove_dir(directory).is_ok()
        {
            tracing::debug!(directory = %directory.display(), "removed the directory of disks");
        }
    }

    /// Makes a disk as large as `size` MiB; with `dry_run`, looks whether there is room.
    ///
    /// # Errors
    /// It is not there, it would shrink, or there is no room.
    pub fn grow(&self, disk: &DiskLaunch, size: u64, dry_run: bool) -> Result<(), VirtError> {
        let path = self.path(disk.place.path())?;
        let file = OpenOptions::new().write(true).custom_flags(FLAGS).open(&path);
        let file = file.map_err(failed("open the disk", &path))?;
        let has = length(&file, &path)?;
        let file_system =
            rustix::fs::fstatvfs(&file).map_err(|error| failed("look at", &path)(error.into()))?;
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize) / MIB;
        let more = size.saturating_sub(has);
        if more > free {
            let path = path.display().to_string();
            return Err(VirtError::NoRoom { path, wanted: more, free });
        }
        if dry_run {
            return Ok(());
        }
        enlarge(&file, &path, size)?;
        file.sync_all().map_err(failed("write", &path))
    }

    /// Takes a disk to another path; one that is there already stays.
    ///
    /// # Errors
    /// It may not lie at one of both, or the system says no.
    pub fn rename(&self, disk: &DiskLaunch, to: &str) -> Result<(), VirtError> {
        let (from, to) = (self.path(disk.place.path())?, self.path(to)?);
        if !from.exists() && to.exists() {
            return Ok(());
        }
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory).map_err(failed("make the directory", directory))?;
        }
        stdx::atomic::rename(&from, &to).map_err(failed("rename the disk", &from))?;
        self.tidy(&from);
        Ok(())
    }

    /// The room in a directory of disks; none if it is not there.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn space(&self, directory: &str) -> Result<Option<Space>, VirtError> {
        let path = Path::new(directory);
        let found = match rustix::fs::statvfs(path) {
            Ok(found) => found,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed("look at", path)(error.into())),
        };
        let mib = |blocks: u64| blocks.saturating_mul(found.f_frsize) / MIB;
        Ok(Some(Space {
            total_mib: mib(found.f_blocks),
            free_mib: mib(found.f_bavail),
            used_mib: used(path, DEPTH_MAX) / MIB,
        }))
    }

    /// The size of a disk, in MiB; none if it is not there.
    ///
    /// # Errors
    /// It may not lie there, or the system says no.
    pub fn size(&self, disk: &DiskLaunch) -> Result<Option<u64>, VirtError> {
        let path = self.path(disk.place.path())?;
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(Some(metadata.len() / MIB)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at the disk", &path)(error)),
        }
    }
}

/// The room in a directory of disks, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All that its file system has.
    pub total_mib: u64,
    pub free_mib: u64,
    /// The blocks of the files in it.
    pub used_mib: u64,
}

/// The bytes of all files in a directory, to some depth; what goes away meanwhile does not count.
fn used(directory: &Path, depth: u32) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() && depth > 0 => used(&entry.path(), depth - 1),
        Ok(found) => found.blocks() * BLOCK,
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn length(file: &File, path: &Path) -> Result<u64, VirtError> {
    let metadata = file.metadata().map_err(failed("look at", path))?;
    Ok(metadata.len() / MIB)
}

fn enlarge(file: &File, path: &Path, size: u64) -> Result<(), VirtError> {
    let has = length(file, path)?;
    if has > size {
        return Err(VirtError::Shrinks { path: path.display().to_string(), has, wanted: size });
    }
    file.set_len(size * MIB).map_err(failed("enlarge", path))
}

#[cfg(test)]
mod tests;
