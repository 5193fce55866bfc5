//! What the operator's settings change.

use std::sync::Arc;

use model::MacAddress;

use super::*;
use crate::dhcp::config::{Onie, OtherPart};

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
    // What was leased before stays, and is only told of.
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
