//! One turn: the packets that have arrived, the leases they lead to in one flush, the replies. While one
//! flush is under way the next turns go on; replies leave in the order of their flushes.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use model::MacAddress;
use stdx::Clock;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::{Command, Counters, LeaseNews, LeaseStore, Link, PersistError};
use crate::dhcp::engine::{Arrival, Effect, Engine, Ignored, Observation, Outgoing};
use crate::dhcp::leases::{Learned, LeaseRecord};
use crate::dhcp::limits::{Limited, Limits};
use crate::dhcp::packet::{Identity, MessageType, Packet};

/// Addresses that are asked for at the same time. Clients of further ones ask again.
const PROBES_MAX: usize = 64;

/// Packets of one turn, and so the leases of one flush. The flush becomes cheap for each of them, and
/// their clients do not wait for each other.
const PACKETS_PER_TURN: usize = 64;
/// Flushes under way: the store makes those that wait one group, and a disk that stands still holds no
/// more messages than these.
const FLUSHES_MAX: usize = 16;
/// Least time between two lines of the log that any stranger can cause.
const COMPLAINT_INTERVAL_US: i64 = 1_000_000;

/// A datagram and how it came.
#[derive(Debug)]
pub(super) struct Received {
    /// Number of the link.
    pub(super) link: usize,
    pub(super) source: SocketAddrV4,
    pub(super) destination: Ipv4Addr,
    pub(super) bytes: Vec<u8>,
}

/// The surroundings of the engine: sockets, store, observers, clock and counters.
#[derive(Debug)]
pub(super) struct World<S> {
    pub(super) links: Vec<Arc<Link>>,
    pub(super) store: Arc<S>,
    pub(super) observations: mpsc::Sender<Observation>,
    pub(super) clock: Clock,
    pub(super) counters: Arc<Counters>,
}

/// A flush that is under way.
type Flush = Pin<Box<dyn Future<Output = Flushed> + Send>>;

/// A flush that has ended, and what waited for it.
struct Flushed {
    done: Result<(), PersistError>,
    waiting: Vec<Waiting>,
}

pub(super) struct Turns<S> {
    world: World<S>,
    engine: Engine,
    flushes: FuturesOrdered<Flush>,
    probes: JoinSet<Probed>,
    limits: Limits,
    complaints: Complaints,
    withheld: Complaints,
    untrusted: Complaints,
}

/// An offer, and the host that answers for its address.
#[derive(Debug)]
struct Probed {
    link: usize,
    out: Outgoing,
    host: Option<[u8; 6]>,
}

/// A reply and an observation that wait until their lease is durable.
struct Waiting {
    link: usize,
    reply: Option<Outgoing>,
    observation: Observation,
}

impl<S: LeaseStore> Turns<S> {
    pub(super) fn new(world: World<S>, engine: Engine) -> Self {
        let [complaints, withheld, untrusted] = Default::default();
        let (flushes, probes) = (FuturesOrdered::new(), JoinSet::new());
        let limits = Limits::default();
        Self { world, engine, flushes, probes, limits, complaints, withheld, untrusted }
    }

    /// Goes on until every [`super::Handle`] is dropped.
    pub(super) async fn run(
        mut self,
        mut packets: mpsc::Receiver<Received>,
        mut commands: mpsc::Receiver<Command>,
    ) {
        let linked = !self.world.links.is_empty();
        let mut batch = Vec::with_capacity(PACKETS_PER_TURN);
        loop {
            let may_read = linked && self.flushes.len() < FLUSHES_MAX;
            tokio::select! {
                // A new flush begins when it is first looked at: before further packets.
                biased;
                Some(flushed) = self.flushes.next() => self.flushed(flushed).await,
                command = commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => break,
                },
                Some(probed) = self.probes.join_next() => self.probed(probed).await,
                count = packets.recv_many(&mut batch, PACKETS_PER_TURN), if may_read => {
                    if count == 0 {
                        break;
                    }
                    self.turn(&mut batch).await;
                }
            }
        }
        while let Some(flushed) = self.flushes.next().await {
            self.flushed(flushed).await;
        }
    }

    async fn obey(&mut self, command: Command) {
        // An asker that is gone needs no answer.
        match command {
            Command::Configure(config, reply) => drop(reply.send(self.engine.configure(config))),
            Command::Records(reply) => drop(reply.send(self.engine.records().collect())),
            Command::Learn(news, reply) => drop(reply.send(self.learn(news).await)),
            Command::End(address, reply) => drop(reply.send(self.end(address).await)),
        }
    }

    async fn end(&mut self, address: Ipv4Addr) -> Result<Option<LeaseRecord>, PersistError> {
        let ended = self.engine.end(address, self.world.clock.now_micros());
        if let Some(record) = &ended {
            self.world.store.persist(vec![record.clone()]).await?;
        }
        Ok(ended)
    }

    async fn learn(&mut self, news: LeaseNews) -> Result<Vec<Learned>, PersistError> {
        let LeaseNews { agent, told, asked_us } = news;
        let learned = self.engine.learn(&agent, told, self.world.clock.now_micros());
        let taken: Vec<_> = learned.iter().filter_map(Learned::taken).cloned().collect();
        if !taken.is_empty() {
            self.world.store.persist_learned(taken).await?;
        }
        if let Some(asked_us) = asked_us {
            self.engine.hear(agent, asked_us);
        }
        Ok(learned)
    }

    async fn turn(&mut self, batch: &mut Vec<Received>) {
        let mut records = Vec::new();
        let mut waiting = Vec::new();
        for received in batch.drain(..) {
            for effect in self.effects(&received) {
                match effect {
                    Effect::Reply(Outgoing { probe: Some(address), .. })
                        if self.probes.len() >= PROBES_MAX =>
                    {
                        tracing::debug!(%address, "not offered: too many addresses are asked for");
                    }
                    Effect::Reply(out) if out.probe.is_some() => self.probe(received.link, out),
                    Effect::Reply(out) => self.send(received.link, &out).await,
                    Effect::Persist { record, reply, observation } => {
                        records.push(record);
                        waiting.push(Waiting { link: received.link, reply, observation });
                    }
                    Effect::Observe(observation) => self.observe(observation),
                    Effect::Withheld(out) => self.withhold(&out),
                    Effect::Ignore(reason) => {
                        self.complain_of(reason, &received);
                        Counters::add(&self.world.counters.ignored);
                        tracing::trace!(%reason, source = %received.source, "message ignored");
                    }
                }
            }
        }
        if !records.is_empty() {
            self.persist(records, waiting);
        }
    }

    /// Asks whether a host has the address that is to be offered.
    fn probe(&mut self, at: usize, out: Outgoing) {
        let Some(link) = self.world.links.get(at).cloned() else { return };
        self.probes.spawn(async move {
            let host = match out.probe {
                Some(address) => link.host_of(address).await,
                None => None,
            };
            Probed { link: at, out, host }
        });
    }

    async fn probed(&mut self, probed: Result<Probed, JoinError>) {
        let Ok(Probed { link, out, host }) = probed else { return };
        let host = host.filter(|host| !out.reply.header.chaddr.starts_with(host));
        let (Some(host), Some(address)) = (host, out.probe) else {
            return self.send(link, &out).await;
        };
        let now = self.world.clock.now_micros();
        let record = self.engine.occupied(address, MacAddress::new(host), now);
        let observation = Observation::Declined(record.clone());
        let waiting = Waiting { link, reply: None, observation };
        self.persist(vec![record], vec![waiting]);
    }

    /// Has the engine handle one datagram. A panic of the engine is a bug, but one client's only.
    fn effects(&mut self, received: &Received) -> Vec<Effect> {
        let Received { link, source, destination, bytes } = received;
        let counters = &self.world.counters;
        Counters::add(&counters.received);
        let now = self.world.clock.now_micros();
        if let Err(limited) = self.limits.datagram(*link, now) {
            self.limited(limited, *source, None, now);
            return Vec::new();
        }
        let packet = match Packet::decode(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                Counters::add(&counters.malformed);
                if let Some(unsaid) = self.complaints.may_speak(now) {
                    tracing::debug!(%error, %source, unsaid, "malformed message");
                }
                return Vec::new();
            }
        };
        if let Err(limited) = self.limits.message(*link, &packet, now) {
            self.limited(limited, *source, Identity::of(&packet), now);
            return Vec::new();
        }
        let is_new = packet.message_type() == Some(MessageType::Discover);
        if is_new && !self.world.store.is_open() {
            return vec![Effect::Ignore(Ignored::Unkept)];
        }
        let Some(link) = self.world.links.get(*link) else { return Vec::new() };
        let arrival =
            Arrival { interface: link.own_address(), source: *source, destination: *destination };
        let handled = catch_unwind(AssertUnwindSafe(|| self.engine.handle(&packet, &arrival, now)));
        handled.unwrap_or_else(|_panic| {
            Counters::add(&counters.panicked);
            tracing::error!(%source, len = bytes.len(), "a message made the DHCP engine panic");
            Vec::new()
        })
    }

    /// Says what a network that is only observed would have been sent.
    fn withhold(&mut self, out: &Outgoing) {
        Counters::add(&self.world.counters.withheld);
        if let Some(unsaid) = self.withheld.may_speak(self.world.clock.now_micros()) {
            let (kind, header) = (out.reply.message_type(), &out.reply.header);
            let [mac @ .., _, _, _, _, _, _, _, _, _, _] = header.chaddr;
            let client = MacAddress::new(mac);
            tracing::info!(?kind, %client, address = %header.yiaddr, unsaid, "observed, would reply");
        }
    }

    /// Names the setting by which a message would have been answered.
    fn complain_of(&mut self, reason: Ignored, received: &Received) {
        if reason != Ignored::UntrustedRelayOption {
            return;
        }
        Counters::add(&self.world.counters.untrusted);
        if let Some(unsaid) = self.untrusted.may_speak(self.world.clock.now_micros()) {
            let source = received.source;
            tracing::warn!(
                %source, unsaid,
                "dropped: option 82 without a relay; if switches of the rack add it, set \
                 trusted-circuits with `gnt dhcp set`"
            );
        }
    }

    /// Counts what was sent too often, and tells of it now and then.
    fn limited(
        &mut self,
        limited: Limited,
        source: SocketAddrV4,
        client: Option<Identity>,
        now: i64,
    ) {
        self.world.counters.add_limited(limited);
        if let Some(unsaid) = self.complaints.may_speak(now) {
            let client = client.map(|client| client.to_string());
            tracing::warn!(
                by = ?limited, client, %source, unsaid, "dropped: too many DHCP messages"
            );
        }
    }

    fn persist(&mut self, records: Vec<LeaseRecord>, waiting: Vec<Waiting>) {
        let store = Arc::clone(&self.world.store);
        self.flushes.push_back(Box::pin(async move {
            Flushed { done: store.persist(records).await, waiting }
        }));
    }

    async fn flushed(&mut self, Flushed { done, waiting }: Flushed) {
        if let Err(error) = done {
            let count = waiting.len();
            for _ in 0..count {
                Counters::add(&self.world.counters.persist_failed);
            }
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(%error, cause = cause.as_deref(), count, "leases are not acknowledged");
            return;
        }
        for Waiting { link, reply, observation } in waiting {
            if let Some(out) = reply {
                self.send(link, &out).await;
            }
            self.observe(observation);
        }
    }

    async fn send(&mut self, link: usize, out: &Outgoing) {
        let Some(link) = self.world.links.get(link) else { return };
        let kind = out.reply.message_type();
        match link.send(out).await {
            Ok(()) => {
                Counters::add(&self.world.counters.replied);
                tracing::debug!(?kind, address = %out.reply.header.yiaddr, to = ?out.to, "replied");
            }
            Err(error) => {
                Counters::add(&self.world.counters.send_failed);
                if let Some(unsaid) = self.complaints.may_speak(self.world.clock.now_micros()) {
                    tracing::warn!(%error, ?kind, to = ?out.to, unsaid, "cannot send a reply");
                }
            }
        }
    }

    fn observe(&self, observation: Observation) {
        self.world.counters.add_observed(&observation);
        if self.world.observations.try_send(observation).is_err() {
            Counters::add(&self.world.counters.observations_dropped);
        }
    }
}

/// Keeps the log readable while somebody sends nonsense.
#[derive(Debug, Default)]
struct Complaints {
    last: Option<i64>,
    unsaid: u64,
}

impl Complaints {
    /// Whether to complain now; then the number of times that it did not since.
    fn may_speak(&mut self, now: i64) -> Option<u64> {
        // A clock that went back must not silence it.
        let soon = |last: i64| (0..COMPLAINT_INTERVAL_US).contains(&now.saturating_sub(last));
        if self.last.is_some_and(soon) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_rare_and_counted() {
        let mut complaints = Complaints::default();
        let mut at = |now| complaints.may_speak(now);
        assert_eq!(at(0), Some(0));
        assert_eq!((at(0), at(COMPLAINT_INTERVAL_US - 1)), (None, None));
        assert_eq!(at(COMPLAINT_INTERVAL_US), Some(2));
        assert_eq!(at(0), Some(0));
    }
}
