//! Core: messages of rtnetlink(7) that list, add and remove addresses of interfaces (RFC 3549).

use std::net::IpAddr;

use nix::libc;

/// Attribute that says which program made an address; kernels before 5.18 pass over it.
const IFA_PROTO: u16 = 11;
/// Length of a message's header: length, type, flags, sequence number, port.
const HEADER_LEN: usize = 16;
/// Length of what an address message has behind its header: family, prefix, flags, scope, index.
const BODY_LEN: usize = 8;
/// Length of an attribute's header: length and type.
const ATTRIBUTE_LEN: usize = 4;
/// Messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;
/// Bits of an attribute's type that are no part of it: nested, and big-endian.
const TYPE_MASK: u16 = 0x3fff;

/// An address of an interface, with what the kernel keeps beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkAddress {
    /// Number of the interface.
    pub index: u32,
    pub address: IpAddr,
    /// Leading bits that name the network.
    pub prefix_len: u8,
    /// Which program made it, a number that programs choose above 3; 0 where nothing is known.
    pub origin: u8,
    /// Its label, for IPv4: the interface's name, or that with `:` and a word.
    pub label: Option<String>,
}

/// A reply of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetlinkReply {
    /// One address of a list.
    Address(LinkAddress),
    /// All is said or done; an error number where it is not 0.
    End(i32),
}

/// Asks for all addresses.
pub fn list(sequence: u32) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
    message(libc::RTM_GETADDR, flags, sequence, &[0; BODY_LEN])
}

/// Adds an address, which must not be there. One of IPv6 is usable at once: its former host must not
/// keep it from being taken over (no duplicate address detection, RFC 4862 section 5.4).
pub fn add(address: &LinkAddress, sequence: u32) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut body = described(address);
    if let Some(label) = address.label.as_deref().filter(|_| address.address.is_ipv4()) {
        let mut text = label.as_bytes().to_vec();
        text.push(0);
        attribute(&mut body, libc::IFA_LABEL, &text);
    }
    attribute(&mut body, IFA_PROTO, &[address.origin]);
    message(libc::RTM_NEWADDR, flags, sequence, &body)
}

pub fn remove(address: &LinkAddress, sequence: u32) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    message(libc::RTM_DELADDR, flags, sequence, &described(address))
}

/// The replies in a datagram of the kernel to the message of that number; none to others.
pub fn parse(mut datagram: &[u8], sequence: u32) -> Vec<NetlinkReply> {
    let mut told = Vec::new();
    while let Some((kind, number, body, rest)) = next_message(datagram) {
        datagram = rest;
        if number != sequence {
            continue;
        }
        let error = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        match i32::from(kind) {
            libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                told.push(NetlinkReply::End(error.saturating_neg()));
            }
            _ if kind == libc::RTM_NEWADDR => told.extend(address(body).map(NetlinkReply::Address)),
            _ => {}
        }
    }
    told
}

/// Family, prefix, flags, scope, index and the address itself.
fn described(address: &LinkAddress) -> Vec<u8> {
    let (family, flags) = match address.address {
        IpAddr::V4(_) => (libc::AF_INET, 0),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IFA_F_NODAD),
    };
    let byte = |number: u32| u8::try_from(number).expect("families and these flags fit a byte");
    let family = byte(u32::try_from(family).expect("address families are small numbers"));
    let mut body = vec![family, address.prefix_len, byte(flags), libc::RT_SCOPE_UNIVERSE];
    body.extend(address.index.to_ne_bytes());
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        match address.address {
            IpAddr::V4(address) => attribute(&mut body, kind, &address.octets()),
            IpAddr::V6(address) => attribute(&mut body, kind, &address.octets()),
        }
    }
    body
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE_LEN + value.len()).expect("labels and addresses");
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
}

fn message(kind: u16, flags: i32, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_LEN + body.len()).expect("some dozen bytes");
    let flags = u16::try_from(flags).expect("flags have 16 bits");
    let mut message = Vec::with_capacity(HEADER_LEN + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The port: the kernel knows whose socket it is.
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// Type, sequence number and body of the first message, and what follows it; none where there is no
/// whole one.
fn next_message(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let message = bytes.get(..length)?;
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let sequence = u32::from_ne_bytes(*message.get(8..)?.first_chunk()?);
    let rest = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    Some((kind, sequence, message.get(HEADER_LEN..)?, rest))
}

fn address(body: &[u8]) -> Option<LinkAddress> {
    let [_family, prefix_len, _flags, _scope] = *body.first_chunk()?;
    let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let mut attributes = body.get(BODY_LEN..)?;
    let (mut local, mut remote, mut origin, mut label) = (None, None, 0, None);
    while let Some((kind, value, rest)) = next_attribute(attributes) {
        attributes = rest;
        match kind & TYPE_MASK {
            libc::IFA_LOCAL => local = ip(value),
            libc::IFA_ADDRESS => remote = ip(value),
            libc::IFA_LABEL => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                label = Some(String::from_utf8_lossy(text).into_owned());
            }
            IFA_PROTO => origin = value.first().copied().unwrap_or(0),
            _ => {}
        }
    }
    // On a link between two hosts the second one is the other end's.
    let address = local.or(remote)?;
    Some(LinkAddress { index, address, prefix_len, origin, label })
}

fn next_attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(ATTRIBUTE_LEN..length)?;
    Some((kind, value, bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default()))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4().or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(address: &str, label: Option<&str>) -> LinkAddress {
        LinkAddress {
            index: 7,
            address: address.parse().unwrap(),
            prefix_len: 26,
            origin: 103,
            label: label.map(str::to_owned),
        }
    }

    /// A request has the layout of the kernel's lists.
    #[test]
    fn what_is_added_reads_as_itself() {
        for wanted in [wanted("10.0.0.9", Some("eth0:gnt")), wanted("fd00::9", None)] {
            let message = add(&wanted, 5);
            assert_eq!(parse(&message, 5), [NetlinkReply::Address(wanted)]);
            assert_eq!(parse(&message, 6), []);
        }
    }

    #[test]
    fn layout_is_that_of_the_manual() {
        let message = remove(&wanted("10.0.0.9", Some("eth0:gnt")), 5);
        assert_eq!(message.len(), 16 + 8 + 8 + 8);
        assert_eq!(message[..4], 40_u32.to_ne_bytes());
        assert_eq!(message[4..6], 21_u16.to_ne_bytes());
        assert_eq!(message[6..8], 5_u16.to_ne_bytes());
        assert_eq!(message[16..20], [2, 26, 0, 0]);
        assert_eq!(message[20..24], 7_u32.to_ne_bytes());
        assert_eq!(message[28..32], [10, 0, 0, 9]);
        assert_eq!(list(1)[6..8], 0x301_u16.to_ne_bytes());
        assert_eq!(add(&wanted("fd00::9", None), 5)[16..20], [10, 26, 2, 0]);
    }

    #[test]
    fn an_end_has_its_error() {
        let end = |error: i32| message(2, 0, 9, &error.to_ne_bytes());
        assert_eq!(parse(&end(-1), 9), [NetlinkReply::End(1)]);
        assert_eq!(
            parse(&[end(0), end(-17)].concat(), 9),
            [NetlinkReply::End(0), NetlinkReply::End(17)]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes, 0).len() <= bytes.len());
        }

        #[test]
        fn a_message_with_any_byte_changed_is_read(at in 0_usize..60, byte in any::<u8>()) {
            let mut message = add(&wanted("fd00::9", None), 0);
            let at = at % message.len();
            message[at] = byte;
            prop_assert!(parse(&message, 0).len() <= 1);
        }
    }
}
