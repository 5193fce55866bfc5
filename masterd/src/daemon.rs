//! The life of the daemon: find the state, take the role, serve, end.

pub mod load;
mod socket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::cluster::Role;
use model::layout::{self, Layout};
use model::{Job, NodeName, Timestamp};
use queue_format::{
    Callbacks, Committer, Durability, Epoch, Refusal, StartError, Store, StoreOptions,
};
use rpc::Client;
use rpc::calls::Membership;
use rpc::identity::{Authority, IdentityError, NodeIdentity};
use stdx::metrics::Endpoint;
use stdx::{Clock, Tasks};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::agents::{Agents, Caller};
use crate::archive::Archive;
use crate::commits::Commits;
use crate::config::change::Document;
use crate::config::{Config, ConfigChange};
use crate::exchange;
use crate::exchange::contact::Contacts;
use crate::jobs::JobBytes;
use crate::jobs::recover::recover;
use crate::jobs::room::Turnstile;
use crate::jobs::state::Queue;
use crate::jobs::view::View;
use crate::jobs::worker::Workers;
use crate::locks::Locks;
use crate::lu::World;
use crate::luxi_service::LuxiService;
use crate::metrics::{self, Metered, Metrics};
use crate::secrets::StagedSecrets;
use crate::ssconf;
use crate::writer::publish::{After, Published};
use crate::writer::{self, State, Tools, Writer};
use load::{Found, FoundError};

/// How long running jobs may go on after the daemon was asked to end; what runs longer is failed
/// by the next start.
const END_TIME: Duration = Duration::from_secs(10);

/// Files that the process asks to be allowed to open: a socket for each client, and as many for
/// everything else.
const FILES_WANTED: u64 = 32_768;

/// How the daemon is to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where things live.
    pub layout: Layout,
    /// What an answer rests on.
    pub durability: Durability,
    /// Size of the journal's segments.
    pub segment_bytes: Option<u64>,
    /// A directory where Ganeti's tools look for the socket, to listen there as well.
    pub ganeti_socket: Option<PathBuf>,
    /// A directory for the files that Ganeti's tools read.
    pub ganeti_ssconf: Option<PathBuf>,
    /// Where numbers are served.
    pub metrics: Endpoint,
}

/// Jobs of one kind that the log names after a start; the others are found by their times.
const RECOVERED_TOLD_MAX: usize = 50;

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
        "the master is {master}, not this node ({me}); failing over is not part of this version"
    )]
    NotMaster {
        /// Who is.
        master: NodeName,
        /// Who this is.
        me: NodeName,
    },
    /// The store does not start.
    #[error("cannot start the store")]
    Start(#[from] StartError),
    /// The store did not take the role entry.
    #[error("the store refused the role entry: {0}")]
    Refused(String),
    /// The store ended before the role entry was durable.
    #[error("the store ended before the role entry was durable")]
    RoleLost,
    /// The socket cannot be made.
    #[error("cannot listen on `{path}`")]
    Listen {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// A part of the daemon ended by itself.
    #[error(
        "a part of the daemon ended by itself, which the log tells more of; start the daemon anew"
    )]
    PartEnded,
    /// Signals cannot be awaited.
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
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
    let authority = Authority::load(&layout)?;
    let store = open(&options)?;
    let found = load::load(&store.reader()).map_err(DaemonError::Found)?;
    let me = check_role(&found.config, identity.name())?;
    let sockets = socket::bind(layout.luxi_socket(), options.ganeti_socket.as_deref())?;
    let master = take_role(store, found, me, &clock, Store::start).await?;
    let (listeners, sockets) = socket::publish(sockets)?;
    let epoch = master.epoch;
    let world = world(&master, &layout, (identity, membership, authority), &clock);
    let stop = CancellationToken::new();
    let background = Tasks::new();
    let opcodes = Tasks::new();
    let tools = Tools {
        clock,
        commits: Arc::clone(&master.commits),
        published: Arc::clone(&master.published),
        workers: Workers::new(Arc::clone(&world), opcodes.clone()),
    };
    let closing = CancellationToken::new();
    let job =
        writer::Run { archived: master.archived, closing: closing.clone(), stop: stop.clone() };
    background.spawn("writer", writer::run(master.state, tools, master.commands, job));
    let exchanges = CancellationToken::new();
    let broken = CancellationToken::new();
    background.spawn(
        "exchange",
        vital(exchange::run(Arc::clone(&world), exchanges.clone()), broken.clone()),
    );
    let (end_luxi, luxi_ends) = watch::channel(false);
    let service = LuxiService::new(Arc::clone(&world));
    let service = Arc::new(Metered::new(service, Arc::clone(&world.metrics)));
    let luxi = Tasks::new();
    luxi.spawn("metrics", metrics::run(Arc::clone(&world), options.metrics, luxi_ends.clone()));
    if let Some(directory) = options.ganeti_ssconf {
        let published = Arc::clone(&master.published);
        luxi.spawn("ssconf", ssconf::run(directory, published, luxi_ends.clone()));
    }
    let limits = luxi::Limits::default().within_files(stdx::daemon::allow_files(FILES_WANTED));
    let serve = luxi::serve(listeners, service, limits, luxi_ends);
    luxi.spawn("luxi", vital(serve, broken.clone()));
    let paths: Vec<_> = sockets.iter().map(socket::Published::path).collect();
    let (node, version) = (me_name(&world), env!("CARGO_PKG_VERSION"));
    tracing::info!(%node, version, term = epoch.term, ?paths, "master serves");
    stdx::daemon::notify_ready("serving");

    let asked = until_the_end(&broken).await;
    stdx::daemon::notify_stopping();
    closing.cancel();
    end_luxi.send_replace(true);
    exchanges.cancel();
    luxi.join().await;
    if tokio::time::timeout(END_TIME, opcodes.join()).await.is_err() {
        tracing::warn!("jobs still run; the next start will fail them");
    }
    stop.cancel();
    if tokio::time::timeout(END_TIME, background.join()).await.is_err() {
        tracing::warn!("changes still wait for the disk; whether they are made is not known");
    }
    world.agents.close().await;
    sockets.iter().for_each(socket::Published::remove);
    master.commits.close().await?;
    tracing::info!("ended");
    asked
}

/// Waits until the daemon is asked to end, or a vital part of it has ended.
async fn until_the_end(broken: &CancellationToken) -> Result<(), DaemonError> {
    tokio::select! {
        signal = stdx::daemon::asked_to_end() => {
            tracing::info!(signal = signal.map_err(DaemonError::Signals)?, "asked to end");
            Ok(())
        }
        () = broken.cancelled() => Err(DaemonError::PartEnded),
    }
}

/// A part without which the daemon is none: its end, be it by a panic, ends the daemon, and who
/// supervises it starts it anew.
async fn vital(part: impl Future<Output = ()>, broken: CancellationToken) {
    let _guard = broken.drop_guard();
    part.await;
}

fn me_name(world: &World) -> NodeName {
    world.published.snapshot().config.role.master.clone()
}

fn open(options: &Options) -> Result<Store, DaemonError> {
    let mut store = StoreOptions {
        durability: options.durability,
        file_mode: layout::DOCUMENT_MODE,
        directory_mode: layout::DIRECTORY_MODE,
        ..StoreOptions::default()
    };
    store.segment_bytes = options.segment_bytes.unwrap_or(store.segment_bytes);
    let path = options.layout.data();
    let opened = Store::open(&path, store);
    let store = opened.map_err(|error| FoundError::Open { path, error })?;
    let recovered = store.recovered();
    if let Some(found) = recovered.upgraded_from {
        tracing::warn!(
            from = found,
            to = queue_format::store::FORMAT,
            "the store was of an older format and is of this version's from here on; an older \
             version needs a copy from before"
        );
    }
    tracing::info!(
        position = recovered.position.index,
        batches = recovered.replayed_batches,
        keys = recovered.replayed_keys,
        "store is open"
    );
    Ok(store)
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

/// A master that has its role, and serves nobody yet.
pub(crate) struct Master {
    pub(crate) state: State,
    pub(crate) commands: tokio::sync::mpsc::Receiver<writer::Command>,
    writer: Writer,
    pub(crate) commits: Arc<Commits>,
    pub(crate) published: Arc<Published>,
    epoch: Epoch,
    metrics: Arc<Metrics>,
    pub(crate) archived: std::collections::HashMap<model::JobId, model::JobStatus>,
}

/// Commits the role entry: the new epoch, and what becomes of the jobs that were found. `start` is
/// [`Store::start`], or what a simulation has in its place.
pub(crate) async fn take_role(
    store: Store,
    found: Found,
    (id, me): (u64, NodeName),
    clock: &Clock,
    start: impl FnOnce(Store, Epoch, Callbacks<After>) -> Result<Committer<After>, StartError>,
) -> Result<Master, DaemonError> {
    let Found { mut config, jobs, serial, drained, archived } = found;
    let now = Timestamp::from_micros(clock.now_micros());
    let requests = load::requests(&store.reader(), &jobs, serial, now)?;
    let epoch = Epoch { term: config.role.term + 1, node: id };
    let begun_at = store.recovered().position.index + 1;
    let mut changed = Vec::new();
    let jobs: Vec<Arc<Job>> = jobs
        .into_iter()
        .map(|job| match recover(&job, now) {
            Some(next) => {
                changed.push(Arc::clone(&next));
                next
            }
            None => Arc::new(job),
        })
        .collect();
    let role = Role { master: me, term: epoch.term, node: id, since: now };
    let mut documents = Vec::new();
    ConfigChange::Role(role).apply(&mut config, &mut documents);
    let config = Arc::new(config);
    let view = Arc::new(View::default());
    let published =
        Arc::new(Published::new(Arc::clone(&view), Arc::clone(&config), drained, begun_at));
    let publisher = Arc::clone(&published);
    let metrics = Arc::new(Metrics::default());
    let counted = Arc::clone(&metrics);
    let callbacks = Callbacks::new(move |group, position| publisher.publish(group, position))
        .on_flushed(move |flushed| counted.flushed(flushed));
    let commits = Arc::new(Commits::local(start(store, epoch, callbacks)?));
    commit_role(&commits, &jobs, &changed, &documents).await?;
    published.jobs.tally().forget_found();
    tracing::info!(jobs = jobs.len(), term = epoch.term, "role is taken");
    record_recovered(&changed);
    let running_max = config.cluster.max_running_jobs;
    let (writer, commands) = Writer::channel();
    let bytes = JobBytes::within(commits.submission_bytes_max());
    let queue = Queue::new(jobs, serial, drained, running_max, bytes);
    let mut queue = queue.with_rules(Arc::clone(&config.filters));
    queue.recall(requests, now);
    let state = State { queue, config };
    Ok(Master { state, commands, writer, commits, published, epoch, metrics, archived })
}

/// The log's word on the jobs that the end of the last master changed.
fn record_recovered(changed: &[Arc<Job>]) {
    let told = |ended: bool| -> Vec<u64> {
        let jobs = changed.iter().filter(|job| job.status().is_final() == ended);
        jobs.map(|job| job.id.0).take(RECOVERED_TOLD_MAX).collect()
    };
    let (ended, requeued) = (told(true), told(false));
    if !changed.is_empty() {
        let jobs = changed.len();
        tracing::warn!(jobs, ?ended, ?requeued, "the last master left jobs that had begun");
    }
}

async fn commit_role(
    commits: &Commits,
    found: &[Arc<Job>],
    changed: &[Arc<Job>],
    documents: &[Document],
) -> Result<(), DaemonError> {
    let refused = |reason: Refusal| DaemonError::Refused(reason.to_string());
    let pieces = writer::commit::role_entry(changed, documents);
    let (reply, durable) = oneshot::channel();
    let shown = After::role_entry(found.to_vec(), reply);
    writer::commit::offer_all(commits, pieces, shown, false).await.map_err(refused)?;
    durable
        .await
        .map_err(|_dropped| DaemonError::RoleLost)?
        .map_err(|_refusal| DaemonError::RoleLost)
}

pub(crate) fn world(
    master: &Master,
    layout: &Layout,
    (identity, membership, authority): (NodeIdentity, Membership, Authority),
    clock: &Clock,
) -> Arc<World> {
    let caller = Caller {
        authority,
        epoch: master.epoch,
        cluster_uuid: membership.cluster_uuid,
        cluster_name: membership.cluster_name,
        me: identity.name().clone(),
        clock: clock.clone(),
        metrics: Arc::clone(&master.metrics),
    };
    let client = Client::new(Arc::new(identity), Tasks::new());
    Arc::new(World {
        writer: master.writer.clone(),
        published: Arc::clone(&master.published),
        locks: Locks::new(),
        agents: Agents::new(client, Tasks::new(), caller),
        contacts: Contacts::default(),
        secrets: StagedSecrets::default(),
        metrics: Arc::clone(&master.metrics),
        clock: clock.clone(),
        layout: layout.clone(),
        archive: Archive::new(Arc::clone(&master.commits)),
        commits: Arc::clone(&master.commits),
        turnstile: Turnstile::default(),
    })
}
