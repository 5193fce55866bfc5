//! Core: replies, and where they go (RFC 2131 section 4.1).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{Destination, Exchange, Outgoing};
use crate::dhcp::boot::Stage;
use crate::dhcp::config::{LEASE_SECONDS_INFINITE, Onie};
use crate::dhcp::packet::onie::is_onie;
use crate::dhcp::packet::{BOOT_REPLY, FLAG_BROADCAST, Header, MessageType, Packet, Reply, option};

/// Port of servers and relays.
pub const SERVER_PORT: u16 = 67;
/// Port of clients.
pub const CLIENT_PORT: u16 = 68;

impl Exchange<'_> {
    /// Whether a client that names `server` means us.
    pub(super) fn is_us(&self, server: Ipv4Addr) -> bool {
        [self.range.server_id, self.range.interface_address, self.server_id()].contains(&server)
    }

    /// The address by which the client is to know us: as its relay wishes (RFC 5107), else as
    /// configured.
    fn server_id(&self) -> Ipv4Addr {
        let relayed = self.packet.is_relayed().then_some(self.packet);
        let wish = relayed.and_then(|packet| packet.relay_address(option::RELAY_SERVER_ID));
        let relay = self.packet.header.giaddr;
        let wish = wish.filter(|address| self.range.may_stand_in(*address, relay));
        wish.unwrap_or(self.range.server_id)
    }

    /// An OFFER or ACK of `address`.
    pub(super) fn lease_reply(&self, kind: MessageType, address: Ipv4Addr) -> Outgoing {
        let mut header = self.header();
        header.yiaddr = address;
        if kind == MessageType::Ack {
            header.ciaddr = self.packet.header.ciaddr;
        }
        let mut reply = self.reply(kind, header);
        self.add_lease_times(&mut reply, self.lease_seconds(address));
        self.add_parameters(&mut reply);
        self.outgoing(reply, destination(self.packet, self.arrival, self.reachable(address)))
    }

    /// The ACK of an INFORM from `address`: no address, no times; straight to the client even past
    /// a relay.
    pub(super) fn parameters(&self, address: Ipv4Addr) -> Outgoing {
        let mut header = self.header();
        header.ciaddr = address;
        let mut reply = self.reply(MessageType::Ack, header);
        self.add_parameters(&mut reply);
        self.outgoing(reply, Destination::Host(SocketAddrV4::new(address, CLIENT_PORT)))
    }

    /// A NAK. It is broadcast, because the client may not have the address it believes in.
    pub(super) fn refusal(&self, why: &str) -> Outgoing {
        let mut header = self.header();
        if self.packet.is_relayed() {
            header.flags |= FLAG_BROADCAST;
        }
        let mut reply = self.reply(MessageType::Nak, header);
        reply.options.insert(option::MESSAGE, why.as_bytes().to_vec());
        self.outgoing(reply, destination(self.packet, self.arrival, Reachable::No))
    }

    fn outgoing(&self, reply: Reply, to: Destination) -> Outgoing {
        Outgoing { reply, source: self.range.interface_address, to, probe: None }
    }

    /// A client that tells an address of its network in `ciaddr` answers there. Other networks, and
    /// addresses of no single host, are not believed: replies would go where a stranger wants them.
    fn reachable(&self, address: Ipv4Addr) -> Reachable {
        let current = self.packet.header.ciaddr;
        if self.range.is_neighbour(current) {
            Reachable::At(current)
        } else if self.packet.header.flags & FLAG_BROADCAST != 0 {
            Reachable::No
        } else {
            Reachable::Soon(address)
        }
    }

    fn header(&self) -> Header {
        Header {
            op: BOOT_REPLY,
            hops: 0,
            secs: 0,
            ciaddr: Ipv4Addr::UNSPECIFIED,
            yiaddr: Ipv4Addr::UNSPECIFIED,
            siaddr: Ipv4Addr::UNSPECIFIED,
            ..self.packet.header
        }
    }

    /// A reply with what every reply has: our identifier, and the client's and the relay's own
    /// words (RFC 6842, RFC 3046).
    fn reply(&self, kind: MessageType, header: Header) -> Reply {
        let mut reply = Reply::new(self.packet, kind, header);
        reply.options.insert(option::SERVER_ID, self.server_id().octets().to_vec());
        for code in [option::CLIENT_ID, option::RELAY_AGENT] {
            if let Some(value) = self.packet.option(code) {
                reply.options.insert(code, value.to_vec());
            }
        }
        reply
    }

    /// Lease time, T1 at a half and T2 at seven eighths of it (section 4.4.5).
    fn add_lease_times(&self, reply: &mut Reply, seconds: u32) {
        let mut add = |code, value: u32| reply.options.insert(code, value.to_be_bytes().to_vec());
        add(option::LEASE_SECONDS, seconds);
        if seconds != LEASE_SECONDS_INFINITE {
            add(option::RENEWAL_SECONDS, seconds / 2);
            add(option::REBINDING_SECONDS, seconds - seconds / 8);
        }
    }

    /// The network, and where to boot from.
    fn add_parameters(&self, reply: &mut Reply) {
        reply.options.insert(option::SUBNET_MASK, self.range.mask().octets().to_vec());
        if let Some(gateway) = self.range.gateway {
            reply.options.insert(option::ROUTER, gateway.octets().to_vec());
        }
        for (code, servers) in
            [(option::DNS, &self.range.dns), (option::NTP_SERVERS, &self.range.ntp)]
        {
            if !servers.is_empty() {
                let servers = servers.iter().flat_map(Ipv4Addr::octets).collect();
                reply.options.insert(code, servers);
            }
        }
        if let Some(domain) = &self.range.domain {
            reply.options.insert(option::DOMAIN_NAME, domain.as_str().as_bytes().to_vec());
        }
        if is_onie(self.packet) {
            let known =
                |onie: &&Onie| self.client.mac().is_some_and(|mac| onie.known.contains(&mac));
            if let Some(onie) = self.range.onie.as_ref().filter(known) {
                reply.options.insert(option::DEFAULT_URL, onie.url.as_bytes().to_vec());
            }
            return;
        }
        let stage = Stage::of(self.packet);
        reply.options.extend(stage.options(self.packet, &self.range.boot_base_url));
    }
}

/// Whether it can be one host's address, as that of a relay.
pub fn is_host(address: &Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_loopback())
}

/// How a client can be reached on its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reachable {
    /// At its address.
    At(Ipv4Addr),
    /// At its hardware address only; it will have this address.
    Soon(Ipv4Addr),
    /// By broadcast only.
    No,
}

/// The relay, if there is one; else the client, as it can be reached.
fn destination(packet: &Packet, arrival: &super::Arrival, reachable: Reachable) -> Destination {
    if packet.is_relayed() {
        let by_source_port = packet.relay_sub_option(option::RELAY_SOURCE_PORT).is_some();
        let port = if by_source_port { arrival.source.port() } else { SERVER_PORT };
        return Destination::Host(SocketAddrV4::new(packet.header.giaddr, port));
    }
    match (reachable, packet.mac()) {
        (Reachable::At(address), _) => Destination::Host(SocketAddrV4::new(address, CLIENT_PORT)),
        (Reachable::Soon(address), Some(mac)) => {
            Destination::Frame { mac, address: SocketAddrV4::new(address, CLIENT_PORT) }
        }
        // Hardware that is not Ethernet asks for broadcasts anyhow.
        (Reachable::Soon(_), None) | (Reachable::No, _) => Destination::Broadcast(CLIENT_PORT),
    }
}
