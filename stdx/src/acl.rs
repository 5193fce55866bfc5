//! Access lists of files (acl(5)), as the kernel keeps them.

use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

/// The attribute that holds the list.
const ATTRIBUTE: &str = "system.posix_acl_access";
/// The version of its form.
const VERSION: u32 = 2;
/// The id of an entry that is about nobody in particular.
const NOBODY: u32 = u32::MAX;
/// Kinds of entries, in the order that the kernel wants.
const OWNER: u16 = 0x01;
const OWN_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// To read and to write.
const READ_WRITE: u16 = 6;

/// Lets the owner, the own group and these groups read and write the file, and nobody else. Its mode is
/// then 0660.
///
/// # Errors
/// The file is not this user's, or its file system has no such lists.
pub fn share(path: &Path, groups: &[u32]) -> io::Result<()> {
    setxattr(path, ATTRIBUTE, &list(groups), XattrFlags::empty())?;
    Ok(())
}

fn list(groups: &[u32]) -> Vec<u8> {
    let mut sorted = groups.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let named = sorted.into_iter().map(|group| (GROUP, READ_WRITE, group));
    let entries = [(OWNER, READ_WRITE, NOBODY), (OWN_GROUP, READ_WRITE, NOBODY)].into_iter();
    let entries = entries.chain(named).chain([(MASK, READ_WRITE, NOBODY), (OTHERS, 0, NOBODY)]);
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (kind, rights, id) in entries {
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_list_has_the_form_of_the_kernel() {
        let bytes = list(&[70_000, 5, 5]);
        assert_eq!(bytes.len(), 4 + 6 * 8);
        assert_eq!(bytes[..4], [2, 0, 0, 0]);
        assert_eq!(bytes[20..28], [8, 0, 6, 0, 5, 0, 0, 0]);
        let dir = std::env::temp_dir().join(format!("gantry-acl-{}", std::process::id()));
        crate::atomic::write(&dir, b"", 0o600).unwrap();
        let shared = share(&dir, &[5]);
        let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
        std::fs::remove_file(&dir).unwrap();
        match shared {
            Ok(()) => assert_eq!(mode & 0o777, 0o660),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }
}
