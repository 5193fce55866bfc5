//! Keeps every candidate a follower and enough of them voters, one step at a time, by the policy of
//! `membership::pool` (docs/replication.md). Serves replication, below `commits`.
//!
//! A node's document says which member it has before anything is done with that member, so that
//! whoever is master next goes on from there.

mod aside;
pub(crate) mod disk_space;
mod documents;
mod error;
mod member_state;

pub(crate) use member_state::{Awaited, heard, heard_lately};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, MembersChange};
use model::node::{Member, Node};
use model::{Code, Coded};
use queue_format::{Epoch, Health, Position};
use rpc::peer::control::{AskPosition, Join, Purge};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::agents::contacts::Contacts;
use crate::config::Config;
use crate::config::queue::{Commits, OpenEngine, Published, Snapshot, Writer};
use crate::config::reconciler::Reconciler;
use crate::role::local_member::LocalMember;
use error::StepError;
use membership::peers::Instead;
use membership::pool::{Pool, Step, next_seat};

/// How often is looked whether something is to be done; changes of the configuration are met at
/// once.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Pause after a node could not be made what it should be.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How long a member must lack a store before another member takes its place. A disk that is mounted
/// late, or a store that is being reopened, is there by then.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// The parts with which a master changes the set of members.
pub(crate) struct Keeper {
    pub(crate) published: Arc<Published>,
    pub(crate) commits: Arc<Commits>,
    pub(crate) writer: Writer,
    pub(crate) contacts: Arc<Contacts>,
    pub(crate) local: LocalMember,
    /// How replication begins, where nobody follows yet.
    pub(crate) founding: Option<Founding>,
}

/// How the replication of a single-node cluster begins.
pub(crate) struct Founding {
    /// The member that this node becomes.
    pub(crate) member: u64,
    /// Identity of its store.
    pub(crate) incarnation: Uuid,
    pub(crate) open: Box<dyn Fn() -> OpenEngine + Send + Sync>,
}

/// Files of what is committed are tried within a part of this, also where others follow all the time.
const FILES_TRIED_WITHIN: Duration = Duration::from_secs(1);
/// How often is looked whether they are there.
const FILES_LOOK: Duration = Duration::from_millis(20);

/// State kept between two looks.
#[derive(Debug)]
struct Memory {
    begun: Instant,
    news: watch::Receiver<Snapshot>,
    awaited: Awaited,
    /// Nodes with which something failed, and until when nothing is tried with them.
    failed: BTreeMap<u64, Instant>,
    /// Members that say that they have no store, and since when.
    lost: BTreeMap<u64, Instant>,
    /// When nodes whose agents do not answer are tried.
    unreached: BTreeMap<u64, Instant>,
}

impl Memory {
    fn new(news: watch::Receiver<Snapshot>) -> Self {
        let (begun, awaited) = (Instant::now(), Awaited::default());
        let (failed, lost, unreached) = Default::default();
        Self { begun, news, awaited, failed, lost, unreached }
    }
}

/// A keeper at work.
pub(crate) struct Keeping {
    keeper: Keeper,
    memory: Memory,
}

impl Keeping {
    /// `keeper` at work.
    pub(crate) fn new(keeper: Keeper) -> Self {
        let memory = Memory::new(keeper.published.subscribe());
        Self { keeper, memory }
    }
}

impl Reconciler for Keeping {
    const NAME: &'static str = "members";

    async fn reconcile(&mut self) -> Option<Duration> {
        let (keeper, memory) = (&self.keeper, &mut self.memory);
        memory.news.mark_unchanged();
        memory.failed.retain(|_, until| *until > Instant::now());
        keeper.note_silent().await;
        keeper.note_lost(&mut memory.lost);
        match keeper.step(memory).await {
            Some((_, Ok(()))) => return Some(Duration::ZERO),
            Some((node, Err(error))) => {
                let why = stdx::daemon::chain(&error);
                let (node_name, code) = (&node.name, error.code().map(Code::word));
                tracing::warn!(node = %node_name, code, why, "not yet what it should be; tried again");
                memory.failed.insert(node.id, Instant::now() + TRY_AGAIN);
            }
            None => {}
        }
        Some(LOOK_AGAIN)
    }

    async fn woken(&mut self) {
        if self.memory.news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn begin_anew(&mut self) {
        self.memory = Memory::new(self.keeper.published.subscribe());
    }
}

/// How everything stands at the time `now`; what `failed` a moment ago is not reachable.
pub(crate) fn pool(
    (engine, contacts): (Option<&Engine>, &Contacts),
    config: &Config,
    failed: &BTreeSet<u64>,
    (awaited, now): (&mut Awaited, Duration),
) -> Pool {
    let status = engine.map(Engine::status);
    if let Some(status) = &status {
        awaited.look(config, status, now);
    }
    let is_reached = |node: &Node| {
        let contact = contacts.get(&node.name);
        contact.is_some_and(|contact| contact.failure.is_none())
    };
    let of = |node: &Node| {
        let master = config.is_master(node);
        let reached = !failed.contains(&node.id) && is_reached(node);
        member_state::pool_node(node, master, (status.as_ref(), awaited), reached)
    };
    let master = config.nodes.get(&config.role.master).map_or(config.role.node, |node| node.id);
    let size = config.pool_size();
    Pool { nodes: config.nodes.values().map(|node| of(node)).collect(), master, size }
}

/// Whether there was something among the members that no policy means.
enum Unsettled {
    Was,
    Nothing,
}

/// The node of an attempt, and its outcome.
type Made = Option<(Arc<Node>, Result<(), StepError>)>;

impl Keeper {
    fn config(&self) -> Arc<Config> {
        self.published.snapshot().config
    }

    fn epoch(&self) -> Epoch {
        let role = &self.config().role;
        Epoch { term: role.term, node: role.node }
    }

    /// Tries what is due, if anything is.
    async fn step(&self, memory: &mut Memory) -> Made {
        let config = self.config();
        let waiting: BTreeSet<u64> = memory.failed.keys().copied().collect();
        let engine = self.commits.engine();
        let awaited = (&mut memory.awaited, memory.begun.elapsed());
        let pool = pool((engine.as_deref(), &self.contacts), &config, &waiting, awaited);
        // A voter without a node comes before all: each one that is lowered meanwhile makes it more
        // likely that its vote is needed, which nobody will ever hear.
        if matches!(self.settle(&config).await, Unsettled::Was) {
            return None;
        }
        let long = memory.lost.iter().filter(|(_, since)| since.elapsed() >= LOST_AFTER);
        let long: BTreeSet<u64> = long.map(|(member, _)| *member).collect();
        // A step that failed a moment ago keeps no other step waiting.
        let step = next_seat(&pool).filter(|step| !waiting.contains(&step.node()));
        match (member_state::to_be_replaced(&config, &pool, &long, &waiting), step) {
            (Some(node), _) => Some((Arc::clone(node), self.give_up(node).await)),
            (None, Some(step)) => self.make(&config, step).await,
            (None, None) => match self.wipe_next(&config, &waiting).await {
                None => self.try_unreached(&config, &pool, &mut memory.unreached).await,
                made => made,
            },
        }
    }

    async fn make(&self, config: &Config, step: Step) -> Made {
        let node = config.nodes.by.id.of(step.node()).next()?;
        let made = match step {
            // Roles change by jobs.
            Step::Promote(_) | Step::Demote(_) => return None,
            Step::Admit(_) => self.admit(node).await,
            Step::MakeVoter(_) => self.set_vote(node, true).await,
            Step::MakeLearner(_) => self.set_vote(node, false).await,
            Step::Dismiss(_) => self.dismiss(node).await,
        };
        if made.is_ok() {
            tracing::info!(node = %node.name, ?step, "members are changed");
        }
        Some((Arc::clone(node), made))
    }

    /// Records up to where members hold the log that have fallen silent: who of them comes back with
    /// less has an older disk. Once for each time.
    async fn note_silent(&self) {
        let Some(engine) = self.commits.engine() else { return };
        let status = engine.status();
        if status.takes_proposals().is_none() {
            return;
        }
        for (name, at) in
            member_state::silent(&self.config(), &status, |id| self.local.book.acknowledged(id))
        {
            let noted = self.edit(name.clone(), move |node| {
                if let Some(member) = &mut node.member {
                    member.acknowledged = Some(at);
                }
            });
            match noted.await {
                Ok(()) => {
                    tracing::info!(node = %name, index = at.index, "is silent; what it holds is noted");
                }
                Err(error) => {
                    tracing::warn!(node = %name, %error, "what a silent member holds is not noted");
                }
            }
        }
    }

    /// Notes since when members have had no store, by their own words.
    fn note_lost(&self, lost: &mut BTreeMap<u64, Instant>) {
        let strays = self.local.book.strays();
        let has_none =
            |id: &u64| strays.get(id).is_some_and(|stray| stray.has == Instead::NotItsStore);
        lost.retain(|id, _| has_none(id));
        for id in strays.keys().filter(|id| has_none(id)) {
            lost.entry(*id).or_insert_with(Instant::now);
        }
    }

    /// Gives up a member whose store is lost. Its node is a candidate without a member then, and is
    /// invited as another one.
    async fn give_up(&self, node: &Node) -> Result<(), StepError> {
        let Some(member) = &node.member else { return Ok(()) };
        let found = self.local.book.control(node)?.call(&AskPosition {}).await?;
        if found.member == Some(member.id) && found.incarnation == member.incarnation {
            return Err(StepError::NotLost);
        }
        tracing::warn!(node = %node.name, member = member.id, "its store is lost: another one takes its place");
        self.forget(&node.name, member.id).await
    }

    /// Has a node follow that does not.
    async fn admit(&self, node: &Node) -> Result<(), StepError> {
        self.go_over().await?;
        let epoch = self.epoch();
        let mut peer = self.local.book.control(node)?;
        let position = peer.call(&AskPosition {}).await?;
        let member = match &node.member {
            // A lost store means lost promises, so the node becomes a new member.
            Some(member) if member.incarnation.is_none() || position.member.is_some() => *member,
            Some(_) | None => self.allot(&node.name).await?,
        };
        // A store that was made for this id by an invitation whose answer was lost is empty.
        let is_used = member.incarnation.is_none() && position.last != Position::default();
        if let Some(other) = position.member.filter(|other| *other != member.id || is_used) {
            // The node missed its dismissal, or its history was cut, or an older copy of the
            // configuration gave its id. The old store is kept aside for people to look at.
            let aside = Some(aside::reason(&self.config().cluster, &node.name, other, member.id));
            peer.call(&Purge { epoch, member: other, aside, all: false }).await?;
        }
        let joined = peer.call(&Join { epoch, member: member.id }).await?;
        match member.incarnation {
            None => self.record(&node.name, member.id, joined.incarnation).await?,
            Some(recorded) if recorded != joined.incarnation => {
                // The other store has none of that member's promises, so the node becomes a new member.
                self.forget(&node.name, member.id).await?;
                return Err(StepError::OtherStore { found: joined.incarnation, recorded });
            }
            Some(_) => {}
        }
        let node = node.name.to_string();
        self.change(MembersChange::AddLearner { member: member.id, node }).await
    }

    /// Invites who is to follow and whose agent does not answer: `masterd` alone is asked. It may be one
    /// that still takes itself for the master, whose agent would have told it otherwise.
    /// `due` says when each is tried.
    async fn try_unreached(
        &self,
        config: &Config,
        pool: &Pool,
        due: &mut BTreeMap<u64, Instant>,
    ) -> Made {
        // A master that is alone goes over for nobody who may not be there.
        self.commits.engine()?;
        let nodes = member_state::unreached(pool);
        due.retain(|node, _| nodes.contains(node));
        let now = Instant::now();
        for node in nodes {
            due.entry(node).or_insert(now + TRY_AGAIN);
        }
        let (node, at) = due.iter_mut().find(|(_, at)| **at <= now)?;
        *at = now + TRY_AGAIN;
        // A failure here does not delay nodes that answer in the next moment.
        match self.make(config, Step::Admit(*node)).await {
            Some((node, Err(error))) => {
                tracing::debug!(node = %node.name, %error, "not invited; its agent does not answer either");
                None
            }
            made => made,
        }
    }

    /// Makes a learner vote, or a voter not.
    async fn set_vote(&self, node: &Node, votes: bool) -> Result<(), StepError> {
        let engine = self.commits.engine().ok_or(StepError::NoEngine)?;
        let mut voters = engine.status().members.voters;
        for member in node.member.iter() {
            if votes {
                voters.insert(member.id);
            } else {
                voters.remove(&member.id);
            }
        }
        self.change(MembersChange::SetVoters(voters)).await
    }

    /// Has a node follow no longer; [`Self::wipe_next`] wipes what it holds.
    async fn dismiss(&self, node: &Node) -> Result<(), StepError> {
        match &node.member {
            Some(member) => self.change(MembersChange::RemoveLearner(member.id)).await,
            None => Ok(()),
        }
    }

    async fn change(&self, change: MembersChange) -> Result<(), StepError> {
        let engine = self.commits.engine().ok_or(StepError::NoEngine)?;
        if let MembersChange::SetVoters(voters) = &change {
            member_state::can_become(engine.member(), &engine.status(), voters)?;
        }
        Ok(engine.change_members(change).await?)
    }

    /// Ends a change of voters that was begun before. Then takes off the list the member of a node that
    /// was removed or added again: no document names that member.
    async fn settle(&self, config: &Config) -> Unsettled {
        let Some(engine) = self.commits.engine() else { return Unsettled::Nothing };
        let status = engine.status();
        if let Some(voters) = status.members.unsettled(engine.member()) {
            match self.change(MembersChange::SetVoters(voters.clone())).await {
                Ok(()) => tracing::info!(?voters, "a change of voters that was begun has ended"),
                Err(error) => {
                    tracing::warn!(%error, ?voters, "a change of voters that was begun does not end yet");
                }
            }
            return Unsettled::Was;
        }
        let Some(gone) = member_state::without_node(config, &status.members) else {
            return Unsettled::Nothing;
        };
        let change = match status.members.voters.contains(&gone) {
            true => {
                let mut voters = status.members.voters.clone();
                voters.remove(&gone);
                MembersChange::SetVoters(voters)
            }
            false => MembersChange::RemoveLearner(gone),
        };
        if let Err(error) = self.change(change).await {
            tracing::warn!(%error, member = gone, "the member of a removed node stays");
        }
        Unsettled::Was
    }

    /// Has one store wiped that nobody needs.
    async fn wipe_next(&self, config: &Config, waiting: &BTreeSet<u64>) -> Made {
        let status = self.commits.engine()?.status();
        let node = config.nodes.values().find(|node| {
            member_state::is_to_be_wiped(node, &status.members) && !waiting.contains(&node.id)
        })?;
        Some((Arc::clone(node), self.wipe(node).await))
    }

    async fn wipe(&self, node: &Node) -> Result<(), StepError> {
        let Some(member) = &node.member else { return Ok(()) };
        let (epoch, mut peer) = (self.epoch(), self.local.book.control(node)?);
        let found = peer.call(&AskPosition {}).await?;
        let is_another = member.incarnation.is_some() && found.incarnation != member.incarnation;
        let purge = match found.member.filter(|other| *other != member.id || is_another) {
            Some(other) => {
                let cluster = &self.config().cluster;
                let aside = Some(aside::reason(cluster, &node.name, other, member.id));
                Purge { epoch, member: other, aside, all: false }
            }
            None => Purge { epoch, member: member.id, aside: None, all: false },
        };
        peer.call(&purge).await?;
        self.forget(&node.name, member.id).await?;
        tracing::info!(node = %node.name, member = member.id, "its store is wiped");
        Ok(())
    }

    /// Has what is committed replicated, where this master is alone.
    async fn go_over(&self) -> Result<(), StepError> {
        if self.commits.engine().is_some() {
            return Ok(());
        }
        let founding = self.founding.as_ref().ok_or(StepError::NoEngine)?;
        self.has_room()?;
        let (me, incarnation) = (self.local.node.clone(), founding.incarnation);
        let own = founding.member;
        self.edit(me, move |node| {
            node.member =
                Some(Member { id: own, incarnation: Some(incarnation), acknowledged: None });
        })
        .await?;
        self.files_are_tried().await?;
        self.writer.go_over((founding.open)()).await?;
        self.local.book.set_here(rpc::peer::StoreId::new(own, incarnation));
        Ok(())
    }

    /// Fails where the disk is full: a step that waits for room would have to be given up.
    fn has_room(&self) -> Result<(), StepError> {
        match self.commits.health() {
            Health::DiskFull { path, reason, .. } => Err(StepError::DiskFull { path, reason }),
            Health::Good | Health::Failed { .. } => Ok(()),
        }
    }

    /// Waits until files were written of what was committed last, or were to be: whether there is room
    /// for any shows with that alone.
    async fn files_are_tried(&self) -> Result<(), StepError> {
        let begun = Instant::now();
        while self.commits.backlog().file_lag_keys > 0 && begun.elapsed() < FILES_TRIED_WITHIN {
            self.has_room()?;
            tokio::time::sleep(FILES_LOOK).await;
        }
        self.has_room()
    }
}
