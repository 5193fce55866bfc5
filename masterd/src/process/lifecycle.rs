//! The states of a process, one after the other: outside, standby, master (decision 5, point 8).

mod disposal;
mod leading;
mod standby;
mod uninitialised;

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, EngineOptions};
use model::NodeName;
use model::cluster::Cluster;
use queue_format::store::{AtRest, finish_wipe};
use queue_format::{Epoch, Store, StoreOptions};
use rpc::calls::Membership;
use rpc::identity::{Authority, NodeIdentity};
use rpc::peer::StoreId;
use stdx::{Clock, Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::leadership::{self, Begin, Keys, Leadership, Master};
use super::{DaemonError, Options};
use crate::agents::metrics::Metrics;
use crate::config::queue::Commits;
use crate::door::router::LuxiRouter;
use crate::role::follow::{Callers, Follower};
use crate::role::load::{self, Found, FoundError};
use crate::role::local_member::{LocalMember, MemberState, RoleCommand};
use crate::role::members;
use crate::role::members::disk_space::AskForRoom;
use crate::role::replica_audit::Auditing;
use crate::role::replicate;
use crate::role::replicate::Publisher;

pub(super) use leading::Leading;
pub(super) use standby::newest_role;

/// Everything that outlives a state.
pub(super) struct Lifecycle {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) identity: Arc<NodeIdentity>,
    pub(super) membership: Membership,
    pub(super) local: LocalMember,
    pub(super) commands: RoleCommands,
    pub(super) router: LuxiRouter,
    pub(super) callers: Callers,
    pub(super) metrics: Arc<Metrics>,
    /// The tasks that follow engines, until these close.
    pub(super) followers: Tasks,
    pub(super) ending: Ending,
    pub(super) stage: Stage,
}

/// The environment of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Machine,
    /// In a simulation, which opens its engines, and whose agents have nothing to tell.
    #[cfg(test)]
    Simulation,
}

/// The role commands to a process, one after the other.
pub(super) struct RoleCommands {
    given: mpsc::Receiver<RoleCommand>,
    /// A command for the next state of the process, before all others.
    again: Option<RoleCommand>,
}

impl RoleCommands {
    pub(super) fn new(given: mpsc::Receiver<RoleCommand>) -> Self {
        Self { given, again: None }
    }

    /// The next one; none where nobody can give one any more. May be dropped at any await.
    async fn next(&mut self) -> Option<RoleCommand> {
        match self.again.take() {
            Some(command) => Some(command),
            None => self.given.recv().await,
        }
    }
}

/// The signals that the process is to end.
pub(super) struct Ending {
    /// Told by a signal.
    pub(super) asked: CancellationToken,
    /// Told when a vital part ends by itself.
    pub(super) broken: CancellationToken,
    /// Ends the socket's server, and waits for it.
    pub(super) luxi: (watch::Sender<bool>, Tasks),
}

impl Ending {
    /// Waits until the process is to end.
    pub(super) async fn asked(&self) -> Result<(), DaemonError> {
        tokio::select! {
            biased;
            () = self.asked.cancelled() => Ok(()),
            () = self.broken.cancelled() => Err(DaemonError::PartEnded),
        }
    }
}

pub(super) enum State {
    /// No store: waits to be invited.
    Outside,
    /// Follows.
    Standby(Arc<Engine>),
    Master(Box<Leading>),
}

/// What comes next.
pub(super) enum Next {
    /// Another state.
    Be(State),
    /// The end: asked for, or not.
    End(Result<(), DaemonError>),
}

impl Lifecycle {
    pub(super) fn me(&self) -> &NodeName {
        self.identity.name()
    }

    /// The state that the disk tells of.
    pub(super) async fn first(&self) -> Result<State, DaemonError> {
        let data = self.options.layout.data();
        match AtRest::read(&data)? {
            None => {
                finish_wipe(&data)?;
                Ok(State::Outside)
            }
            Some(AtRest { member: Some(member), .. }) => {
                Ok(State::Standby(self.open_engine(member).await?))
            }
            Some(AtRest { member: None, .. }) => self.lead_alone().await,
        }
    }

    /// Lives from `state` on, until the end.
    pub(super) async fn live(mut self, mut state: State) -> Result<(), DaemonError> {
        loop {
            let next = match state {
                State::Outside => self.outside().await,
                State::Standby(engine) => self.standby(engine).await,
                State::Master(leading) => self.leadership(*leading).await,
            };
            match next {
                Next::Be(next) => state = next,
                Next::End(outcome) => {
                    self.shut_door().await;
                    return outcome;
                }
            }
        }
    }

    /// Ends what was begun, where the process cannot go on.
    pub(super) async fn leave(&self, state: State) {
        let ended = match state {
            State::Outside => return,
            State::Standby(engine) => self.close(&engine, Ok(())).await,
            State::Master(leading) => self.end(*leading, Ok(())).await,
        };
        if let Next::End(Err(error)) = ended {
            tracing::warn!(error = stdx::daemon::chain(&error), "the store did not close well");
        }
    }

    pub(super) fn store_options(&self) -> StoreOptions {
        self.options.store()
    }

    pub(super) fn engine_options(&self, member: u64) -> EngineOptions {
        EngineOptions::new(member, self.me().as_str(), self.store_options())
    }

    pub(super) fn follower(&self) -> Follower {
        Follower { book: self.local.book.clone(), callers: self.callers.clone() }
    }

    /// Opens, or makes, the store of a member, and follows it.
    pub(super) async fn open_engine(&self, member: u64) -> Result<Arc<Engine>, DaemonError> {
        let data = self.options.layout.data();
        let peers = Arc::new(self.local.book.clone());
        let options = self.engine_options(member);
        let open = async move { Engine::open(&data, options, peers).await };
        let (engine, news) = self.options.executors.engine.run(open).await?;
        let engine = Arc::new(engine);
        if let Err(error) = self.owns(&engine) {
            engine.close().await?;
            return Err(error);
        }
        let follower = self.follower();
        stdx::aside(|| follower.look(&engine.reader())).map_err(FoundError::Read)?;
        self.followers.spawn("follower", follower.run(Arc::clone(&engine), news));
        let recovered = engine.recovered();
        tracing::info!(
            member,
            position = recovered.position.index,
            incarnation = %recovered.incarnation,
            "the store of a member is open"
        );
        self.set_state(MemberState::Standby(Arc::clone(&engine)));
        Ok(engine)
    }

    /// Whether the store is this cluster's and this node's, as far as it tells. Certificates may have
    /// been copied from another machine, and then everybody else would seem to be wrong.
    fn owns(&self, engine: &Engine) -> Result<(), DaemonError> {
        // A newly invited member has nothing yet, and damage is told of where the data is needed.
        let Ok(config) = stdx::aside(|| load::config(&engine.reader())) else { return Ok(()) };
        self.belongs(&config.cluster)?;
        let mut owner = config.nodes.by.member.of(engine.member());
        match owner.next().filter(|owner| owner.name != *self.me()) {
            Some(owner) => {
                let (there, here) = (owner.name.clone(), self.me().clone());
                Err(DaemonError::OtherNode { there, here })
            }
            None => Ok(()),
        }
    }

    /// Whether a store of this `cluster` is one of those that the certificates are of.
    fn belongs(&self, cluster: &Cluster) -> Result<(), DaemonError> {
        let here = self.membership.cluster_uuid;
        match cluster.uuid == here.to_string() {
            true => Ok(()),
            false => Err(DaemonError::OtherCluster { there: cluster.uuid.clone(), here }),
        }
    }

    /// Says what this process is from here on.
    pub(super) fn set_state(&self, state: MemberState) {
        let store = match state.engine() {
            Some(engine) => StoreId::new(engine.member(), engine.recovered().incarnation),
            None => StoreId::NONE,
        };
        self.local.set_state(state, store);
    }

    /// The leadership of a master whose store no other node has.
    async fn lead_alone(&self) -> Result<State, DaemonError> {
        let store = open_alone(&self.options)?;
        let found = load::load(&store.reader())?;
        self.belongs(&found.config.cluster)?;
        let (id, _) = super::check_role(&found.config, self.me())?;
        if self.stage == Stage::Machine {
            super::stale_store::has_newest_store(self.asker(), &self.local, &found.config).await?;
        }
        let epoch = Epoch { term: found.config.role.term + 1, node: id };
        let (reader, position) = (store.reader(), store.recovered().position);
        let incarnation = store.recovered().incarnation;
        let start =
            |publisher: Publisher| store.start(epoch, publisher.callbacks()).map(Commits::local);
        let (begin, authority) = self.begin(found, reader, position, epoch)?;
        let master = leadership::take_role(begin, &self.clock, start).await?;
        let (ended, end) = watch::channel(None);
        let alone = replicate::Alone {
            data: self.options.layout.data(),
            executor: self.options.executors.engine.clone(),
            options: EngineOptions { goes_on: Some(epoch), ..self.engine_options(id) },
            peers: Arc::new(self.local.book.clone()),
            follower: self.follower(),
            followers: self.followers.clone(),
            publisher: Publisher::new(Arc::clone(&master.published), Arc::clone(&self.metrics)),
            ended,
            incarnation,
        };
        Ok(State::Master(Box::new(self.enthrone(master, authority, end, Some(alone)))))
    }

    /// Takes no more clients, and answers those who are there.
    async fn shut_door(&self) {
        self.ending.luxi.0.send_replace(true);
        self.ending.luxi.1.join().await;
    }

    /// The inputs for a leadership, and the authority's key.
    pub(super) fn begin(
        &self,
        found: Found,
        reader: queue_format::Reader,
        position: queue_format::Position,
        epoch: Epoch,
    ) -> Result<(Begin, Authority), DaemonError> {
        let layout = &self.options.layout;
        let (authority, adopt) = match load::authority(&reader)? {
            Some(key) => (Authority::with_key(layout, &key)?, None),
            None => {
                let key = Authority::key_file(layout)?.ok_or(DaemonError::NoAuthority)?;
                (Authority::with_key(layout, &key)?, Some(key))
            }
        };
        let (me, metrics) = (self.me().clone(), Arc::clone(&self.metrics));
        Ok((Begin { found, reader, position, me, epoch, metrics, adopt }, authority))
    }

    /// Sets a master with its role to work, and lets clients in.
    pub(super) fn enthrone(
        &self,
        master: Master,
        authority: Authority,
        end: watch::Receiver<Option<engine::End>>,
        alone: Option<replicate::Alone>,
    ) -> Leading {
        let epoch = master.epoch;
        let commits = Arc::clone(&master.commits);
        self.set_state(MemberState::Master { commits: Arc::clone(&commits), epoch });
        let layout = &self.options.layout;
        // The store has it by now.
        if let Err(error) = Authority::remove_key_file(layout) {
            tracing::warn!(error = stdx::daemon::chain(&error), "the authority's old file stays");
        }
        let (identity, membership) = (Arc::clone(&self.identity), self.membership.clone());
        let keys = Keys { identity, membership, authority };
        let mut leadership =
            Leadership::begin(master, layout, keys, (&self.clock, &self.options.executors.engine));
        let (over, broken) = (CancellationToken::new(), &self.ending.broken);
        if self.stage == Stage::Machine {
            leadership.talk_with_agents(broken);
            let (book, published) =
                (self.local.book.clone(), Arc::clone(&leadership.parts.published));
            leadership.reconcile(AskForRoom::new(book, published), broken, &over);
            let audit = Auditing::new(Arc::clone(&leadership.parts.audit));
            leadership.reconcile(audit, broken, &over);
        }
        let keeper = members::Keeper {
            published: Arc::clone(&leadership.parts.published),
            commits: Arc::clone(&leadership.parts.commits),
            writer: leadership.parts.writer.clone(),
            contacts: Arc::clone(&leadership.parts.contacts),
            local: self.local.clone(),
            founding: alone.map(|alone| Arc::new(alone).founding()),
        };
        leadership.reconcile(members::Keeping::new(keeper), broken, &over);
        if let Some(directory) = self.options.ganeti_ssconf.clone() {
            let published = Arc::clone(&leadership.parts.published);
            leadership.accompany(
                ("ssconf", broken),
                crate::agents::ssconf::run(directory, published, over.clone()),
            );
        }
        let (sources, view) = (Arc::clone(&leadership.sources), Arc::clone(&leadership.view));
        self.router.open(sources, view, over.clone());
        tracing::info!(node = %self.me(), term = epoch.term, member = epoch.node, "master serves");
        Leading { leadership, epoch, commits, end, over }
    }
}

/// Opens the store of a master whose store no other node has.
fn open_alone(options: &Options) -> Result<Store, DaemonError> {
    let path = options.layout.data();
    let opened = Store::open(&path, options.store());
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

/// How long a role command of another member may keep the engine busy, in one step.
pub(super) const STEP_MAX: Duration = Duration::from_secs(10);
