//! Core: what a packet leads to.
//!
//! [`outcome`] lists all that it can lead to; [`request`] tells the four kinds of REQUEST apart and holds
//! the table of answers; `deferral` leaves a client to the agent that has its address; [`reply`] builds
//! replies and says where they go. RFC 2131 sections 4.1 and 4.3 rule unless told otherwise.

mod deferral;
pub mod outcome;
pub mod reply;
pub mod request;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::{MacAddress, NodeName};

use super::boot::{self, Stage};
use super::config::{
    Config, ConfigError, GUEST_LEASE_SECONDS, Giver, LEASE_SECONDS_INFINITE, LEASE_SECONDS_MIN,
    ServedRange,
};
use super::leases::{Guest, Learned, LeaseRecord, Leases, Teller};
use super::log_limit::LogLimit;
use super::packet::{BOOT_REQUEST, Identity, MessageType, Packet, option};
use deferral::Deferrals;
pub use outcome::{Arrival, Destination, Effect, Ignored, Observation, Outgoing};
use request::{Verdict, verdict};

/// Relays that a message may have passed, RFC 1542 section 4.1.1.
const HOPS_MAX: u8 = 16;
/// Vendor class of agents that look for other servers: what answers them is no agent.
pub const PROBE_CLASS: &[u8] = b"gantry-probe";
/// Between two alarms that a range is full: often enough to be seen, not once a packet.
const FULL_ALARM_INTERVAL_US: i64 = 60 * 1_000_000;

/// The server's mind: configuration and leases.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    leases: Leases,
    /// When it was last told of each range that it is full, or crowded.
    full_told: BTreeMap<(usize, Ignored), i64>,
    /// Of whose firmware it was told that it does not boot here.
    stranded_told: LogLimit,
    /// Clients that were left to another agent of the rack.
    deferrals: Deferrals,
    /// The time of the last packet: what was given later was given by a clock that was ahead.
    last: i64,
}

/// One message, with all that its answer needs.
struct Exchange<'a> {
    packet: &'a Packet,
    arrival: &'a Arrival,
    range: &'a ServedRange,
    client: Identity,
    /// The facts that are known of a client that is in no inventory.
    guest: Option<Guest>,
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
        let mut leases = Leases::restore(records);
        leases.find_guests(&config.ranges);
        let (full_told, stranded_told, deferrals) = Default::default();
        Ok(Self { config, leases, full_told, stranded_told, deferrals, last: i64::MAX })
    }

    /// Serves another configuration from now on. Leases are kept, also those outside its ranges:
    /// they are not renewed, but known should their range come back.
    ///
    /// # Errors
    /// If the configuration cannot be served; the old one then stays.
    pub fn configure(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.full_told.clear();
        self.leases.find_guests(&config.ranges);
        self.config = config;
        Ok(())
    }

    /// What is served.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes leases that another agent of the rack told of; those of networks that are not served here
    /// are ignored. An address that is not leased here at the moment counts, too: it may be on its way
    /// to this agent.
    pub fn learn(&mut self, agent: &NodeName, told: Vec<LeaseRecord>, now: i64) -> Vec<Learned> {
        self.look_at_the_clock(now);
        let ranges = &self.config.ranges;
        let known = told.into_iter().filter_map(|record| {
            let range = ranges.iter().find(|range| range.on_network(record.address))?;
            let teller = match range.giver(record.address, now) {
                Giver::Us => Teller::NotGiver,
                Giver::Agent(giver) if giver == agent => Teller::Giver,
                Giver::Agent(_) | Giver::Nobody => Teller::Bystander,
            };
            let lease_us = i64::from(range.lease_seconds).saturating_mul(1_000_000);
            let learned = self.leases.learn(record, teller, lease_us, now);
            if let Some(record) = learned.taken() {
                self.deferrals.end(&record.client);
                let guest = range.is_guest(&record.client).then_some(Guest { circuit: None });
                self.leases.mark(record.address, guest);
            }
            Some(learned)
        });
        known.collect()
    }

    /// Notes that all is known, and durable, which another agent did up to a time of this agent's clock.
    pub fn hear(&mut self, agent: NodeName, upto_us: i64) {
        self.leases.hear(agent, upto_us);
    }

    /// Quarantines an address that was to be offered, since a host answers for it.
    pub fn occupied(&mut self, address: Ipv4Addr, host: MacAddress, now: i64) -> LeaseRecord {
        self.leases.occupy(address, host, now)
    }

    /// Ends the lease of an address, as an operator wants it.
    pub fn end(&mut self, address: Ipv4Addr, now: i64) -> Option<LeaseRecord> {
        self.look_at_the_clock(now);
        self.leases.end(address, now)
    }

    /// The record of each address, by address: leases, ended ones, quarantines.
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
        self.look_at_the_clock(now);
        let (kind, client) = admit(packet)?;
        check_relay(&self.config, packet, arrival)?;
        let at = range_of(&self.config, packet, arrival).ok_or(Ignored::Unserved)?;
        let range = self.config.ranges.get(at).ok_or(Ignored::Unserved)?;
        let adds_circuit = !packet.is_relayed() && packet.option(option::RELAY_AGENT).is_some();
        if adds_circuit && !range.trusted_circuits {
            return Err(Ignored::UntrustedRelayOption);
        }
        let guest = range.is_guest(&client).then(|| Guest { circuit: packet.circuit() });
        let exchange = Exchange { packet, arrival, range, client, guest, now };
        if range.observe {
            // On a copy: whoever is only observed gets no lease here.
            let would = exchange.led_to(kind, &mut self.leases.clone())?;
            return Ok(would.into_iter().filter_map(withheld).collect());
        }
        let leases = &mut self.leases;
        if kind == MessageType::Discover && exchange.is_for_another(leases, &mut self.deferrals) {
            return Err(Ignored::OtherAgent);
        }
        match exchange.led_to(kind, leases) {
            Err(why @ (Ignored::Full | Ignored::Crowded)) => {
                let told = self.full_told.entry((at, why)).or_insert(i64::MIN);
                // A clock that went back must not silence it.
                if (0..FULL_ALARM_INTERVAL_US).contains(&now.saturating_sub(*told)) {
                    return Err(why);
                }
                *told = now;
                Ok(vec![Effect::Observe(exchange.full(why, leases)), Effect::Ignore(why)])
            }
            Ok(mut effects) if kind == MessageType::Discover => {
                effects.extend(exchange.stranded(&mut self.stranded_told));
                Ok(effects)
            }
            Err(Ignored::OtherServer) => {
                // The server that the client waits for has answered.
                self.deferrals.end(&exchange.client);
                Err(Ignored::OtherServer)
            }
            other => other,
        }
    }

    /// Takes back what the clock made longer than it is, if it went back.
    fn look_at_the_clock(&mut self, now: i64) {
        let last = std::mem::replace(&mut self.last, now);
        if last == i64::MAX {
            self.leases.begin(now);
        }
        let went_back = now < last;
        let seconds = self.config.ranges.iter().map(|range| range.lease_seconds).max();
        let seconds = seconds.filter(|seconds| *seconds != LEASE_SECONDS_INFINITE);
        if let Some(seconds) = seconds.filter(|_| went_back) {
            self.leases.shorten(i64::from(seconds) * 1_000_000, now);
        }
    }
}

/// The part of an effect that remains in a network that is only observed.
fn withheld(effect: Effect) -> Option<Effect> {
    match effect {
        Effect::Reply(out) | Effect::Persist { reply: Some(out), .. } => {
            Some(Effect::Withheld(out))
        }
        Effect::Persist { reply: None, .. } | Effect::Observe(_) => None,
        Effect::Withheld(_) | Effect::Ignore(_) => Some(effect),
    }
}

/// Checks the fields that every message must have.
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

/// The range of the client's network: the relay's link (RFC 3527), or else our own link. A client that
/// writes to us directly, perhaps through routers, is on the network of the address that it uses.
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

impl Exchange<'_> {
    fn led_to(&self, kind: MessageType, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        match kind {
            MessageType::Discover => self.discover(leases),
            MessageType::Request => self.request(leases),
            MessageType::Decline => self.decline(leases),
            MessageType::Release => self.release(leases),
            MessageType::Inform => self.inform(),
            MessageType::Offer | MessageType::Ack | MessageType::Nak => Err(Ignored::NotFromClient),
        }
    }

    /// Whether another agent has the address of the client, and may be expected to offer it.
    fn is_for_another(&self, leases: &Leases, deferrals: &mut Deferrals) -> bool {
        let home = leases.home_of(self.range, &self.client, self.now);
        let heard = home.and_then(|agent| leases.heard(agent));
        heard.is_some_and(|upto| deferrals.waits(&self.client, upto, self.now))
    }

    fn discover(&self, leases: &mut Leases) -> Result<Vec<Effect>, Ignored> {
        self.check_room(leases)?;
        let wish = self.packet.address(option::REQUESTED_ADDRESS);
        let address =
            leases.offer(self.range, &self.client, wish, self.now).ok_or(Ignored::Full)?;
        leases.mark(address, self.guest.clone());
        let probe = leases.is_offered_again(address).then_some(address);
        let offer = self.lease_reply(MessageType::Offer, address);
        Ok(vec![Effect::Reply(Outgoing { probe, ..offer })])
    }

    /// Whether the client may have an address: a machine may.
    fn check_room(&self, leases: &Leases) -> Result<(), Ignored> {
        let Some(guest) = &self.guest else { return Ok(()) };
        match leases.has_room_for(self.range, &self.client, guest, self.now) {
            true => Ok(()),
            false => Err(Ignored::Crowded),
        }
    }

    /// The observation where no address was left.
    fn full(&self, why: Ignored, leases: &Leases) -> Observation {
        let range = leases.use_of(self.range, self.now);
        let guests_max = self.range.guests.as_ref().map(|rules| rules.addresses_max);
        match guests_max.filter(|_| why == Ignored::Crowded) {
            Some(guests_max) => Observation::Crowded { range, guests_max },
            None => Observation::Full(range),
        }
    }

    /// The observation of firmware that asks for what is not served.
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
            // It took another server's offer, ours is void; but no server is called what no host is.
            if self.range.may_be_host(server) {
                leases.withdraw(&self.client);
            }
            return Err(Ignored::OtherServer);
        }
        let standing = self
            .range
            .on_network(asked.address)
            .then(|| leases.standing(self.range, &self.client, asked.address, self.now));
        match verdict(asked.kind, standing) {
            Verdict::Acknowledge => {
                if self.range.is_ours(asked.address, self.now) {
                    self.check_room(leases)?;
                }
                Ok(vec![self.bind(leases, asked.address)])
            }
            Verdict::Refuse(why) => {
                let client = self.client.clone();
                let observation = Observation::Refused { client, address: asked.address, why };
                Ok(vec![Effect::Reply(self.refusal(why)), Effect::Observe(observation)])
            }
            Verdict::Silence => Err(Ignored::UnknownClient),
        }
    }

    fn bind(&self, leases: &mut Leases, address: Ipv4Addr) -> Effect {
        let record = leases.bind(&self.client, address, self.now, self.lease_end(address));
        leases.mark(address, self.guest.clone());
        let observation = Observation::Leased {
            record: record.clone(),
            stage: Stage::of(self.packet),
            uuid: self.packet.machine_uuid(),
        };
        let reply = Some(self.lease_reply(MessageType::Ack, address));
        Effect::Persist { record, reply, observation }
    }

    fn lease_seconds(&self, address: Ipv4Addr) -> u32 {
        let seconds = self.range.seconds_of(address, self.now).unwrap_or(LEASE_SECONDS_MIN);
        match self.guest {
            Some(_) => seconds.min(GUEST_LEASE_SECONDS),
            None => seconds,
        }
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
#[expect(clippy::indexing_slicing, reason = "a test that panics has done its job")]
mod rack_model_tests;
#[cfg(test)]
mod tests;
