//! Core: DHCPv4 messages on the wire (RFC 2131 section 2, RFC 2132, RFC 3396).
//!
//! Reading never fails past the magic cookie: an option that makes no sense costs that option only. The
//! options in use have their numbers in [`option`]; `scan` reads the option areas. A client has an
//! [`identity`]. Switches are known to [`onie`]; [`encode`] writes replies.
#![warn(clippy::indexing_slicing)]

pub mod encode;
pub mod identity;
pub mod onie;
pub mod option;
mod scan;
#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that panics has done its job")]
pub(crate) mod vectors;

use std::net::Ipv4Addr;

pub use encode::Reply;
pub use identity::Identity;

/// `op` of a client's message.
pub const BOOT_REQUEST: u8 = 1;
/// `op` of a server's message.
pub const BOOT_REPLY: u8 = 2;
/// Hardware type of Ethernet.
pub const ETHERNET: u8 = 1;
/// Bit of `flags` by which a client asks for broadcast answers.
pub const FLAG_BROADCAST: u16 = 0x8000;
/// Length of the fixed part, up to the magic cookie.
pub const FIXED_LEN: usize = 236;
/// First bytes of the option area, RFC 2131 section 3.
pub const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Longest part of a circuit's name that tells it from others.
const CIRCUIT_BYTES_MAX: usize = 64;
/// Longest list of requested options that is looked at: there are no more codes.
const REQUESTED_MAX: usize = 255;

/// Why bytes are no DHCP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Shorter than the fixed part and the cookie.
    #[error("a DHCP message has at least 240 bytes, this one {0}")]
    Short(usize),
    /// A BOOTP message with other vendor extensions, or something else altogether.
    #[error("the magic cookie of DHCP is missing")]
    Cookie,
}

/// Kind of a message, option 53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageType {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
    Inform = 8,
}

impl MessageType {
    fn from_code(code: u8) -> Option<Self> {
        use MessageType::{Ack, Decline, Discover, Inform, Nak, Offer, Release, Request};
        [Discover, Offer, Request, Decline, Ack, Nak, Release, Inform]
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    /// The number on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// The fixed fields that matter here, in the order of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 1 from clients, 2 from servers.
    pub op: u8,
    /// Kind of hardware address.
    pub htype: u8,
    /// Length of the hardware address as the sender told it; above 16 it is wrong.
    pub hlen: u8,
    /// Relays on the way.
    pub hops: u8,
    /// Chosen by the client, echoed.
    pub xid: u32,
    /// Seconds that the client has been trying.
    pub secs: u16,
    /// See [`FLAG_BROADCAST`].
    pub flags: u16,
    /// Address that the client uses already.
    pub ciaddr: Ipv4Addr,
    /// Address that the client gets.
    pub yiaddr: Ipv4Addr,
    /// Server of the next boot step; unused here.
    pub siaddr: Ipv4Addr,
    /// Relay on the client's link.
    pub giaddr: Ipv4Addr,
    /// Hardware address, padded with zeros.
    pub chaddr: [u8; 16],
}

/// A port of a switch, as a rule: where a message entered the network, by the word of its relay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circuit {
    relay: Ipv4Addr,
    name: Vec<u8>,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The fixed fields.
    pub header: Header,
    /// Every option once, in the order of its first instance; instances are joined (RFC 3396).
    options: Vec<(u8, Vec<u8>)>,
}

impl Packet {
    /// Reads a message.
    ///
    /// # Errors
    /// Only if the bytes are too few or the magic cookie is missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let short = || DecodeError::Short(bytes.len());
        let (fixed, rest) = bytes.split_at_checked(FIXED_LEN).ok_or_else(short)?;
        let (cookie, area) = rest.split_at_checked(MAGIC_COOKIE.len()).ok_or_else(short)?;
        if cookie != MAGIC_COOKIE {
            return Err(DecodeError::Cookie);
        }
        let mut fields = Fields(fixed);
        let header = fields.header().ok_or_else(short)?;
        let sname = fields.take::<64>().ok_or_else(short)?;
        let file = fields.take::<128>().ok_or_else(short)?;
        Ok(Self { header, options: scan::scan(area, &file, &sname) })
    }

    /// The bytes of an option; those of all its instances together.
    pub fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(present, _)| *present == code).map(|(_, value)| value.as_slice())
    }

    /// The kind of message. `None` for BOOTP and for numbers unknown here.
    pub fn message_type(&self) -> Option<MessageType> {
        let [code] = self.fixed(option::MESSAGE_TYPE)?;
        MessageType::from_code(code)
    }

    /// An option that holds exactly one address.
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        self.fixed::<4>(code).map(Ipv4Addr::from)
    }

    /// The largest IP packet with a message that the client takes, option 57.
    pub fn message_size_max(&self) -> Option<u16> {
        self.fixed(option::MESSAGE_SIZE_MAX).map(u16::from_be_bytes)
    }

    /// The options that the client asks for, in its order, option 55.
    pub fn requested_options(&self) -> &[u8] {
        let all = self.option(option::PARAMETER_LIST).unwrap_or_default();
        all.get(..REQUESTED_MAX).unwrap_or(all)
    }

    /// Kinds of firmware that the client can boot as, option 93 (RFC 4578), best first.
    pub fn architectures(&self) -> impl Iterator<Item = u16> {
        let value = self.option(option::CLIENT_ARCHITECTURE).unwrap_or_default();
        value.as_chunks().0.iter().copied().map(u16::from_be_bytes)
    }

    /// The machine's UUID, option 97 of type 0, as it is on the wire (most firmware sends the first
    /// three fields little-endian, as SMBIOS has them).
    pub fn machine_uuid(&self) -> Option<[u8; 16]> {
        let [kind, uuid @ ..] = self.fixed::<17>(option::MACHINE_UUID)?;
        (kind == 0).then_some(uuid)
    }

    /// Whether one of the user classes is `class`: the whole option 77, or an entry of its RFC 3004
    /// form (a length byte before each).
    pub fn has_user_class(&self, class: &[u8]) -> bool {
        let value = self.option(option::USER_CLASS).unwrap_or_default();
        value == class || Classes(value).any(|entry| entry == class)
    }

    /// A sub-option of the relay's option 82 (RFC 3046).
    pub fn relay_sub_option(&self, code: u8) -> Option<&[u8]> {
        scan::find(self.option(option::RELAY_AGENT)?, code)
    }

    /// The circuit that it came by, if its relay tells one.
    pub fn circuit(&self) -> Option<Circuit> {
        let name = self.relay_sub_option(option::RELAY_CIRCUIT)?;
        let name = name.get(..CIRCUIT_BYTES_MAX).unwrap_or(name).to_vec();
        Some(Circuit { relay: self.header.giaddr, name })
    }

    /// A sub-option of option 82 that holds exactly one address.
    pub fn relay_address(&self, code: u8) -> Option<Ipv4Addr> {
        let value: [u8; 4] = self.relay_sub_option(code)?.try_into().ok()?;
        Some(value.into())
    }

    /// Whether a relay passed the message on.
    pub fn is_relayed(&self) -> bool {
        !self.header.giaddr.is_unspecified()
    }

    /// The client's Ethernet address; `None` on other hardware.
    pub fn mac(&self) -> Option<[u8; 6]> {
        let [mac @ .., _, _, _, _, _, _, _, _, _, _] = self.header.chaddr;
        (self.header.htype == ETHERNET && self.header.hlen == 6).then_some(mac)
    }

    fn fixed<const N: usize>(&self, code: u8) -> Option<[u8; N]> {
        self.option(code)?.try_into().ok()
    }
}

/// The entries of an RFC 3004 user class; ends where the lengths do not fit.
struct Classes<'a>(&'a [u8]);

impl<'a> Iterator for Classes<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first()?;
        let (entry, rest) = rest.split_at_checked(usize::from(*len))?;
        self.0 = rest;
        Some(entry)
    }
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn address(&mut self) -> Option<Ipv4Addr> {
        self.take::<4>().map(Ipv4Addr::from)
    }

    fn header(&mut self) -> Option<Header> {
        let [op, htype, hlen, hops] = self.take()?;
        Some(Header {
            op,
            htype,
            hlen,
            hops,
            xid: self.take().map(u32::from_be_bytes)?,
            secs: self.take().map(u16::from_be_bytes)?,
            flags: self.take().map(u16::from_be_bytes)?,
            ciaddr: self.address()?,
            yiaddr: self.address()?,
            siaddr: self.address()?,
            giaddr: self.address()?,
            chaddr: self.take()?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that panics has done its job")]
mod differential;
#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that panics has done its job")]
mod tests;
