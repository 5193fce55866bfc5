//! The sockets at which clients come in.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use super::Rights;
use crate::limits::BACKLOG;

/// Listens on a new Unix socket at `path`, with room for [`BACKLOG`] clients that wait to be
/// accepted. Must be called within a tokio runtime.
///
/// # Errors
/// There is something at `path`, or the system refuses.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket.into())
}

/// A socket of a server, and what clients may do there.
#[derive(Debug)]
pub struct Door {
    /// The socket.
    pub listener: UnixListener,
    /// The rights of its clients.
    pub rights: Arc<Rights>,
}

/// The sockets of one server.
#[derive(Debug)]
pub struct Doors {
    doors: Vec<Door>,
    /// The one to look at first.
    first: usize,
}

impl From<UnixListener> for Doors {
    fn from(listener: UnixListener) -> Self {
        vec![listener].into()
    }
}

/// Doors for the user of this process alone.
impl From<Vec<UnixListener>> for Doors {
    fn from(listeners: Vec<UnixListener>) -> Self {
        let rights = Arc::new(Rights::of_one(rustix::process::geteuid().as_raw()));
        let door = |listener| Door { listener, rights: Arc::clone(&rights) };
        listeners.into_iter().map(door).collect::<Vec<_>>().into()
    }
}

impl From<Vec<Door>> for Doors {
    fn from(doors: Vec<Door>) -> Self {
        Self { doors, first: 0 }
    }
}

impl Doors {
    /// The next client, at whichever socket; each is looked at first in its turn, so that a crowd
    /// at one keeps nobody out of another.
    pub(super) async fn accept(&mut self) -> io::Result<(UnixStream, Arc<Rights>)> {
        self.first = (self.first + 1) % self.doors.len().max(1);
        poll_fn(|context| {
            let (before, from) = self.doors.split_at(self.first);
            for door in from.iter().chain(before) {
                if let Poll::Ready(accepted) = door.listener.poll_accept(context) {
                    let with_rights = |(stream, _address)| (stream, Arc::clone(&door.rights));
                    return Poll::Ready(accepted.map(with_rights));
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(path: &Path) -> Socket {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        // As Ganeti's client: it does not wait for room, and fails where there is none.
        socket.set_nonblocking(true).unwrap();
        socket.connect(&SockAddr::unix(path).unwrap()).unwrap();
        socket
    }

    #[tokio::test]
    async fn hundreds_of_clients_come_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("luxi.sock");
        let mut doors = Doors::from(listen(&path).unwrap());
        let clients: Vec<_> = (0..500).map(|_| connect(&path)).collect();
        for _ in &clients {
            doors.accept().await.unwrap();
        }
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_crowd_at_one_door_keeps_nobody_out_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        let listeners: Vec<_> = paths.iter().map(|path| listen(path).unwrap()).collect();
        let mut doors = Doors::from(listeners);
        let _crowd: Vec<_> = (0..10).map(|_| connect(&paths[0])).collect();
        let _other = connect(&paths[1]);
        let mut came_to = Vec::new();
        for _ in 0..4 {
            let (stream, _rights) = doors.accept().await.unwrap();
            came_to.push(stream.local_addr().unwrap().as_pathname() == Some(&paths[1]));
        }
        assert!(came_to.contains(&true), "one of the first is the other door's");
    }
}
