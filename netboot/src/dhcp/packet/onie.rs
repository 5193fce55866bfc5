//! Core: switches that boot by ONIE, the Open Network Install Environment.

use super::{Packet, option};

/// How their vendor class begins.
const VENDOR: &[u8] = b"onie_vendor:";
/// Their user classes: the documented one, and a short one.
const CLASSES: [&[u8]; 2] = [b"onie_dhcp_user_class", b"onie"];
/// Their enterprise number in option 125, that of the Open Compute Project.
const ENTERPRISE: u32 = 42_623;

/// Whether a switch sent `packet` that asks for its installer.
pub fn is_onie(packet: &Packet) -> bool {
    let vendor = packet.option(option::VENDOR_CLASS).unwrap_or_default();
    let options = packet.option(option::VENDOR_OPTIONS).unwrap_or_default();
    vendor.starts_with(VENDOR)
        || CLASSES.iter().any(|class| packet.has_user_class(class))
        || Enterprises(options).any(|number| number == ENTERPRISE)
}

/// The enterprise numbers of an option 125; ends where the lengths do not fit.
struct Enterprises<'a>(&'a [u8]);

impl Iterator for Enterprises<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        let (len, rest) = rest.split_first()?;
        let (_options, rest) = rest.split_at_checked(usize::from(*len))?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::packet::MessageType;
    use crate::dhcp::packet::vectors::{MAC, Request};

    #[test]
    fn switches_are_known_by_class_or_enterprise() {
        let other = &[0, 0, 0, 9, 2, 1, 1][..];
        let both = [other, &[0, 0, 0xa6, 0x7f, 0]].concat();
        for (code, value, is) in [
            (60, &b"onie_vendor:x86_64-accton_as7712_32x-r0"[..], true),
            (60, b"onie_vendor", false),
            (60, b"PXEClient", false),
            (77, b"onie_dhcp_user_class", true),
            (77, b"\x04onie", true),
            (77, b"onie", true),
            (77, b"onion", false),
            (125, &[0, 0, 0xa6, 0x7f, 3, 1, 1, 7], true),
            (125, &both, true),
            (125, other, false),
            (125, &[0, 0, 0xa6, 0x7f], false),
            (125, &[0, 0, 0xa6, 0x7f, 9, 1], false),
            (125, &[0, 0, 0, 9, 200, 0, 0, 0xa6, 0x7f, 0], false),
        ] {
            let packet = Request::new(MessageType::Discover, MAC).option(code, value).decode();
            assert_eq!(is_onie(&packet), is, "{code} {value:?}");
        }
    }
}
