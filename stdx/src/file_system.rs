//! How much room a file system has; and one that ends at once, for tests of what a power cut leaves.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `FS_IOC_SHUTDOWN`, which ext4 and XFS have under this number.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Nothing is written on the way down, the file system's own log neither.
const NO_LOG_FLUSH: u32 = 2;

const BYTES_PER_MIB: u64 = 1_024 * 1_024;

/// The room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total_mib: u64,
    /// The free space for the caller, in MiB.
    pub free_mib: u64,
}

/// The room of the file system that `path` lies on.
///
/// # Errors
/// There is no such path, or the system does not tell.
pub fn space(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    let mib = |blocks: u64| blocks.saturating_mul(stat.f_frsize) / BYTES_PER_MIB;
    Ok(Space { total_mib: mib(stat.f_blocks), free_mib: mib(stat.f_bavail) })
}

/// Ends the file system that `file` lies on, as a power cut would. Data that is not written yet is lost,
/// and every operation on it fails until it is mounted anew.
///
/// # Errors
/// The caller is not root, or this kind of file system cannot do it.
pub fn cut_power(file: &File) -> io::Result<()> {
    // SAFETY: the kernel reads one 32-bit number at the address of `NO_LOG_FLUSH`'s copy, and writes
    // nothing. The copy lives as long as the call; the opcode is of that size.
    #[expect(unsafe_code, reason = "no library has this ioctl")]
    unsafe {
        ioctl(file, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_cannot_refuses() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(cut_power(&file).is_err());
    }
}
