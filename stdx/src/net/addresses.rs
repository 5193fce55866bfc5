//! Addresses of this machine's interfaces: listed, added and removed by netlink(7). Blocks, for some
//! microseconds as a rule.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
    setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::netlink::{self, LinkAddress, NetlinkReply};

/// Bytes of one datagram of the kernel: it makes none that are longer.
const DATAGRAM_BYTES: usize = 32 * 1024;
/// How long the kernel may take to answer, in seconds: it answers at once, or something is broken.
const ANSWER_SECONDS: i64 = 5;

/// A door to the kernel's list of addresses, in the network namespace of who opened it.
#[derive(Debug)]
pub struct Addresses {
    socket: OwnedFd,
    sequence: u32,
}

impl Addresses {
    /// Opens the door.
    ///
    /// # Errors
    /// The system's error.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(ANSWER_SECONDS))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// All addresses.
    ///
    /// # Errors
    /// The system's error.
    pub fn list(&mut self) -> io::Result<Vec<LinkAddress>> {
        self.ask(netlink::list)
    }

    /// Adds an address. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The system's error: `AlreadyExists` where the interface has it.
    pub fn add(&mut self, address: &LinkAddress) -> io::Result<()> {
        self.ask(|sequence| netlink::add(address, sequence)).map(drop)
    }

    /// Removes an address. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The system's error: `AddrNotAvailable` where the interface has it not.
    pub fn remove(&mut self, address: &LinkAddress) -> io::Result<()> {
        self.ask(|sequence| netlink::remove(address, sequence)).map(drop)
    }

    fn ask(&mut self, message: impl FnOnce(u32) -> Vec<u8>) -> io::Result<Vec<LinkAddress>> {
        self.sequence = self.sequence.wrapping_add(1);
        let socket = self.socket.as_raw_fd();
        let kernel = NetlinkAddr::new(0, 0);
        sendto(socket, &message(self.sequence), &kernel, MsgFlags::empty())?;
        let mut found = Vec::new();
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            let length = recv(socket, &mut datagram, MsgFlags::empty())?;
            for told in netlink::parse(&datagram[..length], self.sequence) {
                match told {
                    NetlinkReply::Address(address) => found.push(address),
                    NetlinkReply::End(0) => return Ok(found),
                    NetlinkReply::End(error) => return Err(io::Error::from_raw_os_error(error)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn what_is_listed_is_what_the_interfaces_have() {
        let listed = Addresses::open().unwrap().list().unwrap();
        for interface in crate::net::interfaces().unwrap() {
            for held in interface.addresses {
                let same = |one: &LinkAddress| {
                    (one.index, one.address, one.prefix_len)
                        == (interface.index, held.address.into(), held.prefix_len)
                };
                assert!(listed.iter().any(same), "{held:?} of {}: {listed:?}", interface.name);
            }
        }
    }

    #[test]
    fn the_kernels_refusal_is_told() {
        let nowhere = LinkAddress {
            index: u32::MAX / 2,
            address: Ipv4Addr::LOCALHOST.into(),
            prefix_len: 32,
            origin: 0,
            label: None,
        };
        let error = Addresses::open().unwrap().remove(&nowhere).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
