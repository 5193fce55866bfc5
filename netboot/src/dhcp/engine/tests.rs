use std::net::SocketAddrV4;

use super::*;
use crate::dhcp::config::tests::sample;
use crate::dhcp::leases::{LeaseState, RangeUse};
use crate::dhcp::packet::vectors::{self, MAC, Request};

const SECOND: i64 = 1_000_000;
const OTHER_MAC: [u8; 6] = [0x52, 0x54, 0, 0xaa, 0xbb, 2];
const US: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
const RELAY: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 10);

fn at(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, last)
}

fn engine() -> Engine {
    Engine::new(Config { ranges: vec![sample()] }, []).unwrap()
}

fn broadcast() -> Arrival {
    let source = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);
    Arrival { interface: US, source, destination: Ipv4Addr::BROADCAST }
}

/// Sent to our address by `source`.
fn direct(source: Ipv4Addr) -> Arrival {
    Arrival { interface: US, source: SocketAddrV4::new(source, 68), destination: US }
}

fn new(kind: MessageType) -> Request {
    Request::new(kind, MAC)
}

fn ask(engine: &mut Engine, request: Request) -> Vec<Effect> {
    engine.handle(&request.decode(), &broadcast(), 0)
}

/// The packet that is sent and its destination; read back from the bytes.
fn sent(effects: &[Effect]) -> (Packet, Destination) {
    let [Effect::Reply(out) | Effect::Persist { reply: Some(out), .. }, ..] = effects else {
        panic!("no reply: {effects:?}");
    };
    assert_eq!(out.source, US);
    (Packet::decode(&out.reply.encode()).unwrap(), out.to)
}

fn kind(effects: &[Effect]) -> MessageType {
    sent(effects).0.message_type().unwrap()
}

fn ignored(effects: &[Effect]) -> Ignored {
    let [Effect::Ignore(reason)] = effects else { panic!("not ignored: {effects:?}") };
    *reason
}

fn selecting(mac: [u8; 6], address: Ipv4Addr) -> Request {
    Request::new(MessageType::Request, mac).address(50, address).address(54, US)
}

/// Takes `mac` to a lease.
fn lease(engine: &mut Engine, mac: [u8; 6]) -> Ipv4Addr {
    let offer = ask(engine, Request::new(MessageType::Discover, mac));
    let address = sent(&offer).0.header.yiaddr;
    assert_eq!(kind(&ask(engine, selecting(mac, address))), MessageType::Ack);
    address
}

#[test]
fn a_machine_boots_with_one_address() {
    let mut engine = engine();
    let files = [
        Some("http://10.69.0.3:10080/api/v1/boot/loader.efi"),
        Some("http://10.69.0.3:10080/api/v1/boot/ipxe"),
        Some("http://10.69.0.3:10080/api/v1/boot/ipxe"),
    ];
    for (discover, file) in vectors::all().into_iter().zip(files) {
        let packet = Packet::decode(&discover).unwrap();
        let (offer, _) = sent(&engine.handle(&packet, &broadcast(), 0));
        assert_eq!(offer.message_type(), Some(MessageType::Offer));
        assert_eq!(offer.header.yiaddr, at(32));
        assert_eq!(offer.header.siaddr, Ipv4Addr::UNSPECIFIED);
        assert_eq!(offer.header.xid, packet.header.xid);
        assert_eq!(offer.option(67), file.map(str::as_bytes));
        assert_eq!(offer.option(61), packet.option(61));
        assert_eq!(offer.option(1), Some(&[255, 255, 255, 192][..]));
        assert_eq!(offer.address(3), Some(at(1)));
        assert_eq!(offer.address(6), Some(at(2)));
        assert_eq!(offer.address(54), Some(US));
        assert_eq!(offer.option(51), Some(&3_600_u32.to_be_bytes()[..]));
        assert_eq!(offer.option(58), Some(&1_800_u32.to_be_bytes()[..]));
        assert_eq!(offer.option(59), Some(&3_150_u32.to_be_bytes()[..]));
        assert_eq!(kind(&ask(&mut engine, selecting(MAC, at(32)))), MessageType::Ack);
    }
    assert_eq!(engine.records().count(), 1);
}

#[test]
fn firmware_that_cannot_boot_here_is_told_of_once_an_hour() {
    let mut engine = engine();
    let mut told = |vendor: &[u8], mac, now| {
        let request = Request::new(MessageType::Discover, mac).option(60, vendor);
        let effects = engine.handle(&request.decode(), &broadcast(), now);
        assert_eq!(sent(&effects).0.option(67).is_some(), vendor.ends_with(b"16"), "{vendor:?}");
        match effects.as_slice() {
            [_] => None,
            [_, Effect::Observe(Observation::Stranded { stage, architecture, .. })] => {
                Some((*stage, *architecture))
            }
            more => panic!("{more:?}"),
        }
    };
    let bios = b"PXEClient:Arch:00000:UNDI:002001";
    let hour = 3_600 * SECOND;
    assert_eq!(told(bios, MAC, 0), Some((Stage::PxeFirmware, Some(0))));
    assert_eq!(told(bios, MAC, hour - 1), None);
    let other = told(b"HTTPClient:Arch:00020", OTHER_MAC, 0);
    assert_eq!(other, Some((Stage::OtherHttpFirmware, Some(20))));
    assert_eq!(told(bios, MAC, hour), Some((Stage::PxeFirmware, Some(0))));
    let uefi = [0x52, 0x54, 0, 0xaa, 0xbb, 3];
    assert_eq!(told(b"HTTPClient:Arch:00016", uefi, 0), None);
    assert_eq!(told(b"", uefi, 0), None);
}

#[test]
fn an_acknowledgement_comes_with_its_record() {
    let mut engine = engine();
    ask(&mut engine, new(MessageType::Discover));
    let effects = ask(&mut engine, selecting(MAC, at(32)));
    let [Effect::Persist { record, reply: Some(out), observation }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(record.address, at(32));
    assert_eq!(record.bound_until_us(), Some(3_600 * SECOND));
    assert_eq!(out.reply.message_type(), Some(MessageType::Ack));
    assert!(matches!(observation, Observation::Leased { record: told, .. } if told == record));
}

#[test]
fn a_lease_without_end_has_no_times_to_renew() {
    let range = ServedRange { lease_seconds: LEASE_SECONDS_INFINITE, ..sample() };
    let mut engine = Engine::new(Config { ranges: vec![range] }, []).unwrap();
    let (offer, _) = sent(&ask(&mut engine, new(MessageType::Discover)));
    assert_eq!(offer.option(51), Some(&[0xff; 4][..]));
    assert_eq!((offer.option(58), offer.option(59)), (None, None));
    lease(&mut engine, MAC);
    assert_eq!(engine.records().next().unwrap().bound_until_us(), Some(i64::MAX));
}

/// Section 4.1: giaddr, ciaddr, broadcast flag, hardware.
#[test]
fn ways_of_replies() {
    let host = |ip: Ipv4Addr, port| Destination::Host(SocketAddrV4::new(ip, port));
    let frame = Destination::Frame { mac: MAC, address: SocketAddrV4::new(at(32), 68) };
    let everyone = Destination::Broadcast(68);
    let discover = || new(MessageType::Discover);
    for (request, expected) in [
        (discover(), frame),
        (discover().broadcast(), everyone),
        (discover().bytes_at(1, &[32, 0]).option(61, b"x1"), everyone),
        (discover().ciaddr(at(33)), host(at(33), 68)),
        (discover().ciaddr(Ipv4Addr::new(192, 0, 2, 1)), frame),
        (discover().giaddr(RELAY), host(RELAY, 67)),
        (discover().giaddr(RELAY).broadcast().ciaddr(at(33)), host(RELAY, 67)),
        (discover().giaddr(RELAY).option(82, &[19, 0]), host(RELAY, 4_067)),
        (discover().giaddr(RELAY).option(82, &[1, 1, 19]), host(RELAY, 67)),
    ] {
        let arrival = Arrival { source: SocketAddrV4::new(RELAY, 4_067), ..broadcast() };
        let effects = engine().handle(&request.decode(), &arrival, 0);
        assert_eq!(sent(&effects).1, expected);
    }
}

#[test]
fn refusals_are_broadcast() {
    let mut engine = engine();
    let wrong = || new(MessageType::Request).address(50, Ipv4Addr::new(192, 0, 2, 9));
    let effects = ask(&mut engine, wrong());
    let (nak, to) = sent(&effects);
    assert_eq!((nak.message_type(), to), (Some(MessageType::Nak), Destination::Broadcast(68)));
    assert_eq!((nak.header.yiaddr, nak.option(51)), (Ipv4Addr::UNSPECIFIED, None));
    assert_eq!(nak.address(54), Some(US));
    assert!(matches!(effects[1], Effect::Observe(Observation::Refused { .. })));

    let (nak, to) = sent(&ask(&mut engine, wrong().giaddr(RELAY).option(82, b"\x01\x01x")));
    assert_eq!(to, Destination::Host(SocketAddrV4::new(RELAY, 67)));
    assert_eq!(nak.header.flags, 0x8000);
    assert_eq!(nak.option(82), Some(&b"\x01\x01x"[..]));
}

#[test]
fn what_the_relay_added_comes_back_last() {
    let agent = [1, 4, b'e', b't', b'h', b'0', 11, 4, 10, 69, 0, 10, 5, 4, 10, 69, 0, 1];
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
    let request = new(MessageType::Discover).option(82, &agent).giaddr(elsewhere);
    let effects = ask(&mut engine(), request);
    let [Effect::Reply(out)] = effects.as_slice() else { panic!() };
    // Link selection found the range; server identifier as the relay wants it.
    assert_eq!(out.to, Destination::Host(SocketAddrV4::new(elsewhere, 67)));
    assert_eq!(out.reply.header.yiaddr, at(32));
    let bytes = out.reply.encode();
    assert_eq!(Packet::decode(&bytes).unwrap().address(54), Some(RELAY));
    let end = bytes.iter().rposition(|byte| *byte == 255).unwrap();
    assert_eq!(bytes[end - agent.len()..end], agent);
}

/// The client names the relay then, and we are still meant.
#[test]
fn a_server_identifier_of_the_relay_is_ours() {
    let mut engine = engine();
    let agent = [11, 4, 10, 69, 0, 10];
    ask(&mut engine, new(MessageType::Discover).option(82, &agent).giaddr(RELAY));
    let request =
        new(MessageType::Request).address(50, at(32)).address(54, RELAY).option(82, &agent);
    assert_eq!(kind(&ask(&mut engine, request.giaddr(RELAY))), MessageType::Ack);
}

#[test]
fn what_is_dropped() {
    let discover = || new(MessageType::Discover);
    let other_net = Ipv4Addr::new(192, 0, 2, 1);
    for (request, reason) in [
        (discover().bytes_at(0, &[2]), Ignored::NotFromClient),
        (discover().bytes_at(0, &[0]), Ignored::NotFromClient),
        (new(MessageType::Offer), Ignored::NotFromClient),
        (new(MessageType::Ack), Ignored::NotFromClient),
        (discover().bytes_at(3, &[17]), Ignored::Hops),
        (discover().option(53, &[1]), Ignored::Untyped),
        (discover().bytes_at(242, &[9]), Ignored::Untyped),
        (discover().bytes_at(28, &[0; 6]), Ignored::Anonymous),
        (discover().option(82, &[1, 1, 1]), Ignored::UntrustedRelayOption),
        (discover().giaddr(other_net), Ignored::Unserved),
        (new(MessageType::Request), Ignored::Incomplete),
        (new(MessageType::Request).address(54, US), Ignored::Incomplete),
        (selecting(MAC, at(32)).bytes_at(3, &[17]), Ignored::Hops),
        (new(MessageType::Decline).address(54, US), Ignored::Incomplete),
        (new(MessageType::Decline).address(50, at(32)), Ignored::Incomplete),
        (new(MessageType::Decline).address(50, at(32)).address(54, US), Ignored::NotHeld),
        (new(MessageType::Decline).address(50, at(32)).address(54, RELAY), Ignored::OtherServer),
        (new(MessageType::Release).ciaddr(at(32)).address(54, US), Ignored::NotHeld),
        (new(MessageType::Release).ciaddr(at(32)).address(54, RELAY), Ignored::OtherServer),
        (new(MessageType::Inform), Ignored::Incomplete),
        (new(MessageType::Inform).ciaddr(other_net), Ignored::Unserved),
        (new(MessageType::Request).address(50, at(3)), Ignored::UnknownClient),
        (new(MessageType::Request).ciaddr(at(40)), Ignored::UnknownClient),
    ] {
        let mut engine = engine();
        assert_eq!(ignored(&ask(&mut engine, request.clone())), reason, "{request:?}");
        assert_eq!(engine.records().count(), 0);
    }
    assert_eq!(kind(&ask(&mut engine(), discover().bytes_at(3, &[16]))), MessageType::Offer);
}

#[test]
fn only_the_offered_address_is_acknowledged() {
    let mut engine = engine();
    // Nothing was offered.
    assert_eq!(kind(&ask(&mut engine, selecting(MAC, at(32)))), MessageType::Nak);
    ask(&mut engine, new(MessageType::Discover));
    assert_eq!(kind(&ask(&mut engine, selecting(MAC, at(33)))), MessageType::Nak);
    assert_eq!(kind(&ask(&mut engine, selecting(OTHER_MAC, at(32)))), MessageType::Nak);
    let (ack, _) = sent(&ask(&mut engine, selecting(MAC, at(32))));
    assert_eq!((ack.message_type(), ack.header.yiaddr), (Some(MessageType::Ack), at(32)));
}

#[test]
fn another_servers_choice_frees_the_offer() {
    let mut engine = engine();
    ask(&mut engine, new(MessageType::Discover));
    let request = new(MessageType::Request).address(50, at(40)).address(54, at(4));
    assert_eq!(ignored(&ask(&mut engine, request)), Ignored::OtherServer);
    let (offer, _) = sent(&ask(&mut engine, Request::new(MessageType::Discover, OTHER_MAC)));
    assert_eq!(offer.header.yiaddr, at(32));
}

#[test]
fn rebooting() {
    let mut engine = engine();
    let address = lease(&mut engine, MAC);
    let reboot = |address| new(MessageType::Request).address(50, address);
    assert_eq!(kind(&ask(&mut engine, reboot(address))), MessageType::Ack);
    assert_eq!(kind(&ask(&mut engine, reboot(at(40)))), MessageType::Nak);
    // A stranger is told what is ours to lease, and nothing else.
    for address in [address, at(40)] {
        let stranger = Request::new(MessageType::Request, OTHER_MAC).address(50, address);
        assert_eq!(kind(&ask(&mut engine, stranger)), MessageType::Nak);
    }
    let stranger = Request::new(MessageType::Request, OTHER_MAC).address(50, at(3));
    assert_eq!(ignored(&ask(&mut engine, stranger)), Ignored::UnknownClient);
    let late = 2 * 3_600 * SECOND;
    let effects = engine.handle(&reboot(address).decode(), &broadcast(), late);
    assert_eq!(kind(&effects), MessageType::Ack);
}

#[test]
fn renewing_and_rebinding() {
    let mut engine = engine();
    let address = lease(&mut engine, MAC);
    let renew = |mac, address| Request::new(MessageType::Request, mac).ciaddr(address).decode();
    let half = 1_800 * SECOND;
    let effects = engine.handle(&renew(MAC, address), &direct(address), half);
    let (ack, to) = sent(&effects);
    assert_eq!(ack.message_type(), Some(MessageType::Ack));
    assert_eq!((ack.header.ciaddr, ack.header.yiaddr), (address, address));
    assert_eq!(to, Destination::Host(SocketAddrV4::new(address, 68)));
    assert_eq!(engine.records().next().unwrap().bound_until_us(), Some(half + 3_600 * SECOND));

    let rebind = engine.handle(&renew(MAC, address), &broadcast(), half);
    assert_eq!(kind(&rebind), MessageType::Ack);
    // An address of ours that it never had: refused when we were asked, silence when all were.
    let stray = renew(OTHER_MAC, at(50));
    assert_eq!(kind(&engine.handle(&stray, &direct(at(50)), half)), MessageType::Nak);
    assert_eq!(ignored(&engine.handle(&stray, &broadcast(), half)), Ignored::UnknownClient);
    // Another's address, and one's own after its end.
    let thief = renew(OTHER_MAC, address);
    assert_eq!(kind(&engine.handle(&thief, &broadcast(), half)), MessageType::Nak);
    let end = half + 3_600 * SECOND;
    let late = engine.handle(&renew(MAC, address), &direct(address), end);
    assert_eq!(kind(&late), MessageType::Nak);
}

/// Past routers, the network of a renewal is that of the address, not of our interface.
#[test]
fn a_renewal_from_a_relayed_network() {
    let far = ServedRange {
        interface_address: at(67),
        first: at(96),
        last: at(126),
        gateway: None,
        dns: Vec::new(),
        ntp: Vec::new(),
        domain: None,
        server_id: US,
        ..sample()
    };
    let mut engine = Engine::new(Config { ranges: vec![sample(), far] }, []).unwrap();
    let mut ask = |request: Request, arrival| engine.handle(&request.decode(), &arrival, 0);
    ask(new(MessageType::Discover).giaddr(at(65)), broadcast());
    ask(selecting(MAC, at(96)).giaddr(at(65)), broadcast());
    let effects = ask(new(MessageType::Request).ciaddr(at(96)), direct(at(96)));
    let [Effect::Persist { reply: Some(out), .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(out.reply.message_type(), Some(MessageType::Ack));
    assert_eq!(out.to, Destination::Host(SocketAddrV4::new(at(96), 68)));
}

#[test]
fn decline_and_release() {
    let mut engine = engine();
    let address = lease(&mut engine, MAC);
    let decline = new(MessageType::Decline).address(50, address).address(54, US);
    let effects = ask(&mut engine, decline);
    let [Effect::Persist { record, reply: None, observation }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert!(matches!(record.state, LeaseState::Declined { .. }));
    assert_eq!(*observation, Observation::Declined(record.clone()));
    let next = lease(&mut engine, MAC);
    assert_ne!(next, address);

    let release = new(MessageType::Release).ciaddr(next).address(54, US).decode();
    let effects = engine.handle(&release, &direct(next), 5);
    let [Effect::Persist { record, reply: None, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(record.state, LeaseState::Released { at_us: 5 });
    assert_eq!(lease(&mut engine, MAC), next);
}

#[test]
fn inform_gets_parameters_only() {
    let inform = new(MessageType::Inform).ciaddr(at(9)).option(55, &[67]).giaddr(RELAY);
    let effects = ask(&mut engine(), inform);
    let (ack, to) = sent(&effects);
    assert_eq!(ack.message_type(), Some(MessageType::Ack));
    assert_eq!(to, Destination::Host(SocketAddrV4::new(at(9), 68)));
    assert_eq!((ack.header.ciaddr, ack.header.yiaddr), (at(9), Ipv4Addr::UNSPECIFIED));
    for absent in [51, 58, 59] {
        assert_eq!(ack.option(absent), None, "{absent}");
    }
    assert_eq!(ack.address(3), Some(at(1)));
    assert!(ack.option(67).is_some());
}

#[test]
fn a_full_range_is_told_once_a_minute() {
    let range = ServedRange { last: at(32), ..sample() };
    let mut engine = Engine::new(Config { ranges: vec![range] }, []).unwrap();
    lease(&mut engine, MAC);
    let late = Request::new(MessageType::Discover, OTHER_MAC).decode();
    let mut at_second = |second: i64| engine.handle(&late, &broadcast(), second * SECOND);
    let told = Effect::Observe(Observation::Full(RangeUse {
        first: at(32),
        last: at(32),
        addresses: 1,
        leased: 1,
        offered: 0,
        quarantined: 0,
    }));
    assert_eq!(at_second(0), [told.clone(), Effect::Ignore(Ignored::Full)]);
    assert_eq!(at_second(59), [Effect::Ignore(Ignored::Full)]);
    assert_eq!(at_second(60), [told.clone(), Effect::Ignore(Ignored::Full)]);
    assert_eq!(at_second(30), [told, Effect::Ignore(Ignored::Full)], "the clock went back");
}

#[test]
fn another_configuration_keeps_leases() {
    let mut engine = engine();
    let address = lease(&mut engine, MAC);
    let mut narrow = sample();
    narrow.first = at(40);
    engine.configure(Config { ranges: vec![narrow] }).unwrap();
    let renew = new(MessageType::Request).ciaddr(address).decode();
    assert_eq!(kind(&engine.handle(&renew, &direct(address), 0)), MessageType::Nak);
    assert!(engine.configure(Config { ranges: vec![sample(), sample()] }).is_err());
    engine.configure(Config { ranges: vec![sample()] }).unwrap();
    assert_eq!(kind(&engine.handle(&renew, &direct(address), 0)), MessageType::Ack);
}
