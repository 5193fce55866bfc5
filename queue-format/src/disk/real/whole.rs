//! Making durable all that a file system holds, where that is cheaper than file by file.
//!
//! A flush of the whole file system writes the small files of a checkpoint in one go: an eighth of the
//! processor time of one fsync each. But it also writes what others have dirtied there, so it is used
//! only while that is little. Its word is taken only where it is known to report errors.

use std::fs::File;
use std::path::Path;

use rustix::fd::AsFd as _;

/// Files from which a whole flush pays.
const FILES_MIN: usize = 256;
/// Most KiB of others that wait for being written, on the whole machine. A disk of 100 MiB/s writes them
/// in five seconds, far less than the journal has room for.
const OTHERS_KIB_MAX: u64 = 512 << 10;
/// KiB that a small file is at least: a block of most file systems.
const FILE_KIB: u64 = 4;
/// First Linux whose `syncfs` tells every error: of written-back data since 5.8, of the file system
/// itself since 5.17.
const LINUX_MIN: (u32, u32) = (5, 17);

/// A file system that can be flushed as a whole.
#[derive(Debug)]
pub(super) struct Whole {
    /// Opened before anything was written: an error since then is told to this descriptor once, and
    /// no other reader can take it away.
    root: Option<File>,
}

impl Whole {
    /// The file system that `directory` is on.
    pub(super) fn of(directory: &Path) -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let tells = version(&release).is_some_and(|version| version >= LINUX_MIN);
        Self { root: tells.then(|| File::open(directory).ok()).flatten() }
    }

    /// Makes everything durable if that is worth it for so many files. False says that it was not done,
    /// or is not known to be done: then each file has to be asked for.
    pub(super) fn flush(&self, files: usize) -> bool {
        let Some(root) = &self.root else { return false };
        if !dirty_kib().is_some_and(|dirty_kib| is_worth_it(files, dirty_kib)) {
            return false;
        }
        match rustix::fs::syncfs(root.as_fd()) {
            Ok(()) => true,
            Err(error) => {
                // It may well be about files of others; ours are asked one by one.
                tracing::warn!(%error, "flush of the whole file system failed");
                false
            }
        }
    }
}

/// Whether so many files are flushed with the whole file system, where so much waits for being written.
fn is_worth_it(files: usize, dirty_kib: u64) -> bool {
    let own_kib = u64::try_from(files).unwrap_or(u64::MAX).saturating_mul(FILE_KIB);
    files >= FILES_MIN && dirty_kib.saturating_sub(own_kib) <= OTHERS_KIB_MAX
}

/// KiB that wait for being written on this machine, or are being written.
fn dirty_kib() -> Option<u64> {
    dirty_of(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn dirty_of(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(kib("Dirty:")? + kib("Writeback:")?)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_linux() {
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version("5.17-rc3"), Some((5, 17)));
        assert_eq!(version("unknown"), None);
        assert!(Some((5, 4)) < Some(LINUX_MIN) && Some((10, 0)) > Some(LINUX_MIN));
    }

    #[test]
    fn what_is_dirty() {
        let meminfo = "MemFree: 5 kB\nDirty:     120 kB\nWriteback:  3 kB\nWritebackTmp: 9 kB\n";
        assert_eq!(dirty_of(meminfo), Some(123));
        assert_eq!(dirty_of("MemFree: 5 kB\n"), None);
        assert!(dirty_kib().is_some());
    }

    #[test]
    fn much_of_others_is_left_and_much_of_ones_own_is_not() {
        for (files, dirty_kib, expected) in [
            (FILES_MIN - 1, 0, false),
            (FILES_MIN, 0, true),
            (FILES_MIN, OTHERS_KIB_MAX + 1_024, true),
            (FILES_MIN, OTHERS_KIB_MAX + 1_025, false),
            (100_000, OTHERS_KIB_MAX + 400_000, true),
            (100_000, OTHERS_KIB_MAX + 400_001, false),
            (usize::MAX, u64::MAX, true),
        ] {
            assert_eq!(is_worth_it(files, dirty_kib), expected, "{files} files of {dirty_kib} KiB");
        }
    }

    #[test]
    fn few_files_are_asked_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Whole::of(dir.path()).flush(FILES_MIN - 1));
        assert!(!Whole { root: None }.flush(FILES_MIN));
        assert!(Whole::of(&dir.path().join("missing")).root.is_none());
    }
}
