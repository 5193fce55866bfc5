//! Core: writes replies.

use std::collections::BTreeMap;

use super::{FIXED_LEN, Header, MAGIC_COOKIE, MessageType, Packet, option};

/// Shortest message: what BOOTP relays and clients expect (RFC 1542 section 2.1).
pub const MESSAGE_MIN: usize = 300;
/// Longest message: the UDP payload of an Ethernet frame.
pub const MESSAGE_MAX: usize = 1_472;
/// IP and UDP headers, which option 57 counts in.
const HEADERS_LEN: usize = 28;
/// The IP packet that every client takes, RFC 2131 section 2.
const PACKET_EVERYONE_TAKES: u16 = 576;
/// Longest value of one instance of an option.
const INSTANCE_MAX: usize = 255;

/// Comes before what the client asked for, in this order.
const FIRST: [u8; 3] = [option::MESSAGE_TYPE, option::SERVER_ID, option::LEASE_SECONDS];
/// Kept first when not all options fit: without these a reply is void, or boots nothing, or does
/// not find its way back through the relay. The rest follows in the order of the wire.
const KEPT: [u8; 8] = [
    option::MESSAGE_TYPE,
    option::SERVER_ID,
    option::LEASE_SECONDS,
    option::SUBNET_MASK,
    option::RELAY_AGENT,
    option::CLIENT_ID,
    option::VENDOR_CLASS,
    option::BOOT_FILE,
];

/// A reply before it is bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The fixed fields; `sname` and `file` stay empty.
    pub header: Header,
    /// The options, by code.
    pub options: BTreeMap<u8, Vec<u8>>,
    /// Codes in the order that the client asked for them.
    order: Vec<u8>,
    /// Most bytes of the message.
    size_max: usize,
}

impl Reply {
    /// A reply to `request` with `header`, still without options but for its type.
    pub fn new(request: &Packet, kind: MessageType, header: Header) -> Self {
        let packet_max = request.message_size_max().unwrap_or(0).max(PACKET_EVERYONE_TAKES);
        Self {
            header,
            options: BTreeMap::from([(option::MESSAGE_TYPE, vec![kind.code()])]),
            order: request.requested_options().to_vec(),
            size_max: (usize::from(packet_max) - HEADERS_LEN).min(MESSAGE_MAX),
        }
    }

    /// The kind of message.
    pub fn message_type(&self) -> Option<MessageType> {
        let code = self.options.get(&option::MESSAGE_TYPE)?.first()?;
        MessageType::from_code(*code)
    }

    /// The message: options 53, 54 and 51, then in the order that the client asked for, then the
    /// others by code, 82 last and as it came. Options that do not fit are left out; the least
    /// important first.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_MIN);
        write_header(&self.header, &mut bytes);
        // The names of server and boot file.
        bytes.resize(FIXED_LEN, 0);
        bytes.extend(MAGIC_COOKIE);
        let wire_order = self.wire_order();
        let fitting = self.fitting(&wire_order, self.size_max - bytes.len() - 1);
        for code in wire_order.iter().filter(|code| fitting.contains(code)) {
            let value = self.options.get(code).map(Vec::as_slice).unwrap_or_default();
            write_option(*code, value, &mut bytes);
        }
        bytes.push(option::END);
        bytes.resize(bytes.len().max(MESSAGE_MIN), option::PAD);
        bytes
    }

    /// Every code that is present, once, in the order of writing.
    fn wire_order(&self) -> Vec<u8> {
        let mut codes = Vec::with_capacity(self.options.len());
        let all = FIRST.iter().chain(&self.order).chain(self.options.keys());
        for code in all.filter(|code| self.options.contains_key(code)) {
            if *code != option::RELAY_AGENT && !codes.contains(code) {
                codes.push(*code);
            }
        }
        codes
            .extend(self.options.contains_key(&option::RELAY_AGENT).then_some(option::RELAY_AGENT));
        codes
    }

    /// Those codes whose options fit into `room` bytes together.
    fn fitting(&self, wire_order: &[u8], room: usize) -> Vec<u8> {
        let mut left = room;
        let mut fitting = Vec::with_capacity(wire_order.len());
        for code in KEPT.iter().chain(wire_order) {
            let Some(value) = self.options.get(code) else { continue };
            let len = written_len(value);
            if !fitting.contains(code) && len <= left {
                left -= len;
                fitting.push(*code);
            }
        }
        fitting
    }
}

fn write_header(header: &Header, bytes: &mut Vec<u8>) {
    bytes.extend([header.op, header.htype, header.hlen, header.hops]);
    bytes.extend(header.xid.to_be_bytes());
    bytes.extend(header.secs.to_be_bytes());
    bytes.extend(header.flags.to_be_bytes());
    for address in [header.ciaddr, header.yiaddr, header.siaddr, header.giaddr] {
        bytes.extend(address.octets());
    }
    bytes.extend(header.chaddr);
}

/// Bytes that an option takes, with code and length of each instance.
fn written_len(value: &[u8]) -> usize {
    value.len() + 2 * value.len().div_ceil(INSTANCE_MAX).max(1)
}

/// Long values become several instances (RFC 3396).
fn write_option(code: u8, value: &[u8], bytes: &mut Vec<u8>) {
    let mut rest = value;
    loop {
        let (part, after) = rest.split_at_checked(INSTANCE_MAX).unwrap_or((rest, &[]));
        let len = u8::try_from(part.len()).expect("an instance is at most 255 bytes");
        bytes.extend([code, len]);
        bytes.extend(part);
        rest = after;
        if rest.is_empty() {
            return;
        }
    }
}
