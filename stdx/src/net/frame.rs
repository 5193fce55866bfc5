//! Core: an IPv4 packet with one UDP datagram, headers and checksums made by hand.

use std::net::SocketAddrV4;

/// Length of an IPv4 header without options, RFC 791 section 3.1.
const IPV4_HEADER_LEN: usize = 20;
/// Length of a UDP header, RFC 768.
const UDP_HEADER_LEN: usize = 8;
/// Both headers; what a payload gains on its way into the frame.
pub const HEADERS_LEN: usize = IPV4_HEADER_LEN + UDP_HEADER_LEN;
/// Longest payload of an Ethernet frame of 1500 bytes, which must not be fragmented.
pub const PAYLOAD_MAX: usize = 1_500 - HEADERS_LEN;

/// Protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;
/// Version 4, header of five 32-bit words.
const VERSION_AND_LENGTH: u8 = 0x45;
/// Do not fragment.
const FLAGS_DF: u16 = 0x4000;
/// Hops that the packet lives; the receiver is on the same link, this is what hosts send.
const TTL: u8 = 64;

/// An IPv4 packet from `source` to `destination` that carries `payload` by UDP.
///
/// `None` if the payload is longer than [`PAYLOAD_MAX`].
pub fn udp_packet(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    payload: &[u8],
) -> Option<Vec<u8>> {
    if payload.len() > PAYLOAD_MAX {
        return None;
    }
    let udp_len = u16::try_from(UDP_HEADER_LEN + payload.len()).ok()?;
    let total_len = u16::try_from(HEADERS_LEN + payload.len()).ok()?;

    let mut packet = Vec::with_capacity(HEADERS_LEN + payload.len());
    packet.extend([VERSION_AND_LENGTH, 0]);
    packet.extend(total_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(FLAGS_DF.to_be_bytes());
    packet.extend([TTL, PROTOCOL_UDP, 0, 0]);
    packet.extend(source.ip().octets());
    packet.extend(destination.ip().octets());
    let checksum = checksum([packet.as_slice()]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());

    packet.extend(source.port().to_be_bytes());
    packet.extend(destination.port().to_be_bytes());
    packet.extend(udp_len.to_be_bytes());
    let sum = udp_checksum(source, destination, udp_len, payload);
    packet.extend(sum.to_be_bytes());
    packet.extend(payload);
    Some(packet)
}

/// RFC 768: over a pseudo header, the header and the payload; zero would mean "none", so zero is
/// sent as all ones.
fn udp_checksum(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    udp_len: u16,
    payload: &[u8],
) -> u16 {
    let [len_high, len_low] = udp_len.to_be_bytes();
    let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()];
    let sum = checksum([
        &source.ip().octets()[..],
        &destination.ip().octets(),
        &[0, PROTOCOL_UDP, len_high, len_low],
        ports.as_flattened(),
        &[len_high, len_low, 0, 0],
        payload,
    ]);
    if sum == 0 { u16::MAX } else { sum }
}

/// The Internet checksum (RFC 1071) over the parts one after another. All parts but the last have
/// an even length.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum: u64 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > u64::from(u16::MAX) {
        sum = (sum & u64::from(u16::MAX)) + (sum >> 16);
    }
    !u16::try_from(sum).expect("the carry was folded until 16 bits were left")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let source = "10.69.0.3:67".parse().unwrap();
        udp_packet(source, "10.69.0.32:68".parse().unwrap(), payload).unwrap()
    }

    #[test]
    fn layout_is_that_of_the_rfcs() {
        let packet = packet(b"abc");
        assert_eq!(packet.len(), 31);
        assert_eq!(packet[..10], [0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(packet[12..20], [10, 69, 0, 3, 10, 69, 0, 32]);
        assert_eq!(packet[20..26], [0, 67, 0, 68, 0, 11]);
        assert_eq!(packet[28..], *b"abc");
    }

    /// A receiver sums everything, checksum included, and expects all ones.
    #[test]
    fn checksums_verify() {
        for len in [0, 1, 2, 3, 300, 1_471, 1_472] {
            let payload: Vec<u8> = (0..len).map(|i: usize| i.to_le_bytes()[0]).collect();
            let packet = packet(&payload);
            assert_eq!(checksum([&packet[..20]]), 0, "{len}");
            let udp_len = u16::try_from(packet.len() - 20).unwrap().to_be_bytes();
            let pseudo = [0, 17, udp_len[0], udp_len[1]];
            assert_eq!(checksum([&packet[12..20], &pseudo, &packet[20..]]), 0, "{len}");
            assert_ne!(packet[26..28], [0, 0], "{len}");
        }
    }

    /// The worked example of RFC 1071 section 3.
    #[test]
    fn checksum_of_the_rfc() {
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum([&words[..]]), !0xddf2);
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        let source: SocketAddrV4 = "10.0.0.1:67".parse().unwrap();
        let destination = "10.0.0.2:68".parse().unwrap();
        let plain = udp_checksum(source, destination, 10, &[0, 0]);
        assert_eq!(udp_checksum(source, destination, 10, &plain.to_be_bytes()), u16::MAX);
    }

    #[test]
    fn too_long_a_payload_is_refused() {
        let source = "10.0.0.1:67".parse().unwrap();
        let destination = "10.0.0.2:68".parse().unwrap();
        assert!(udp_packet(source, destination, &[0; PAYLOAD_MAX + 1]).is_none());
    }
}
