//! The LUXI socket on disk: under a name of its own until the master has its role, so that clients
//! find either nobody or a master that answers, and a failed start leaves nothing behind.

use std::path::{Path, PathBuf};

use model::layout;
use tokio::net::UnixListener;

use super::DaemonError;

/// What is added to the socket's name before the master has its role.
const UNPUBLISHED: &str = "new";

/// Longest path of a socket (unix(7): 108 bytes with the one that ends it).
const PATH_BYTES_MAX: usize = 107;

/// A socket that listens and that no client knows.
#[derive(Debug)]
pub(super) struct Socket {
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl Socket {
    /// Makes the socket for `path`. The store's lock is held, so what is there is a leftover.
    pub(super) fn bind(path: PathBuf) -> Result<Self, DaemonError> {
        let failed = |error| DaemonError::Listen { path: path.clone(), error };
        let unpublished = unpublished(&path);
        if path.as_os_str().len() > PATH_BYTES_MAX {
            let text =
                format!("its path is longer than {PATH_BYTES_MAX} bytes; use a shorter --root");
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidInput, text)));
        }
        match std::fs::remove_file(&unpublished) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let listener = UnixListener::bind(&unpublished).map_err(failed)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(layout::SOCKET_MODE);
        std::fs::set_permissions(&unpublished, mode).map_err(failed)?;
        // Only root and members of the group may give the socket to it; others keep their own.
        if let Ok(Some(group)) = nix::unistd::Group::from_name(layout::ADMIN_GROUP)
            && let Err(error) =
                std::os::unix::fs::chown(&unpublished, None, Some(group.gid.as_raw()))
        {
            tracing::warn!(%error, group = layout::ADMIN_GROUP, "socket stays with this user's group");
        }
        Ok(Self { listener: Some(listener), path })
    }

    /// Gives the socket the name under which clients look for it, in place of a leftover.
    pub(super) fn publish(mut self) -> Result<(UnixListener, PathBuf), DaemonError> {
        let path = self.path.clone();
        let failed = |error| DaemonError::Listen { path: path.clone(), error };
        stdx::atomic::rename(&unpublished(&path), &path).map_err(failed)?;
        let listener = self.listener.take().expect("a socket is published once");
        Ok((listener, path))
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

/// Removes a socket.
pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "socket cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn clients_find_the_socket_when_it_is_published_and_a_failed_start_leaves_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/luxi.sock");
        drop(Socket::bind(path.clone()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = Socket::bind(path.clone()).unwrap();
        assert!(UnixStream::connect(&path).is_err());
        let (listener, published) = socket.publish().unwrap();
        assert_eq!(published, path);
        let client = UnixStream::connect(&path).unwrap();
        listener.accept().await.unwrap();
        drop(client);
        remove(&path);
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
    }
}
