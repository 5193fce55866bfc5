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

use super::door::Door;
use super::follow::Callers;
use super::life::{Ending, Errands, Life, Stage, State};
use super::{DaemonError, Executors, Options};
use crate::house::{House, Seat};
use crate::luxi_service::LuxiService;
use crate::peers::PeerBook;
use crate::status::MasterView;

/// What a simulated daemon begins with.
pub(crate) struct Begin {
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
    pub(crate) identity: NodeIdentity,
    pub(crate) membership: Membership,
    /// Where other members ask.
    pub(crate) listener: Listener,
}

/// What is seen of it from outside.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    house: House,
    door: Door,
}

impl Seen {
    /// What the master here knows, where it is one.
    pub(crate) fn master(&self) -> Option<Arc<MasterView>> {
        self.door.master()
    }

    /// What answers for the master here, where it is one.
    pub(crate) fn service(&self) -> Option<LuxiService> {
        self.door.service()
    }

    /// Has it take the role, as `gnt cluster master-failover` does.
    pub(crate) async fn fail_over(&self, request: RoleRequest) {
        match self.house.fail_over(request).await {
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
    let (house, errands) = House::new(place, book, layout.data());
    let metrics = Arc::default();
    let door = Door::new(
        house.clone(),
        (layout.clone(), Executor::default()),
        clock.clone(),
        Arc::clone(&metrics),
    );
    let seen = Seen { house: house.clone(), door: door.clone() };
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
    let life = Life {
        options,
        clock,
        identity,
        membership,
        house,
        errands: Errands::new(errands),
        door,
        callers,
        metrics,
        followers,
        ending,
        stage,
    };
    (seen, follow(life, engine, (news, listener)))
}

async fn follow(
    life: Life,
    engine: Arc<Engine>,
    (news, listener): (mpsc::Receiver<Committed>, Listener),
) -> Result<(), DaemonError> {
    let follower = life.follower();
    follower.look(&engine.reader()).map_err(super::load::FoundError::Read)?;
    life.followers.spawn("follower", follower.run(Arc::clone(&engine), news));
    life.sit(Seat::Standby(Arc::clone(&engine)));
    let (allowed, house) = (life.callers.allowed(), life.house.clone());
    let server =
        PeerServer::start(listener, &life.identity, allowed, house, PeerLimits::default())?;
    let ended = life.live(State::Standby(engine)).await;
    server.stop().await;
    ended
}
