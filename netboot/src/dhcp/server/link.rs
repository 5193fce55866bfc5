//! One network interface that is served.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use stdx::net::{Binding, Datagram, LinkSocket, UdpSocket, arp, frame, interfaces};
use tokio::sync::mpsc;

use super::turn::Received;
use crate::dhcp::engine::reply::{CLIENT_PORT, SERVER_PORT};
use crate::dhcp::engine::{Destination, Outgoing};

/// Longest datagram that is read: a jumbo frame. No client sends a longer message; what is cut off
/// would be options at its end.
const DATAGRAM_MAX: usize = 9_000;
/// After an error of receiving: an interface that is gone must not keep a processor busy.
const RECEIVE_PAUSE: Duration = Duration::from_millis(100);

/// How long a host may take to answer for an address: on one link it takes milliseconds, and a client
/// waits for its offer meanwhile.
const ANSWERS_WITHIN: Duration = Duration::from_millis(300);

/// A link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No such interface, or it lost the address.
    #[error("no interface `{name}` has the address {address}")]
    Missing {
        /// Name of the interface.
        name: String,
        /// Our address on it.
        address: Ipv4Addr,
    },
    /// The list of interfaces could not be had.
    #[error("cannot list the network interfaces")]
    List(#[source] io::Error),
    /// The UDP socket could not be had.
    #[error("cannot listen for DHCP on {at}, port {port}")]
    Listen {
        /// The interface or address.
        at: String,
        port: u16,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// A network interface, or an address that relays write to.
#[derive(Debug)]
pub struct Link {
    /// Our address on it.
    address: Ipv4Addr,
    udp: UdpSocket,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// All clients of the link are served. Without `frames`, for want of `CAP_NET_RAW`, clients
    /// that have no address yet are answered by broadcast.
    Interface { index: u32, mac: Option<[u8; 6]>, frames: Option<LinkSocket> },
    /// Relayed clients only.
    Address,
}

impl Link {
    /// Serves the interface `name`, where our address is `address`, on port 67. Needs
    /// `CAP_NET_BIND_SERVICE`, and `CAP_NET_RAW` to answer without broadcasts.
    ///
    /// # Errors
    /// If there is no such interface with that address, or the port cannot be had.
    pub fn interface(name: &str, address: Ipv4Addr) -> Result<Self, LinkError> {
        let all = interfaces().map_err(LinkError::List)?;
        let interface = all
            .iter()
            .find(|one| one.name == name && one.addresses.iter().any(|a| a.address == address))
            .ok_or_else(|| LinkError::Missing { name: name.to_owned(), address })?;
        let udp = UdpSocket::bind(&Binding::Interface(name.to_owned()), SERVER_PORT)
            .map_err(|error| LinkError::Listen { at: name.to_owned(), port: SERVER_PORT, error })?;
        let frames = match LinkSocket::open() {
            Ok(frames) => Some(frames),
            Err(error) => {
                tracing::warn!(%error, interface = name, "no raw socket, broadcasting replies");
                None
            }
        };
        let (index, mac) = (interface.index, interface.mac);
        let kind = Kind::Interface { index, mac, frames };
        Ok(Self { address, udp, kind })
    }

    /// Serves relays that write to `address`; needs no privilege if `port` is above 1023. A relay
    /// that cannot have port 67 either asks with RFC 8357's sub-option.
    ///
    /// # Errors
    /// If the address is not ours, or the port cannot be had.
    pub fn address(address: Ipv4Addr, port: u16) -> Result<Self, LinkError> {
        let udp = UdpSocket::bind(&Binding::Address(address), port)
            .map_err(|error| LinkError::Listen { at: address.to_string(), port, error })?;
        Ok(Self { address, udp, kind: Kind::Address })
    }

    /// The address and port that are listened on.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddrV4> {
        self.udp.local_addr()
    }

    /// Our address on this link.
    pub(super) fn own_address(&self) -> Ipv4Addr {
        self.address
    }

    /// The host that answers for `address` on this link; none where nobody does, or where it cannot
    /// be asked: there are relays between, or the capability lacks.
    pub(super) async fn host_of(&self, address: Ipv4Addr) -> Option<[u8; 6]> {
        let Kind::Interface { index, mac: Some(mac), frames: Some(_) } = &self.kind else {
            return None;
        };
        let asked = arp::who_has((*index, *mac, self.address), address, ANSWERS_WITHIN).await;
        asked.unwrap_or_else(|error| {
            tracing::debug!(%error, %address, "cannot ask for the address");
            None
        })
    }

    /// Sends a reply on its way.
    pub(super) async fn send(&self, out: &Outgoing) -> io::Result<()> {
        let bytes = out.reply.encode();
        let Kind::Interface { index, frames, .. } = &self.kind else {
            return match out.to {
                Destination::Host(host) => self.udp.send(&bytes, None, host).await,
                Destination::Broadcast(_) | Destination::Frame { .. } => Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "an address without interface serves relayed clients only",
                )),
            };
        };
        let everyone = |port| SocketAddrV4::new(Ipv4Addr::BROADCAST, port);
        match (out.to, frames) {
            (Destination::Host(host), _) => self.udp.send(&bytes, Some(out.source), host).await,
            (Destination::Frame { mac, address }, Some(frames)) => {
                let source = SocketAddrV4::new(out.source, SERVER_PORT);
                let packet = frame::udp_packet(source, address, &bytes)
                    .ok_or(io::ErrorKind::FileTooLarge)?;
                frames.send(*index, mac, &packet).await
            }
            (Destination::Frame { .. }, None) => {
                self.udp.send(&bytes, Some(out.source), everyone(CLIENT_PORT)).await
            }
            (Destination::Broadcast(port), _) => {
                self.udp.send(&bytes, Some(out.source), everyone(port)).await
            }
        }
    }
}

/// Hands every datagram on, until nobody takes them.
pub(super) async fn receive(link: Arc<Link>, at: usize, to: mpsc::Sender<Received>) {
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        let datagram = tokio::select! {
            () = to.closed() => return,
            datagram = link.udp.receive(&mut buffer) => datagram,
        };
        match datagram {
            Ok(Datagram { len, source, destination, .. }) => {
                let bytes = buffer.get(..len).unwrap_or_default().to_vec();
                if to.send(Received { link: at, source, destination, bytes }).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // As a rule an ICMP answer to something that was sent.
                tracing::debug!(%error, address = %link.address, "cannot receive");
                tokio::time::sleep(RECEIVE_PAUSE).await;
            }
        }
    }
}
