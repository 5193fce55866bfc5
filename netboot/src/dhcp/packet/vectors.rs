//! Messages as real clients send them: the first of UEFI HTTP boot, of the iPXE that it loads, and
//! of busybox in a ramdisk; all by one machine.

use std::net::Ipv4Addr;

use super::{BOOT_REQUEST, ETHERNET, MAGIC_COOKIE, MessageType};

/// The machine's Ethernet address.
pub(crate) const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0xaa, 0xbb, 0x01];
/// `file` and `sname`.
const NAMES_LEN: usize = 64 + 128;

/// UEFI HTTP boot: broadcast flag, no client identifier.
pub(crate) const OVMF_FIXED: &str =
    "01010600 6c9f21d4 0000 8000 00000000 00000000 00000000 00000000
     525400aabb01 00000000000000000000";
/// 53, 57, 55, 97, 94, 93, 60.
pub(crate) const OVMF_OPTIONS: &str = "350101 390205c0
     371b 01 02 03 04 05 06 0c 0d 0f 11 12 16 17 1c 28 29 2a 2b 32 33 36 3a 3b 3c 42 43 61
     6111 00 2d5c8b1e7a3f4c4b9d0152540aabbcc1 5e03010300 5d020010
     3c21 485454 50436c69656e743a417263683a30303031363a554e44493a303033303030 ff";

/// iPXE: answers by unicast, 61, 77 without length bytes, 175, calls itself a PXE client.
pub(crate) const IPXE_FIXED: &str =
    "01010600 a1b2c3d4 0004 0000 00000000 00000000 00000000 00000000
     525400aabb01 00000000000000000000";
/// 53, 57, 93, 94, 60, 77, 55, 175, 61, 97.
pub(crate) const IPXE_OPTIONS: &str = "350101 390205c0 5d020007 5e03010310
     3c20 505845436c69656e743a417263683a30303030373a554e44493a303033303130 4d04 69505845
     3717 01 03 06 07 0c 0f 11 1a 2b 3c 42 43 77 80 81 82 83 84 85 86 87 af cb
     af18 b105011af41000 eb03010000 170101 150101 130101 110101 3d07 01525400aabb01
     6111 00 2d5c8b1e7a3f4c4b9d0152540aabbcc1 ff";

/// Busybox asked for the boot file as well.
pub(crate) const UDHCPC_FIXED: &str = "01010600 0a0b0c0d 0000 0000 00000000 00000000 00000000
     00000000 525400aabb01 00000000000000000000";
/// 53, 61, 57, 55, 60.
pub(crate) const UDHCPC_OPTIONS: &str = "350101 3d0701525400aabb01 39020240
     3708 01 03 06 0c 0f 1c 2a 43 3c0c 756468637020312e33352e30 ff";

/// The message with these fixed fields (up to `chaddr`) and options.
pub(crate) fn message(fixed: &str, options: &str) -> Vec<u8> {
    let mut bytes = hex(fixed);
    bytes.resize(bytes.len() + NAMES_LEN, 0);
    bytes.extend(MAGIC_COOKIE);
    bytes.extend(hex(options));
    bytes
}

/// The three of them.
pub(crate) fn all() -> [Vec<u8>; 3] {
    [
        message(OVMF_FIXED, OVMF_OPTIONS),
        message(IPXE_FIXED, IPXE_OPTIONS),
        message(UDHCPC_FIXED, UDHCPC_OPTIONS),
    ]
}

/// Bytes from digits and blanks.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Builds a client's message field by field.
#[derive(Debug, Clone)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A message of `kind` by the machine with `mac`.
    pub(crate) fn new(kind: MessageType, mac: [u8; 6]) -> Self {
        let mut bytes = vec![0; 236];
        bytes[..3].copy_from_slice(&[BOOT_REQUEST, ETHERNET, 6]);
        bytes[4..8].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        bytes[28..34].copy_from_slice(&mac);
        bytes.extend(MAGIC_COOKIE);
        Self(bytes).option(53, &[kind.code()])
    }

    pub(crate) fn option(mut self, code: u8, value: &[u8]) -> Self {
        self.0.extend([code, u8::try_from(value.len()).unwrap()]);
        self.0.extend(value);
        self
    }

    /// Bytes of the option area, whatever they are.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn pad(self, count: usize) -> Self {
        self.raw(&vec![0; count])
    }

    pub(crate) fn end(self) -> Self {
        self.raw(&[255])
    }

    pub(crate) fn address(self, code: u8, address: Ipv4Addr) -> Self {
        self.option(code, &address.octets())
    }

    pub(crate) fn bytes_at(mut self, offset: usize, value: &[u8]) -> Self {
        self.0[offset..offset + value.len()].copy_from_slice(value);
        self
    }

    pub(crate) fn ciaddr(self, address: Ipv4Addr) -> Self {
        self.bytes_at(12, &address.octets())
    }

    pub(crate) fn giaddr(self, address: Ipv4Addr) -> Self {
        self.bytes_at(24, &address.octets())
    }

    pub(crate) fn broadcast(self) -> Self {
        self.bytes_at(10, &[0x80, 0])
    }

    pub(crate) fn build(mut self) -> Vec<u8> {
        self.0.push(255);
        self.0
    }

    pub(crate) fn decode(self) -> super::Packet {
        super::Packet::decode(&self.build()).unwrap()
    }
}
