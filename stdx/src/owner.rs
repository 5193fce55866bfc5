//! Files that are given to the user of a daemon.

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// A file that could not be given away.
#[derive(Debug, thiserror::Error)]
#[error("cannot give `{path}` to user {user} and group {group}")]
pub struct OwnerError {
    pub path: PathBuf,
    /// To whom.
    pub user: String,
    pub group: String,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// Gives `path` and all below it to `user` and `group`; does not follow symbolic links, and leaves
/// `but` alone. Does nothing unless the process is root's and both exist: who runs a daemon as
/// himself keeps his files.
///
/// # Errors
/// A file cannot be given away.
pub fn give(path: &Path, user: &str, group: &str, but: Option<&Path>) -> Result<(), OwnerError> {
    let uid = nix::unistd::User::from_name(user).ok().flatten().map(|found| found.uid);
    let gid = nix::unistd::Group::from_name(group).ok().flatten().map(|found| found.gid);
    let (Some(uid), Some(gid), true) = (uid, gid, nix::unistd::geteuid().is_root()) else {
        return Ok(());
    };
    give_tree(path, uid.as_raw(), gid.as_raw(), but).map_err(|(path, error)| OwnerError {
        path,
        user: user.to_owned(),
        group: group.to_owned(),
        error,
    })
}

fn give_tree(
    path: &Path,
    user: u32,
    group: u32,
    but: Option<&Path>,
) -> Result<(), (PathBuf, io::Error)> {
    let at = |error| (path.to_owned(), error);
    if but == Some(path) {
        return Ok(());
    }
    let metadata = path.symlink_metadata().map_err(at)?;
    if metadata.is_symlink() {
        return Ok(());
    }
    chown(path, Some(user), Some(group)).map_err(at)?;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).map_err(at)? {
            give_tree(&entry.map_err(at)?.path(), user, group, but)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_user_nothing_changes() {
        let nowhere = Path::new("/nowhere/at/all");
        give(nowhere, "no-such-user", "no-such-group", None).unwrap();
    }

    #[test]
    fn root_gives_everything_but_what_is_left_alone() {
        use std::os::unix::fs::MetadataExt;
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root gives files away");
            return;
        }
        let dir = std::env::temp_dir().join(format!("gantry-owner-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("kept")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).unwrap();
        give(&dir, "nobody", "nogroup", Some(&dir.join("kept"))).unwrap();
        assert_ne!(std::fs::metadata(&dir).unwrap().uid(), 0);
        assert_eq!(std::fs::metadata(dir.join("kept")).unwrap().uid(), 0);
        assert_eq!(std::fs::metadata("/etc/passwd").unwrap().uid(), 0);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
