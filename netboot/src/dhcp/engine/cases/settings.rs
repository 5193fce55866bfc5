//! What the operator's settings change.

use std::sync::Arc;

use model::MacAddress;

use super::*;
use crate::dhcp::config::Onie;

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
