//! Core: keys of machines' encrypted disks, kept for them sealed (sabakan's `crypts`, in its specification).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::{NameError, text_name};
use crate::serial::Serial;
use crate::time::Timestamp;
use crate::vault::Sealed;

/// Characters of the name of a disk: names of udev's `by-path` have up to about a hundred.
const DISK_CHARS_MAX: usize = 128;
/// Disks of one machine whose keys are kept: more than a chassis holds.
pub const DISK_KEYS_MAX: usize = 256;

text_name!(
    /// The name of a disk within its machine, such as `pci-0000:00:1f.2-ata-3`. It has 1 to 128 letters,
    /// digits and `. _ : + @ -`, and does not begin with a dot.
    DiskName,
    disk_name
);

fn disk_name(text: &str) -> Result<&str, NameError> {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || b"._:+@-".contains(&b);
    let wrong = |why| Err(NameError::new(text, "name of a disk", why));
    if text.is_empty() || text.len() > DISK_CHARS_MAX {
        return wrong("it must have 1 to 128 characters");
    }
    if text.starts_with('.') || !text.bytes().all(is_good) {
        return wrong("it has letters, digits and . _ : + @ - alone, and begins with no dot");
    }
    Ok(text)
}

/// The key of a disk, sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskKey {
    /// The machine.
    pub serial: Serial,
    pub disk: DiskName,
    /// The key.
    pub sealed: Sealed,
    /// When it came.
    pub ctime: Timestamp,
}

impl DiskKey {
    pub fn key(&self) -> DiskKeyId {
        DiskKeyId { serial: self.serial.clone(), disk: self.disk.clone() }
    }
}

/// A disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskKeyId {
    /// The machine.
    pub serial: Serial,
    pub disk: DiskName,
}

impl DiskKeyId {
    /// The name of its document below `crypts`, `SERIAL/DISK`.
    pub fn escaped(&self) -> String {
        format!("{}/{}", self.serial.escaped(), self.disk)
    }

    /// The disk that [`Self::escaped`] wrote so.
    pub fn from_escaped(text: &str) -> Option<Self> {
        let (serial, disk) = text.split_once('/')?;
        Some(Self { serial: Serial::from_escaped(serial)?, disk: disk.parse().ok()? })
    }

    /// The purpose for which its key is sealed, so that it opens for no other disk.
    pub fn purpose(&self) -> String {
        format!("disk-key/{}", self.escaped())
    }
}

impl fmt::Display for DiskKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.escaped())
    }
}

impl FromStr for DiskKeyId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::new(text, "disk of a machine", "it is SERIAL/DISK");
        Self::from_escaped(text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_names_that_are_files() {
        for good in ["a", "pci-0000:00:1f.2-ata-3", "nvme0n1", "wwn-0x5000c500a1b2c3d4"] {
            assert!(good.parse::<DiskName>().is_ok(), "{good}");
        }
        for wrong in ["", ".", "..", ".a", "a/b", "a b", "a%2f", "ä", &"a".repeat(129)] {
            assert!(wrong.parse::<DiskName>().is_err(), "{wrong}");
        }
        let id = DiskKeyId { serial: "S 1/2".parse().unwrap(), disk: "sda".parse().unwrap() };
        assert_eq!(id.escaped(), "S%201%2F2/sda");
        assert_eq!(id.escaped().parse(), Ok(id));
        assert!("S1".parse::<DiskKeyId>().is_err());
    }
}
