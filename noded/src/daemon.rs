//! The agent as a whole: its start and its end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use blobs::{BlobError, Blobs};
use model::NodeName;
use model::layout::{KEYS_PORT, Layout};
use rpc::calls::Membership;
use rpc::fence::{Fence, Obeyed};
use rpc::identity::{IdentityError, MachineCertificate, NodeIdentity};
use rpc::server::{Limits, Server};
use rpc::service::AgentService;
use rpc::tls::{AllowedCallers, machine_server_config, server_config};
use rpc::wire::Versions;
use rustls::ServerConfig;
use stdx::daemon::chain;
use stdx::metrics::Endpoint;
use stdx::net::{ListenError, Listening};
use stdx::{Clock, Tasks};

use crate::agent::{Agent, LedgerEpochs, Parts};
use crate::facts::FactsError;
use crate::host_network::HostNetworks;
use crate::machine_certificate::MachineCertificates;
use crate::metrics::{self, Calls, Sources};
use crate::powercycle::Powercycle;
use netboot::boot;
use netboot::dhcp::server::Learner;
use netboot::key_desk::KeyDesk;
use netboot::lease_sync;
use netboot::leasing::{self, Leasing};
use netboot::ledger::{Ledger, LedgerError, Restored};
use netboot::rack::Racks;
use netboot::rack::look::{Looked, look_at_disk};
use netboot::token_claim::Claims;
use rpc::client::Client;
use virt::{Instances, Paths, Storage, VirtError};

/// How long tasks may take to end: a lease that waits for room on the disk would take for ever.
const TASKS_END_WITHIN: Duration = Duration::from_secs(5);

/// The settings that an agent is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directories of the agent.
    pub layout: Layout,
    /// The address of the node protocol.
    pub rpc: SocketAddr,
    /// The address of the boot side.
    pub boot: SocketAddr,
    /// A further address of the boot side, if it can be had.
    pub boot_alias: Option<SocketAddr>,
    /// The address at which machines ask for the keys of their disks, if it can be had.
    pub keys: Option<SocketAddr>,
    /// How DHCP is served.
    pub leasing: Leasing,
    pub metrics: Endpoint,
    /// Versions of the node protocol that it understands; a program's own, but in tests of
    /// upgrades.
    pub versions: Versions,
    /// Restarts the machine, where that is allowed.
    pub powercycle: Arc<dyn Powercycle>,
    /// Bytes of a segment of its journal, where that is made; see [`netboot::ledger::SEGMENT_BYTES`].
    pub segment_bytes: u64,
    /// Bytes that all blobs may take.
    pub blob_bytes_max: u64,
    /// iPXE as an EFI program, for machines whose Ethernet addresses are not known.
    pub ipxe: PathBuf,
    /// The time.
    pub clock: Clock,
}

impl Settings {
    /// The listening address of the node protocol.
    pub fn rpc_listening(&self) -> Listening {
        Listening { address: self.rpc, purpose: "the node protocol", option: "--rpc-address" }
    }

    fn boot_listening(&self) -> Listening {
        boot_side(self.boot, "the boot side")
    }
}

/// An agent that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The machine has no identity, or not a whole one.
    #[error("this machine cannot serve as a node")]
    Identity(#[from] IdentityError),
    /// The identity cannot be used for TLS.
    #[error("cannot use this node's certificate")]
    Tls(#[from] rustls::Error),
    /// The store cannot be had.
    #[error("cannot use the agent's state")]
    Ledger(#[from] LedgerError),
    /// The records of instances cannot be had.
    #[error("cannot use the records of this node's instances")]
    Instances(#[from] VirtError),
    /// The kernel does not tell which boot this is.
    #[error("cannot tell this boot of the machine from another one")]
    Facts(#[from] FactsError),
    /// The files that it serves cannot be had.
    #[error("cannot use the agent's blobs")]
    Blobs(#[from] BlobError),
    /// A port cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// The instances that the records of this machine have.
fn instances(settings: &Settings) -> Result<Instances, DaemonError> {
    let (directory, boot) = (settings.layout.instances(), crate::facts::boot_id()?);
    let layout = &settings.layout;
    let storage = Storage::new(layout.file_storage_paths(), layout.file_storage());
    let paths = Paths {
        firmware: layout.firmware_directories(),
        nic_hook: layout.nic_hook(),
        xl: layout.xl(),
        keys: layout.replica_keys(),
        ..Paths::of(directory)
    };
    Ok(Instances::open(paths, boot, storage, settings.clock.clone())?)
}

type CallService = AgentService<Agent, LedgerEpochs>;
type RpcServer = Server<CallService>;

fn serve_calls(
    listener: TcpListener,
    tls: ServerConfig,
    service: CallService,
    settings: &Settings,
) -> Result<RpcServer, ListenError> {
    let service = service.with_versions(settings.versions);
    let started = Server::start(listener, tls, service, Limits::default());
    started.map_err(|error| ListenError { of: settings.rpc_listening(), error })
}

/// An agent that runs.
#[derive(Debug)]
pub struct Daemon {
    agent: Arc<Agent>,
    ledger: Arc<Ledger>,
    rpc: RpcServer,
    boot: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Tasks,
}

impl Daemon {
    /// Starts an agent, on a host that goes back first if its network was changed and not committed.
    ///
    /// # Errors
    /// As [`Daemon::start_on`].
    pub async fn start(settings: Settings) -> Result<Self, DaemonError> {
        let network = HostNetworks::open(&settings.layout, settings.clock.clone()).await;
        Self::start_on(network, settings).await
    }

    /// Starts an agent on a host whose network went back already.
    ///
    /// # Errors
    /// The machine belongs to no cluster, its state cannot be used, or a port cannot be had. A failure
    /// of DHCP or of the further boot port is logged, and the agent goes on without. An address that the
    /// machine does not have is waited for, and told.
    pub async fn start_on(
        network: Arc<HostNetworks>,
        settings: Settings,
    ) -> Result<Self, DaemonError> {
        rpc::identity::renewal::complete(&settings.layout)?;
        let (identity, membership) = NodeIdentity::load(&settings.layout)?;
        let identity = Arc::new(identity);
        let (rpc_listener, boot_listener) =
            (settings.rpc_listening().listen()?, settings.boot_listening().listen()?);
        let (ledger, restored) =
            open_ledger(&settings.layout, &membership, settings.segment_bytes).await?;
        let racks = Arc::new(Racks::new(restored.racks.clone()));
        let list = allow_list(&membership, &restored);
        if list != membership.allow {
            crate::agent::show_allow_list(settings.layout.clone(), &membership, list.clone()).await;
        }
        let allowed = AllowedCallers::new(list);
        let obeyed = obeyed(&membership, &restored);
        let epoch = obeyed.epoch;
        let (calls, desk) = (Arc::new(Calls::default()), Arc::<KeyDesk>::default());
        let machines = Arc::new(machine_certificates(&settings, &identity, &racks));
        let shown = Arc::clone(&machines.certificate);
        let client = Client::new(Arc::clone(&identity), Tasks::new());
        let own = identity.name().clone();
        let both = (Arc::clone(&ledger), Arc::clone(&racks));
        let claims = Claims::new(own.clone(), both, client.clone(), settings.clock.clone()).into();
        let rack = boot_rack(&settings, &ledger, &racks, &claims).await?;
        let (server, learners) = watch::channel(None);
        let agent = Arc::new(Agent::new(Parts {
            layout: settings.layout.clone(),
            membership,
            ledger: Arc::clone(&ledger),
            racks: Arc::clone(&racks),
            blobs: Arc::clone(&rack.blobs),
            allowed: allowed.clone(),
            obeyed: obeyed.clone(),
            identity: Arc::clone(&identity),
            clock: settings.clock.clone(),
            calls: Arc::clone(&calls),
            powercycle: Arc::clone(&settings.powercycle),
            network: Arc::clone(&network),
            keys: Arc::clone(&desk),
            machines,
            claims,
            instances: instances(&settings)?,
            dhcp: learners.clone(),
            versions: settings.versions,
        }));
        let fence = Fence::new(LedgerEpochs(Arc::clone(&agent)), obeyed);
        let service = AgentService::new(Arc::clone(&agent), fence, allowed.clone());
        let tls = server_config(&identity, allowed.clone())?;
        let rpc = serve_calls(rpc_listener, tls, service, &settings)?;
        let failed = |error| ListenError { of: settings.boot_listening(), error };
        let boot = boot_listener.local_addr().map_err(failed)?;
        let (stop, _) = watch::channel(false);
        let daemon = Self { agent, ledger, rpc, boot, stop, tasks: Tasks::new() };
        let asking = lease_sync::Asking {
            ledger: Arc::clone(&daemon.ledger),
            own: own.clone(),
            racks,
            client,
            allowed,
            server: learners,
            clock: settings.clock.clone(),
        };
        daemon.tasks.spawn("lease sync", lease_sync::serve(asking, daemon.stop.subscribe()));
        let keys = (machine_server_config(shown)?, desk);
        daemon.serve(settings, boot_listener, (rack, keys), (calls, own, server));
        daemon.look_after_address();
        daemon.look_at_network(network);
        tracing::info!(node = %identity.name(), %epoch, rpc = %daemon.rpc.address(), %boot, "agent serves");
        Ok(daemon)
    }

    /// Tells of addresses of ours that the machine does not have.
    fn look_for_addresses(&self, settings: &Settings, racks: Arc<Racks>) {
        let relays = settings.leasing.relays_only.iter().map(|address| Listening {
            address: (*address, settings.leasing.port).into(),
            purpose: "DHCP for relays",
            option: "--dhcp-address",
        });
        let own = [settings.rpc_listening(), settings.boot_listening()];
        let all = own.into_iter().chain(relays).chain(settings.metrics.listening()).collect();
        let tell = move |missing| racks.set_missing_addresses(missing);
        let looks = stdx::net::look_for_addresses(all, tell, self.stop.subscribe());
        self.tasks.spawn("addresses", looks);
    }

    fn look_after_address(&self) {
        let (agent, mut stop) = (Arc::clone(&self.agent), self.stop.subscribe());
        self.tasks.spawn("master address", async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = agent.look_after_address() => {}
            }
        });
    }

    fn look_at_network(&self, network: Arc<HostNetworks>) {
        let mut stop = self.stop.subscribe();
        self.tasks.spawn("network drift", async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = network.look_for_drift() => {}
            }
        });
    }

    /// Starts the boot side, DHCP and metrics.
    fn serve(
        &self,
        settings: Settings,
        boot_listener: TcpListener,
        (rack, desk): (boot::Rack, (ServerConfig, Arc<KeyDesk>)),
        (calls, own, learner): (Arc<Calls>, NodeName, watch::Sender<Option<Learner>>),
    ) {
        self.look_for_addresses(&settings, Arc::clone(&rack.racks));
        let Settings { layout, boot_alias, keys, leasing, metrics, clock, .. } = settings;
        let racks = Arc::clone(&rack.racks);
        let sources = Sources {
            calls,
            boot: Arc::clone(&rack.answers),
            dhcp: Arc::clone(&leasing.counters),
            ledger: Arc::clone(&self.ledger),
            racks: Arc::clone(&racks),
            clock: clock.clone(),
        };
        let looked = Looked {
            racks: Arc::clone(&racks),
            blobs: Arc::clone(&rack.blobs),
            ledger: Arc::clone(&self.ledger),
            data: layout.node_data(),
            loader: rack.ipxe.clone(),
        };
        self.tasks.spawn("disk", look_at_disk(looked, self.stop.subscribe()));
        let page = move || metrics::page(&sources).text();
        let numbers = stdx::metrics::serve(metrics, page, self.stop.subscribe());
        self.tasks.spawn("metrics", numbers);
        let mut listeners = vec![boot_listener];
        if let Some(address) = boot_alias {
            match boot_side(address, "the boot side, too").listen() {
                Ok(listener) => listeners.push(listener),
                Err(error) => tracing::warn!(error = chain(&error), "going on without"),
            }
        }
        if let Some(address) = keys {
            self.serve_keys(address, rack.clone(), desk);
        }
        for listener in listeners {
            self.tasks.spawn("boot", boot::serve(listener, rack.clone(), self.stop.subscribe()));
        }
        let leasing =
            Leasing { boot: SocketAddr::new(leasing.boot.ip(), self.boot.port()), ..leasing };
        let ledger = Arc::clone(&self.ledger);
        let leases =
            leasing::serve(leasing, own, (ledger, racks), clock, (learner, self.stop.subscribe()));
        self.tasks.spawn("leasing", leases);
    }

    /// Starts to take requests for keys; a rack boots without, but for encrypted disks.
    fn serve_keys(
        &self,
        address: SocketAddr,
        rack: boot::Rack,
        (tls, desk): (ServerConfig, Arc<KeyDesk>),
    ) {
        match boot_side(address, "the service of keys of disks").listen() {
            Ok(listener) => {
                let stopped = self.stop.subscribe();
                let served = boot::serve_keys(listener, Arc::new(tls), (rack, desk), stopped);
                self.tasks.spawn("keys", served);
            }
            Err(error) => {
                let why = chain(&error).to_string();
                tracing::warn!(error = why, "machines get no keys of their disks here");
                rack.racks.set_keys_trouble(why);
            }
        }
    }

    /// The address of the node protocol.
    pub fn rpc_address(&self) -> SocketAddr {
        self.rpc.address()
    }

    /// The address of the boot side.
    pub fn boot_address(&self) -> SocketAddr {
        self.boot
    }

    /// Waits until the node has left its cluster.
    pub async fn left(&self) {
        self.agent.left().await;
    }

    /// Ends: running calls get some seconds, then the state is closed.
    ///
    /// # Errors
    /// The state could not be closed cleanly; nothing is lost.
    pub async fn stop(self) -> Result<(), LedgerError> {
        self.stop.send_replace(true);
        self.rpc.stop().await;
        self.agent.end().await;
        if timeout(TASKS_END_WITHIN, self.tasks.join()).await.is_err() {
            tracing::warn!(health = ?self.ledger.health(), "tasks were dropped at the end");
        }
        let ledger = self.ledger;
        let closing = tokio::task::spawn_blocking(move || ledger.close()).await;
        closing.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
    }
}

/// A place of the boot side, whose ports have one address.
fn boot_side(address: SocketAddr, purpose: &'static str) -> Listening {
    Listening { address, purpose, option: "--boot-address" }
}

/// The part of the agent that machines boot from.
async fn boot_rack(
    settings: &Settings,
    ledger: &Arc<Ledger>,
    racks: &Arc<Racks>,
    claims: &Arc<Claims>,
) -> Result<boot::Rack, DaemonError> {
    Ok(boot::Rack {
        racks: Arc::clone(racks),
        blobs: open_blobs(settings).await?,
        ipxe: settings.ipxe.clone(),
        ledger: Arc::clone(ledger),
        clock: settings.clock.clone(),
        answers: Arc::default(),
        keys_port: settings.keys.map_or(KEYS_PORT, |keys| keys.port()),
        claims: Some(Arc::clone(claims)),
    })
}

async fn open_ledger(
    layout: &Layout,
    membership: &Membership,
    segment_bytes: u64,
) -> Result<(Arc<Ledger>, Restored), LedgerError> {
    let (directory, membership) = (layout.node_data(), membership.clone());
    let open = move || Ledger::open(&directory, &membership, segment_bytes);
    let opening = tokio::task::spawn_blocking(open).await;
    let (ledger, restored) =
        opening.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))?;
    Ok((Arc::new(ledger), restored))
}

async fn open_blobs(settings: &Settings) -> Result<Arc<Blobs>, DaemonError> {
    let (directory, bytes_max) = (settings.layout.blobs(), settings.blob_bytes_max);
    let opening = tokio::task::spawn_blocking(move || Blobs::open(&directory, bytes_max)).await;
    let opened = opening.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()));
    Ok(Arc::new(opened?))
}

fn machine_certificates(
    settings: &Settings,
    identity: &Arc<NodeIdentity>,
    racks: &Arc<Racks>,
) -> MachineCertificates {
    let certificate = MachineCertificate::open(Arc::clone(identity), &settings.layout);
    MachineCertificates {
        certificate: Arc::new(certificate),
        racks: Arc::clone(racks),
        layout: settings.layout.clone(),
        keys: settings.keys,
        relays: settings.leasing.relays_only.clone(),
    }
}

/// The list that the master sent last; the one of the enrolment where that is of a later epoch.
fn allow_list(membership: &Membership, restored: &Restored) -> rpc::calls::AllowList {
    match &restored.allow {
        Some(list) if list.epoch >= membership.allow.epoch => list.clone(),
        Some(_) | None => membership.allow.clone(),
    }
}

/// The epoch and the master obeyed last, or the epoch of the enrolment where that is later.
fn obeyed(membership: &Membership, restored: &Restored) -> Obeyed {
    match &restored.obeyed {
        obeyed if obeyed.epoch >= membership.epoch => obeyed.clone(),
        _ => membership.epoch.into(),
    }
}

#[cfg(test)]
mod tests;
