//! The life of the daemon: find the state, take the role, serve, end.
//!
//! [`run`] makes what lasts as long as the process: the door for clients, the server for other members, the
//! metrics. `lifecycle` goes from state to state; [`leadership`] is the longest of them, and `takeover`
//! takes the role. `assembly` gives each part what it needs, and `logical_units` runs opcodes.

pub(crate) mod assembly;
mod certificate_reload;
pub(crate) mod codes;
pub mod leadership;
mod lifecycle;
pub(crate) mod logical_units;
mod newer_epoch;
pub mod options;
mod overriding;
#[cfg(test)]
pub(crate) mod simulated;
mod socket;
mod stale_store;
mod takeover;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use luxi::Door;
use model::NodeName;
use model::layout::{self, Layout};
use queue_format::store::{AsideError, HeaderError, WipeError};
use queue_format::{Durability, Epoch, Refusal, StartError, StoreOptions};
use rpc::identity::{IdentityError, NodeIdentity};
use rpc::peer::{ClientService, PeerLimits, PeerServer, PeerServerError};
use stdx::metrics::Endpoint;
use stdx::net::{ListenError, Listening};
use stdx::{Clock, Executor, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::agents::metrics::Metrics;
use crate::config::Config;
use crate::door::audit_log::AuditLog;
use crate::door::forwarding_server::ForwardingServer;
use crate::door::guard::Guard;
use crate::door::metered::Metered;
use crate::door::router::LuxiRouter;
use crate::role::follow::Callers;
use crate::role::load::FoundError;
use crate::role::local_member::LocalMember;
use crate::store::lock::LockError;
use lifecycle::{Ending, Lifecycle, RoleCommands, Stage};
use membership::peers::PeerBook;

/// Files that the process asks to be allowed to open: a socket for each client, and as many for
/// everything else.
const FILES_WANTED: u64 = 32_768;

/// Threads of the engine's runtime: one that works, and one while that is on a processor that is busy.
const ENGINE_THREADS: usize = 2;
/// Threads there for what reads the disk: answers to other members, whose server bounds them.
const ENGINE_BLOCKING_MAX: usize = 16;
/// Threads for queries that read the disk, which is archived jobs: a disk has no more arms.
const QUERIES_BLOCKING_MAX: usize = 4;

/// Runtimes beside the main one, on which jobs run and clients are heard. Without any, all happens on
/// the main one.
#[derive(Debug, Clone, Default)]
pub struct Executors {
    /// The engine, its heartbeats, and what other members ask: no query, no file and no logical unit
    /// delays these, or a healthy master would lose its majority.
    pub engine: Executor,
    /// Queries: they may take all of their threads, and delay each other only.
    pub queries: Executor,
}

impl Executors {
    /// Those of a daemon.
    ///
    /// # Errors
    /// The system makes no threads.
    pub fn start() -> std::io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            engine: Executor::new("engine", ENGINE_THREADS, ENGINE_BLOCKING_MAX)?,
            queries: Executor::new("queries", threads, QUERIES_BLOCKING_MAX)?,
        })
    }
}

/// How the daemon is to run.
#[derive(Debug, Clone)]
pub struct Options {
    pub executors: Executors,
    /// Where things live.
    pub layout: Layout,
    /// The durability of an answer.
    pub durability: Durability,
    /// Size of the journal's segments.
    pub segment_bytes: Option<u64>,
    /// A directory where Ganeti's tools look for the socket, to listen there as well.
    pub ganeti_socket: Option<PathBuf>,
    /// A directory for the files that Ganeti's tools read.
    pub ganeti_ssconf: Option<PathBuf>,
    pub metrics: Endpoint,
    /// The endpoint for other members; without it this node is no candidate.
    pub peers: Endpoint,
}

impl Options {
    /// How the store is kept.
    fn store(&self) -> StoreOptions {
        let store = StoreOptions {
            durability: self.durability,
            file_mode: layout::DOCUMENT_MODE,
            directory_mode: layout::DIRECTORY_MODE,
            ..StoreOptions::default()
        };
        let segment_bytes = self.segment_bytes.unwrap_or(store.segment_bytes);
        StoreOptions { segment_bytes, ..store }
    }
}

/// A daemon that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// This machine has no certificate of the cluster.
    #[error("cannot read this node's certificates")]
    Identity(#[from] IdentityError),
    /// The state does not read.
    #[error("cannot take up the cluster's state")]
    Found(#[from] FoundError),
    /// The node is not in the configuration.
    #[error("this node is `{0}`, but the configuration has no such node")]
    Stranger(NodeName),
    /// Another node is the master.
    #[error(
        "the store here is one that {master} had alone, and this node is {me}; a candidate gets its \
         store from the master: move this one away, and start `masterd` again"
    )]
    NotMaster { master: NodeName, me: NodeName },
    /// The certificates are another cluster's.
    #[error(
        "the store here is of cluster {there}, and the certificates in /etc/gantry/pki are of cluster {here}: \
         put those back that belong to this store; or, if the machine is to be a node of {here}, move all but \
         `node` out of /var/lib/gantry and start `masterd` again"
    )]
    OtherCluster {
        /// The store's.
        there: String,
        /// The certificates'.
        here: Uuid,
    },
    /// The certificates are another node's.
    #[error(
        "the store here is that of {there}, and the certificates in /etc/gantry/pki are those of {here}: put \
         those of {there} back; or, if this machine is {here}, move all but `node` out of /var/lib/gantry and \
         start `masterd` again"
    )]
    OtherNode {
        /// The owner of the store.
        there: NodeName,
        /// The owner of the certificates.
        here: NodeName,
    },
    /// It is a copy from before another node had one.
    #[error(
        "the agent of {node} obeys {master}, in epoch {obeys}, and the store here, of epoch {epoch}, has \
         no word of that: it is an older copy. If {master} or another candidate has its store, move all but \
         `node` out of /var/lib/gantry and start `masterd` again: the node is invited anew. If none has, as \
         root `gnt cluster export --secrets seal FILE`, move the same away, and `gnt cluster import FILE`"
    )]
    OlderCopy {
        /// Whose agent.
        node: NodeName,
        /// Whom it obeys.
        master: NodeName,
        obeys: Epoch,
        /// The last one in the store.
        epoch: Epoch,
    },
    /// An older store does not go.
    #[error(
        "the store here is an older copy, and makes no room for the one of the master that there is"
    )]
    Aside(#[source] AsideError),
    /// The store does not start.
    #[error("cannot start the store")]
    Start(#[from] StartError),
    /// The store did not take the role entry.
    #[error("the store refused the role entry: {0}")]
    Refused(Refusal),
    /// The store ended before the role entry was durable.
    #[error("the store ended before the role entry was durable")]
    RoleLost,
    /// The socket cannot be made.
    #[error("cannot listen on `{path}`")]
    Listen {
        /// Where.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// A part of the daemon ended by itself.
    #[error(
        "a part of the daemon ended by itself, which the log tells more of; start the daemon anew"
    )]
    PartEnded,
    /// Another process works below the same root, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store's header does not read.
    #[error("cannot tell whose store this is")]
    Header(#[from] HeaderError),
    /// The store of a former member cannot be wiped.
    #[error("cannot finish to wipe a store")]
    Wipe(#[from] WipeError),
    /// The store of a member does not open.
    #[error("cannot open the store of a member")]
    Open(#[from] engine::OpenError),
    /// The engine cannot go on.
    #[error("the replication engine has stopped ({reason}); start the daemon anew")]
    EngineStopped {
        /// What it said.
        reason: String,
    },
    /// The vault gets no first key.
    #[error("cannot make the first key of the vault")]
    Vault(#[from] crate::config::vault::VaultError),
    /// The authority's key is nowhere.
    #[error(
        "the key of the cluster's authority is neither in the store nor on this machine; put the \
         copy that you kept at `etc/gantry/pki/ca.key`"
    )]
    NoAuthority,
    /// Other members cannot ask.
    #[error(transparent)]
    Peers(#[from] ListenError),
    /// The door for other members does not open.
    #[error("cannot serve other members")]
    PeerServer(#[from] PeerServerError),
    /// An override was not made.
    #[error("the override was not made; look at the store, start the daemon anew and try again")]
    Override(#[from] engine::OverrideError),
    /// The store does not close.
    #[error("cannot close the store")]
    Close(#[from] queue_format::CloseError),
}

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// [`DaemonError`], which says what to do.
pub async fn run(options: Options) -> Result<(), DaemonError> {
    let clock = Clock::system();
    let layout = options.layout.clone();
    let (identity, membership) = NodeIdentity::load(&layout)?;
    let identity = Arc::new(identity);
    let callers = Callers::new(layout.clone());
    let book = PeerBook::new(Arc::clone(&identity), membership.cluster_uuid);
    let place = (identity.name().clone(), membership.cluster_uuid);
    let (local, commands) = LocalMember::new(place, book, layout.data());
    let (end, ends) = watch::channel(false);
    let (luxi, around) = (Tasks::new(), Tasks::new());
    let ending = Ending {
        asked: CancellationToken::new(),
        broken: CancellationToken::new(),
        luxi: (end.clone(), luxi.clone()),
    };
    let broken = ending.broken.clone();
    around.spawn("signals", hear_signals(ending.asked.clone(), broken.clone(), ends.clone()));
    let renewed = certificate_reload::run(Arc::clone(&identity), layout.clone(), ends.clone());
    around.spawn("certificate", renewed);
    around.spawn("allow-list", callers.clone().run(ends.clone()));
    let metrics = Arc::new(Metrics::default());
    let queries = options.executors.queries.clone();
    let router =
        LuxiRouter::new(local.clone(), (layout, queries), clock.clone(), Arc::clone(&metrics));
    let life = Lifecycle {
        options: options.clone(),
        clock,
        identity,
        membership,
        local,
        commands: RoleCommands::new(commands),
        router,
        callers,
        metrics,
        followers: Tasks::new(),
        ending,
        stage: Stage::Machine,
    };
    let (router, metrics) = (life.router.clone(), Arc::clone(&life.metrics));
    // Without a store there is no lock of one, which would tell that another process is at work.
    let _lock = crate::store::lock::take(&options.layout)?;
    let state = life.first().await?;
    // Both locks are held by now, so what is there is a leftover.
    let audit_log = AuditLog::new(&options.layout, life.clock.clone());
    let guard = Guard::new(router.clone(), audit_log, life.membership.node.clone());
    let opened = open_doors(&options, &life, guard.clone()).await;
    let (peers, doors, sockets) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            life.leave(state).await;
            return Err(error);
        }
    };
    tell_open(&life, &sockets);
    let looks = stdx::net::look_for_addresses(own_addresses(&options), drop, ends.clone());
    around.spawn("addresses", looks);
    around.spawn("metrics", serve_numbers(options.metrics, &router, &metrics, ends.clone()));
    let limits = luxi::Limits::default().within_files(stdx::daemon::allow_files(FILES_WANTED));
    let service = Arc::new(Metered::new(guard, metrics));
    luxi.spawn("luxi", vital(luxi::serve(doors, service, limits, ends), broken));
    stdx::daemon::notify_ready("serving");

    let ended = life.live(state).await;
    end.send_replace(true);
    if let Some(peers) = peers {
        peers.stop().await;
    }
    around.join().await;
    sockets.iter().for_each(socket::Published::remove);
    tracing::info!("ended");
    ended
}

fn serve_numbers(
    endpoint: Endpoint,
    router: &LuxiRouter,
    metrics: &Arc<Metrics>,
    ends: watch::Receiver<bool>,
) -> impl Future<Output = ()> + use<> {
    let (told, counted) = (router.clone(), Arc::clone(metrics));
    stdx::metrics::serve(endpoint, move || told.page(&counted).text(), ends)
}

fn tell_open(life: &Lifecycle, sockets: &[socket::Published]) {
    let paths: Vec<_> = sockets.iter().map(socket::Published::path).collect();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(node = %life.membership.node, version, ?paths, "clients are let in");
}

/// The door for other members, and those for clients.
type Doors = (Option<PeerServer<LocalMember>>, Vec<Door>, Vec<socket::Published>);

async fn open_doors(
    options: &Options,
    life: &Lifecycle,
    guard: Guard,
) -> Result<Doors, DaemonError> {
    let peers = serve_peers(options.peers, life, guard).await?;
    let spool = options.layout.spool();
    if let Err(error) = socket::make_spool(&spool) {
        tracing::warn!(path = %spool.display(), %error, "nothing can be uploaded");
    }
    let sockets = socket::bind(&options.layout, options.ganeti_socket.as_deref())?;
    let (doors, sockets) = socket::publish(sockets)?;
    Ok((peers, doors, sockets))
}

/// The addresses of this machine that the options name.
fn own_addresses(options: &Options) -> Vec<Listening> {
    let all = [peers_listening(options.peers), options.metrics.listening()];
    all.into_iter().flatten().collect()
}

/// The address for other members' requests, if there is one.
fn peers_listening(endpoint: Endpoint) -> Option<Listening> {
    let of = |address| Listening { address, purpose: "the member protocol", option: "--peers" };
    endpoint.address().map(of)
}

/// Lets other members ask, where that is wanted.
async fn serve_peers(
    endpoint: Endpoint,
    life: &Lifecycle,
    guard: Guard,
) -> Result<Option<PeerServer<LocalMember>>, DaemonError> {
    let Lifecycle { identity, callers, local, router, metrics, .. } = life;
    let Some(listening) = peers_listening(endpoint) else {
        local.set_listens(None);
        let known = callers.allowed().current();
        let known = known.callers.iter().map(|caller| caller.name.as_str());
        let others: BTreeSet<&str> =
            known.filter(|name| *name != life.membership.node.as_str()).collect();
        match others.is_empty() {
            true => tracing::warn!(
                "masterd listens for no other candidate, so the cluster has this one node; start it \
                 with `--peers ADDRESS` for more candidates (the default where the root is `/`)"
            ),
            false => tracing::error!(
                ?others,
                "other candidates cannot ask masterd here, which has no `--peers`; start it with \
                 `--peers ADDRESS` (the default where the root is `/`)"
            ),
        }
        return Ok(None);
    };
    let clients =
        ForwardingServer::new(router.clone(), guard, Arc::clone(metrics), Executor::current());
    let services = (local.clone(), Some(Arc::new(clients) as Arc<dyn ClientService>));
    let (identity, allowed) = (Arc::clone(identity), callers.allowed());
    let serve = async move {
        let (listener, limits) = (listening.listen()?, PeerLimits::default());
        Ok(PeerServer::start_with_clients(listener, &identity, allowed, services, limits)?)
    };
    let server: Result<_, DaemonError> = life.options.executors.engine.run(serve).await;
    let server = server?;
    local.set_listens(Some(Listening { address: server.address(), ..listening }));
    tracing::info!(address = %server.address(), "other members may ask");
    Ok(Some(server))
}

/// Waits for a signal that asks the process to end.
async fn hear_signals(
    asked: CancellationToken,
    broken: CancellationToken,
    mut ends: watch::Receiver<bool>,
) {
    let signal = tokio::select! {
        signal = stdx::daemon::asked_to_end() => signal,
        _ = ends.wait_for(|end| *end) => return,
    };
    match signal {
        Ok(signal) => {
            tracing::info!(signal, "asked to end");
            stdx::daemon::notify_stopping();
            asked.cancel();
        }
        Err(error) => {
            tracing::error!(%error, "cannot wait for signals");
            broken.cancel();
        }
    }
}

/// A part without which the daemon is none: its end, be it by a panic, ends the daemon, and who
/// supervises it starts it anew.
async fn vital(part: impl Future<Output = ()>, broken: CancellationToken) {
    let _guard = broken.drop_guard();
    part.await;
}

/// The follower for a store of a node that is alone, for tests.
#[cfg(test)]
pub(crate) fn nobody(root: &std::path::Path) -> crate::role::follow::Follower {
    crate::role::follow::Follower::of_nobody(root)
}

/// Id and name of this node, if it is the master.
pub(crate) fn check_role(config: &Config, me: &NodeName) -> Result<(u64, NodeName), DaemonError> {
    let node = config.nodes.get(me).ok_or_else(|| DaemonError::Stranger(me.clone()))?;
    if config.role.master != *me {
        let master = config.role.master.clone();
        return Err(DaemonError::NotMaster { master, me: me.clone() });
    }
    Ok((node.id, me.clone()))
}
