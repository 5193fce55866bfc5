//! The DHCP server's shell: sockets, disk and clock around the [`Engine`].
//!
//! [`link`] is one network interface; `turn` reads what has arrived, asks the engine, makes
//! leases durable and sends. One task owns the engine, so leases become durable in the order in
//! which they were given; one task a link only receives.

pub mod link;
mod turn;

use std::error::Error;
use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::NodeName;
use stdx::{Clock, Tasks};
use tokio::sync::{mpsc, oneshot};

use super::config::{Config, ConfigError};
use super::engine::{Engine, Observation};
use super::leases::{Learned, LeaseRecord};
use super::limits::Limited;
pub use link::{Link, LinkError};
use turn::{Received, Turns};

/// Packets that wait for their turn: what arrives while one batch of leases is flushed. Those
/// beyond wait in the sockets' own buffers.
const RECEIVED_MAX: usize = 256;
/// Commands that wait: they come from few places, which wait for the answer.
const COMMANDS_MAX: usize = 8;

/// The store that makes leases durable.
pub trait LeaseStore: Send + Sync + 'static {
    /// Whether leases would become durable, as far as is known. No address is offered otherwise: its
    /// client would ask in vain, and not hear another server.
    fn is_open(&self) -> bool;

    /// Makes all of `records` durable, in order, as one group: returns after the flush.
    ///
    /// The state of an address is its last record; a store may key records by address. After an
    /// error any part of the group may be durable, which is safe: nothing was acknowledged.
    fn persist(
        &self,
        records: Vec<LeaseRecord>,
    ) -> impl Future<Output = Result<(), PersistError>> + Send;

    /// The same for leases that another agent told of: its master knows them from that one.
    fn persist_learned(
        &self,
        records: Vec<LeaseRecord>,
    ) -> impl Future<Output = Result<(), PersistError>> + Send;
}

/// Leases could not be made durable.
#[derive(Debug, thiserror::Error)]
#[error("cannot make DHCP leases durable")]
pub struct PersistError(#[source] pub Box<dyn Error + Send + Sync>);

/// The parts of a server.
#[derive(Debug)]
pub struct Parts<S> {
    /// Configuration and leases.
    pub engine: Engine,
    /// The interfaces to listen on.
    pub links: Vec<Link>,
    /// The store of leases.
    pub store: S,
    /// Where observations go. When it is full they are dropped and counted: DHCP does not wait.
    pub observations: mpsc::Sender<Observation>,
    /// The time.
    pub clock: Clock,
    /// Its counters; a server that follows another one goes on with the same numbers.
    pub counters: Arc<Counters>,
}

/// Numbers since the start of the agent.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets received.
    pub received: AtomicU64,
    /// Packets that are no DHCP messages.
    pub malformed: AtomicU64,
    /// Messages that led to nothing, for good reasons.
    pub ignored: AtomicU64,
    /// Messages beyond the limit of their client.
    pub limited_client: AtomicU64,
    /// Messages beyond the limit of their relay's circuit.
    pub limited_circuit: AtomicU64,
    /// Packets beyond the limit of their link.
    pub limited_link: AtomicU64,
    /// Messages with option 82 that no relay passed on, where circuits are not trusted.
    pub untrusted: AtomicU64,
    /// Replies that were not sent, because the network is only observed.
    pub withheld: AtomicU64,
    /// Replies sent.
    pub replied: AtomicU64,
    /// Replies that could not be sent.
    pub send_failed: AtomicU64,
    /// Leases that could not be made durable, and were not acknowledged.
    pub persist_failed: AtomicU64,
    /// Observations that nobody took in time.
    pub observations_dropped: AtomicU64,
    /// Messages over which the engine panicked.
    pub panicked: AtomicU64,
    /// Leases given or renewed.
    pub leased: AtomicU64,
    /// Leases given back.
    pub released: AtomicU64,
    /// Addresses that a client found in use by another host.
    pub declined: AtomicU64,
    /// Clients that were told to begin again.
    pub refused: AtomicU64,
    /// Clients that want to boot in a way that is not served; once an hour for each.
    pub stranded: AtomicU64,
    /// Times that no address was left; once a minute at most.
    pub full: AtomicU64,
    /// Times that no address was left for a card that is in no inventory; once a minute at most.
    pub crowded: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn add_limited(&self, limited: Limited) {
        Self::add(match limited {
            Limited::Client => &self.limited_client,
            Limited::Circuit => &self.limited_circuit,
            Limited::Link => &self.limited_link,
        });
    }

    fn add_observed(&self, observation: &Observation) {
        Self::add(match observation {
            Observation::Leased { .. } => &self.leased,
            Observation::Released(_) => &self.released,
            Observation::Declined(_) => &self.declined,
            Observation::Refused { .. } => &self.refused,
            Observation::Stranded { .. } => &self.stranded,
            Observation::Full(_) => &self.full,
            Observation::Crowded { .. } => &self.crowded,
        });
    }
}

/// A question to the running server.
#[derive(Debug)]
enum Command {
    Configure(Config, oneshot::Sender<Result<(), ConfigError>>),
    Records(oneshot::Sender<Vec<LeaseRecord>>),
    Learn(LeaseNews, oneshot::Sender<Result<Vec<Learned>, PersistError>>),
    End(Ipv4Addr, oneshot::Sender<Result<Option<LeaseRecord>, PersistError>>),
}

/// Leases that another agent told of.
#[derive(Debug)]
pub struct LeaseNews {
    /// The other agent.
    pub agent: NodeName,
    pub told: Vec<LeaseRecord>,
    /// When it was asked, by the clock of this agent, if this is all that it knew.
    pub asked_us: Option<i64>,
}

/// The server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the DHCP server has stopped")]
pub struct Stopped;

/// A running server. When the last clone is dropped, the server ends and closes its sockets.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    counters: Arc<Counters>,
}

/// Starts a server in the background.
pub fn start<S: LeaseStore>(parts: Parts<S>, tasks: &Tasks) -> Handle {
    let (commands, commanded) = mpsc::channel(COMMANDS_MAX);
    let (received, packets) = mpsc::channel::<Received>(RECEIVED_MAX);
    let links: Vec<_> = parts.links.into_iter().map(Arc::new).collect();
    for (at, link) in links.iter().enumerate() {
        tasks.spawn("dhcp receive", link::receive(Arc::clone(link), at, received.clone()));
    }
    let counters = parts.counters;
    let turns = Turns::new(
        turn::World {
            links,
            store: Arc::new(parts.store),
            observations: parts.observations,
            clock: parts.clock,
            counters: Arc::clone(&counters),
        },
        parts.engine,
    );
    tasks.spawn("dhcp", turns.run(packets, commanded));
    Handle { commands, counters }
}

impl Handle {
    /// Serves another configuration from now on; see [`Engine::configure`]. Links stay.
    ///
    /// # Errors
    /// [`Stopped`]; the inner error if the configuration cannot be served.
    pub async fn configure(&self, config: Config) -> Result<Result<(), ConfigError>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Configure(config, reply), answer).await
    }

    /// The record of each known address, by address.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn records(&self) -> Result<Vec<LeaseRecord>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Records(reply), answer).await
    }

    /// The server's numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A way to change its leases, which does not keep it running.
    pub fn learner(&self) -> Learner {
        Learner(self.commands.downgrade())
    }

    async fn command<A>(
        &self,
        command: Command,
        answer: oneshot::Receiver<A>,
    ) -> Result<A, Stopped> {
        self.commands.send(command).await.map_err(|_ended| Stopped)?;
        answer.await.map_err(|_ended| Stopped)
    }
}

/// Changes the leases of a server, as long as that runs.
#[derive(Debug, Clone)]
pub struct Learner(mpsc::WeakSender<Command>);

impl PartialEq for Learner {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.0.upgrade(), other.0.upgrade());
        one.zip(other).is_some_and(|(one, other)| one.same_channel(&other))
    }
}

impl Learner {
    /// Takes what another agent told of leases; those that are taken are durable then.
    ///
    /// # Errors
    /// The server has stopped, or what was told cannot be made durable.
    pub async fn learn(
        &self,
        news: LeaseNews,
    ) -> Result<Result<Vec<Learned>, PersistError>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Learn(news, reply), answer).await
    }

    /// Ends the lease of an address; gives what is durable then, if anybody had it.
    ///
    /// # Errors
    /// The server has stopped, or the end cannot be made durable.
    pub async fn end(
        &self,
        address: Ipv4Addr,
    ) -> Result<Result<Option<LeaseRecord>, PersistError>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::End(address, reply), answer).await
    }

    async fn command<A>(
        &self,
        command: Command,
        answer: oneshot::Receiver<A>,
    ) -> Result<A, Stopped> {
        let commands = self.0.upgrade().ok_or(Stopped)?;
        commands.send(command).await.map_err(|_ended| Stopped)?;
        drop(commands);
        answer.await.map_err(|_ended| Stopped)
    }
}

#[cfg(test)]
mod tests;
