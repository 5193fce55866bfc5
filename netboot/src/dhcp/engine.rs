//! Core: what a packet leads to.
//!
//! [`request`] tells the four kinds of REQUEST apart and holds the table of answers; [`reply`]
//! builds replies and says where they go. RFC 2131 sections 4.1 and 4.3 rule unless told otherwise.

pub mod reply;
pub mod request;

use std::net::{Ipv4Addr, SocketAddrV4};

use model::MacAddress;

use super::boot::{self, Stage};
use super::config::{Config, ConfigError, LEASE_SECONDS_INFINITE, LEASE_SECONDS_MIN, ServedRange};
use super::leases::{Learned, LeaseRecord, Leases};
use super::log_limit::LogLimit;
use super::packet::{BOOT_REQUEST, Identity, MessageType, Packet, Reply, option};
use request::{Verdict, verdict};

/// Relays that a message may have passed, RFC 1542 section 4.1.1.
const HOPS_MAX: u8 = 16;
/// Vendor class of agents that look for other servers: what answers them is no agent.
pub const PROBE_CLASS: &[u8] = b"gantry-probe";
/// Between two alarms that a range is full: often enough to be seen, not once a packet.
const FULL_ALARM_INTERVAL_US: i64 = 60 * 1_000_000;

/// How a packet came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Our address on the link it came in by.
    pub interface: Ipv4Addr,
    /// Who sent it: the client, or the last relay.
    pub source: SocketAddrV4,
    /// What it was addressed to: us, or a broadcast.
    pub destination: Ipv4Addr,
}

/// What a packet leads to, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send it.
    Reply(Outgoing),
    /// Make the record durable; then, and only then, send the reply and tell the observation.
    Persist {
        /// The new state of one address.
        record: LeaseRecord,
        /// What to send; a release and a refusal of an address get no answer.
        reply: Option<Outgoing>,
        /// What to tell.
        observation: Observation,
    },
    /// What would have been sent, in a network that is only observed.
    Withheld(Outgoing),
    /// Tell it.
    Observe(Observation),
    /// Nothing, for this reason.
    Ignore(Ignored),
}

/// A reply and its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The message.
    pub reply: Reply,
    /// Our address that it is sent from.
    pub source: Ipv4Addr,
    /// Who gets it.
    pub to: Destination,
    /// The address that it offers, if another client had that before. A host on the link that
    /// answers for it has it still (RFC 2131 section 2.2); then this is not sent.
    pub probe: Option<Ipv4Addr>,
}

/// Who gets a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A host that answers ARP: a relay, or a client that has its address.
    Host(SocketAddrV4),
    /// Everyone on the link.
    Broadcast(u16),
    /// A client that will have `address` only after it got the reply: a frame to its Ethernet
    /// address.
    Frame {
        /// The Ethernet address.
        mac: [u8; 6],
        /// Its address to be, and port.
        address: SocketAddrV4,
    },
}

/// What others want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A lease was given or renewed.
    Leased {
        /// The lease, bound.
        record: LeaseRecord,
        /// Which stage of a boot asked.
        stage: Stage,
        /// The machine's UUID, if it told, as on the wire.
        uuid: Option<[u8; 16]>,
    },
    /// A lease was given back.
    Released(LeaseRecord),
    /// A client found its address in use by another host: an alarm.
    Declined(LeaseRecord),
    /// A client was told to begin again.
    Refused {
        /// Who.
        client: Identity,
        /// The address it asked for.
        address: Ipv4Addr,
        /// Why.
        why: &'static str,
    },
    /// Firmware wants to boot in a way that is not served: it gets a lease and nothing to load.
    /// Once an hour for each client.
    Stranded {
        /// Who.
        client: Identity,
        /// How it wants to boot.
        stage: Stage,
        /// What it can boot as, if it told.
        architecture: Option<u16>,
    },
    /// No address was left for a client: an alarm, once a minute.
    Full {
        /// First address of the range.
        first: Ipv4Addr,
        /// Last address of the range.
        last: Ipv4Addr,
    },
}

/// Why a packet led to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Ignored {
    /// A server's message.
    #[error("it is no client's message")]
    NotFromClient,
    /// Probably a loop of relays.
    #[error("it passed more than 16 relays")]
    Hops,
    /// No message type: BOOTP, or nonsense.
    #[error("it has no DHCP message type")]
    Untyped,
    /// No usable hardware address or client identifier.
    #[error("it does not tell who sent it")]
    Anonymous,
    /// Option 82, which only relays add, without a relay.
    #[error("it has a relay's option, but came without a relay")]
    UntrustedRelayOption,
    /// A relay at an address where replies would reach every host, or us.
    #[error("its relay's address can be no host's")]
    RelayAddress,
    /// An address that can be no client's, to which the reply would go.
    #[error("the address can be no client's")]
    ClientAddress,
    /// Another agent looks for servers that are none of the rack's.
    #[error("another agent of a rack looks for servers")]
    Probe,
    /// From a network without a range.
    #[error("its network is not served here")]
    Unserved,
    /// For another server.
    #[error("it is meant for another server")]
    OtherServer,
    /// What this kind of message needs is not there.
    #[error("fields that it needs are missing")]
    Incomplete,
    /// A client of another server, for all that is known here.
    #[error("the client is unknown here")]
    UnknownClient,
    /// It gives back or refuses what it does not hold.
    #[error("the client does not hold the address")]
    NotHeld,
    /// No address is left.
    #[error("no address is free")]
    Full,
}

/// The server's mind: configuration and leases.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    leases: Leases,
    /// When each range was last told to be full.
    full_told: Vec<i64>,
    /// Of whose firmware it was told that it does not boot here.
    stranded_told: LogLimit,
    /// The time of the last packet: what was given later was given by a clock that was ahead.
    last: i64,
}

/// One message, with all that its answer needs.
struct Exchange<'a> {
    packet: &'a Packet,
    arrival: &'a Arrival,
    range: &'a ServedRange,
    client: Identity,
    now: i64,
}

impl Engine {
    /// An engine that goes on from the durable `records`.
    ///
    /// # Errors
    /// If the configuration cannot be served.
    pub fn new(
        config: Config,
        records: impl IntoIterator<Item = LeaseRecord>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let full_told = vec![i64::MIN; config.ranges.len()];
        let leases = Leases::restore(records);
        Ok(Self { config, leases, full_told, stranded_told: LogLimit::default(), last: i64::MAX })
    }

    /// Serves another configuration from now on. Leases are kept, also those outside its ranges:
    /// they are not renewed, but known should their range come back.
    ///
    /// # Errors
    /// If the configuration cannot be served; the old one then stays.
    pub fn configure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.full_told = vec![i64::MIN; config.ranges.len()];
        self.config = config;
        Ok(())
    }

    /// What is served.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes leases that another agent of the rack told of; those in no range of ours are ignored.
    pub fn learn(&mut self, told: Vec<LeaseRecord>, now: i64) -> Vec<Learned> {
        let ranges = &self.config.ranges;
        let known = told.into_iter().filter_map(|record| {
            let range = ranges.iter().find(|range| range.leases(record.address))?;
            let lease_us = i64::from(range.lease_seconds).saturating_mul(1_000_000);
            Some(self.leases.learn(record, lease_us, now))
        });
        known.collect()
    }

    /// Quarantines an address that was to be offered, since a host answers for it.
    pub fn occupied(&mut self, address: Ipv4Addr, host: MacAddress, now: i64) -> LeaseRecord {
        self.leases.occupy(address, host, now)
    }

    /// What is known of each address, by address: leases, ended ones, quarantines.
    pub fn records(&self) -> impl Iterator<Item = LeaseRecord> {
        self.leases.records()
    }

    /// Answers `packet` at `now`, microseconds since the epoch.
    pub fn handle(&mut self, packet: &Packet, arrival: &Arrival, now: i64) -> Vec<Effect> {
        self.answer(packet, arrival, now).unwrap_or_else(|reason| vec![Effect::Ignore(reason)])
    }

    fn answer(
        &mut self,
        packet: &Packet,
        arrival: &Arrival,
        now: i64,
    ) -> Result<Vec<Effect>, Ignored> {
        if now < self.last {
            let seconds = self.config.ranges.iter().map(|range| range.lease_seconds).max();
            if let Some(seconds) = seconds.filter(|seconds| *seconds != LEASE_SECONDS_INFINITE) {
                self.leases.shorten(i64::from(seconds) * 1_000_000, now);
            }
        }
        self.last = now;
        let (kind, client) = admit(packet)?;
        check_relay(&self.config, packet, arrival)?;
        let at = range_of(&self.config, packet, arrival).ok_or(Ignored::Unserved)?;
        let range = self.config.ranges.get(at).ok_or(Ignored::Unserved)?;
        let adds_circuit = !packet.is_relayed() && packet.option(option::RELAY_AGENT).is_some();
        if adds_circuit && !range.trusted_circuits {
            return Err(Ignored::UntrustedRelayOption);
        }
        let exchange = Exchange { packet, arrival, range, client, now };
        if range.observe {
            // On a copy: whoever is only observed gets no lease here.
            let would = exchange.led_to(kind, &mut self.leases.clone())?;
            return Ok(would.into_iter().filter_map(withheld).collect());
        }
        let leases = &mut self.leases;
        match exchange.led_to(kind, leases) {
            Err(Ignored::Full) => full(range, self.full_told.get_mut(at), now),
            Ok(mut effects) if kind == MessageType::Discover => {
                effects.extend(exchange.stranded(&mut self.stranded_told));
                Ok(effects)
            }
            other => other,
        }
    }
}

/// What stays of an effect in a network that is only observed.
fn withheld(effect: Effect) -> Option<Effect> {
    match effect {
        Effect::Reply(out) | Effect::Persist { reply: Some(out), .. } => {
            Some(Effect::Withheld(out))
        }
        Effect::Persist { reply: None, .. } | Effect::Observe(_) => None,
        Effect::Withheld(_) | Effect::Ignore(_) => Some(effect),
    }
}

/// What every message must have.
fn admit(packet: &Packet) -> Result<(MessageType, Identity), Ignored> {
    if packet.header.op != BOOT_REQUEST {
        return Err(Ignored::NotFromClient);
    }
    if packet.header.hops > HOPS_MAX {
        return Err(Ignored::Hops);
    }
    if packet.option(option::VENDOR_CLASS) == Some(PROBE_CLASS) {
        return Err(Ignored::Probe);
    }
    let kind = packet.message_type().ok_or(Ignored::Untyped)?;
    Ok((kind, Identity::of(packet).ok_or(Ignored::Anonymous)?))
}

/// Replies go to the relay's address, so it must be that of one other host. On loopback the relay
/// may be a program beside us.
fn check_relay(config: &Config, packet: &Packet, arrival: &Arrival) -> Result<(), Ignored> {
    let relay = packet.header.giaddr;
    let loopback = relay.is_loopback() && arrival.interface.is_loopback();
    if !packet.is_relayed() || loopback {
        return Ok(());
    }
    let neighbour = |range: &ServedRange| !range.on_network(relay) || range.is_neighbour(relay);
    let one_host = reply::is_host(&relay) && config.ranges.iter().all(neighbour);
    if one_host && relay != arrival.interface { Ok(()) } else { Err(Ignored::RelayAddress) }
}

/// The range of the client's network: the relay's link (RFC 3527), or the network of the address
/// that a client uses when it writes to us directly, perhaps through routers, or our own link.
fn range_of(config: &Config, packet: &Packet, arrival: &Arrival) -> Option<usize> {
    let header = &packet.header;
    let ours = |range: &ServedRange| {
        [range.server_id, range.interface_address].contains(&arrival.destination)
    };
    let on_link = if packet.is_relayed() {
        packet.relay_address(option::RELAY_LINK_SELECTION).unwrap_or(header.giaddr)
    } else if !header.ciaddr.is_unspecified() && config.ranges.iter().any(ours) {
        header.ciaddr
    } else {
        arrival.interface
    };
    config.ranges.iter().position(|range| range.on_network(on_link))
}

/// No address was left: told now and then, ignored else.
fn full(range: &ServedRange, told: Option<&mut i64>, now: i64) -> Result<Vec<Effect>, Ignored> {
    let told = told.ok_or(Ignored::Full)?;
    // A clock that went back must not silence it.
    if (0..FULL_ALARM_INTERVAL_US).contains(&now.saturating_sub(*told)) {
        return Err(Ignored::Full);
    }
    *told = now;
    let observation = Observation::Full { first: range.first, last: range.last };
    Ok(vec![Effect::Observe(observation), Effect::Ignore(Ignored::Full)])
}

impl Exchange<'_> {
    fn led_to(&self, kind: MessageType, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        match kind {
            MessageType::Discover => self.discover(leases).ok_or(Ignored::Full),
            MessageType::Request => self.request(leases),
            MessageType::Decline => self.decline(leases),
            MessageType::Release => self.release(leases),
            MessageType::Inform => self.inform(),
            MessageType::Offer | MessageType::Ack | MessageType::Nak => Err(Ignored::NotFromClient),
        }
    }

    fn discover(&self, leases: &mut Leases) -> Option<Vec<Effect>> {
        let wish = self.packet.address(option::REQUESTED_ADDRESS);
        let address = leases.offer(self.range, &self.client, wish, self.now)?;
        let probe = leases.is_offered_again(address).then_some(address);
        let offer = self.lease_reply(MessageType::Offer, address);
        Some(vec![Effect::Reply(Outgoing { probe, ..offer })])
    }

    /// What to tell of firmware that asks for what is not served.
    fn stranded(&self, told: &mut LogLimit) -> Option<Effect> {
        let stage = Stage::of(self.packet);
        (stage.is_stranded() && told.may_tell(&self.client, self.now)).then(|| {
            let architecture = boot::architecture(self.packet);
            let client = self.client.clone();
            Effect::Observe(Observation::Stranded { client, stage, architecture })
        })
    }

    fn request(&self, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        let asked = self.asked()?;
        if let Some(server) = asked.server
            && !self.is_us(server)
        {
            // It took another server's offer, ours is void.
            leases.withdraw(&self.client);
            return Err(Ignored::OtherServer);
        }
        let standing = self
            .range
            .on_network(asked.address)
            .then(|| leases.standing(self.range, &self.client, asked.address, self.now));
        match verdict(asked.kind, standing) {
            Verdict::Acknowledge => Ok(vec![self.bind(leases, asked.address)]),
            Verdict::Refuse(why) => {
                let client = self.client.clone();
                let observation = Observation::Refused { client, address: asked.address, why };
                Ok(vec![Effect::Reply(self.refusal(why)), Effect::Observe(observation)])
            }
            Verdict::Silence => Err(Ignored::UnknownClient),
        }
    }

    fn bind(&self, leases: &mut Leases, address: Ipv4Addr) -> Effect {
        let record = leases.bind(&self.client, address, self.lease_end(address));
        let observation = Observation::Leased {
            record: record.clone(),
            stage: Stage::of(self.packet),
            uuid: self.packet.machine_uuid(),
        };
        let reply = Some(self.lease_reply(MessageType::Ack, address));
        Effect::Persist { record, reply, observation }
    }

    fn lease_seconds(&self, address: Ipv4Addr) -> u32 {
        self.range.seconds_of(address, self.now).unwrap_or(LEASE_SECONDS_MIN)
    }

    fn lease_end(&self, address: Ipv4Addr) -> i64 {
        match self.lease_seconds(address) {
            LEASE_SECONDS_INFINITE => i64::MAX,
            seconds => self.now.saturating_add(i64::from(seconds) * 1_000_000),
        }
    }

    fn decline(&self, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        let server = self.packet.address(option::SERVER_ID).ok_or(Ignored::Incomplete)?;
        let address = self.packet.address(option::REQUESTED_ADDRESS).ok_or(Ignored::Incomplete)?;
        if !self.is_us(server) {
            return Err(Ignored::OtherServer);
        }
        let record = leases.decline(&self.client, address, self.now).ok_or(Ignored::NotHeld)?;
        let observation = Observation::Declined(record.clone());
        Ok(vec![Effect::Persist { record, reply: None, observation }])
    }

    fn release(&self, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        if self.packet.address(option::SERVER_ID).is_some_and(|server| !self.is_us(server)) {
            return Err(Ignored::OtherServer);
        }
        let address = self.packet.header.ciaddr;
        let record = leases.release(&self.client, address, self.now).ok_or(Ignored::NotHeld)?;
        let observation = Observation::Released(record.clone());
        Ok(vec![Effect::Persist { record, reply: None, observation }])
    }

    /// Parameters only, for a client that has its address from elsewhere (section 4.3.5).
    fn inform(&self) -> Result<Vec<Effect>, Ignored> {
        let address = self.packet.header.ciaddr;
        if address.is_unspecified() {
            return Err(Ignored::Incomplete);
        }
        // Also keeps strangers from directing our replies at third parties.
        if !self.range.on_network(address) {
            return Err(Ignored::Unserved);
        }
        if !self.range.is_neighbour(address) {
            return Err(Ignored::ClientAddress);
        }
        Ok(vec![Effect::Reply(self.parameters(address))])
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that panics has done its job")]
mod cases;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
