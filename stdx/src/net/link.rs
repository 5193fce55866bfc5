//! Packets to an Ethernet address, past ARP: for hosts that do not answer ARP because they have no
//! address yet (RFC 2131 section 4.1).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, sendto, socket,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Protocol number of IPv4 in an Ethernet frame.
const ETHERTYPE_IPV4: u16 = 0x0800;
/// Length of an Ethernet address.
const MAC_LEN: u8 = 6;

/// Sends packets as Ethernet frames; never receives. Needs `CAP_NET_RAW`.
#[derive(Debug)]
pub struct LinkSocket(AsyncFd<OwnedFd>);

impl LinkSocket {
    /// Opens the socket, within a tokio runtime.
    ///
    /// # Errors
    /// The system's error, such as a missing capability.
    pub fn open() -> io::Result<Self> {
        // Protocol 0: the kernel queues no received frame for it.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
        #[expect(unsafe_code, reason = "tokio asks its caller for the life of the descriptor")]
        // SAFETY: `OwnedFd` owns an open descriptor, and nobody takes it out of the `AsyncFd`.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::WRITABLE) };
        Ok(Self(registered?))
    }

    /// Sends `packet`, which begins with its IPv4 header, to `mac` out of the interface numbered
    /// `index`.
    ///
    /// # Errors
    /// The system's error, such as an interface that is down or gone.
    pub async fn send(&self, index: u32, mac: [u8; 6], packet: &[u8]) -> io::Result<()> {
        self.send_as(index, mac, ETHERTYPE_IPV4, packet).await
    }

    /// Sends `payload`, which is one of the protocol numbered `ethertype`, to `mac` out of the
    /// interface numbered `index`.
    ///
    /// # Errors
    /// The system's error, such as an interface that is down or gone.
    pub async fn send_as(
        &self,
        index: u32,
        mac: [u8; 6],
        ethertype: u16,
        payload: &[u8],
    ) -> io::Result<()> {
        let to = link_address(index, mac, ethertype)?;
        self.0
            .async_io(Interest::WRITABLE, |fd| {
                Ok(sendto(fd.as_raw_fd(), payload, &to, MsgFlags::empty())?)
            })
            .await
            .map(drop)
    }
}

/// A destination on the link.
pub(super) fn link_address(index: u32, mac: [u8; 6], ethertype: u16) -> io::Result<LinkAddr> {
    let ifindex = i32::try_from(index).map_err(|_too_big| io::ErrorKind::InvalidInput)?;
    let family = u16::try_from(libc::AF_PACKET).expect("address families are small numbers");
    let [a, b, c, d, e, f] = mac;
    let raw = libc::sockaddr_ll {
        sll_family: family,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: MAC_LEN,
        sll_addr: [a, b, c, d, e, f, 0, 0],
    };
    let len = u32::try_from(size_of::<libc::sockaddr_ll>()).expect("20 bytes");
    #[expect(unsafe_code, reason = "nix offers no other way to make a link address")]
    // SAFETY: the pointer is to a live `sockaddr_ll` of exactly `len` bytes whose family is
    // AF_PACKET; `from_raw` copies it before it returns.
    let address = unsafe { LinkAddr::from_raw((&raw const raw).cast(), Some(len)) };
    Ok(address.expect("family and length are those of a link address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_holds_what_was_asked() {
        let to = link_address(7, [1, 2, 3, 4, 5, 6], ETHERTYPE_IPV4).unwrap();
        assert_eq!((to.ifindex(), to.halen()), (7, 6));
        assert_eq!(to.protocol(), 0x0800_u16.to_be());
        assert_eq!(to.addr(), Some([1, 2, 3, 4, 5, 6]));
        assert!(link_address(u32::MAX, [0; 6], 0).is_err());
    }
}
