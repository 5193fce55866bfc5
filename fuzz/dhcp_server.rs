//! The whole way of DHCP: bytes are decoded, the engine decides, replies are encoded.
//!
//! Input is a series of datagrams: a byte that says how each comes, two of its length, its bytes.
//! Bit 0: to us alone. Bit 1: from port 67. The upper half: the logarithm of the seconds before it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use netboot::dhcp::packet::MessageType;
use netboot::dhcp::{
    Arrival, Config, Destination, Effect, Engine, Identity, LeaseState, Outgoing, Packet,
    ServedRange,
};

/// Our address on the first network.
const US: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
/// Lengths of every reply: what BOOTP expects, and what a frame holds.
const REPLY_BYTES: std::ops::RangeInclusive<usize> = 300..=1_472;

/// Two networks with few addresses, one of which belongs to somebody.
fn config() -> Config {
    let range = |third: u8| {
        let at = |last| Ipv4Addr::new(10, 69, third, last);
        ServedRange {
            interface_address: at(3),
            prefix_len: 26,
            first: at(32),
            last: at(36),
            excluded: [at(34)].into(),
            later: BTreeMap::new(),
            others: BTreeMap::new(),
            settled_us: 0,
            peers: BTreeSet::new(),
            relays_only: false,
            guests: None,
            gateway: Some(at(1)),
            dns: vec![at(2)],
            ntp: Vec::new(),
            domain: None,
            lease_seconds: 3_600,
            boot_base_url: format!("http://{}:10080", at(3)),
            observe: false,
            trusted_circuits: third == 1,
            onie: None,
            server_id: at(3),
        }
    };
    Config { ranges: vec![range(0), range(1)] }
}

/// The rules that must hold, whatever is sent.
struct Rules {
    ranges: Vec<ServedRange>,
    held: BTreeMap<Ipv4Addr, (Identity, i64)>,
}

impl Rules {
    fn is_leased(&self, address: Ipv4Addr) -> bool {
        self.ranges.iter().any(|range| range.leases(address))
    }

    fn check(&mut self, asked: &Packet, effect: Effect, now: i64) {
        match effect {
            Effect::Reply(out) => self.check_reply(asked, &out),
            Effect::Persist { record, reply, .. } => {
                assert!(self.is_leased(record.address), "{} is not to lease", record.address);
                let other = self.held.get(&record.address).filter(|(_, until)| *until > now);
                assert!(other.is_none_or(|(client, _)| *client == record.client));
                match record.state {
                    LeaseState::Bound { until_us } => {
                        self.held.insert(record.address, (record.client, until_us))
                    }
                    LeaseState::Released { .. } | LeaseState::Declined { .. } => {
                        self.held.remove(&record.address)
                    }
                };
                if let Some(out) = reply {
                    assert_eq!(out.reply.header.yiaddr, record.address);
                    self.check_reply(asked, &out);
                }
            }
            Effect::Withheld(_) | Effect::Observe(_) | Effect::Ignore(_) => {}
        }
    }

    fn check_reply(&self, asked: &Packet, out: &Outgoing) {
        let bytes = out.reply.encode();
        assert!(REPLY_BYTES.contains(&bytes.len()), "a reply of {} bytes", bytes.len());
        let read = Packet::decode(&bytes).expect("a reply is a message");
        assert_eq!((read.header, read.header.op), (out.reply.header, 2));
        assert_eq!((read.header.xid, read.header.chaddr), (asked.header.xid, asked.header.chaddr));
        let given = read.header.yiaddr;
        match read.message_type() {
            Some(MessageType::Offer) => assert!(self.is_leased(given), "{given} is offered"),
            Some(MessageType::Ack) => assert!(given.is_unspecified() || self.is_leased(given)),
            Some(MessageType::Nak) => assert!(given.is_unspecified()),
            other => panic!("a server sends no {other:?}"),
        }
        if let Some(relay) = read.option(82) {
            assert_eq!(Some(relay), asked.option(82));
        }
        if let Destination::Host(host) = out.to {
            let host = host.ip();
            assert!(!host.is_unspecified() && !host.is_broadcast() && !host.is_multicast());
            for range in self.ranges.iter().filter(|range| range.on_network(*host)) {
                assert!(range.is_neighbour(*host), "{host} is no host but us");
            }
        }
    }
}

/// Any messages: no panic, replies that read, and no address outside the ranges or twice.
pub(crate) fn dhcp_server(input: &[u8]) {
    let mut engine = Engine::new(config(), []).expect("the configuration can be served");
    let mut rules = Rules { ranges: config().ranges, held: BTreeMap::new() };
    let (mut rest, mut now) = (input, 0);
    while let [how, high, low, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let (datagram, following) = after.split_at_checked(len).unwrap_or((after, &[]));
        rest = following;
        now += ((1_i64 << (how >> 4)) - 1) * 1_000_000;
        let Ok(packet) = Packet::decode(datagram) else { continue };
        let port = if how & 2 == 0 { 68 } else { 67 };
        let destination = if how & 1 == 0 { Ipv4Addr::BROADCAST } else { US };
        let source = SocketAddrV4::new(packet.header.ciaddr, port);
        let arrival = Arrival { interface: US, source, destination };
        for effect in engine.handle(&packet, &arrival, now) {
            rules.check(&packet, effect, now);
        }
    }
    for record in engine.records() {
        assert!(rules.is_leased(record.address), "{} is kept", record.address);
    }
}
