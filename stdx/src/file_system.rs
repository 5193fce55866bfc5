//! A file system that ends at once, for tests of what a power cut leaves.

use std::fs::File;
use std::io;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `FS_IOC_SHUTDOWN`, which ext4 and XFS have under this number.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Nothing is written on the way down, the file system's own log neither.
const NO_LOG_FLUSH: u32 = 2;

/// Ends the file system that `file` lies on, as a power cut would: what it has not written is lost,
/// and everything fails that is asked of it until it is mounted anew.
///
/// # Errors
/// The caller is not root, or this kind of file system cannot do it.
pub fn cut_power(file: &File) -> io::Result<()> {
    // SAFETY: the kernel reads one 32-bit number at the address of `NO_LOG_FLUSH`'s copy, which
    // lives as long as the call, and writes nothing; the opcode is of that size.
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
