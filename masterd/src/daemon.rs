//! The life of the daemon: find the state, take the role, serve, end.

pub mod load;
pub mod reign;
pub mod replicate;
mod socket;

use std::path::PathBuf;
use std::sync::Arc;

use model::NodeName;
use model::layout::{self, Layout};
use queue_format::{Durability, Epoch, StartError, Store, StoreOptions};
use rpc::identity::{Authority, IdentityError, NodeIdentity};
use stdx::metrics::Endpoint;
use stdx::{Clock, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commits::Commits;
use crate::config::Config;
use crate::luxi_service::LuxiService;
use crate::metrics::{self, Metered, Metrics};
use crate::ssconf;
use load::FoundError;
use reign::{Begin, Publisher, Reign};

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
    let (id, me) = check_role(&found.config, identity.name())?;
    let sockets = socket::bind(layout.luxi_socket(), options.ganeti_socket.as_deref())?;
    let metrics = Arc::new(Metrics::default());
    let epoch = Epoch { term: found.config.role.term + 1, node: id };
    let (reader, position) = (store.reader(), store.recovered().position);
    let begin = Begin { found, reader, position, me: me.clone(), epoch, metrics };
    let local =
        |publisher: Publisher| store.start(epoch, publisher.callbacks()).map(Commits::local);
    let master = reign::take_role(begin, &clock, local).await?;
    let (listeners, sockets) = socket::publish(sockets)?;
    let broken = CancellationToken::new();
    let keys = (identity, membership, authority);
    let reign = Reign::begin(master, &layout, keys, &clock, &broken);
    let world = Arc::clone(&reign.world);
    let (end_luxi, luxi_ends) = watch::channel(false);
    let service = LuxiService::new(Arc::clone(&world));
    let service = Arc::new(Metered::new(service, Arc::clone(&world.metrics)));
    let luxi = Tasks::new();
    luxi.spawn("metrics", metrics::run(Arc::clone(&world), options.metrics, luxi_ends.clone()));
    if let Some(directory) = options.ganeti_ssconf {
        let published = Arc::clone(&world.published);
        luxi.spawn("ssconf", ssconf::run(directory, published, luxi_ends.clone()));
    }
    let limits = luxi::Limits::default().within_files(stdx::daemon::allow_files(FILES_WANTED));
    let serve = luxi::serve(listeners, service, limits, luxi_ends);
    luxi.spawn("luxi", vital(serve, broken.clone()));
    let paths: Vec<_> = sockets.iter().map(socket::Published::path).collect();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(node = %me, version, term = epoch.term, ?paths, "master serves");
    stdx::daemon::notify_ready("serving");

    let asked = until_the_end(&broken).await;
    stdx::daemon::notify_stopping();
    reign.begin_to_end();
    end_luxi.send_replace(true);
    luxi.join().await;
    let ended = reign.end().await;
    sockets.iter().for_each(socket::Published::remove);
    ended?;
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
