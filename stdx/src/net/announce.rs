//! Core: the messages by which a host tells its link that it has taken an address over, so that nobody
//! sends to its former host. They are an ARP announcement (RFC 5227 section 2.3), or an unsolicited
//! Neighbour Advertisement (RFC 4861 section 7.2.6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::frame::checksum;

/// Protocol number of ARP in an Ethernet frame.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Protocol number of IPv6 in an Ethernet frame.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Everybody on the link.
pub(super) const BROADCAST: [u8; 6] = [0xff; 6];
/// All nodes of the link (RFC 4291 section 2.7.1), and their Ethernet address (RFC 2464 section 7).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// ARP for IPv4 over Ethernet: kinds of addresses, and their lengths (RFC 826).
pub(super) const ARP_OVER_ETHERNET: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
pub(super) const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

/// Next header of ICMPv6 (RFC 4443).
const PROTOCOL_ICMPV6: u8 = 58;
/// The proof that a message was not routed (RFC 4861 section 7.1.2).
const HOP_LIMIT: u8 = 255;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Hosts with another Ethernet address for it are to forget that one.
const FLAG_OVERRIDE: u8 = 0x20;
const OPTION_TARGET_ADDRESS: u8 = 2;

/// A message to one Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The protocol, as in an Ethernet frame.
    pub ethertype: u16,
    /// The Ethernet address.
    pub to: [u8; 6],
    /// The bytes behind the Ethernet header.
    pub payload: Vec<u8>,
}

/// The messages that tell the link that `address` is that of the interface with `mac`. For IPv4 the
/// question and the answer: some hosts and switches heed one of them alone.
pub fn announcements(address: IpAddr, mac: [u8; 6]) -> Vec<Announcement> {
    match address {
        IpAddr::V4(address) => {
            let arp = |operation| Announcement {
                ethertype: ETHERTYPE_ARP,
                to: BROADCAST,
                payload: arp(operation, address, mac),
            };
            vec![arp(ARP_REQUEST), arp(ARP_REPLY)]
        }
        IpAddr::V6(address) => {
            let payload = advertisement(address, mac);
            vec![Announcement { ethertype: ETHERTYPE_IPV6, to: ALL_NODES_MAC, payload }]
        }
    }
}

fn arp(operation: u8, address: Ipv4Addr, mac: [u8; 6]) -> Vec<u8> {
    // Of a question, nobody's: it is what is asked for.
    let target = if operation == ARP_REQUEST { [0; 6] } else { BROADCAST };
    let mut packet = ARP_OVER_ETHERNET.to_vec();
    packet.extend([0, operation]);
    packet.extend(mac);
    packet.extend(address.octets());
    packet.extend(target);
    packet.extend(address.octets());
    packet
}

fn advertisement(address: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, FLAG_OVERRIDE, 0, 0, 0];
    message.extend(address.octets());
    // The option's length, in units of eight bytes.
    message.extend([OPTION_TARGET_ADDRESS, 1]);
    message.extend(mac);
    let length = u16::try_from(message.len()).expect("32 bytes").to_be_bytes();
    let sum = checksum([
        &address.octets()[..],
        &ALL_NODES.octets(),
        &[0, 0, length[0], length[1], 0, 0, 0, PROTOCOL_ICMPV6],
        &message,
    ]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], PROTOCOL_ICMPV6, HOP_LIMIT];
    packet.extend(address.octets());
    packet.extend(ALL_NODES.octets());
    packet.extend(message);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    #[test]
    fn arp_asks_and_answers_for_its_own_address() {
        let [request, reply] = &announcements([10, 0, 0, 9].into(), MAC)[..] else { panic!() };
        assert_eq!((request.ethertype, request.to), (0x0806, [0xff; 6]));
        assert_eq!(
            request.payload,
            [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9]
        );
        assert_eq!(reply.payload[..8], [0, 1, 8, 0, 6, 4, 0, 2]);
        assert_eq!(reply.payload[8..18], request.payload[8..18]);
        assert_eq!(reply.payload[24..], [10, 0, 0, 9]);
    }

    #[test]
    fn an_advertisement_overrides_and_verifies() {
        let [sent] = &announcements("fd00::9".parse().unwrap(), MAC)[..] else { panic!() };
        assert_eq!((sent.ethertype, sent.to), (0x86dd, [0x33, 0x33, 0, 0, 0, 1]));
        let packet = &sent.payload;
        assert_eq!(packet.len(), 72);
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!(packet[40..42], [136, 0]);
        assert_eq!(packet[44..48], [0x20, 0, 0, 0]);
        assert_eq!(packet[48..64], packet[8..24]);
        assert_eq!(packet[64..], [2, 1, 2, 0, 0, 0, 0, 9]);
        // A receiver sums everything, checksum included, and expects all ones.
        let pseudo = [0, 0, 0, 32, 0, 0, 0, 58];
        assert_eq!(checksum([&packet[8..40], &pseudo, &packet[40..]]), 0);
    }
}
