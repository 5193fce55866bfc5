//! Core: DHCP messages of a machine's firmware.

use std::net::Ipv4Addr;

/// Bytes before the options.
const HEADER: usize = 240;
/// Shortest message that relays of old pass on.
const LEAST: usize = 300;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Replies shall be broadcast: the machine has no address that it could be written to.
const BROADCAST: [u8; 2] = [0x80, 0];
/// First bytes of the machines' Ethernet addresses.
const MAC: [u8; 2] = [0x52, 0x54];
/// What firmware that boots by HTTP asks for, and says of itself.
const WANTED: [u8; 8] = [55, 6, 1, 3, 6, 12, 60, 67];
const CLASS: &[u8] = b"HTTPClient:Arch:00016:UNDI:003000";
const X64_HTTP: [u8; 4] = [93, 2, 0, 16];

pub(super) const DISCOVER: u8 = 1;
pub(super) const OFFER: u8 = 2;
pub(super) const REQUEST: u8 = 3;
pub(super) const ACK: u8 = 5;

/// A server's message to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) machine: u32,
    pub(super) kind: u8,
    pub(super) address: Ipv4Addr,
    pub(super) server: Ipv4Addr,
}

/// What a machine asks; for a lease that was offered, with its address and server.
pub(super) fn question(machine: u32, kind: u8, taken: Option<(Ipv4Addr, Ipv4Addr)>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let number = machine.to_be_bytes();
    bytes[..4].copy_from_slice(&[1, 1, 6, 0]);
    bytes[4..8].copy_from_slice(&number);
    bytes[10..12].copy_from_slice(&BROADCAST);
    bytes[28..30].copy_from_slice(&MAC);
    bytes[30..34].copy_from_slice(&number);
    bytes[236..].copy_from_slice(&COOKIE);
    bytes.extend([53, 1, kind]);
    if let Some((address, server)) = taken {
        for (code, value) in [(50, address), (54, server)] {
            bytes.extend([code, 4]);
            bytes.extend(value.octets());
        }
    }
    bytes.extend(WANTED);
    bytes.extend(X64_HTTP);
    bytes.extend([60, u8::try_from(CLASS.len()).expect("a short text")]);
    bytes.extend(CLASS);
    bytes.push(255);
    bytes.resize(bytes.len().max(LEAST), 0);
    bytes
}

/// Reads a server's message.
pub(super) fn reply(bytes: &[u8]) -> Option<Reply> {
    let four = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    let (mut kind, mut server) = (None, None);
    if *bytes.first()? != 2 || four(236)? != COOKIE {
        return None;
    }
    let mut rest = bytes.get(HEADER..)?;
    while let [code, tail @ ..] = rest {
        rest = match code {
            0 => tail,
            255 => break,
            _ => {
                let (length, tail) = tail.split_first()?;
                let (value, tail) = tail.split_at_checked(usize::from(*length))?;
                match (code, value) {
                    (53, [one]) => kind = Some(*one),
                    (54, &[a, b, c, d]) => server = Some(Ipv4Addr::new(a, b, c, d)),
                    _ => {}
                }
                tail
            }
        };
    }
    let address = Ipv4Addr::from(four(16)?);
    Some(Reply { machine: u32::from_be_bytes(four(4)?), kind: kind?, address, server: server? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_replies_are_messages() {
        let (address, server) = (Ipv4Addr::new(10, 69, 0, 32), Ipv4Addr::new(10, 69, 0, 3));
        let mut bytes = question(7, REQUEST, Some((address, server)));
        assert!(bytes.len() >= LEAST);
        assert_eq!(reply(&bytes), None, "it is no server's");
        (bytes[0], bytes[242]) = (2, ACK);
        bytes[16..20].copy_from_slice(&address.octets());
        assert_eq!(reply(&bytes), Some(Reply { machine: 7, kind: ACK, address, server }));
        assert_eq!(reply(&bytes[..245]), None);
    }
}
