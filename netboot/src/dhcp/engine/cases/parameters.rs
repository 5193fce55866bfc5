//! Order and size of replies.

use super::*;

/// Bytes of the OFFER to a request.
fn offered(request: Request) -> Vec<u8> {
    let mut engine = Engine::new(Config { ranges: vec![sample()] }, []).unwrap();
    let source = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);
    let arrival = Arrival { interface: US, source, destination: Ipv4Addr::BROADCAST };
    match engine.handle(&request.decode(), &arrival, 0).as_slice() {
        [Effect::Reply(out)] => out.reply.encode(),
        other => panic!("{other:?}"),
    }
}

/// Codes in the order of the bytes, every instance.
fn codes(bytes: &[u8]) -> Vec<u8> {
    let (mut codes, mut rest) = (Vec::new(), &bytes[240..]);
    while let [code, len, after @ ..] = rest
        && *code != 255
    {
        codes.push(*code);
        rest = &after[usize::from(*len)..];
    }
    codes
}

#[test]
fn the_order_of_options() {
    let asking = |codes: &[u8]| discover(A).option(55, codes);
    let circuit = b"\x01\x01x";
    for (name, request, expected) in [
        ("order.by_code", discover(A), &[53, 54, 51, 1, 3, 6, 58, 59][..]),
        ("order.as_asked", asking(&[6, 3, 1]), &[53, 54, 51, 6, 3, 1, 58, 59]),
        ("order.what_is_asked_comes_first", asking(&[59, 6]), &[53, 54, 51, 59, 6, 1, 3, 58]),
        ("order.repeated", asking(&[3, 3, 6, 3]), &[53, 54, 51, 3, 6, 1, 58, 59]),
        (
            "order.the_relays_option_is_last",
            asking(&[82, 6]).option(82, circuit).giaddr(RELAY).option(61, b"\x00x"),
            &[53, 54, 51, 6, 1, 3, 58, 59, 61, 82],
        ),
        (
            "order.a_long_option_is_split",
            discover(A).option(61, &[1; 200]).option(61, &[2; 200]).option(57, &[5, 0]),
            &[53, 54, 51, 1, 3, 6, 58, 59, 61, 61],
        ),
    ] {
        assert_eq!(codes(&offered(request)), expected, "{name}");
    }
}

#[test]
fn the_size_of_replies() {
    let long = |size: &[u8]| {
        let request = discover(A).giaddr(RELAY).option(57, size).option(55, &[67]);
        request.option(61, &[1; 255]).option(82, &[9; 255])
    };
    let size = |bytes: u16| bytes.to_be_bytes();
    for (name, request, least, most, present, absent) in [
        ("size.at_least_300", discover(A), 300, 300, &[1_u8, 3, 6][..], &[][..]),
        ("size.without_a_limit", long(b""), 301, 548, &[51, 53, 54, 82], &[61]),
        ("size.a_limit_below_576", long(&size(300)), 301, 548, &[51, 53, 54, 82], &[61]),
        ("size.a_limit_of_576", long(&size(576)), 301, 548, &[51, 53, 54, 82], &[61]),
        ("size.a_limit_of_1024", long(&size(1_024)), 549, 996, &[1, 3, 6, 61, 67, 82], &[]),
        ("size.a_limit_of_1500", long(&size(1_500)), 549, 1_472, &[1, 3, 6, 61, 67, 82], &[]),
        ("size.a_limit_above_ethernet", long(&size(65_535)), 549, 1_472, &[61, 67, 82], &[]),
    ] {
        let bytes = offered(request);
        assert!((least..=most).contains(&bytes.len()), "{name}: {}", bytes.len());
        let codes = codes(&bytes);
        assert!(present.iter().all(|code| codes.contains(code)), "{name}: {codes:?}");
        assert!(absent.iter().all(|code| !codes.contains(code)), "{name}: {codes:?}");
    }
}
