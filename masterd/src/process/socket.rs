//! A LUXI socket on disk. It has a name of its own until the master has its role. So clients find either
//! nobody or a master that answers, and a failed start leaves nothing behind.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use luxi::{Door, Rights};
use model::audit::Interface;
use model::layout::{self, Layout, RAPI_USER};
use model::role::Role;
use nix::unistd::{Group, User, getegid, geteuid};
use tokio::net::UnixListener;

use super::DaemonError;

/// The suffix of the socket's name before the master has its role.
const UNPUBLISHED: &str = "new";

/// The name under which Ganeti's tools look for the socket, in a directory of their own.
const GANETI_NAME: &str = "ganeti-query";

/// Longest path of a socket (unix(7): 108 bytes with the one that ends it).
const PATH_BYTES_MAX: usize = 107;

/// The sockets of a master that is to be: its own, the one for queries, and one for Ganeti's tools where
/// that is wanted.
///
/// # Errors
/// One cannot be made, or another process listens where Ganeti's tools look.
pub(super) fn bind(layout: &Layout, ganeti: Option<&Path>) -> Result<Vec<Socket>, DaemonError> {
    let own = Socket::bind(layout.luxi_socket(), Role::Operator)?;
    let queries = Socket::bind(layout.query_socket(), Role::Read)?;
    let ganeti = ganeti.map(Socket::bind_for_ganeti).transpose()?;
    Ok([own, queries].into_iter().chain(ganeti).collect())
}

/// The rights of this machine's users at a socket for those who have the role `least`.
fn rights(least: Role) -> Rights {
    let interface = if least == Role::Read { Interface::Query } else { Interface::Luxi };
    let own = geteuid().as_raw();
    let groups = Role::ALL.into_iter().filter_map(|role| Some((group_of(role)?, role)));
    let speaker = User::from_name(RAPI_USER).ok().flatten();
    let speakers = speaker.map(|user| user.uid.as_raw()).into_iter().collect();
    Rights { interface, owners: vec![0, own], groups: groups.collect(), speakers }
}

/// The group of those who have a role. Without these groups, that of the daemon's own user administers
/// the cluster.
fn group_of(role: Role) -> Option<u32> {
    let named = Group::from_name(role.group()?).inspect_err(|error| {
        tracing::warn!(%role, %error, "the group cannot be found");
    });
    let named = named.ok().flatten().map(|group| group.gid.as_raw());
    named.or_else(|| (role == Role::Administrator).then(|| getegid().as_raw()))
}

/// Lets those who have the role `least`, or a greater one, use a socket.
fn open_to_roles(path: &Path, least: Role) -> io::Result<()> {
    let main = if least == Role::Read { Role::Read } else { Role::Administrator };
    open_to_group(path, main, layout::SOCKET_MODE)?;
    let others = Role::ALL.into_iter().filter(|role| *role >= least && *role != main);
    let others: Vec<u32> = others.filter_map(group_of).collect();
    if let Err(error) = stdx::acl::share(path, &others) {
        let (path, group) = (path.display(), main.group());
        tracing::warn!(
            %path, %error, group,
            "the file system has no access lists, so only members of this group may use the socket"
        );
    }
    Ok(())
}

/// Lets clients find the sockets.
///
/// # Errors
/// The directory takes no change.
pub(super) fn publish(sockets: Vec<Socket>) -> Result<(Vec<Door>, Vec<Published>), DaemonError> {
    let published: Result<Vec<_>, _> = sockets.into_iter().map(Socket::publish).collect();
    Ok(published?.into_iter().unzip())
}

/// Makes the directory where clients put what they upload, unless it is there.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_spool(directory: &Path) -> io::Result<()> {
    if !directory.is_dir() {
        std::fs::create_dir_all(directory)?;
        open_to_group(directory, Role::Administrator, layout::SPOOL_MODE)?;
    }
    Ok(())
}

/// Gives a file to the group of a role. Only root and members of the group may do that; the files of
/// others stay with their own group.
fn open_to_group(path: &Path, role: Role, mode: u32) -> io::Result<()> {
    if let Some(name) = role.group()
        && let Ok(Some(group)) = Group::from_name(name)
        && let Err(error) = std::os::unix::fs::chown(path, None, Some(group.gid.as_raw()))
    {
        let (path, group) = (path.display(), role.group());
        tracing::warn!(%path, %error, group, "stays with this user's group");
    }
    // Behind it: another group takes away the bit that hands a directory's group down.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// A socket that listens and that no client knows.
#[derive(Debug)]
pub(super) struct Socket {
    listener: Option<UnixListener>,
    path: PathBuf,
    rights: Arc<Rights>,
}

impl Socket {
    /// Makes the socket in a directory where Ganeti's tools look for it. No lock tells whose a
    /// socket there is, so it is asked whether anybody listens.
    pub(super) fn bind_for_ganeti(directory: &Path) -> Result<Self, DaemonError> {
        let path = directory.join(GANETI_NAME);
        let failed = |error| DaemonError::Listen { path: path.clone(), error };
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => {
                let text = "there is something else of this name; move it away";
                return Err(failed(io::Error::new(ErrorKind::AlreadyExists, text)));
            }
            Ok(_) if is_in_use(&path).map_err(failed)? => {
                let text = "another process listens there; end it, or leave --ganeti-socket out";
                return Err(failed(io::Error::new(ErrorKind::AddrInUse, text)));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Self::bind(path, Role::Operator)
    }

    /// Makes the socket for `path` and for those who have the role `least`. A socket that is there
    /// already is a leftover: for the master's own socket, the held lock of the store shows that.
    pub(super) fn bind(path: PathBuf, least: Role) -> Result<Self, DaemonError> {
        let failed = |error| DaemonError::Listen { path: path.clone(), error };
        let unpublished = unpublished(&path);
        if path.as_os_str().len() > PATH_BYTES_MAX {
            let text =
                format!("its path is longer than {PATH_BYTES_MAX} bytes; use a shorter directory");
            return Err(failed(io::Error::new(ErrorKind::InvalidInput, text)));
        }
        match std::fs::remove_file(&unpublished) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let listener = luxi::listen(&unpublished).map_err(failed)?;
        open_to_roles(&unpublished, least).map_err(failed)?;
        Ok(Self { listener: Some(listener), path, rights: Arc::new(rights(least)) })
    }

    /// Gives the socket the name under which clients look for it, in place of a leftover.
    pub(super) fn publish(mut self) -> Result<(Door, Published), DaemonError> {
        let path = self.path.clone();
        let failed = |error| DaemonError::Listen { path: path.clone(), error };
        stdx::atomic::rename(&unpublished(&path), &path).map_err(failed)?;
        let listener = self.listener.take().expect("a socket is published once");
        let file = file_of(&path).map_err(failed)?;
        let door = Door { listener, rights: Arc::clone(&self.rights) };
        Ok((door, Published { path, file }))
    }
}

/// A socket that clients can find.
#[derive(Debug)]
pub(super) struct Published {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Published {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless another one has taken its place.
    pub(super) fn remove(&self) {
        if file_of(&self.path).ok() == Some(self.file) {
            remove(&self.path);
        } else {
            tracing::warn!(path = %self.path.display(), "socket is not this master's any more");
        }
    }
}

fn file_of(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Whether somebody listens on a socket.
fn is_in_use(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        // Gone by now, or left behind.
        Err(error)
            if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.listener.is_some() {
            remove(&unpublished(&self.path));
        }
    }
}

fn unpublished(path: &Path) -> PathBuf {
    path.with_extension(UNPUBLISHED)
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "socket cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_find_the_socket_when_it_is_published_and_a_failed_start_leaves_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/luxi.sock");
        drop(Socket::bind(path.clone(), Role::Operator).unwrap());
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = Socket::bind(path.clone(), Role::Operator).unwrap();
        assert!(UnixStream::connect(&path).is_err());
        let (door, published) = socket.publish().unwrap();
        assert_eq!(published.path(), path);
        let client = UnixStream::connect(&path).unwrap();
        door.listener.accept().await.unwrap();
        drop(client);
        published.remove();
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_place_of_ganeti_is_taken_only_where_nobody_listens() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("ganeti/socket");
        let path = directory.join("ganeti-query");
        let other = Socket::bind_for_ganeti(&directory).unwrap().publish().unwrap();
        let refused = Socket::bind_for_ganeti(&directory).unwrap_err();
        assert!(stdx::daemon::chain(&refused).contains("another process listens"), "{refused:?}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the other's is untouched");
        drop(other.0);
        let (_listener, published) =
            Socket::bind_for_ganeti(&directory).unwrap().publish().unwrap();
        assert!(UnixStream::connect(&path).is_ok(), "a leftover is replaced");
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, layout::SOCKET_MODE);
        other.1.remove();
        assert!(path.exists(), "it is not the other's any more");
        published.remove();
        assert!(!path.exists());
        stdx::atomic::write(&path, b"precious", 0o600).unwrap();
        let refused = Socket::bind_for_ganeti(&directory).unwrap_err();
        assert!(stdx::daemon::chain(&refused).contains("move it away"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
