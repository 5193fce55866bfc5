//! Keys by which nodes reach copies of disks on other nodes (TLS with a pre-shared key). They lie in a
//! directory on tmpfs, each in one of its own, whose files QEMU's programs read by a descriptor.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use model::instance::launch::ReplicaKey;
use rustix::fs::{XattrFlags, fsetxattr};

use crate::VirtError;
use crate::records::io as failed;

/// The name by which a primary calls itself in the file of its key (psktool(1)).
pub(crate) const USERNAME: &str = "gantry";
/// The name of the file, which QEMU gives.
const FILE: &str = "keys.psk";
/// Modes of a key and of its directory, beside the lists of who else may read them.
const KEY_MODE: u32 = 0o400;
const DIRECTORY_MODE: u32 = 0o700;
/// Longest file of a key that is read.
const KEY_BYTES_MAX: u64 = 4096;

/// The rights of one user to a file, beside its owner's (acl(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    Read,
    ReadWrite,
    /// To a directory: to find files in it.
    Enter,
    /// To a directory: everything.
    All,
}

/// Gives one user rights to a file, or takes them from all but its owner.
///
/// The agent may give no file away, and needs no right for a list of access.
pub(crate) fn share(file: &File, path: &Path, one: Option<(u32, Rights)>) -> Result<(), VirtError> {
    let set = fsetxattr(file, "system.posix_acl_access", &list(one), XattrFlags::empty());
    set.map_err(|error| failed("change the list of access of", path)(error.into()))
}

/// A list of access by which nobody has rights but its owner and one user (the kernel's `posix_acl_xattr.h`: a
/// version, then a tag, permissions and an identity each).
fn list(one: Option<(u32, Rights)>) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    let [owner, user, group, mask, other] = [0x01_u16, 0x02, 0x04, 0x10, 0x20];
    let rights = one.map(|(_, rights)| rights);
    let (own, given) = match rights {
        Some(Rights::Read) => (0o4_u16, 0o4_u16),
        None | Some(Rights::ReadWrite) => (0o6, 0o6),
        Some(Rights::Enter) => (0o7, 0o5),
        Some(Rights::All) => (0o7, 0o7),
    };
    let mut entries = vec![(owner, own, NOBODY)];
    entries.extend(one.map(|(id, _)| (user, given, id)));
    entries.push((group, 0, NOBODY));
    entries.extend(one.map(|_| (mask, given, NOBODY)));
    entries.push((other, 0, NOBODY));
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, identity) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(identity.to_le_bytes());
    }
    list
}

/// The directory of all keys of this node.
#[derive(Debug, Clone)]
pub(crate) struct Keys(PathBuf);

impl Keys {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// Writes a key for a user under a name; gives its directory.
    ///
    /// # Errors
    /// The system says no.
    pub(crate) fn put(&self, name: &str, key: &ReplicaKey, user: u32) -> Result<Placed, VirtError> {
        let placed = Placed(self.0.join(name));
        let (directory, path) = (&placed.0, placed.0.join(FILE));
        let builder = || {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(DIRECTORY_MODE);
            builder
        };
        builder().create(directory).map_err(failed("make the directory", directory))?;
        stdx::atomic::write(&path, text(key).as_bytes(), KEY_MODE)
            .map_err(failed("write the key", &path))?;
        let opened = |path: &Path| File::open(path).map_err(failed("open", path));
        share(&opened(&path)?, &path, Some((user, Rights::Read)))?;
        share(&opened(directory)?, directory, Some((user, Rights::Enter)))?;
        Ok(placed)
    }

    /// Whether a name has this key.
    pub(crate) fn has(&self, name: &str, key: &ReplicaKey) -> bool {
        let path = self.0.join(name).join(FILE);
        let is_short = std::fs::metadata(&path).is_ok_and(|file| file.len() <= KEY_BYTES_MAX);
        is_short && std::fs::read(&path).is_ok_and(|has| has == text(key).as_bytes())
    }

    /// Removes keys whose names begin so, which an earlier agent left.
    pub(crate) fn clean(&self, begin: &str) {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| name.starts_with(begin)) {
            self.remove(&name);
        }
    }

    /// Removes the key of a name.
    pub(crate) fn remove(&self, name: &str) {
        drop(Temporary(Placed(self.0.join(name))));
    }
}

fn text(key: &ReplicaKey) -> String {
    format!("{USERNAME}:{}\n", key.expose())
}

/// The directory of a key.
#[derive(Debug)]
pub(crate) struct Placed(PathBuf);

impl Placed {
    /// A descriptor of it.
    pub(crate) fn open(&self) -> Result<OwnedFd, VirtError> {
        Ok(File::open(&self.0).map_err(failed("open", &self.0))?.into())
    }

    /// It, until that is dropped.
    pub(crate) fn for_now(self) -> Temporary {
        Temporary(self)
    }
}

/// A key that ends with this value.
#[derive(Debug)]
pub(crate) struct Temporary(Placed);

impl Temporary {
    pub(crate) fn open(&self) -> Result<OwnedFd, VirtError> {
        self.0.open()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let path = &self.0.0;
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a key stays");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_written_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::new(dir.path().join("keys"));
        let [first, second] = [1, 2].map(|byte| ReplicaKey::new(&[byte; 32]));
        drop(keys.put("a", &first, 7_000).unwrap());
        assert!(keys.has("a", &first) && !keys.has("a", &second) && !keys.has("b", &first));
        let path = dir.path().join("keys/a/keys.psk");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("gantry:{}\n", "01".repeat(32))
        );
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "nobody else reads it");
        drop(keys.put("join-b", &first, 7_000).unwrap());
        keys.clean("join-");
        assert!(!keys.has("join-b", &first) && keys.has("a", &first));
        drop(keys.put("a", &second, 7_000).unwrap().for_now());
        assert!(!dir.path().join("keys/a").exists());
        keys.remove("a");
    }

    #[test]
    fn rights_that_were_given_are_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let file = File::create(&path).unwrap();
        share(&file, &path, Some((7_000, Rights::ReadWrite))).unwrap();
        share(&file, &path, None).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
