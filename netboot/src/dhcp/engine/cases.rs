//! Conversations with the engine, in tables: the subjects are those of ISC Forge's DHCPv4 suite, the
//! expectations those of the RFCs and of this server's rules.
//!
//! A case is a name and its turns. A turn is a message, how it comes, and its effect, as a line such as
//! `OFFER .32 frame` or `silence: the client is unknown here`.

mod decline;
mod discover;
mod fields;
mod inform;
mod options;
mod parameters;
mod relay;
mod release;
mod request;
mod settings;

use std::net::SocketAddrV4;

use super::*;
use crate::dhcp::config::tests::sample;
use crate::dhcp::packet::vectors::Request;

/// Clients.
const A: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0xa];
const B: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0xb];
const C: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0xc];
/// Our address, a relay on the link, a relay elsewhere, another server.
const US: Ipv4Addr = at(3);
const RELAY: Ipv4Addr = at(10);
const FAR_RELAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER_SERVER: Ipv4Addr = at(4);
/// An address of a network that is not served.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);
/// Seconds of a lease in the sample.
const LEASE: i64 = 3_600;

const fn at(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, last)
}

/// A message and how it comes.
struct Sent {
    request: Request,
    to: Ipv4Addr,
    from: Ipv4Addr,
    after_s: i64,
}

/// Broadcast on our link, or passed on by a relay.
fn all(request: Request) -> Sent {
    Sent { request, to: Ipv4Addr::BROADCAST, from: Ipv4Addr::UNSPECIFIED, after_s: 0 }
}

/// To our address alone.
fn us(request: Request) -> Sent {
    Sent { to: US, ..all(request) }
}

impl Sent {
    fn from(self, from: Ipv4Addr) -> Self {
        Self { from, ..self }
    }

    /// So many seconds after the turn before it.
    fn after(self, seconds: i64) -> Self {
        Self { after_s: seconds, ..self }
    }
}

/// The expected effect of a message.
struct Expected {
    line: &'static str,
    options: Vec<(u8, Option<Vec<u8>>)>,
}

fn gets(line: &'static str) -> Expected {
    Expected { line, options: Vec::new() }
}

impl Expected {
    fn with(mut self, code: u8, value: impl AsRef<[u8]>) -> Self {
        self.options.push((code, Some(value.as_ref().to_vec())));
        self
    }

    fn without(mut self, codes: &[u8]) -> Self {
        self.options.extend(codes.iter().map(|code| (*code, None)));
        self
    }
}

/// Turns of one engine.
struct Case {
    name: &'static str,
    addresses: u8,
    turns: Vec<(Sent, Expected)>,
}

fn case<const N: usize>(name: &'static str, turns: [(Sent, Expected); N]) -> Case {
    Case { name, addresses: 31, turns: turns.into() }
}

/// With a range of so many addresses, from .32 on.
fn narrow<const N: usize>(name: &'static str, addresses: u8, turns: [(Sent, Expected); N]) -> Case {
    Case { addresses, ..case(name, turns) }
}

impl Case {
    /// The differences from the expectation.
    fn faults(self) -> Vec<String> {
        let range = ServedRange { last: at(31 + self.addresses), ..sample() };
        let mut engine = Engine::new(Config { ranges: vec![range] }, []).unwrap();
        let (mut faults, mut now) = (Vec::new(), 0);
        for (turn, (sent, expected)) in self.turns.into_iter().enumerate() {
            now += sent.after_s * 1_000_000;
            let source = SocketAddrV4::new(sent.from, 68);
            let arrival = Arrival { interface: US, source, destination: sent.to };
            let effects = engine.handle(&sent.request.decode(), &arrival, now);
            let (line, reply) = outcome(&effects);
            if line != expected.line {
                faults.push(format!("{} turn {turn}: {line}, not {}", self.name, expected.line));
            }
            for (code, value) in expected.options {
                let got = reply.as_ref().and_then(|reply| reply.option(code));
                if got != value.as_deref() {
                    faults.push(format!("{} turn {turn}: {code} is {got:?}", self.name));
                }
            }
        }
        faults
    }
}

fn check(cases: Vec<Case>) {
    let faults: Vec<String> = cases.into_iter().flat_map(Case::faults).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Kind of the reply, the address that it gives, and its way; or what else there was.
fn outcome(effects: &[Effect]) -> (String, Option<Packet>) {
    match effects {
        [Effect::Ignore(reason)] => (format!("silence: {reason}"), None),
        [
            Effect::Observe(Observation::Full(_) | Observation::Crowded { .. }),
            Effect::Ignore(reason),
        ] => (format!("alarm: {reason}"), None),
        [Effect::Persist { record, reply: None, .. }] => {
            let state = match record.state {
                LeaseState::Bound { .. } => "bound",
                LeaseState::Released { .. } => "released",
                LeaseState::Declined { .. } => "declined",
            };
            (format!("{state} .{}", record.address.octets()[3]), None)
        }
        [Effect::Withheld(out)] => {
            let (line, reply) = outcome(&[Effect::Reply(out.clone())]);
            (format!("withheld {line}"), reply)
        }
        [] => ("nothing".to_owned(), None),
        [Effect::Reply(out) | Effect::Persist { reply: Some(out), .. }, ..] => {
            let reply = Packet::decode(&out.reply.encode()).unwrap();
            let kind = format!("{:?}", reply.message_type().unwrap()).to_uppercase();
            let header = &reply.header;
            let given = match header.yiaddr {
                Ipv4Addr::UNSPECIFIED => String::new(),
                given => format!(" .{}", given.octets()[3]),
            };
            let way = match out.to {
                Destination::Broadcast(_) => "broadcast".to_owned(),
                Destination::Frame { .. } => "frame".to_owned(),
                Destination::Host(host) => host.to_string(),
            };
            (format!("{kind}{given} {way}"), Some(reply))
        }
        other => (format!("{other:?}"), None),
    }
}

use super::super::leases::LeaseState;

fn discover(mac: [u8; 6]) -> Request {
    Request::new(MessageType::Discover, mac)
}

/// A REQUEST with nothing in it yet.
fn request(mac: [u8; 6]) -> Request {
    Request::new(MessageType::Request, mac)
}

/// Takes our offer of `address`.
fn selecting(mac: [u8; 6], address: Ipv4Addr) -> Request {
    request(mac).address(50, address).address(54, US)
}

fn rebooting(mac: [u8; 6], address: Ipv4Addr) -> Request {
    request(mac).address(50, address)
}

/// Renews where it is sent to us, rebinds where to all.
fn extending(mac: [u8; 6], address: Ipv4Addr) -> Request {
    request(mac).ciaddr(address)
}

fn declining(mac: [u8; 6], address: Ipv4Addr) -> Request {
    Request::new(MessageType::Decline, mac).address(50, address).address(54, US)
}

fn releasing(mac: [u8; 6], address: Ipv4Addr) -> Request {
    Request::new(MessageType::Release, mac).ciaddr(address).address(54, US)
}

fn informing(mac: [u8; 6], address: Ipv4Addr) -> Request {
    Request::new(MessageType::Inform, mac).ciaddr(address)
}
