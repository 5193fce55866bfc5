//! The clients of the model: what they send, and what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use super::agents::{Rack, address_of};
use super::{CLIENTS, PACKET, Reach, SECOND};
use crate::dhcp::packet::vectors::Request;
use crate::dhcp::packet::{MessageType, Packet, option};
use crate::dhcp::{Arrival, Effect, Outgoing};
use model::MacAddress;

/// What clients know.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Until when each holds an address, by the last acknowledgement.
    held: BTreeMap<(usize, Ipv4Addr), i64>,
    /// The last address of each, and the agent that acknowledged it.
    last: BTreeMap<usize, (Ipv4Addr, usize)>,
}

fn mac(client: usize) -> [u8; 6] {
    [0x52, 0x54, 0, 0, 1, u8::try_from(client).unwrap()]
}

impl Rack {
    pub(super) fn holds(&self, client: usize) -> bool {
        self.address(client).is_some()
    }

    /// The address that a client uses.
    fn address(&self, client: usize) -> Option<Ipv4Addr> {
        let (address, _) = self.clients.last.get(&client)?;
        let until = self.clients.held.get(&(client, *address))?;
        (*until > self.now).then_some(*address)
    }

    /// The clients that hold an address by an acknowledgement, whether they still use it or not.
    fn holders(&self, address: Ipv4Addr) -> impl Iterator<Item = usize> {
        let all = self.clients.held.iter();
        let held = all.filter(move |((_, of), until)| *of == address && **until > self.now);
        held.map(|((client, _), _)| *client)
    }

    fn reached(&self, reach: Reach) -> Vec<usize> {
        (0..self.agents.len()).filter(|agent| reach & (1 << agent) != 0).collect()
    }

    pub(super) fn boots(&mut self, client: usize, reach: Reach) {
        let discover = Request::new(MessageType::Discover, mac(client));
        let agents = self.reached(reach);
        let offers = agents.iter().filter_map(|agent| self.broadcasts(*agent, discover.clone()));
        let offers: Vec<Packet> = offers.collect();
        let Some(offer) = offers.first() else { return };
        let (address, server) = (offer.header.yiaddr, offer.address(54).unwrap());
        let request = Request::new(MessageType::Request, mac(client));
        let request = request.address(50, address).address(54, server);
        for agent in agents {
            let answer = self.broadcasts(agent, request.clone());
            self.answered(client, agent, address, answer);
        }
    }

    pub(super) fn reboots(&mut self, client: usize, reach: Reach) {
        let Some((address, _)) = self.clients.last.get(&client).copied() else { return };
        let request = Request::new(MessageType::Request, mac(client)).address(50, address);
        self.asks_all(client, address, reach, &request);
    }

    pub(super) fn rebinds(&mut self, client: usize, reach: Reach) {
        let Some(address) = self.address(client) else { return };
        let request = Request::new(MessageType::Request, mac(client)).ciaddr(address);
        self.asks_all(client, address, reach, &request);
    }

    /// The first answer counts.
    fn asks_all(&mut self, client: usize, address: Ipv4Addr, reach: Reach, request: &Request) {
        for agent in self.reached(reach) {
            let answer = self.broadcasts(agent, request.clone());
            if answer.is_some() {
                return self.answered(client, agent, address, answer);
            }
        }
    }

    pub(super) fn renews(&mut self, client: usize) {
        let Some(address) = self.address(client) else { return };
        let (_, agent) = self.clients.last[&client];
        let request = Request::new(MessageType::Request, mac(client)).ciaddr(address);
        let answer = self.sends(agent, address_of(agent), request);
        self.answered(client, agent, address, answer);
    }

    pub(super) fn releases(&mut self, client: usize, arrives: bool) {
        let Some(address) = self.address(client) else { return };
        let (_, agent) = self.clients.last[&client];
        self.clients.held.remove(&(client, address));
        if arrives {
            let server = address_of(agent);
            let request = Request::new(MessageType::Release, mac(client)).ciaddr(address);
            self.sends(agent, server, request.address(54, server));
        }
    }

    pub(super) fn declines(&mut self, client: usize) {
        let Some(address) = self.address(client) else { return };
        let (_, agent) = self.clients.last[&client];
        self.clients.held.remove(&(client, address));
        let request = Request::new(MessageType::Decline, mac(client)).address(50, address);
        self.broadcasts(agent, request.address(54, address_of(agent)));
    }

    fn broadcasts(&mut self, agent: usize, request: Request) -> Option<Packet> {
        self.sends(agent, Ipv4Addr::BROADCAST, request)
    }

    /// Gives the answer of the agent, if it lives and answers. Every packet takes time, so that no agent
    /// gives an address twice in one moment.
    fn sends(&mut self, agent: usize, to: Ipv4Addr, request: Request) -> Option<Packet> {
        self.now += PACKET;
        let now = self.clock(agent);
        let packet = request.decode();
        let source = SocketAddrV4::new(packet.header.ciaddr, 68);
        let arrival = Arrival { interface: address_of(agent), source, destination: to };
        let effects = self.agents[agent].engine.as_mut()?.handle(&packet, &arrival, now);
        let mut answer = None;
        for effect in effects {
            match effect {
                Effect::Reply(out) => answer = self.probed(agent, out),
                Effect::Persist { record, reply, .. } => {
                    self.keeps(agent, record);
                    answer = reply;
                }
                Effect::Withheld(_) | Effect::Observe(_) | Effect::Ignore(_) => {}
            }
        }
        answer.map(|out| Packet::decode(&out.reply.encode()).unwrap())
    }

    /// On a link, whoever holds an address answers for it.
    fn probed(&mut self, agent: usize, out: Outgoing) -> Option<Outgoing> {
        let asked = out.probe.filter(|_| !self.is_relayed());
        let holder = asked.and_then(|address| {
            let other = |holder: &usize| !out.reply.header.chaddr.starts_with(&mac(*holder));
            self.holders(address).find(other)
        });
        let (Some(address), Some(holder)) = (asked, holder) else { return Some(out) };
        let (now, host) = (self.clock(agent), MacAddress::new(mac(holder)));
        let engine = self.agents[agent].engine.as_mut().unwrap();
        let record = engine.occupied(address, host, now);
        self.keeps(agent, record);
        None
    }

    /// The reaction of a client to an answer to its REQUEST, and the rule that holds throughout.
    fn answered(&mut self, client: usize, agent: usize, address: Ipv4Addr, answer: Option<Packet>) {
        let Some(answer) = answer else { return };
        match answer.message_type().unwrap() {
            MessageType::Ack => {
                assert_eq!(answer.header.yiaddr, address);
                let others: Vec<_> =
                    self.holders(address).filter(|holder| *holder != client).collect();
                assert!(others.is_empty(), "{address} of {others:?} is given to {client}");
                let seconds = answer.option(option::LEASE_SECONDS).unwrap();
                let seconds = u32::from_be_bytes(seconds.try_into().unwrap());
                let until = self.now + i64::from(seconds) * SECOND;
                self.clients.held.insert((client, address), until);
                self.clients.last.insert(client, (address, agent));
            }
            MessageType::Nak => {
                self.clients.held.remove(&(client, address));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Clients that nobody knows get so many addresses together.
    pub(super) fn newcomers_get(&mut self, count: usize) {
        let newcomers = CLIENTS..CLIENTS + count;
        newcomers.clone().for_each(|client| self.boots(client, 7));
        let given: BTreeSet<_> = newcomers.filter_map(|client| self.address(client)).collect();
        assert_eq!(given.len(), count);
    }
}
