//! The sockets on which a daemon listens, whose address this machine may not have yet. The interface may
//! come up later, or the address be removed by mistake and come back. The kernel lets a socket wait for
//! that (`IP_FREEBIND`), so that nothing has to be bound anew.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Connections that the kernel holds until they are accepted: as many as the usual library asks for.
const BACKLOG: i32 = 1_024;
/// Between two looks whether the addresses are there.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A place where a daemon listens, and its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// The address and port.
    pub address: SocketAddr,
    /// The service there, as "the node protocol".
    pub purpose: &'static str,
    /// The option of the command line that names the address.
    pub option: &'static str,
}

/// An address where nobody can listen, whether or not the machine has it.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {} for {}{}", of.address, of.purpose, hint(error))]
pub struct ListenError {
    /// The place and its purpose.
    pub of: Listening,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": is another program, or this one a second time, using the port?"
        }
        io::ErrorKind::PermissionDenied => ": a port below 1024 needs CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

impl Listening {
    /// Listens, also where the machine does not have the address yet: connections come once it has.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ListenError`], for another reason than an address that is not there.
    pub fn listen(self) -> Result<TcpListener, ListenError> {
        listen(self.address).map_err(|error| ListenError { of: self, error })
    }

    /// Whether no interface of this machine has the address.
    pub fn is_missing(self) -> bool {
        let probe = std::net::UdpSocket::bind((self.address.ip(), 0));
        probe.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    }
}

/// The warning for an operator about an address that is missing.
impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, purpose, option } = self;
        write!(
            f,
            "no interface of this machine has the address {ip}, at which {purpose} is to be reached: add it \
             (`ip address add {ip}/PREFIX dev INTERFACE`), or give the daemon another one by `{option}`",
            ip = address.ip()
        )
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    set_free(&socket, address.ip())?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Lets a socket be bound to an address that no interface has.
pub(super) fn set_free(socket: &Socket, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(_) => socket.set_freebind_v4(true),
        IpAddr::V6(_) => socket.set_freebind_v6(true),
    }
}

/// Logs which of the addresses are missing, and tells each change, until `stopped` turns true.
pub async fn look_for_addresses(
    all: Vec<Listening>,
    tell: impl Fn(Vec<String>) + Send,
    mut stopped: watch::Receiver<bool>,
) {
    let mut missing: Vec<Listening> = Vec::new();
    loop {
        let found: Vec<_> = all.iter().copied().filter(|one| one.is_missing()).collect();
        for one in found.iter().filter(|one| !missing.contains(one)) {
            tracing::error!(address = %one.address, "{one}");
        }
        for Listening { address, purpose, .. } in missing.iter().filter(|one| !found.contains(one))
        {
            tracing::info!(%address, purpose, "the address is there");
        }
        if found != missing {
            tell(found.iter().map(ToString::to_string).collect());
        }
        missing = found;
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Listening {
        let address = address.parse().unwrap();
        Listening { address, purpose: "toys", option: "--toys" }
    }

    #[tokio::test]
    async fn an_address_that_is_missing_is_waited_for() {
        // Documentation's own, which no machine has.
        for address in ["192.0.2.77:0", "[2001:db8::77]:0"] {
            let there = at(address);
            assert!(there.is_missing(), "{address}");
            let listener = there.listen().unwrap();
            assert_eq!(listener.local_addr().unwrap().ip(), there.address.ip());
            let told = there.to_string();
            assert!(
                told.contains(&there.address.ip().to_string()) && told.contains("`--toys`"),
                "{told}"
            );
        }
        assert!(!at("127.0.0.1:0").is_missing());
        assert!(!at("0.0.0.0:0").is_missing() && !at("[::]:0").is_missing());
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_anothers() {
        let first = at("127.0.0.1:0").listen().unwrap();
        let second = at(&first.local_addr().unwrap().to_string());
        let error = second.listen().unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("is another program"), "{error}");
        // It serves as any other.
        let (mut client, accepted) = tokio::join!(
            async { tokio::net::TcpStream::connect(second.address).await.unwrap() },
            async { first.accept().await.unwrap() }
        );
        drop(accepted);
        let mut end = [0];
        let read = tokio::io::AsyncReadExt::read(&mut client, &mut end).await.unwrap();
        assert_eq!(read, 0);
    }

    #[tokio::test]
    async fn changes_are_told_alone() {
        let (stop, stopped) = watch::channel(false);
        let told = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let heard = std::sync::Arc::clone(&told);
        let all = vec![at("127.0.0.1:1"), at("192.0.2.77:1")];
        let tell = move |missing: Vec<String>| {
            heard.lock().push(missing);
            stop.send_replace(true);
        };
        look_for_addresses(all, tell, stopped).await;
        let told = told.lock().clone();
        assert!(told.len() == 1 && told[0].len() == 1, "{told:?}");
        assert!(told[0][0].contains("192.0.2.77"), "{told:?}");
    }
}
