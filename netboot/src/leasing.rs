//! Runs the DHCP server as the rack documents and the network interfaces ask for: starts it,
//! changes its configuration, and starts it anew where the interfaces are others.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use model::layout::DHCP_SERVER_PORT;
use model::machine::BootStage;
use model::rack::{Lease, LeaseState as TellState, Observation};
use model::rack_fault::{RackCause, RackFault};
use model::{NodeName, Timestamp};
use queue_format::Health;
use stdx::daemon::chain;
use stdx::net::{Interface, interfaces};
use stdx::{Clock, Tasks};

use crate::dhcp::boot::Stage;
use crate::dhcp::leases::RangeUse;
use crate::dhcp::packet::Identity;
use crate::dhcp::server::{self, Counters, Handle, Learner, LeaseStore, Link, Parts, PersistError};
use crate::dhcp::{self, Engine, LeaseRecord, LeaseState};
use crate::ledger::Ledger;
use crate::rack::compile::{Compiled, Listener, compile, places};
use crate::rack::{Passing, Racks};
use others::Others;
use unserved::Unserved;

mod others;
mod unserved;

/// Between two looks at the network interfaces: one that comes up late is served soon after.
const INTERFACES_EVERY: Duration = Duration::from_secs(5);
/// Observations that wait to be logged.
const OBSERVATIONS_MAX: usize = 256;

/// The settings of the DHCP service.
#[derive(Debug, Clone)]
pub struct Leasing {
    pub port: u16,
    /// Addresses for relays, instead of the interfaces.
    pub relays_only: Vec<Ipv4Addr>,
    /// The address of the boot side.
    pub boot: SocketAddr,
    /// The counters of DHCP.
    pub counters: Arc<Counters>,
}

/// Keeps leases in the ledger, and with them, in the same commit, what is to be told of them.
#[derive(Debug)]
struct LedgerLeases {
    ledger: Arc<Ledger>,
    racks: Arc<Racks>,
    clock: Clock,
}

impl LeaseStore for LedgerLeases {
    fn is_open(&self) -> bool {
        matches!(self.ledger.health(), Health::Good)
    }

    async fn persist(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        let told = records.iter().filter_map(|record| observation(&self.racks, record)).collect();
        self.keep(records, told).await
    }

    async fn persist_learned(&self, records: Vec<LeaseRecord>) -> Result<(), PersistError> {
        self.keep(records, Vec::new()).await
    }
}

impl LedgerLeases {
    async fn keep(
        &self,
        records: Vec<LeaseRecord>,
        told: Vec<Observation>,
    ) -> Result<(), PersistError> {
        let at = Timestamp::from_micros(self.clock.now_micros());
        let kept = self.ledger.keep_leases(records, at, told).await;
        match &kept {
            Ok(()) => self.racks.end_passing(Passing::Store),
            Err(error) => {
                let why =
                    format!("leases cannot be kept, and none is acknowledged: {}", chain(error));
                self.racks.set_passing(Passing::Store, why);
            }
        }
        kept.map_err(|error| PersistError(Box::new(error)))
    }
}

/// The observation of a lease, for the master. Clients without an Ethernet address are served, but are
/// no machines.
fn observation(racks: &Racks, record: &LeaseRecord) -> Option<Observation> {
    let rack = racks.rack_of(record.address)?;
    let (state, until) = match record.state {
        LeaseState::Bound { until_us } => (TellState::Bound, until_us),
        LeaseState::Released { at_us } => (TellState::Released, at_us),
        LeaseState::Declined { until_us } => (TellState::Declined, until_us),
    };
    Some(Observation::Lease(Lease {
        rack,
        mac: record.client.mac()?,
        address: record.address,
        state,
        until: Timestamp::from_micros(until),
    }))
}

/// A server that runs.
struct Running {
    places: BTreeSet<Listener>,
    handle: Handle,
    tasks: Tasks,
}

impl Running {
    /// Ends the server and closes its sockets.
    async fn end(self) {
        drop(self.handle);
        self.tasks.join().await;
    }
}

/// Serves what belongs to the node `own`, until `stopped`.
pub async fn serve(
    leasing: Leasing,
    own: NodeName,
    (ledger, racks): (Arc<Ledger>, Arc<Racks>),
    clock: Clock,
    (learner, mut stopped): (watch::Sender<Option<Learner>>, watch::Receiver<bool>),
) {
    let mut changed = racks.watch();
    let mut others = Others::new(Arc::clone(&racks), clock.clone(), stopped.clone());
    let mut running: Option<Running> = None;
    let mut last: Option<Compiled> = None;
    let mut unserved = Unserved::new(&leasing);
    let mut failure: Option<RackFault> = None;
    loop {
        changed.mark_unchanged();
        tell_of_disk(&ledger, &racks);
        let (mut wanted, interfaces) = wanted(&leasing, &own, &racks);
        if racks.set_places(&wanted.boot) {
            ledger.note_places();
        }
        if others.look(&speaking(&wanted)) {
            // Before the first word on an interface.
            tokio::time::sleep(others::FIRST_LISTEN).await;
        }
        yield_to_others(&mut wanted, &racks);
        // A failed start is repeated only with another configuration or by the next look.
        if last.as_ref() != Some(&wanted) || (running.is_none() && !wanted.places.is_empty()) {
            let anew = last.as_ref() != Some(&wanted);
            if anew {
                log_unserved(&wanted);
            }
            let world = LedgerLeases {
                ledger: Arc::clone(&ledger),
                racks: Arc::clone(&racks),
                clock: clock.clone(),
            };
            let served = follow(running, &wanted, &leasing, world, anew).await;
            let wrong = wanted.config.check().err().map(|error| {
                let text = format!("the rules of addresses cannot be served: {}", chain(&error));
                RackCause::RulesRefused.fault(text, &[])
            });
            let failed = served.as_ref().err().map(|error| unserved::fault_of(error, &interfaces));
            failure = wrong.or(failed);
            racks.set_lease_ranges(wanted.served.clone());
            running = served.ok().flatten();
            let now = running.as_ref().map(|running| running.handle.learner());
            learner.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
            last = Some(wanted);
        }
        if let Some(last) = &last {
            let missing = unserved.missing(last, &interfaces, &racks.all());
            racks.set_dhcp_fault(failure.clone().or(missing));
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep(INTERFACES_EVERY) => {}
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    if let Some(running) = running {
        running.end().await;
    }
    others.end().await;
}

/// Tells of a disk that takes no leases: then no client is offered an address, and none asks for one.
fn tell_of_disk(ledger: &Ledger, racks: &Racks) {
    let why = match ledger.health() {
        Health::Good => return racks.end_passing(Passing::Store),
        Health::DiskFull { path, reason, .. } => {
            format!("{} was not written ({reason}); make room on its disk", path.display())
        }
        Health::Failed { reason } => reason,
    };
    let why = format!("leases cannot be kept, and no address is offered: {why}");
    racks.set_passing(Passing::Store, why);
}

/// The places where the agent does more than observe.
fn speaking(wanted: &Compiled) -> BTreeSet<Listener> {
    let speaks = |place: &&Listener| {
        let mut ranges = wanted.config.ranges.iter();
        ranges.any(|range| range.interface_address == place.address() && !range.observe)
    };
    wanted.places.iter().filter(speaks).cloned().collect()
}

/// Only observes where another server answers and the operator wants it so.
fn yield_to_others(wanted: &mut Compiled, racks: &Racks) {
    for place in &wanted.places {
        let Listener::Interface { name, address } = place else { continue };
        if !wanted.yielding.contains(address) || racks.other_servers(name).is_empty() {
            continue;
        }
        for range in &mut wanted.config.ranges {
            range.observe |= range.interface_address == *address;
        }
    }
}

/// Says which networks of the racks are not served, and what is missing for it.
fn log_unserved(wanted: &Compiled) {
    if wanted.unserved.is_empty() {
        return;
    }
    let networks: Vec<String> = wanted.unserved.iter().map(ToString::to_string).collect();
    let networks = networks.join(", ");
    if wanted.places.is_empty() {
        tracing::warn!(
            networks,
            "dhcp is not served: no interface that is up has an address in a network of the rack; \
             give one such an address, and it is served within {} s",
            INTERFACES_EVERY.as_secs()
        );
    } else {
        tracing::info!(networks, "dhcp is not served in networks where this node has no address");
    }
}

fn wanted(leasing: &Leasing, own: &NodeName, racks: &Racks) -> (Compiled, Vec<Interface>) {
    let interfaces = interfaces().unwrap_or_else(|error| {
        tracing::warn!(%error, "network interfaces cannot be listed");
        Vec::new()
    });
    let named = !leasing.relays_only.is_empty();
    if !named && leasing.port != DHCP_SERVER_PORT {
        // Clients ask on port 67 only.
        return (Compiled::default(), interfaces);
    }
    let places = places(&interfaces, &leasing.relays_only);
    (compile(&racks.all(), &places, leasing.boot, own), interfaces)
}

async fn follow(
    running: Option<Running>,
    wanted: &Compiled,
    leasing: &Leasing,
    world: LedgerLeases,
    loud: bool,
) -> Result<Option<Running>, BeginError> {
    if let Err(error) = wanted.config.check() {
        tracing::error!(
            error = chain(&error),
            "dhcp goes on as before: the rack documents cannot be served"
        );
        return Ok(running);
    }
    if let Some(running) = running {
        if running.places == wanted.places
            && matches!(running.handle.configure(wanted.config.clone()).await, Ok(Ok(())))
        {
            tracing::info!(ranges = wanted.config.ranges.len(), "dhcp configuration changed");
            return Ok(Some(running));
        }
        running.end().await;
    }
    if wanted.places.is_empty() {
        return Ok(None);
    }
    match begin(wanted, leasing, world) {
        Ok(running) => {
            tracing::info!(places = ?running.places, "dhcp is served");
            Ok(Some(running))
        }
        Err(error) if loud => {
            tracing::error!(
                error = chain(&error),
                "dhcp is not served; noded needs CAP_NET_BIND_SERVICE and CAP_NET_RAW for port 67, \
                 and no other DHCP server on the interface; rpc and boot go on, and it is tried \
                 again every {} s",
                INTERFACES_EVERY.as_secs()
            );
            Err(error)
        }
        Err(error) => {
            tracing::debug!(error = chain(&error), "dhcp is still not served");
            Err(error)
        }
    }
}

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error("cannot listen for DHCP")]
    Link(#[from] server::LinkError),
    #[error("the rack documents cannot be served")]
    Config(#[from] dhcp::ConfigError),
}

fn begin(wanted: &Compiled, leasing: &Leasing, world: LedgerLeases) -> Result<Running, BeginError> {
    let engine = Engine::new(wanted.config.clone(), world.ledger.leases())?;
    let mut links = Vec::with_capacity(wanted.places.len());
    for place in &wanted.places {
        links.push(match place {
            Listener::Interface { name, address } => Link::interface(name, *address)?,
            Listener::Address(address) => Link::address(*address, leasing.port)?,
        });
    }
    let (observations, mut observed) = mpsc::channel(OBSERVATIONS_MAX);
    let (racks, ledger) = (Arc::clone(&world.racks), Arc::clone(&world.ledger));
    let at = world.clock.clone();
    let tasks = Tasks::new();
    tasks.spawn("dhcp observations", async move {
        while let Some(observation) = observed.recv().await {
            log(&observation);
            tell(&observation, &racks, &ledger, at.now_micros());
        }
    });
    let clock = world.clock.clone();
    let counters = Arc::clone(&leasing.counters);
    let parts = Parts { engine, links, store: world, observations, clock, counters };
    let handle = server::start(parts, &tasks);
    Ok(Running { places: wanted.places.clone(), handle, tasks })
}

/// Tells the master of events beside the lease. The firmware of a registered machine got one, which
/// begins a boot; or clients are in trouble, for example in a full range.
fn tell(observation: &dhcp::Observation, racks: &Racks, ledger: &Ledger, now_us: i64) {
    match observation {
        dhcp::Observation::Leased { record, stage, .. } => {
            let is_firmware = !matches!(stage, Stage::Ipxe | Stage::System);
            let mac = record.client.mac().filter(|_| is_firmware);
            let Some((rack, machine)) = mac.and_then(|mac| racks.machine_of(mac)) else { return };
            let seen = machine.observed(rack, record.address, mac, (BootStage::Lease, None));
            if let Err(error) = ledger.note(Timestamp::from_micros(now_us), seen) {
                tracing::warn!(error = chain(&error), "the begin of a boot was not noted");
            }
        }
        dhcp::Observation::Full(range) => racks.set_passing(Passing::Full, full(range)),
        dhcp::Observation::Crowded { range, guests_max } => {
            racks.set_passing(Passing::Crowded, crowded(range, *guests_max));
        }
        dhcp::Observation::Declined(record) => {
            let (address, client) = (record.address, &record.client);
            let why = format!("{client} found {address} in use by another host");
            racks.set_passing(Passing::Declined, why);
        }
        dhcp::Observation::Stranded { client, stage, architecture } => {
            let mac = client.mac().filter(|mac| racks.machine_of(*mac).is_some());
            if mac.is_some() {
                racks.set_passing(Passing::Stranded, stranded(client, *stage, *architecture));
            }
        }
        dhcp::Observation::Released(_) | dhcp::Observation::Refused { .. } => {}
    }
}

/// The fault of a machine that asked in vain, and its remedy.
fn stranded(client: &Identity, stage: Stage, architecture: Option<u16>) -> String {
    let way = if stage == Stage::PxeFirmware { "PXE" } else { "HTTP boot without EFI" };
    let architecture = architecture.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    format!(
        "{client} asked for {way} (architecture {architecture}), and agents serve iPXE and UEFI HTTP boot: \
         turn on UEFI HTTP boot in its firmware, or boot iPXE from its card or a medium"
    )
}

/// The fault of a range that has no address left, with numbers that add up.
fn full(range: &RangeUse) -> String {
    let RangeUse { first, last, addresses, leased, offered, quarantined } = range;
    format!(
        "no address is left: of the {addresses} that this agent gives of {first} to {last}, {leased} \
         are leased, {offered} offered and {quarantined} in quarantine"
    )
}

/// The fault of a range whose unregistered cards have all addresses that they may have.
fn crowded(range: &RangeUse, guests_max: usize) -> String {
    let RangeUse { first, last, addresses, .. } = range;
    format!(
        "cards that are not registered have {guests_max} of the {addresses} addresses that this agent \
         gives of {first} to {last}, and get no more"
    )
}

/// The log's share of what the server sees; the master's share went with the lease.
fn log(observation: &dhcp::Observation) {
    match observation {
        dhcp::Observation::Leased { record, stage, .. } => {
            tracing::info!(address = %record.address, client = %record.client, ?stage, "leased");
        }
        dhcp::Observation::Released(record) => {
            tracing::info!(address = %record.address, client = %record.client, "lease given back");
        }
        dhcp::Observation::Declined(record) => {
            let (address, client) = (record.address, &record.client);
            tracing::error!(%address, %client, "address is in use by another host");
        }
        dhcp::Observation::Refused { client, address, why } => {
            tracing::info!(%address, %client, why, "lease refused");
        }
        dhcp::Observation::Stranded { client, stage, architecture } => {
            tracing::warn!("{}", stranded(client, *stage, *architecture));
        }
        dhcp::Observation::Full(range) => tracing::error!("{}", full(range)),
        dhcp::Observation::Crowded { range, guests_max } => {
            tracing::warn!("{}", crowded(range, *guests_max));
        }
    }
}

#[cfg(test)]
mod tests;
