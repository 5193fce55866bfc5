//! Frames that guests send, right ones and spoofed ones. No two of a guest are the same.

use std::net::{Ipv4Addr, SocketAddrV4};

use model::MacAddress;
use stdx::net::frame::udp_packet;

/// The address of the card that sends.
const OWN: [u8; 6] = [0xaa, 0, 0, 0, 0, 1];
const STRANGE: [u8; 6] = [0xaa, 0, 0, 0, 0, 7];
const ALL: [u8; 6] = [0xff; 6];
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

pub(super) struct Frame {
    pub(super) name: &'static str,
    pub(super) passes: bool,
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    /// Whether these are its bytes.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        bytes == self.bytes
    }
}

fn ethernet(source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&ALL[..], &source, &kind.to_be_bytes(), payload].concat()
}

/// A payload within a tag of VLAN 5.
fn tagged(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 5], &kind.to_be_bytes()[..], payload].concat()
}

fn udp(source: u16, destination: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 8, 0, 0]].concat()
}

/// A datagram to all. Its checksums are right: the kernel's bridge drops others.
fn ipv4(source: [u8; 4], from: u16, to: u16) -> Vec<u8> {
    let source = SocketAddrV4::new(source.into(), from);
    udp_packet(source, SocketAddrV4::new(Ipv4Addr::BROADCAST, to), &[]).unwrap()
}

fn arp(sender: [u8; 6], address: [u8; 4], wanted: [u8; 4]) -> Vec<u8> {
    [&[0, 1, 8, 0, 6, 4, 0, 1][..], &sender, &address, &[0; 6], &wanted].concat()
}

pub(super) fn who_has(sender: MacAddress, address: [u8; 4], wanted: [u8; 4]) -> Vec<u8> {
    ethernet(sender.bytes(), ARP, &arp(sender.bytes(), address, wanted))
}

fn ipv6(source: &str, kind: u8, payload: &[u8]) -> Vec<u8> {
    let source: std::net::Ipv6Addr = source.parse().unwrap();
    let everyone: std::net::Ipv6Addr = "ff02::1".parse().unwrap();
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0x60, 0, 0, 0, 0, length, kind, 255];
    [&head[..], &source.octets(), &everyone.octets(), payload].concat()
}

/// A message of neighbour discovery on this target.
fn neighbour(kind: u8, target: &str) -> Vec<u8> {
    let target: std::net::Ipv6Addr = target.parse().unwrap();
    [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat()
}

fn frames(all: Vec<(&'static str, bool, Vec<u8>)>) -> Vec<Frame> {
    all.into_iter().map(|(name, passes, bytes)| Frame { name, passes, bytes }).collect()
}

/// Those of a guest with the address 10.0.0.5; the last one arrives.
pub(super) fn frames_v4() -> Vec<Frame> {
    let (own, strange, none) = ([10, 0, 0, 5], [10, 0, 0, 6], [0; 4]);
    let data = |source| ipv4(source, 1, 2);
    frames(vec![
        ("own", true, ethernet(OWN, IPV4, &data(own))),
        ("a strange card's", false, ethernet(STRANGE, IPV4, &data(own))),
        ("a strange address's", false, ethernet(OWN, IPV4, &data(strange))),
        ("for DHCP", true, ethernet(OWN, IPV4, &ipv4(none, 68, 67))),
        ("from nowhere", false, ethernet(OWN, IPV4, &data(none))),
        ("own by ARP", true, ethernet(OWN, ARP, &arp(OWN, own, strange))),
        ("a strange address's by ARP", false, ethernet(OWN, ARP, &arp(OWN, strange, own))),
        ("a strange card's by ARP", false, ethernet(OWN, ARP, &arp(STRANGE, own, strange))),
        ("a question for an address", true, ethernet(OWN, ARP, &arp(OWN, none, own))),
        ("own with a tag", true, ethernet(OWN, VLAN, &tagged(IPV4, &data(own)))),
        ("strange with a tag", false, ethernet(OWN, VLAN, &tagged(IPV4, &data(strange)))),
        ("strange by ARP with a tag", false, {
            ethernet(OWN, VLAN, &tagged(ARP, &arp(OWN, strange, own)))
        }),
        ("strange with two tags", false, {
            ethernet(OWN, SERVICE_VLAN, &tagged(VLAN, &tagged(IPV4, &data(strange))))
        }),
        ("of IPv6", true, ethernet(OWN, IPV6, &ipv6("2001:db8::7", UDP, &udp(1, 2)))),
        ("own again", true, ethernet(OWN, IPV4, &ipv4(own, 1, 3))),
    ])
}

/// Those of a guest with the address 2001:db8::5; the last one arrives.
pub(super) fn frames_v6() -> Vec<Frame> {
    let (own, strange, link) = ("2001:db8::5", "2001:db8::6", "fe80::7");
    let sent = |source, kind, payload: &[u8]| ethernet(OWN, IPV6, &ipv6(source, kind, payload));
    let advert = |target| sent(link, ICMPV6, &neighbour(136, target));
    frames(vec![
        ("own", true, sent(own, UDP, &udp(1, 2))),
        ("a strange address's", false, sent(strange, UDP, &udp(1, 2))),
        ("the link's", true, sent(link, UDP, &udp(1, 2))),
        ("a question for an address", true, sent("::", ICMPV6, &neighbour(135, own))),
        ("a question for routers", true, sent("::", ICMPV6, &[133, 0, 0, 0, 0, 0, 0, 0])),
        ("an echo from nowhere", false, sent("::", ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0])),
        ("from nowhere", false, sent("::", UDP, &udp(1, 2))),
        ("own by discovery", true, advert(own)),
        ("the link's by discovery", true, advert(link)),
        ("strange by discovery", false, advert(strange)),
        ("of IPv4", true, ethernet(OWN, IPV4, &ipv4([10, 0, 0, 6], 1, 2))),
        ("own again", true, sent(own, UDP, &udp(1, 3))),
    ])
}
