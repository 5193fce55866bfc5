//! Core: DHCP messages of a machine's firmware, as benches and the demonstration have them.

use std::net::Ipv4Addr;

/// Bytes before the options.
pub(crate) const HEADER: usize = 240;
/// Shortest message that relays of old pass on.
const LEAST: usize = 300;
pub(crate) const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Replies shall be broadcast: the machine has no address that it could be written to.
const BROADCAST: [u8; 2] = [0x80, 0];
/// First bytes of the machines' Ethernet addresses.
const MAC: [u8; 2] = [0x52, 0x54];
/// Options of firmware that boots by HTTP: the ones that it asks for, and those about itself.
const WANTED: [u8; 8] = [55, 6, 1, 3, 6, 12, 60, 67];
const CLASS: &[u8] = b"HTTPClient:Arch:00016:UNDI:003000";
const X64_HTTP: [u8; 4] = [93, 2, 0, 16];

pub(crate) const DISCOVER: u8 = 1;
pub(crate) const OFFER: u8 = 2;
pub(crate) const REQUEST: u8 = 3;
pub(crate) const ACK: u8 = 5;

/// A server's message to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) machine: u32,
    pub(crate) kind: u8,
    pub(crate) address: Ipv4Addr,
    pub(crate) server: Ipv4Addr,
    /// The file to fetch next, where the server names one.
    pub(crate) boot_file: String,
}

/// The question of a machine; for a lease that was offered, with its address and server.
pub(crate) fn question(machine: u32, kind: u8, taken: Option<(Ipv4Addr, Ipv4Addr)>) -> Vec<u8> {
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
pub(crate) fn reply(bytes: &[u8]) -> Option<Reply> {
    let four = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    let (mut kind, mut server, mut boot_file) = (None, None, String::new());
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
                    (67, file) => boot_file = String::from_utf8_lossy(file).into_owned(),
                    _ => {}
                }
                tail
            }
        };
    }
    let address = Ipv4Addr::from(four(16)?);
    let machine = u32::from_be_bytes(four(4)?);
    Some(Reply { machine, kind: kind?, address, server: server?, boot_file })
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
        let boot_file = "http://10.69.0.3/x".to_owned();
        drop(bytes.splice(243..243, [&[67, 18][..], boot_file.as_bytes()].concat()));
        assert_eq!(
            reply(&bytes),
            Some(Reply { machine: 7, kind: ACK, address, server, boot_file })
        );
        assert_eq!(reply(&bytes[..245]), None);
    }
}
