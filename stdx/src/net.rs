//! Sockets that know their interface, frames to hosts that have no address yet, and addresses that
//! move from host to host.
//!
//! The module [`frame`] builds an IPv4 + UDP packet by hand, and [`interface`] lists the interfaces of
//! the machine. Datagrams come by [`udp`], with the interface and destination of each. Frames go by
//! [`link`] straight to an Ethernet address. The messages to the kernel about [`addresses`] are in
//! [`netlink`], those to the link in [`announce`]. The module [`listening`] waits for addresses,
//! [`places`] bounds the clients of a TCP port, and [`port_owner`] names who has a UDP port. A [`tap`] is
//! the card of a virtual machine.

pub mod addresses;
pub mod announce;
pub mod arp;
pub mod frame;
pub mod interface;
pub mod link;
pub mod listening;
pub mod netlink;
pub mod places;
pub mod port_owner;
pub mod tap;
pub mod udp;

pub use addresses::Addresses;
pub use interface::{Interface, InterfaceAddress, interfaces};
pub use link::LinkSocket;
pub use listening::{ListenError, Listening, look_for_addresses};
pub use netlink::LinkAddress;
pub use places::{Connection, Places};
pub use udp::{Binding, Datagram, UdpSocket};
