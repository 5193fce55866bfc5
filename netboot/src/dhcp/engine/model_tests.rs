//! Random lives of a few clients against the rules that must hold throughout.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use proptest::prelude::*;

use super::*;
use crate::dhcp::config::tests::sample;
use crate::dhcp::leases::QUARANTINE_US;
use crate::dhcp::packet::vectors::Request;

const CLIENTS: u8 = 6;
const SECOND: i64 = 1_000_000;
const US: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 3);
const EXCLUDED: Ipv4Addr = Ipv4Addr::new(10, 69, 0, 34);

#[derive(Debug, Clone)]
enum Step {
    Discover(u8),
    /// Takes what was offered last; `true`: that of another server.
    Take(u8, bool),
    /// Asks for any address of the network, by no offer.
    Grab(u8, u8),
    Reboot(u8, u8),
    /// `true`: writes to the server alone.
    Renew(u8, bool),
    Release(u8),
    Decline(u8),
    Wait(u16),
    /// The agent is killed and starts from what is durable.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..CLIENTS;
    let host = 30_u8..38;
    let step = prop_oneof![
        4 => client.clone().prop_map(Step::Discover),
        4 => (client.clone(), prop::bool::weighted(0.1)).prop_map(|(c, o)| Step::Take(c, o)),
        1 => (client.clone(), host.clone()).prop_map(|(c, h)| Step::Grab(c, h)),
        2 => (client.clone(), host).prop_map(|(c, h)| Step::Reboot(c, h)),
        2 => (client.clone(), any::<bool>()).prop_map(|(c, d)| Step::Renew(c, d)),
        1 => client.clone().prop_map(Step::Release),
        1 => client.prop_map(Step::Decline),
        3 => (0_u16..2_500).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..120)
}

/// Four addresses for six clients.
fn config() -> Config {
    let mut range = sample();
    range.last = Ipv4Addr::new(10, 69, 0, 36);
    range.excluded = [EXCLUDED].into();
    Config { ranges: vec![range] }
}

/// The world outside the engine.
struct World {
    engine: Engine,
    now: i64,
    disk: BTreeMap<Ipv4Addr, LeaseRecord>,
    offered: BTreeMap<u8, Ipv4Addr>,
    /// The address that each client was acknowledged, and until when.
    held: BTreeMap<u8, (Ipv4Addr, i64)>,
}

impl World {
    fn new() -> Self {
        let engine = Engine::new(config(), []).unwrap();
        let (disk, offered, held) = Default::default();
        Self { engine, now: SECOND, disk, offered, held }
    }

    fn holds(&self, client: u8) -> Option<Ipv4Addr> {
        self.held.get(&client).filter(|(_, until)| *until > self.now).map(|(address, _)| *address)
    }

    fn step(&mut self, step: &Step) {
        use MessageType::{Decline, Discover, Release, Request as Ask};
        let new = |kind, client: u8| Request::new(kind, mac(client));
        match *step {
            Step::Discover(client) => self.send(client, new(Discover, client), None),
            Step::Take(client, other) => {
                let Some(address) = self.offered.get(&client).copied() else { return };
                let server = if other { Ipv4Addr::new(10, 69, 0, 4) } else { US };
                let request = new(Ask, client).address(50, address).address(54, server);
                self.send(client, request, Some(address));
            }
            Step::Grab(client, host) => {
                let address = Ipv4Addr::new(10, 69, 0, host);
                let request = new(Ask, client).address(50, address).address(54, US);
                self.send(client, request, Some(address));
            }
            Step::Reboot(client, host) => {
                let address = Ipv4Addr::new(10, 69, 0, host);
                self.send(client, new(Ask, client).address(50, address), Some(address));
            }
            Step::Renew(client, direct) => {
                let Some(address) = self.holds(client) else { return };
                let to = if direct { US } else { Ipv4Addr::BROADCAST };
                self.send_to(to, client, new(Ask, client).ciaddr(address), Some(address));
                assert_eq!(self.holds(client), Some(address), "a held lease is renewed");
            }
            Step::Release(client) => {
                let Some(address) = self.holds(client) else { return };
                self.held.remove(&client);
                let request = new(Release, client).ciaddr(address).address(54, US);
                self.send(client, request, None);
            }
            Step::Decline(client) => {
                let Some(address) = self.holds(client) else { return };
                self.held.remove(&client);
                let request = new(Decline, client).address(50, address).address(54, US);
                self.send(client, request, None);
            }
            Step::Wait(seconds) => self.now += i64::from(seconds) * SECOND,
            Step::Restart => {
                self.engine = Engine::new(config(), self.disk.values().cloned()).unwrap();
            }
        }
    }

    fn send(&mut self, client: u8, request: Request, asked: Option<Ipv4Addr>) {
        self.send_to(Ipv4Addr::BROADCAST, client, request, asked);
    }

    fn send_to(
        &mut self,
        destination: Ipv4Addr,
        client: u8,
        request: Request,
        asked: Option<Ipv4Addr>,
    ) {
        let packet = request.decode();
        let source = SocketAddrV4::new(packet.header.ciaddr, 68);
        let arrival = Arrival { interface: US, source, destination };
        for effect in self.engine.handle(&packet, &arrival, self.now) {
            match effect {
                Effect::Reply(out) => self.receive(client, &out, asked),
                Effect::Persist { record, reply, .. } => {
                    self.disk.insert(record.address, record);
                    if let Some(out) = reply {
                        self.receive(client, &out, asked);
                    }
                }
                Effect::Withheld(_) | Effect::Observe(_) | Effect::Ignore(_) => {}
            }
        }
    }

    /// The rules, where a reply arrives.
    fn receive(&mut self, client: u8, out: &Outgoing, asked: Option<Ipv4Addr>) {
        let reply = Packet::decode(&out.reply.encode()).unwrap();
        let address = reply.header.yiaddr;
        match reply.message_type().unwrap() {
            MessageType::Offer => {
                self.check_ours(client, address);
                self.offered.insert(client, address);
            }
            MessageType::Ack => {
                assert_eq!(Some(address), asked, "another address than asked for");
                self.check_ours(client, address);
                let until = self.now + 3_600 * SECOND;
                let record = &self.disk[&address];
                assert_eq!(record.client.mac().unwrap().bytes(), mac(client));
                assert_eq!(record.bound_until_us(), Some(until), "told more than is durable");
                self.held.insert(client, (address, until));
            }
            MessageType::Nak => {
                self.held.remove(&client);
            }
            other => panic!("a server sends no {other:?}"),
        }
    }

    fn check_ours(&self, client: u8, address: Ipv4Addr) {
        let range = &config().ranges[0];
        assert!((range.first..=range.last).contains(&address), "{address} is out of range");
        assert_ne!(address, EXCLUDED);
        for other in (0..CLIENTS).filter(|other| *other != client) {
            assert_ne!(self.holds(other), Some(address), "held by {client} and {other}");
        }
    }
}

fn mac(client: u8) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 1, client]
}

proptest! {
    #[test]
    fn rules_hold_in_any_life(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        // The records in memory are those on disk, but for offers.
        for record in world.engine.records() {
            prop_assert_eq!(world.disk.get(&record.address), Some(&record));
        }
        // When all has ended, all four addresses are there for newcomers.
        world.now += QUARANTINE_US.max(3_600 * SECOND);
        world.held.clear();
        let mut given = std::collections::BTreeSet::new();
        for newcomer in CLIENTS..CLIENTS + 4 {
            world.step(&Step::Discover(newcomer));
            world.step(&Step::Take(newcomer, false));
            given.insert(world.holds(newcomer).unwrap());
        }
        prop_assert_eq!(given.len(), 4);
    }

    /// Any bytes after a plausible start, by any way, and the engine goes on.
    #[test]
    fn any_packet_is_survived(
        packets in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..60), 0_u8..10, any::<[u8; 4]>(), any::<bool>()),
            1..30),
    ) {
        let mut world = World::new();
        for (junk, kind, address, relayed) in packets {
            let near = Ipv4Addr::new(10, 69, 0, address[3]);
            let mut request = Request::new(MessageType::Discover, mac(address[0] % 8))
                .bytes_at(242, &[kind])
                .bytes_at(8, &address);
            if relayed {
                request = request.giaddr(near);
            }
            let mut bytes = request.address(50, near).address(54, US).build();
            bytes.pop();
            bytes.extend(junk);
            let packet = Packet::decode(&bytes).unwrap();
            let source = SocketAddrV4::new(near, 68);
            let arrival = Arrival { interface: US, source, destination: near };
            for effect in world.engine.handle(&packet, &arrival, world.now) {
                if let Effect::Reply(out) | Effect::Persist { reply: Some(out), .. } = effect {
                    let bytes = out.reply.encode();
                    prop_assert!((300..=1_472).contains(&bytes.len()));
                }
            }
        }
    }
}
