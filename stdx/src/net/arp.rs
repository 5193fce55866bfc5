//! Asks an Ethernet for the host that has an IPv4 address (RFC 826).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, bind, recv, sendto, socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::announce::{ARP_OVER_ETHERNET, ARP_REQUEST, BROADCAST, ETHERTYPE_ARP};
use super::link::link_address;

/// Length of an ARP packet for IPv4.
const PACKET_LEN: usize = 28;

/// Asks on the interface numbered `index`, which has the address `own` and the Ethernet address
/// `mac`, for `address`. Gives the Ethernet address of the host that answers first, none where nobody
/// does within `wait`. Needs `CAP_NET_RAW`.
///
/// # Errors
/// The system's error, such as a missing capability, or an interface that is down.
pub async fn who_has(
    (index, mac, own): (u32, [u8; 6], Ipv4Addr),
    address: Ipv4Addr,
    wait: Duration,
) -> io::Result<Option<[u8; 6]>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
    bind(fd.as_raw_fd(), &link_address(index, mac, ETHERTYPE_ARP)?)?;
    #[expect(unsafe_code, reason = "tokio asks its caller for the life of the descriptor")]
    // SAFETY: `OwnedFd` owns an open descriptor, and nobody takes it out of the `AsyncFd`.
    let fd: AsyncFd<OwnedFd> = unsafe { AsyncFd::register(fd) }?;
    let to = link_address(index, BROADCAST, ETHERTYPE_ARP)?;
    let question = question((mac, own), address);
    fd.async_io(Interest::WRITABLE, |fd| {
        Ok(sendto(fd.as_raw_fd(), &question, &to, MsgFlags::empty())?)
    })
    .await?;
    let answered = async {
        loop {
            let mut packet = [0; PACKET_LEN];
            let length = fd
                .async_io(Interest::READABLE, |fd| {
                    Ok(recv(fd.as_raw_fd(), &mut packet, MsgFlags::empty())?)
                })
                .await?;
            if let Some(host) = host(&packet[..length.min(PACKET_LEN)], address) {
                return Ok(host);
            }
        }
    };
    tokio::time::timeout(wait, answered).await.ok().transpose()
}

fn question((mac, own): ([u8; 6], Ipv4Addr), address: Ipv4Addr) -> Vec<u8> {
    let mut packet = ARP_OVER_ETHERNET.to_vec();
    packet.extend([0, ARP_REQUEST]);
    packet.extend(mac);
    packet.extend(own.octets());
    packet.extend([0; 6]);
    packet.extend(address.octets());
    packet
}

/// The host that says by this packet, question or answer, that it has `address`.
fn host(packet: &[u8], address: Ipv4Addr) -> Option<[u8; 6]> {
    let (kind, rest) = packet.split_at_checked(8)?;
    let (mac, rest) = rest.split_first_chunk::<6>()?;
    let sender = rest.first_chunk::<4>()?;
    (kind.starts_with(&ARP_OVER_ETHERNET) && *sender == address.octets()).then_some(*mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_what_it_sends() {
        let (mac, address) = ([2, 0, 0, 0, 0, 9], Ipv4Addr::new(10, 0, 0, 9));
        let packet = question((mac, address), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(packet.len(), PACKET_LEN);
        assert_eq!(host(&packet, address), Some(mac));
        assert_eq!(host(&packet, Ipv4Addr::new(10, 0, 0, 1)), None);
        assert!((0..18).all(|len| host(&packet[..len], address).is_none()));
    }
}
