use proptest::prelude::*;

use super::encode::{MESSAGE_MAX, MESSAGE_MIN};
use super::vectors::{self, MAC, Request, hex, message};
use super::*;

const UUID: &str = "2d5c8b1e7a3f4c4b9d0152540aabbcc1";

#[test]
fn uefi_http_boot() {
    let packet = Packet::decode(&message(vectors::OVMF_FIXED, vectors::OVMF_OPTIONS)).unwrap();
    assert_eq!(packet.header.op, BOOT_REQUEST);
    assert_eq!(packet.header.xid, 0x6c9f_21d4);
    assert_eq!(packet.header.flags, FLAG_BROADCAST);
    assert_eq!(packet.mac(), Some(MAC));
    assert_eq!(packet.message_type(), Some(MessageType::Discover));
    assert_eq!(packet.message_size_max(), Some(1_472));
    assert_eq!(packet.requested_options().len(), 27);
    assert_eq!(packet.architectures().collect::<Vec<_>>(), [16]);
    assert_eq!(
        packet.option(option::VENDOR_CLASS),
        Some(&b"HTTPClient:Arch:00016:UNDI:003000"[..])
    );
    assert_eq!(packet.machine_uuid().unwrap().to_vec(), hex(UUID));
    assert_eq!(packet.option(option::CLIENT_ID), None);
    assert!(!packet.has_user_class(b"iPXE"));
}

#[test]
fn ipxe() {
    let packet = Packet::decode(&message(vectors::IPXE_FIXED, vectors::IPXE_OPTIONS)).unwrap();
    assert_eq!((packet.header.flags, packet.header.secs), (0, 4));
    assert!(packet.has_user_class(b"iPXE"));
    assert_eq!(packet.architectures().collect::<Vec<_>>(), [7]);
    assert_eq!(packet.option(option::CLIENT_ID), Some(&hex("01525400aabb01")[..]));
    assert_eq!(packet.option(option::IPXE).unwrap().len(), 24);
    assert_eq!(packet.machine_uuid().unwrap().to_vec(), hex(UUID));
}

#[test]
fn busybox() {
    let packet = Packet::decode(&message(vectors::UDHCPC_FIXED, vectors::UDHCPC_OPTIONS)).unwrap();
    assert_eq!(packet.message_size_max(), Some(576));
    assert!(packet.requested_options().contains(&option::BOOT_FILE));
    assert_eq!(packet.option(option::VENDOR_CLASS), Some(&b"udhcp 1.35.0"[..]));
}

/// The three stages of a boot are one client.
#[test]
fn identity_ignores_the_client_identifier_where_there_is_an_address() {
    let expected = Identity::Ethernet(model::MacAddress::new(MAC));
    for bytes in vectors::all() {
        assert_eq!(Identity::of(&Packet::decode(&bytes).unwrap()).as_ref(), Some(&expected));
    }
}

#[test]
fn identity_of_odd_hardware() {
    let request = || Request::new(MessageType::Discover, MAC);
    let of = |request: Request| Identity::of(&request.decode()).map(|id| id.to_string());
    let infiniband = || request().bytes_at(1, &[32, 0]);
    assert_eq!(of(infiniband()), None);
    assert_eq!(of(infiniband().option(61, &[0xff, 1])).as_deref(), Some("id-ff01"));
    assert_eq!(of(request().bytes_at(1, &[6, 3])).as_deref(), Some("hw-6-525400"));
    assert_eq!(of(request().bytes_at(2, &[17])), None);
    assert_eq!(of(request().bytes_at(2, &[16])).map(|id| id.len()), Some(5 + 32));
    assert_eq!(of(request().bytes_at(28, &[0; 6])), None);
    assert_eq!(of(request().bytes_at(28, &[0xff; 6])), None);
}

#[test]
fn a_bad_option_costs_that_option_only() {
    // A name that is no text, a lease time of two bytes, a list of routers of five.
    let packet = Packet::decode(
        &Request::new(MessageType::Discover, MAC)
            .option(12, &[0xff, 0xfe])
            .option(51, &[0, 1])
            .option(3, &[1, 2, 3, 4, 5])
            .option(94, &[1])
            .option(93, &[0, 16, 0, 7, 9])
            .option(97, &[1; 17])
            .address(50, Ipv4Addr::new(10, 0, 0, 1))
            .build(),
    )
    .unwrap();
    assert_eq!(packet.message_type(), Some(MessageType::Discover));
    assert_eq!(packet.address(option::LEASE_SECONDS), None);
    assert_eq!(packet.architectures().collect::<Vec<_>>(), [16, 7]);
    assert_eq!(packet.machine_uuid(), None);
    assert_eq!(packet.address(50), Some(Ipv4Addr::new(10, 0, 0, 1)));
}

#[test]
fn instances_are_joined_across_the_areas() {
    // Overload 3: `file` at 108 holds more of 77 and an end, `sname` at 44 the rest.
    let bytes = Request::new(MessageType::Discover, MAC)
        .option(77, b"i")
        .option(52, &[3])
        .option(77, b"P")
        .bytes_at(108, &[77, 1, b'X', 255, 77, 1, b'!'])
        .bytes_at(44, &[0, 77, 1, b'E'])
        .build();
    assert_eq!(Packet::decode(&bytes).unwrap().option(77), Some(&b"iPXE"[..]));
}

#[test]
fn names_are_no_options_without_overload() {
    for overload in [&[][..], &[0], &[1, 2], &[4]] {
        let bytes = Request::new(MessageType::Discover, MAC)
            .option(52, overload)
            .bytes_at(108, &[77, 1, b'X'])
            .bytes_at(44, &[77, 1, b'X'])
            .build();
        assert_eq!(Packet::decode(&bytes).unwrap().option(77), None, "{overload:?}");
    }
}

#[test]
fn user_classes_in_both_forms() {
    for (value, is) in [
        (&b"iPXE"[..], true),
        (b"\x04iPXE", true),
        (b"\x01x\x04iPXE", true),
        (b"\x05iPXE", false),
        (b"iPXE!", false),
        (b"\x04iPXF", false),
        (b"", false),
    ] {
        let packet = Request::new(MessageType::Discover, MAC).option(77, value).decode();
        assert_eq!(packet.has_user_class(b"iPXE"), is, "{value:?}");
    }
}

#[test]
fn relay_sub_options() {
    let packet = Request::new(MessageType::Discover, MAC)
        .option(82, &[1, 2, b'e', b'0', 19, 0, 5, 4, 10, 0, 0, 1, 11, 9, 1])
        .decode();
    assert_eq!(packet.relay_sub_option(1), Some(&b"e0"[..]));
    assert_eq!(packet.relay_sub_option(option::RELAY_SOURCE_PORT), Some(&[][..]));
    assert_eq!(packet.relay_address(5), Some(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(packet.relay_sub_option(11), None);
}

#[test]
fn what_is_no_message() {
    let bytes = Request::new(MessageType::Discover, MAC).build();
    for len in 0..240 {
        assert_eq!(Packet::decode(&bytes[..len]), Err(DecodeError::Short(len)));
    }
    let mut other = bytes;
    other[239] = 0;
    assert_eq!(Packet::decode(&other), Err(DecodeError::Cookie));
}

/// An option appears only when all its bytes are there; what came before stays.
#[test]
fn truncation_at_every_byte() {
    for bytes in vectors::all() {
        let whole = Packet::decode(&bytes).unwrap();
        for len in 240..bytes.len() {
            let cut = Packet::decode(&bytes[..len]).unwrap();
            assert_eq!(cut.header, whole.header);
            assert_eq!(cut.options, whole.options[..cut.options.len()], "{len}");
        }
    }
}

fn request() -> Packet {
    Packet::decode(&message(vectors::OVMF_FIXED, vectors::OVMF_OPTIONS)).unwrap()
}

fn reply_to(request: &Packet) -> Reply {
    let header = Header { op: BOOT_REPLY, ..request.header };
    Reply::new(request, MessageType::Offer, header)
}

/// Codes in the order of the bytes.
fn written_codes(bytes: &[u8]) -> Vec<u8> {
    Packet::decode(bytes).unwrap().options.into_iter().map(|(code, _)| code).collect()
}

#[test]
fn order_of_writing() {
    let mut reply = reply_to(&request());
    for code in [82, 200, 67, 3, 1, 51, 54, 61, 60, 6] {
        reply.options.insert(code, vec![0; 2]);
    }
    // The firmware asks for 1, 3, 6, … 60, … 67; 61 and 200 it does not ask for.
    let bytes = reply.encode();
    assert_eq!(written_codes(&bytes), [53, 54, 51, 1, 3, 6, 60, 67, 61, 200, 82]);
    assert_eq!(bytes.len(), MESSAGE_MIN);
}

#[test]
fn what_does_not_fit_is_left_out() {
    // Without option 57, 548 bytes: 307 of options beside cookie and end.
    let mut reply = reply_to(&Request::new(MessageType::Discover, MAC).decode());
    reply.options.insert(54, vec![0; 4]);
    reply.options.insert(3, vec![0; 200]);
    reply.options.insert(6, vec![0; 20]);
    reply.options.insert(67, vec![0; 100]);
    reply.options.insert(82, vec![0; 20]);
    let bytes = reply.encode();
    assert_eq!(written_codes(&bytes), [53, 54, 6, 67, 82]);
    assert!(bytes.len() <= 548);
}

proptest! {
    #[test]
    fn decoding_is_total(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _decoded = Packet::decode(&bytes).is_ok();
        let mut message = Request::new(MessageType::Discover, MAC).build();
        message.truncate(240);
        message.extend(&bytes);
        let packet = Packet::decode(&message).unwrap();
        let _touched = (
            packet.message_type(), packet.message_size_max(), packet.machine_uuid(),
            packet.architectures().count(), packet.requested_options().len(),
            packet.has_user_class(b"iPXE"), packet.relay_sub_option(1).is_some(),
            Identity::of(&packet),
        );
        let joined: usize = packet.options.iter().map(|(_, value)| value.len()).sum();
        prop_assert!(joined <= bytes.len() + 192);
    }

    #[test]
    fn what_is_written_is_read(
        options in prop::collection::btree_map(
            (1_u8..255).prop_filter("has its own meaning", |code| ![52, 53].contains(code)),
            prop::collection::vec(any::<u8>(), 0..400), 0..6),
        size_max in any::<u16>(),
        xid: u32,
        relayed: [u8; 4],
    ) {
        let asked = Request::new(MessageType::Discover, MAC)
            .option(57, &size_max.to_be_bytes())
            .bytes_at(4, &xid.to_be_bytes())
            .giaddr(relayed.into())
            .decode();
        let mut reply = reply_to(&asked);
        reply.options.extend(options.clone());
        let bytes = reply.encode();
        prop_assert!(bytes.len() >= MESSAGE_MIN);
        prop_assert!(bytes.len() <= usize::from(size_max.max(576) - 28).min(MESSAGE_MAX));
        let read = Packet::decode(&bytes).unwrap();
        prop_assert_eq!(read.header, reply.header);
        prop_assert_eq!(read.message_type(), Some(MessageType::Offer));
        for (code, value) in &read.options {
            prop_assert_eq!(Some(value), reply.options.get(code));
        }
        let room = 240 + 4 + options.values().map(|v| v.len() + 4).sum::<usize>();
        if room <= usize::from(size_max.max(576) - 28).min(MESSAGE_MAX) {
            prop_assert_eq!(read.options.len(), reply.options.len());
        }
        if let Some(82) = read.options.iter().map(|(code, _)| *code).find(|code| *code == 82) {
            prop_assert_eq!(read.options.last().unwrap().0, 82);
        }
    }
}
