//! A UDP socket that tells on which interface and for which address a datagram came.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};

use nix::libc;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, RcvBufForce};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::io::Interest;

use super::listening::set_free;

/// Bytes of received datagrams that the kernel may hold. A hall that gets its power back asks four thousand
/// times at one moment, and the kernel counts some 2 KiB for each question.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// The traffic that a socket listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// Everything that arrives on this interface, broadcasts included. The port may need
    /// `CAP_NET_BIND_SERVICE`.
    Interface(String),
    /// One address of this machine, now or later; needs no privilege above port 1023, hears no broadcast.
    Address(Ipv4Addr),
}

/// A received datagram's envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes that were written to the caller's buffer.
    pub len: usize,
    /// Whether the datagram was longer than the buffer, and is cut.
    pub truncated: bool,
    /// The address of its sender.
    pub source: SocketAddrV4,
    /// The address that it was sent to: one of ours, or a broadcast.
    pub destination: Ipv4Addr,
    /// Number of the interface it came in by.
    pub interface: u32,
}

/// A UDP socket of one interface or address.
#[derive(Debug)]
pub struct UdpSocket(tokio::net::UdpSocket);

impl UdpSocket {
    /// Listens on `port` (0: one that is free), within a tokio runtime. A second socket on the same
    /// interface and port is refused, so another server of the same kind is noticed.
    ///
    /// # Errors
    /// The system's error, such as a missing interface or capability, or a port in use.
    pub fn bind(binding: &Binding, port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        socket.set_broadcast(true)?;
        // Who may not go beyond the system's limit (`net.core.rmem_max`) gets that.
        if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
            socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        }
        setsockopt(&socket, Ipv4PacketInfo, &true)?;
        let address = match binding {
            Binding::Interface(name) => {
                socket.bind_device(Some(name.as_bytes()))?;
                Ipv4Addr::UNSPECIFIED
            }
            Binding::Address(address) => {
                set_free(&socket, (*address).into())?;
                *address
            }
        };
        socket.bind(&SockAddr::from(SocketAddrV4::new(address, port)))?;
        Ok(Self(tokio::net::UdpSocket::from_std(socket.into())?))
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddrV4> {
        match self.0.local_addr()? {
            SocketAddr::V4(address) => Ok(address),
            SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits for a datagram and writes its payload to `buffer`.
    ///
    /// # Errors
    /// The system's error. Errors of earlier sends (ICMP) may show here and concern no datagram.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        self.0.async_io(Interest::READABLE, || receive(self.0.as_raw_fd(), buffer)).await
    }

    /// Sends `payload` to `destination`. The packet's source is `source`, which must be an address
    /// of this machine; `None` means the bound address, or what the kernel's routes say.
    ///
    /// # Errors
    /// The system's error, such as no route.
    pub async fn send(
        &self,
        payload: &[u8],
        source: Option<Ipv4Addr>,
        destination: SocketAddrV4,
    ) -> io::Result<()> {
        let to = SockaddrIn::from(destination);
        // An unspecified source in the control message would also override the bound address.
        let from = source.map(from_address);
        let control: Vec<_> = from.iter().map(ControlMessage::Ipv4PacketInfo).collect();
        let parts = [IoSlice::new(payload)];
        self.0
            .async_io(Interest::WRITABLE, || {
                Ok(sendmsg(self.0.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to))?)
            })
            .await
            .map(drop)
    }
}

/// The packet information that tells the kernel the source address of a packet.
fn from_address(source: Ipv4Addr) -> libc::in_pktinfo {
    libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
        ipi_addr: libc::in_addr { s_addr: 0 },
    }
}

fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut control = nix::cmsg_space!(libc::in_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrIn>(socket, &mut parts, Some(&mut control), MsgFlags::empty())?;
    let packet = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(packet) => Some(packet),
        _ => None,
    });
    let (Some(source), Some(packet)) = (message.address, packet) else {
        return Err(io::Error::other("the kernel told no sender or interface of a datagram"));
    };
    Ok(Datagram {
        len: message.bytes,
        truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
        source: SocketAddrV4::new(source.ip(), source.port()),
        destination: Ipv4Addr::from(packet.ipi_addr.s_addr.to_ne_bytes()),
        interface: u32::try_from(packet.ipi_ifindex).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::interfaces;

    fn bind(address: [u8; 4]) -> UdpSocket {
        UdpSocket::bind(&Binding::Address(address.into()), 0).unwrap()
    }

    #[tokio::test]
    async fn envelope_of_a_datagram() {
        let server = bind([127, 0, 0, 7]);
        let client = bind([127, 0, 0, 8]);
        let to = server.local_addr().unwrap();
        client.send(b"hello", None, to).await.unwrap();
        let mut buffer = [0; 16];
        let got = server.receive(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..got.len], b"hello");
        assert!(!got.truncated);
        assert_eq!(got.source, client.local_addr().unwrap());
        assert_eq!(got.destination, Ipv4Addr::new(127, 0, 0, 7));
        let lo = interfaces().unwrap().into_iter().find(|i| i.loopback).unwrap();
        assert_eq!(got.interface, lo.index);
    }

    #[tokio::test]
    async fn a_long_datagram_is_cut_and_says_so() {
        let server = bind([127, 0, 0, 1]);
        let client = bind([127, 0, 0, 1]);
        let to = server.local_addr().unwrap();
        client.send(&[1; 100], None, to).await.unwrap();
        let got = server.receive(&mut [0; 10]).await.unwrap();
        assert_eq!((got.len, got.truncated), (10, true));
    }

    #[tokio::test]
    async fn the_source_is_the_one_that_was_asked_for() {
        let server = bind([127, 0, 0, 1]);
        let client = UdpSocket::bind(&Binding::Address(Ipv4Addr::UNSPECIFIED), 0).unwrap();
        let to = server.local_addr().unwrap();
        client.send(b"x", Some(Ipv4Addr::new(127, 0, 0, 9)), to).await.unwrap();
        let got = server.receive(&mut [0; 10]).await.unwrap();
        assert_eq!(*got.source.ip(), Ipv4Addr::new(127, 0, 0, 9));
    }

    #[tokio::test]
    async fn a_second_server_is_refused() {
        let first = bind([127, 0, 0, 1]);
        let port = first.local_addr().unwrap().port();
        let second = UdpSocket::bind(&Binding::Address(Ipv4Addr::LOCALHOST), port);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_missing_interface_is_an_error() {
        assert!(UdpSocket::bind(&Binding::Interface("no-such-if0".to_owned()), 0).is_err());
    }
}
