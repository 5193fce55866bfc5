//! Sockets that know their interface, and frames to hosts that have no address yet.
//!
//! [`frame`] builds an IPv4 + UDP packet by hand; [`interface`] lists what the machine has;
//! [`udp`] receives with the interface and destination of every datagram; [`link`] sends what
//! [`frame`] built straight to an Ethernet address; [`places`] bounds the clients of a TCP port.

pub mod frame;
pub mod interface;
pub mod link;
pub mod places;
pub mod udp;

pub use interface::{Interface, InterfaceAddress, interfaces};
pub use link::LinkSocket;
pub use places::Places;
pub use udp::{Binding, Datagram, UdpSocket};
