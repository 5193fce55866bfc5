//! The effects of the operator's settings.

use std::sync::Arc;

use model::MacAddress;

use super::*;
use crate::dhcp::config::{GuestRules, Onie, OtherPart};

/// An engine for one range, and one that serves as usual.
fn engine(range: ServedRange) -> Engine {
    Engine::new(Config { ranges: vec![range] }, []).unwrap()
}

fn ask(engine: &mut Engine, sent: Sent) -> (String, Option<Packet>) {
    let source = SocketAddrV4::new(sent.from, 68);
    let arrival = Arrival { interface: US, source, destination: sent.to };
    outcome(&engine.handle(&sent.request.decode(), &arrival, 0))
}

#[test]
fn a_trusted_circuit_needs_no_relay() {
    let circuit = b"\x01\x05swp12\x0b\x04\x0a\x45\x00\x0a";
    let discover = || all(discover(A).option(82, circuit));
    let (line, _) = ask(&mut engine(sample()), discover());
    assert_eq!(line, "silence: it has a relay's option, but came without a relay");
    let mut trusting = engine(ServedRange { trusted_circuits: true, ..sample() });
    let (line, offer) = ask(&mut trusting, discover());
    assert_eq!(line, "OFFER .32 frame");
    let offer = offer.unwrap();
    assert_eq!(offer.option(82), Some(&circuit[..]));
    // Only a relay may speak in our place.
    assert_eq!(offer.address(54), Some(US));
    let (line, _) = ask(&mut trusting, all(selecting(A, at(32)).option(82, circuit)));
    assert_eq!(line, "ACK .32 frame");
}

#[test]
fn who_is_observed_is_sent_nothing_and_keeps_no_lease() {
    let mut observing = engine(ServedRange { observe: true, ..sample() });
    for (sent, line) in [
        (all(discover(A)), "withheld OFFER .32 frame"),
        (all(discover(B)), "withheld OFFER .32 frame"),
        (all(rebooting(A, at(32))), "withheld NAK broadcast"),
        (us(extending(A, at(32))), "withheld NAK broadcast"),
        (us(informing(A, at(9))), "withheld ACK 10.69.0.9:68"),
        (all(declining(A, at(32))), "silence: the client does not hold the address"),
        (all(request(A).address(50, at(40)).address(54, OTHER_SERVER)), OTHER),
    ] {
        assert_eq!(ask(&mut observing, sent).0, line);
        assert_eq!(observing.records().count(), 0);
    }
    // Earlier leases stay, and are only reported.
    let mut both = engine(sample());
    ask(&mut both, all(discover(A)));
    ask(&mut both, all(selecting(A, at(32))));
    let before: Vec<_> = both.records().collect();
    both.configure(Config { ranges: vec![ServedRange { observe: true, ..sample() }] }).unwrap();
    for (sent, line) in [
        (us(extending(A, at(32))), "withheld ACK .32 10.69.0.32:68"),
        (us(releasing(A, at(32))), "nothing"),
        (all(declining(A, at(32))), "nothing"),
    ] {
        assert_eq!(ask(&mut both, sent).0, line);
        assert_eq!(both.records().collect::<Vec<_>>(), before);
    }
}

const OTHER: &str = "silence: it is meant for another server";

#[test]
fn switches_of_the_inventory_are_told_their_installer() {
    let url = "http://10.69.0.3/onie-installer";
    let known = Arc::new([MacAddress::new(A)].into());
    let onie = Some(Onie { url: url.to_owned(), known });
    let switch = |mac| {
        let request = discover(mac).option(60, b"onie_vendor:x86_64-accton_as7712_32x-r0");
        all(request.option(55, &[1, 3, 6, 66, 67, 114, 125]))
    };
    for (settings, sent, told, file) in [
        (onie.clone(), switch(A), Some(url), None),
        (onie.clone(), switch(B), None, None),
        (None, switch(A), None, None),
        (onie, all(discover(A).option(55, &[67, 114])), None, Some(SCRIPT)),
    ] {
        let (line, offer) = ask(&mut engine(ServedRange { onie: settings, ..sample() }), sent);
        assert_eq!(line, "OFFER .32 frame");
        let offer = offer.unwrap();
        assert_eq!(offer.option(114), told.map(str::as_bytes));
        assert_eq!(offer.option(67), file.map(str::as_bytes));
        assert_eq!(offer.address(3), Some(at(1)));
    }
}

const SCRIPT: &str = "http://10.69.0.3:10080/api/v1/boot/ipxe";

#[test]
fn agents_that_look_for_servers_get_no_answer() {
    let (line, _) = ask(&mut engine(sample()), all(discover(A).option(60, PROBE_CLASS)));
    assert_eq!(line, "silence: another agent of a rack looks for servers");
}

#[test]
fn a_client_of_another_agent_is_left_to_that_at_first() {
    let n2: model::NodeName = "n2".parse().unwrap();
    let other = OtherPart { agent: Some(n2.clone()), from_us: 0 };
    let others = [(at(32), other)].into();
    let range = ServedRange { others, peers: [n2.clone()].into(), ..sample() };
    let mut engine = engine(range);
    let state = LeaseState::Bound { until_us: 3_600_000_000 };
    let client = Identity::Ethernet(MacAddress::new(A));
    let told = LeaseRecord { address: at(32), client, state, since_us: Some(0) };
    assert_eq!(engine.learn(&n2, vec![told.clone()], 0).len(), 1);
    engine.hear(n2.clone(), 0);
    let left = "silence: another agent of the rack has its address";
    let unknown = "silence: the client is unknown here";
    let took = || all(request(A).address(50, at(32)).address(54, OTHER_SERVER));
    for (second, sent, line) in [
        (0, all(discover(A)), left),
        (1, all(discover(A)), "OFFER .33 frame"),
        (2, took(), OTHER),
        // The next stage of its boot.
        (9, all(discover(A)), left),
        (10, took(), OTHER),
        (11, all(rebooting(A, at(32))), unknown),
        (12, all(selecting(A, at(32))), "NAK broadcast"),
        (13, us(extending(A, at(32))), "ACK .32 10.69.0.32:68"),
        (14, all(extending(A, at(32))), "ACK .32 10.69.0.32:68"),
        (15, all(extending(B, at(32))), unknown),
        // The other one was not heard for long.
        (70, all(discover(A)), "OFFER .33 frame"),
        (71, us(releasing(A, at(32))), "released .32"),
        (72, us(extending(A, at(32))), unknown),
    ] {
        let source = SocketAddrV4::new(sent.from, 68);
        let arrival = Arrival { interface: US, source, destination: sent.to };
        let effects = engine.handle(&sent.request.decode(), &arrival, second * 1_000_000);
        assert_eq!(outcome(&effects).0, line, "second {second}");
    }
}

/// Cards that are in no inventory, by their last byte.
fn stranger(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 9, number]
}

fn crowded(addresses_max: usize) -> Engine {
    let known = Arc::new([A, B, C].map(MacAddress::new).into());
    let guests = Some(GuestRules { known, addresses_max });
    engine(ServedRange { last: at(39), guests, ..sample() })
}

const CROWDED: &str = "silence: the addresses for cards outside of the inventory are used up";

fn at_second(engine: &mut Engine, second: i64, sent: Sent) -> (String, Option<Packet>) {
    let source = SocketAddrV4::new(sent.from, 68);
    let arrival = Arrival { interface: US, source, destination: sent.to };
    outcome(&engine.handle(&sent.request.decode(), &arrival, second * 1_000_000))
}

/// Takes a stranger to a lease; whether it got one.
fn takes(engine: &mut Engine, second: i64, number: u8, circuit: Option<&[u8]>) -> Option<Packet> {
    let by = |request: Request| match circuit {
        Some(circuit) => request.giaddr(RELAY).option(82, circuit),
        None => request,
    };
    let (_, offer) = at_second(engine, second, all(by(discover(stranger(number)))));
    let address = offer?.header.yiaddr;
    let (line, ack) = at_second(engine, second, all(by(selecting(stranger(number), address))));
    assert!(line.starts_with("ACK"), "{line}");
    ack
}

#[test]
fn strangers_leave_addresses_to_machines() {
    let mut engine = crowded(3);
    // Whatever they do with what they are offered.
    let declines = takes(&mut engine, 0, 1, None).unwrap().header.yiaddr;
    at_second(&mut engine, 0, all(declining(stranger(1), declines)));
    let ack = takes(&mut engine, 0, 2, None).unwrap();
    assert_eq!(ack.option(51), Some(&600_u32.to_be_bytes()[..]));
    at_second(&mut engine, 0, all(discover(stranger(3))));
    let (line, _) = at_second(&mut engine, 1, all(discover(stranger(4))));
    assert_eq!(line, "alarm: the addresses for cards outside of the inventory are used up");
    for number in 5..99 {
        assert_eq!(at_second(&mut engine, 2, all(discover(stranger(number)))).0, CROWDED);
    }
    // A guest that has an address keeps it, and a machine gets one for an hour.
    let renewal = us(extending(stranger(2), ack.header.yiaddr));
    assert!(at_second(&mut engine, 300, renewal).0.starts_with("ACK"));
    for (mac, address) in [(A, at(35)), (B, at(36)), (C, at(37))] {
        let (_, offer) = at_second(&mut engine, 9, all(discover(mac)));
        assert_eq!(offer.unwrap().option(51), Some(&3_600_u32.to_be_bytes()[..]));
        let (line, _) = at_second(&mut engine, 9, all(selecting(mac, address)));
        assert_eq!(line, format!("ACK .{} frame", address.octets()[3]));
    }
    // When theirs have ended, others come in their place.
    assert!(takes(&mut engine, 4_000, 7, None).is_some());
}

#[test]
fn a_stranger_comes_back_only_where_there_is_room() {
    let mut engine = crowded(1);
    let address = takes(&mut engine, 0, 1, None).unwrap().header.yiaddr;
    assert!(takes(&mut engine, 601, 2, None).is_some());
    let reboots = || all(rebooting(stranger(1), address));
    assert!(at_second(&mut engine, 602, reboots()).0.starts_with("alarm"));
    assert_eq!(at_second(&mut engine, 603, reboots()).0, CROWDED);
    assert_eq!(at_second(&mut engine, 1_300, reboots()).0, "ACK .32 frame");
    // A machine whose card was learnt is none any more.
    let known = Arc::new([MacAddress::new(stranger(1)), MacAddress::new(A)].into());
    let guests = Some(GuestRules { known, addresses_max: 1 });
    engine.configure(Config { ranges: vec![ServedRange { guests, ..sample() }] }).unwrap();
    assert!(takes(&mut engine, 1_301, 3, None).is_some());
}

#[test]
fn strangers_at_one_port_leave_addresses_to_those_at_others() {
    let (one, other) = (b"\x01\x01a", b"\x01\x01b");
    let mut engine = crowded(4);
    let count = |engine: &mut Engine, numbers: std::ops::Range<u8>, circuit: &[u8]| {
        numbers.filter(|number| takes(engine, 0, *number, Some(circuit)).is_some()).count()
    };
    assert_eq!(count(&mut engine, 0..20, one), 2);
    assert_eq!(count(&mut engine, 20..21, other), 1);
    assert!(takes(&mut engine, 0, 30, None).is_some(), "nobody told its port");
    assert_eq!(count(&mut engine, 21..22, other), 0, "all four are used up");
}
