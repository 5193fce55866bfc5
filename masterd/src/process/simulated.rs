//! The life of a daemon on an engine that a simulation opened: all that [`super::run`] begins, but for
//! sockets, signals and files.

use std::sync::Arc;

use engine::{Committed, Engine};
use model::layout::Layout;
use model::role_check::RoleRequest;
use queue_format::Durability;
use rpc::calls::Membership;
use rpc::identity::NodeIdentity;
use rpc::peer::{PeerLimits, PeerServer};
use rpc::simulation::Listener;
use stdx::metrics::Endpoint;
use stdx::{Clock, Executor, Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::lifecycle::{Ending, Lifecycle, RoleCommands, Stage, State};
use super::{DaemonError, Executors, Options};
use crate::door::router::LuxiRouter;
use crate::door::service::LuxiService;
use crate::health::status::MasterView;
use crate::role::follow::Callers;
use crate::role::local_member::{LocalMember, MemberState};
use membership::peers::PeerBook;

/// The inputs for a simulated daemon.
pub(crate) struct Begin {
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
    pub(crate) identity: NodeIdentity,
    pub(crate) membership: Membership,
    /// The listener for other members' requests.
    pub(crate) listener: Listener,
}

/// The daemon as it is seen from outside.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    local: LocalMember,
    router: LuxiRouter,
}

impl Seen {
    /// The view of the master here, where it is one.
    pub(crate) fn master(&self) -> Option<Arc<MasterView>> {
        self.router.master()
    }

    /// The service of the master here, where it is one.
    pub(crate) fn service(&self) -> Option<LuxiService> {
        self.router.service()
    }

    /// Has it take the role, as `gnt cluster master-failover` does.
    pub(crate) async fn fail_over(&self, request: RoleRequest) {
        match self.local.fail_over(request).await {
            Ok(taken) => tracing::info!(done = taken.done, "{}", taken.message),
            Err(error) => tracing::info!(%error, "the role was not taken"),
        }
    }
}

/// A daemon that follows `engine`; it lives as long as what is given back is awaited.
pub(crate) fn live(
    begin: Begin,
    engine: Arc<Engine>,
    news: mpsc::Receiver<Committed>,
) -> (Seen, impl Future<Output = Result<(), DaemonError>>) {
    let Begin { layout, clock, identity, membership, listener } = begin;
    let identity = Arc::new(identity);
    let book = PeerBook::new(Arc::clone(&identity), membership.cluster_uuid);
    let place = (identity.name().clone(), membership.cluster_uuid);
    let (local, commands) = LocalMember::new(place, book, layout.data());
    let metrics = Arc::default();
    let router = LuxiRouter::new(
        local.clone(),
        (layout.clone(), Executor::default()),
        clock.clone(),
        Arc::clone(&metrics),
    );
    let seen = Seen { local: local.clone(), router: router.clone() };
    let ending = Ending {
        asked: CancellationToken::new(),
        broken: CancellationToken::new(),
        luxi: (watch::Sender::new(false), Tasks::new()),
    };
    let callers = Callers::new(layout.clone());
    let options = Options {
        executors: Executors::default(),
        layout,
        durability: Durability::default(),
        segment_bytes: None,
        ganeti_socket: None,
        ganeti_ssconf: None,
        metrics: Endpoint::Nowhere,
        peers: Endpoint::Nowhere,
    };
    let followers = Tasks::new();
    let stage = Stage::Simulation;
    let life = Lifecycle {
        options,
        clock,
        identity,
        membership,
        local,
        commands: RoleCommands::new(commands),
        router,
        callers,
        metrics,
        followers,
        ending,
        stage,
    };
    (seen, follow(life, engine, (news, listener)))
}

async fn follow(
    life: Lifecycle,
    engine: Arc<Engine>,
    (news, listener): (mpsc::Receiver<Committed>, Listener),
) -> Result<(), DaemonError> {
    let follower = life.follower();
    follower.look(&engine.reader()).map_err(crate::role::load::FoundError::Read)?;
    life.followers.spawn("follower", follower.run(Arc::clone(&engine), news));
    life.set_state(MemberState::Standby(Arc::clone(&engine)));
    let (allowed, local) = (life.callers.allowed(), life.local.clone());
    let server =
        PeerServer::start(listener, &life.identity, allowed, local, PeerLimits::default())?;
    let ended = life.live(State::Standby(engine)).await;
    server.stop().await;
    ended
}
