//! The constant part of a process over its leaderships: its node, the door for other members, and its
//! present state (decision 5, points 4, 5 and 8). Serves replication, below `commits`.
//!
//! Role commands change the state: the life of the daemon runs them one after the other. Questions that
//! change nothing are answered here.

pub(crate) mod digest;
mod peer_checks;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use engine::{AnswerError, Engine, EngineStatus};
use model::NodeName;
use model::role_check::{RoleRequest, RoleTaken};
use parking_lot::RwLock;
use queue_format::{Epoch, FileError, Health, Key, Position};
use rpc::peer::control::{
    AskDigest, AskPosition, Join, Joined, LeadAndHandOver, PeerDigest, PeerLastJob, PeerPosition,
    PeerRole, PeerState, Purge, TakeOver,
};
use rpc::peer::{
    ControlService, EngineService, Gate, Hello, Here, PeerFailure, PeerRefusal, Purpose,
    RefusalReason, StoreId,
};
use serde::de::DeserializeOwned;
use stdx::file_system::Space;
use stdx::net::Listening;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::config::queue::Commits;
use membership::peers::PeerBook;

/// Role commands that wait: each comes from an operator or a master that waits for its end.
const ERRANDS_PENDING_MAX: usize = 16;

/// The state of a process.
#[derive(Debug, Clone)]
pub enum MemberState {
    /// No store: waits to be invited.
    Outside,
    /// Follows.
    Standby(Arc<Engine>),
    /// Master, on its own disk or as the leader of an engine.
    Master {
        commits: Arc<Commits>,
        /// Its leadership.
        epoch: Epoch,
    },
}

impl MemberState {
    /// The engine, where there is one.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        match self {
            Self::Outside => None,
            Self::Standby(engine) => Some(Arc::clone(engine)),
            Self::Master { commits, .. } => commits.engine(),
        }
    }
}

/// How a role command ended.
pub type Reply<T> = oneshot::Sender<Result<T, String>>;

/// The fate of a store that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreDisposal {
    /// It is kept aside, for this reason.
    Aside(String),
    Wiped,
    /// It is wiped, with what was kept aside before.
    WipedWithAside,
}

impl From<&Purge> for StoreDisposal {
    fn from(call: &Purge) -> Self {
        match (&call.aside, call.all) {
            (Some(reason), _) => Self::Aside(reason.clone()),
            (None, false) => Self::Wiped,
            (None, true) => Self::WipedWithAside,
        }
    }
}

/// A command that may change the state.
#[derive(Debug)]
pub enum RoleCommand {
    /// Become this member, if this is none yet.
    Join {
        /// The id.
        member: u64,
        /// The epoch of the master that asks.
        epoch: Epoch,
        /// Gets the incarnation of the store.
        outcome: Reply<Uuid>,
    },
    /// Wipe the store of this member.
    Purge {
        /// The id.
        member: u64,
        /// The epoch of the master that asks.
        epoch: Epoch,
        /// The fate of its store.
        disposal: StoreDisposal,
        /// Told when it is gone.
        outcome: Reply<()>,
    },
    /// Have this member lead.
    HandOver {
        /// The id.
        to: u64,
        /// The newest epoch of which the one that asks knew.
        epoch: Epoch,
        /// How long opcodes may go on.
        drain: Duration,
        /// Told when it leads.
        outcome: Reply<()>,
    },
    /// Take the master role.
    TakeOver {
        /// The operator's request.
        request: RoleRequest,
        /// Told what came of it.
        outcome: Reply<RoleTaken>,
    },
}

/// A node's process; clones share it.
#[derive(Debug, Clone)]
pub struct LocalMember {
    pub node: NodeName,
    pub cluster_uuid: Uuid,
    /// The other members.
    pub book: PeerBook,
    data: PathBuf,
    state: Arc<RwLock<MemberState>>,
    commands: mpsc::Sender<RoleCommand>,
    /// Why this store is none to vote with, once somebody told.
    reverted: Arc<RwLock<Option<String>>>,
    /// The address for other members' requests, once that is known; none for nowhere.
    listens: Arc<OnceLock<Option<Listening>>>,
}

impl LocalMember {
    /// One without a store yet, with the role commands that it will be given.
    pub fn new(
        (node, cluster_uuid): (NodeName, Uuid),
        book: PeerBook,
        data: PathBuf,
    ) -> (Self, mpsc::Receiver<RoleCommand>) {
        let (commands, receiver) = mpsc::channel(ERRANDS_PENDING_MAX);
        let state = Arc::new(RwLock::new(MemberState::Outside));
        let (reverted, listens) = (Arc::default(), Arc::default());
        (Self { node, cluster_uuid, book, data, state, commands, reverted, listens }, receiver)
    }

    /// Notes where other members may ask, which stays so while the process lives.
    pub fn set_listens(&self, listens: Option<Listening>) {
        self.listens.get_or_init(|| listens);
    }

    /// The address for other members' requests, once that is known; none for nowhere.
    pub fn listens(&self) -> Option<Option<Listening>> {
        self.listens.get().copied()
    }

    pub fn state(&self) -> MemberState {
        self.state.read().clone()
    }

    /// Makes it something else, with this store.
    pub fn set_state(&self, state: MemberState, here: StoreId) {
        if self.book.here() != here {
            // A word on the store before says nothing about this one.
            *self.reverted.write() = None;
        }
        self.book.set_here(here);
        *self.state.write() = state;
    }

    /// Why this store is none to vote with, once somebody told.
    pub fn reverted(&self) -> Option<String> {
        self.reverted.read().clone()
    }

    /// Remembers that this store is an older copy, if that is why somebody was refused.
    fn learn(&self, refusal: &PeerRefusal) {
        if matches!(refusal.reason, RefusalReason::Reverted { .. }) {
            let known = self.reverted.write().replace(refusal.message.clone());
            if known.is_none() {
                tracing::error!(why = refusal.message, "votes no more");
            }
        }
    }

    /// Forgets that, if the leader says otherwise, who was elected without this one's vote: somebody's
    /// configuration was wrong.
    fn unlearn(&self, member: u64) {
        if self.reverted.read().is_none() {
            return;
        }
        let status = self.state().engine().map(|engine| engine.status());
        if status.is_some_and(|status| status.elected && status.vote.node == member) {
            tracing::warn!(member, "votes again: the leader knows of nothing that is missing here");
            *self.reverted.write() = None;
        }
    }

    async fn run<T>(&self, make: impl FnOnce(Reply<T>) -> RoleCommand) -> Result<T, PeerFailure> {
        let (outcome, done) = oneshot::channel();
        let ending = |_| PeerFailure::not_now("this masterd is ending");
        self.commands
            .send(make(outcome))
            .await
            .map_err(|_closed| PeerFailure::not_now("this masterd is ending"))?;
        done.await.map_err(ending)?.map_err(PeerFailure::failed)
    }

    /// Has this node take the master role.
    ///
    /// # Errors
    /// This process is ending.
    pub async fn fail_over(&self, request: RoleRequest) -> Result<RoleTaken, PeerFailure> {
        self.run(|outcome| RoleCommand::TakeOver { request, outcome }).await
    }

    fn here(&self) -> Here {
        let state = self.state();
        let last = match (&state, state.engine()) {
            (_, Some(engine)) => engine.last(),
            (MemberState::Master { commits, .. }, None) => commits.position(),
            (MemberState::Outside | MemberState::Standby(_), None) => Position::default(),
        };
        Here { cluster_uuid: self.cluster_uuid, store: self.book.here(), last }
    }

    /// The room of the file system with the store; none where that cannot be told.
    pub fn space(&self) -> Option<Space> {
        stdx::file_system::space(&self.data).ok()
    }

    fn disk_free_mib(&self) -> u64 {
        // Unknown free space counts as none.
        self.space().map_or(0, |space| space.free_mib)
    }

    fn outside(&self) -> PeerPosition {
        let store = self.book.here();
        PeerPosition {
            member: store.member,
            incarnation: store.incarnation,
            node: self.node.clone(),
            last: Default::default(),
            committed: Default::default(),
            epoch: Epoch::default(),
            leader: None,
            voters: Vec::new(),
            changing: Vec::new(),
            learners: Vec::new(),
            role: None,
            leads: false,
            disk_full: false,
            state: PeerState::Outside,
            disk_free_mib: self.disk_free_mib(),
            last_job: None,
        }
    }

    /// The position of this member, for others that ask for it.
    pub async fn stand(&self) -> PeerPosition {
        let state = self.state();
        // Before the rest, so that the entry is within the log that is told.
        let reading = state.clone();
        let read = move || (newest_role(&reading), reading.engine().and_then(|e| last_job(&e)));
        let (role, last_job) = match stdx::apart(read).await {
            Ok(read) => read,
            Err(ended) => (Err(ended.to_string()), None),
        };
        let stands = match &state {
            MemberState::Outside => self.outside(),
            MemberState::Standby(engine) => self.replica(engine, PeerState::Standby),
            MemberState::Master { commits, epoch } => match commits.engine() {
                Some(engine) => self.replica(&engine, PeerState::Master),
                None => PeerPosition {
                    last: commits.position(),
                    committed: commits.position(),
                    epoch: *epoch,
                    leader: Some(*epoch),
                    voters: vec![epoch.node],
                    leads: true,
                    disk_full: matches!(commits.health(), Health::DiskFull { .. }),
                    state: peer_checks::state(&commits.health(), PeerState::Master),
                    ..self.outside()
                },
            },
        };
        match (role, self.reverted()) {
            (_, Some(why)) => PeerPosition { state: PeerState::Damaged { why }, ..stands },
            (Ok(role), None) => PeerPosition { role, last_job, ..stands },
            (Err(why), None) => PeerPosition { state: PeerState::Damaged { why }, ..stands },
        }
    }

    fn replica(&self, engine: &Engine, state: PeerState) -> PeerPosition {
        let health = engine.health();
        PeerPosition {
            disk_full: matches!(health, Health::DiskFull { .. }),
            ..self.status(&engine.status(), peer_checks::state(&health, state))
        }
    }

    fn status(&self, status: &EngineStatus, state: PeerState) -> PeerPosition {
        let list = |voters: &BTreeSet<u64>| voters.iter().copied().collect();
        PeerPosition {
            last: status.last,
            committed: status.applied,
            epoch: status.vote,
            leader: status.elected.then_some(status.vote),
            voters: status.members.voters.iter().copied().collect(),
            changing: status.members.changing.iter().flatten().map(list).collect(),
            learners: status.members.learners().collect(),
            leads: status.leads.is_some(),
            state,
            ..self.outside()
        }
    }
}

/// The newest role entry of the store, committed or not. Reads a file where the log has none.
fn newest_role(state: &MemberState) -> Result<Option<PeerRole>, String> {
    let name = model::document::ROLE;
    let role = match (state, state.engine()) {
        (_, Some(engine)) => newest(&engine, name)?,
        (MemberState::Master { commits, .. }, None) => {
            read(name, |key| commits.reader().read(key))?
        }
        (MemberState::Outside | MemberState::Standby(_), None) => None,
    };
    Ok(role.map(peer_checks::role))
}

/// The last job id that was given, by the files of a member; none where they do not tell.
fn last_job(engine: &Engine) -> Option<PeerLastJob> {
    let from = engine.position().index;
    let id = jobs::load::serial(&engine.reader()).ok()?;
    Some(PeerLastJob { id, from, upto: engine.last().index })
}

/// The document `name` as the log has it, committed or not. Reads a file where the log has none.
///
/// # Errors
/// It cannot be read.
pub(crate) fn newest<T: DeserializeOwned>(
    engine: &Engine,
    name: &str,
) -> Result<Option<T>, String> {
    read(name, |key| engine.newest(key))
}

fn read<T: DeserializeOwned>(
    name: &str,
    read: impl FnOnce(&Key) -> Result<Option<Bytes>, FileError>,
) -> Result<Option<T>, String> {
    let key = Key::parse(name).expect("the name of a document is a key");
    let content = read(&key).map_err(|error| stdx::daemon::chain(&error))?;
    content.map(|content| peer_checks::document(name, &content)).transpose()
}

impl Gate for LocalMember {
    fn admit(&self, hello: &Hello) -> Result<(), PeerRefusal> {
        hello.check(&self.here()).inspect_err(|refusal| self.learn(refusal))?;
        let (Purpose::Engine, Some(member)) = (hello.purpose, hello.from.store.member) else {
            return Ok(());
        };
        self.unlearn(member);
        match self.book.place(member) {
            // A newly invited member knows nobody yet; the allow-list knows who asks.
            None if self.book.is_empty() => Ok(()),
            // It was away when this one came, and who leads now may be the only one who can say so.
            None if self.book.is_newer(member) => Ok(()),
            Some(place) if place.target.name == hello.from.node => {
                if place.store.means(&hello.from.store) {
                    return Ok(());
                }
                let message = format!(
                    "{} has {}, and {} was invited: it lost its store, and becomes another member",
                    hello.from.node, hello.from.store, place.store
                );
                Err(PeerRefusal::new(RefusalReason::Stranger, message))
            }
            _ => {
                let node = &hello.from.node;
                let message = format!("member {member} does not live on {node}, as is known here");
                Err(PeerRefusal::new(RefusalReason::Stranger, message))
            }
        }
    }
}

impl EngineService for LocalMember {
    async fn answer(&self, from: &Hello, kind: u8, body: Bytes) -> Result<Bytes, PeerFailure> {
        let (Some(engine), Some(member)) = (self.state().engine(), from.from.store.member) else {
            return Err(PeerFailure::not_now("there is no engine here at this moment"));
        };
        engine.answer(member, kind, body).await.map_err(|error| match error {
            AnswerError::Malformed { .. }
            | AnswerError::OutOfTurn
            | AnswerError::TooLarge { .. }
            | AnswerError::NoRoom { .. }
            | AnswerError::Store { .. } => PeerFailure::failed(error.to_string()),
            AnswerError::Stopped { .. } => PeerFailure::not_now(error.to_string()),
        })
    }
}

impl ControlService for LocalMember {
    async fn position(&self, _from: &Hello, _: AskPosition) -> Result<PeerPosition, PeerFailure> {
        let engine = self.state().engine();
        let stands = self.stand().await;
        // Its store is none to be put aside: it is opened anew, or the process ends, within moments.
        match engine.and_then(|engine| engine.status().stopped) {
            Some(why) => Err(PeerFailure::not_now(format!(
                "its replication engine has stopped ({why}): it begins anew, or ends"
            ))),
            None => Ok(stands),
        }
    }

    async fn join(&self, _from: &Hello, call: Join) -> Result<Joined, PeerFailure> {
        peer_checks::heed(call.epoch, &self.stand().await)?;
        let Join { epoch, member } = call;
        let make = |outcome| RoleCommand::Join { member, epoch, outcome };
        Ok(Joined { incarnation: self.run(make).await? })
    }

    async fn purge(&self, _from: &Hello, call: Purge) -> Result<(), PeerFailure> {
        peer_checks::heed(call.epoch, &self.stand().await)?;
        peer_checks::may_purge(call.member, self.book.here())?;
        let disposal = StoreDisposal::from(&call);
        let Purge { epoch, member, .. } = call;
        self.run(|outcome| RoleCommand::Purge { member, epoch, disposal, outcome }).await
    }

    async fn lead_and_hand_over(
        &self,
        _from: &Hello,
        call: LeadAndHandOver,
    ) -> Result<(), PeerFailure> {
        peer_checks::heed(call.epoch, &self.stand().await)?;
        let drain = Duration::from_secs(u64::from(call.drain_seconds));
        let LeadAndHandOver { to, epoch, .. } = call;
        self.run(|outcome| RoleCommand::HandOver { to, epoch, drain, outcome }).await
    }

    async fn take_over(&self, _from: &Hello, call: TakeOver) -> Result<RoleTaken, PeerFailure> {
        self.fail_over(call.request).await
    }

    async fn digest(&self, _from: &Hello, call: AskDigest) -> Result<PeerDigest, PeerFailure> {
        let engine = self.state().engine();
        let engine = engine.ok_or_else(|| PeerFailure::not_now("there is no replica here"))?;
        digest::digest(&engine, call).await
    }
}

#[cfg(test)]
mod tests;
