//! Fields of the fixed part: which are needed, which are echoed, which mean nothing.

use super::*;

const ANONYMOUS: &str = "silence: it does not tell who sent it";
const NOT_FROM_CLIENT: &str = "silence: it is no client's message";
const UNTYPED: &str = "silence: it has no DHCP message type";

#[test]
fn what_the_fixed_part_leads_to() {
    let one = |name, request, line| case(name, [(all(request), gets(line))]);
    let plain = "OFFER .32 frame";
    check(vec![
        one("fields.op_of_a_server", discover(A).bytes_at(0, &[2]), NOT_FROM_CLIENT),
        one("fields.op_unknown", discover(A).bytes_at(0, &[3]), NOT_FROM_CLIENT),
        one("fields.hops_16", discover(A).bytes_at(3, &[16]), plain),
        one(
            "fields.hops_17",
            discover(A).bytes_at(3, &[17]),
            "silence: it passed more than 16 relays",
        ),
        one("fields.secs", discover(A).bytes_at(8, &[0xff, 0xff]), plain),
        one("fields.broadcast_flag", discover(A).broadcast(), "OFFER .32 broadcast"),
        one("fields.flags_that_must_be_zero", discover(A).bytes_at(10, &[0x7f, 0xff]), plain),
        one("fields.ciaddr_of_a_discover", discover(A).ciaddr(at(40)), "OFFER .32 10.69.0.40:68"),
        one("fields.ciaddr_elsewhere", discover(A).ciaddr(ELSEWHERE), plain),
        // A client is nobody at these: the reply would go to every host, or to ourselves.
        one("fields.ciaddr_broadcast", discover(A).ciaddr(at(63)), plain),
        one("fields.ciaddr_network", discover(A).ciaddr(at(0)), plain),
        one("fields.ciaddr_ours", discover(A).ciaddr(US), plain),
        one("fields.yiaddr_of_a_client", discover(A).bytes_at(16, &[9; 4]), plain),
        one("fields.siaddr_of_a_client", discover(A).bytes_at(20, &[9; 4]), plain),
        one("fields.names_without_overload", discover(A).bytes_at(44, &[53; 192]), plain),
        one("fields.chaddr_behind_its_length", discover(A).bytes_at(34, &[9; 10]), plain),
        one("fields.chaddr_zero", discover([0; 6]), ANONYMOUS),
        one("fields.chaddr_of_a_group", discover([1, 0, 0x5e, 0, 0, 1]), ANONYMOUS),
        one("fields.chaddr_broadcast", discover([0xff; 6]), ANONYMOUS),
        one("fields.hlen_0_without_an_identifier", discover(A).bytes_at(2, &[0]), ANONYMOUS),
        one(
            "fields.hlen_0_with_an_identifier",
            discover(A).bytes_at(2, &[0]).option(61, b"\x00id"),
            "OFFER .32 broadcast",
        ),
        one("fields.hlen_17", discover(A).bytes_at(2, &[17]), ANONYMOUS),
        one("fields.hlen_255", discover(A).bytes_at(2, &[255]), ANONYMOUS),
        one("fields.other_hardware", discover(A).bytes_at(1, &[6]), "OFFER .32 broadcast"),
        one("fields.other_hardware_zero", discover([0; 6]).bytes_at(1, &[6]), ANONYMOUS),
        one("fields.no_message_type", discover(A).bytes_at(240, &[0, 0, 0]), UNTYPED),
        one("fields.message_type_0", discover(A).bytes_at(242, &[0]), UNTYPED),
        one("fields.message_type_9", discover(A).bytes_at(242, &[9]), UNTYPED),
        one("fields.message_type_offer", discover(A).bytes_at(242, &[2]), NOT_FROM_CLIENT),
        one("fields.message_type_ack", discover(A).bytes_at(242, &[5]), NOT_FROM_CLIENT),
        one("fields.message_type_nak", discover(A).bytes_at(242, &[6]), NOT_FROM_CLIENT),
    ]);
}

/// RFC 2131, table 3.
#[test]
fn fields_of_replies() {
    let mut engine = Engine::new(Config { ranges: vec![sample()] }, []).unwrap();
    let odd = |request: Request| {
        let request = request.bytes_at(3, &[3]).bytes_at(8, &[0, 9]).bytes_at(34, &[0xee; 10]);
        request.bytes_at(20, &[9; 4]).bytes_at(44, b"name").broadcast()
    };
    let mut reply = |request: Request| {
        let Sent { request, to, .. } = all(odd(request));
        let source = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);
        let arrival = Arrival { interface: US, source, destination: to };
        let packet = request.decode();
        let (line, reply) = outcome(&engine.handle(&packet, &arrival, 0));
        let header = reply.unwrap().header;
        let sent = packet.header;
        let echoed = |h: &Header| (h.htype, h.hlen, h.xid, h.flags, h.giaddr, h.chaddr);
        assert_eq!(echoed(&header), echoed(&sent), "{line}");
        assert_eq!((header.op, header.hops, header.secs), (2, 0, 0), "{line}");
        assert!(header.siaddr.is_unspecified(), "{line}");
        (line, header.ciaddr)
    };
    let none = Ipv4Addr::UNSPECIFIED;
    assert_eq!(reply(discover(A)), ("OFFER .32 broadcast".to_owned(), none));
    assert_eq!(reply(selecting(A, at(32))), ("ACK .32 broadcast".to_owned(), none));
    assert_eq!(reply(extending(A, at(32))), ("ACK .32 10.69.0.32:68".to_owned(), at(32)));
    assert_eq!(reply(rebooting(A, at(33))), ("NAK broadcast".to_owned(), none));
    assert_eq!(reply(informing(A, at(9))), ("ACK 10.69.0.9:68".to_owned(), at(9)));
}

use crate::dhcp::packet::Header;
