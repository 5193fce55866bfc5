//! Our decoder and encoder beside those of `dhcproto`: they agree on well-formed messages, and
//! [`they_differ`] names where they do not, and why ours does what it does.

use std::collections::{BTreeMap, BTreeSet};

use dhcproto::v4::{self, DhcpOption, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable};
use proptest::prelude::*;

use super::vectors::{self, MAC, Request};
use super::*;

fn theirs(bytes: &[u8]) -> v4::Message {
    v4::Message::decode(&mut Decoder::new(bytes)).unwrap()
}

/// The value of one of their options, as it is on the wire.
fn value(option: &DhcpOption) -> Vec<u8> {
    let (mut rest, mut value) = (option.to_vec().unwrap(), Vec::new());
    while let [_code, len, ..] = rest.as_slice() {
        let after = rest.split_off(2 + usize::from(*len));
        value.extend(&rest[2..]);
        rest = after;
    }
    value
}

fn their_options(message: &v4::Message) -> BTreeMap<u8, Vec<u8>> {
    message.opts().iter().map(|(code, option)| (u8::from(*code), value(option))).collect()
}

fn assert_same(bytes: &[u8]) {
    let (ours, theirs) = (Packet::decode(bytes).unwrap(), theirs(bytes));
    let header = &ours.header;
    assert_eq!(header.op, u8::from(theirs.opcode()));
    assert_eq!(header.htype, u8::from(theirs.htype()));
    assert_eq!((header.hlen, header.hops), (theirs.hlen(), theirs.hops()));
    assert_eq!((header.xid, header.secs), (theirs.xid(), theirs.secs()));
    assert_eq!(header.flags, u16::from(theirs.flags()));
    assert_eq!((header.ciaddr, header.yiaddr), (theirs.ciaddr(), theirs.yiaddr()));
    assert_eq!((header.siaddr, header.giaddr), (theirs.siaddr(), theirs.giaddr()));
    if let Some(hardware) = header.chaddr.get(..usize::from(header.hlen)) {
        assert_eq!(hardware, theirs.chaddr());
    }
    let theirs = their_options(&theirs);
    let codes: BTreeSet<u8> = ours.options.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, theirs.keys().copied().collect());
    for (code, value) in &ours.options {
        assert!(theirs[code] == *value, "option {code}: {value:02x?} is {:02x?}", theirs[code]);
    }
}

/// An option whose value has a length that its code allows.
fn option() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let bytes = |len| prop::collection::vec(any::<u8>(), len);
    let addresses = (1_usize..9).prop_flat_map(move |count| bytes(4 * count..4 * count + 1));
    let text = "[a-z0-9.-]{1,60}".prop_map(String::into_bytes);
    let one_of = |codes: &'static [u8]| prop::sample::select(codes);
    prop_oneof![
        (one_of(&[1, 28, 50, 54, 118, 150]), bytes(4..5)),
        (one_of(&[3, 4, 5, 6, 41, 42, 44]), addresses),
        (one_of(&[51, 58, 59, 108]), bytes(4..5)),
        (one_of(&[22, 26, 57, 93]), bytes(2..3)),
        (one_of(&[12, 15, 56, 100]), text),
        (one_of(&[43, 55, 60, 61, 66, 67, 77, 97]), bytes(1..80)),
        (one_of(&[125, 124, 128, 175, 209, 224, 254]), bytes(0..200)),
        (Just(53), (1_u8..9).prop_map(|kind| vec![kind])),
        (Just(94), bytes(3..4)),
    ]
}

proptest! {
    #[test]
    fn well_formed_messages_read_the_same(
        fixed in prop::collection::vec(any::<u8>(), 236),
        hlen in 0_u8..17,
        options in prop::collection::vec(option(), 0..12),
        padding in prop::collection::vec(0_usize..4, 12),
        ended: bool,
    ) {
        let mut bytes = fixed;
        bytes[2] = hlen;
        bytes.extend(MAGIC_COOKIE);
        let mut seen = Vec::new();
        for ((code, value), padding) in options.iter().zip(padding) {
            if seen.contains(code) {
                continue;
            }
            seen.push(*code);
            bytes.extend(vec![0; padding]);
            bytes.extend([*code, u8::try_from(value.len()).unwrap()]);
            bytes.extend(value);
        }
        if ended {
            bytes.push(255);
        }
        assert_same(&bytes);
    }

    /// They read the replies that we write, with options above 255 bytes too.
    #[test]
    fn what_we_write_they_read(options in prop::collection::vec(option(), 0..8), long in 256_usize..600) {
        let asked = Request::new(MessageType::Discover, MAC).option(57, &[5, 192]).decode();
        let header = Header { op: BOOT_REPLY, ..asked.header };
        let mut reply = Reply::new(&asked, MessageType::Offer, header);
        reply.options.extend(options.into_iter().filter(|(code, _)| *code != 53));
        reply.options.insert(43, vec![7; long]);
        let bytes = reply.encode();
        assert_same(&bytes);
        let read = their_options(&theirs(&bytes));
        prop_assert_eq!(read.get(&53), Some(&vec![2]));
        for (code, value) in &read {
            prop_assert_eq!(Some(value), reply.options.get(code));
        }
    }
}

#[test]
fn recorded_messages_read_the_same() {
    for bytes in vectors::all() {
        assert_same(&bytes);
    }
    let relayed = Request::new(MessageType::Request, MAC).giaddr(Ipv4Addr::new(10, 0, 0, 1));
    let circuit = relayed.option(82, b"\x01\x04eth0\x02\x03abc").build();
    let theirs = theirs(&circuit);
    let Some(DhcpOption::RelayAgentInformation(relay)) =
        theirs.opts().get(OptionCode::RelayAgentInformation)
    else {
        panic!("{theirs:?}");
    };
    let ours = Packet::decode(&circuit).unwrap();
    for (code, info) in relay.iter() {
        let info = format!("{info:?}");
        let ours = ours.relay_sub_option(u8::from(*code)).unwrap();
        assert!(info.contains(&format!("{ours:?}")), "{info} is not {ours:?}");
    }
}

#[test]
fn they_differ() {
    let new = || Request::new(MessageType::Discover, MAC);
    let both = |request: Request, code: u8| {
        let bytes = request.build();
        let ours = Packet::decode(&bytes).unwrap().option(code).map(<[u8]>::to_vec);
        (ours, their_options(&theirs(&bytes)).remove(&code))
    };
    let bytes = |bytes: &[u8]| Some(bytes.to_vec());
    for (why, request, code, ours, theirs) in [
        (
            "RFC 3396 joins instances wherever they are; theirs joins neighbours, the last stays",
            new().option(61, b"ab").option(12, b"x").option(61, b"cd"),
            61,
            bytes(b"abcd"),
            bytes(b"cd"),
        ),
        (
            "RFC 2132 lets `file` hold options (52); theirs leaves that to its caller",
            new().option(52, &[1]).bytes_at(108, b"\x3d\x02ab\xff"),
            61,
            bytes(b"ab"),
            None,
        ),
        (
            "A bad option costs itself only; theirs stops there",
            new().option(1, &[255]).option(61, b"ab"),
            61,
            bytes(b"ab"),
            None,
        ),
        (
            "Firmware may name several architectures (RFC 4578); theirs keeps the first",
            new().option(93, &[0, 7, 0, 16]),
            93,
            bytes(&[0, 7, 0, 16]),
            bytes(&[0, 7]),
        ),
        (
            "A number that is too long is none, and stays as it was sent; theirs cuts it",
            new().option(57, &[5, 192, 9]),
            57,
            bytes(&[5, 192, 9]),
            bytes(&[5, 192]),
        ),
    ] {
        assert_eq!(both(request, code), (ours, theirs), "{why}");
    }
    let mut cookie = new().build();
    cookie[239] = 0;
    assert_eq!(Packet::decode(&cookie), Err(DecodeError::Cookie), "theirs takes any cookie");
    let _message = theirs(&cookie);
}
