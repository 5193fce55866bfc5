//! One member of the cluster, as its owner sees it.

mod answer;
mod lead;
mod members;
mod status;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::{BasicNode, Config, LogIdOptionExt, Raft, SnapshotPolicy};
use parking_lot::Mutex;
use queue_format::{
    Backlog, Batch, Callbacks, CloseError, Epoch, FatalError, FileError, Fill, Frozen, FrozenError,
    Group, Key, Position, Reader, Recorder, Recovered, RecoveredLog, Refusal, ReplicatedStore,
    StartError, StoreOptions,
};
use stdx::Tasks;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::error::{OpenError, ProposeError};
use crate::log::{Kept, Log, Memory, Tag, kept, report_durable};
use crate::network::Network;
use crate::peers::Peers;
use crate::state::StateMachine;
use crate::state::changed_keys::{Notes, Noting};
use crate::types::{
    LeaderId, Membership, Proposal, StoredMembership, TypeConfig, Vote, log_id, members_from_text,
    vote_from_text, vote_to_text,
};

pub use answer::AnswerError;
pub use members::{Members, MembersChange, MembersError};
pub use status::{EngineStatus, Follower};

/// Committed batches that the owner may be behind: it applies them to memory, which is quick; when
/// it is slow, so is everyone who proposes.
const COMMITTED_PENDING_MAX: usize = 1024;

/// A leader that hears no majority for this long refuses to append; also how long its members
/// keep others from being elected. It is the T of the rules about being cut off.
pub const LEASE_MS: u64 = 1000;

const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// Time between heartbeats: several within a lease.
const HEARTBEAT_MS: u64 = 200;

/// Pause between two cuts of a log: in it comes a part of what may come between them.
const SHORTEN_AGAIN: Duration = Duration::from_millis(100);

/// How a member is run.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Id of this member. It belongs to this store: after a wipe it is never used again.
    pub member: u64,
    /// Name of its node, by which the others find it.
    pub node: String,
    /// How the store is kept.
    pub store: StoreOptions,
    /// The part of the log that stays in memory. A member that lacks more gets a snapshot.
    pub kept: Kept,
    /// The epoch in which this process has led the store alone up to this moment, as its only
    /// voter: it goes on leading in it. None for every start of a process, which never leads
    /// without having been elected.
    pub goes_on: Option<Epoch>,
}

impl EngineOptions {
    /// The usual ones.
    pub fn new(member: u64, node: &str, store: StoreOptions) -> Self {
        let node = node.to_owned();
        Self { member, node, store, kept: Kept::default(), goes_on: None }
    }
}

/// Called when the store fails, instead of an abort.
pub type OnFatal = Box<dyn Fn(&FatalError) + Send + Sync>;

/// A batch that is committed and applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the log.
    pub position: Position,
    /// What it changed.
    pub batch: Batch,
}

/// One member: its log, its state, and its part in the elections.
#[derive(Debug)]
pub struct Engine {
    raft: Raft<TypeConfig, StateMachine>,
    recorder: Arc<Recorder<Tag>>,
    log: Log,
    recovered: Recovered,
    member: u64,
    node: String,
    /// One at a time: what is proposed next may depend on it, and moves are resolved against what
    /// is applied.
    proposing: tokio::sync::Mutex<()>,
    /// A snapshot that is being received.
    receiving: Mutex<Option<answer::Receiving>>,
    /// When a leader was heard last.
    heard: Mutex<Option<Instant>>,
    /// Until when nobody else is elected by this voter: it may have kept to a leader, a moment before
    /// it was started anew.
    obeys_until: Option<Instant>,
    /// Notes of changes, where somebody asked for them.
    notes: Notes,
    /// Bytes that may be in the log and not applied.
    tail_bytes_max: usize,
    /// Write what this member appends as a leader, and keep its log short.
    tasks: Tasks,
}

impl Engine {
    /// Opens the store in `data_dir` and joins in, as a follower. The second value is the stream of
    /// everything that is committed from now on; it must be listened to.
    ///
    /// A store that a single master wrote becomes one of a lone voter: this member.
    ///
    /// # Errors
    /// The store or the engine cannot be started.
    pub async fn open(
        data_dir: &Path,
        options: EngineOptions,
        peers: Arc<dyn Peers>,
    ) -> Result<(Self, mpsc::Receiver<Committed>), OpenError> {
        Self::open_or(data_dir, options, peers, None).await
    }

    /// As [`Engine::open`], with something else than an abort when the store fails.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub async fn open_or(
        data_dir: &Path,
        options: EngineOptions,
        peers: Arc<dyn Peers>,
        on_fatal: Option<OnFatal>,
    ) -> Result<(Self, mpsc::Receiver<Committed>), OpenError> {
        let store = ReplicatedStore::open(data_dir, options.store.clone(), options.member)?;
        let start = move |store: ReplicatedStore, callbacks: Callbacks<Tag>| {
            store.start(match on_fatal {
                Some(on_fatal) => callbacks.on_fatal(on_fatal),
                None => callbacks,
            })
        };
        Self::join_in(store, options, peers, start).await
    }

    /// Joins in with a store that `start` starts.
    pub(crate) async fn join_in(
        store: ReplicatedStore,
        options: EngineOptions,
        peers: Arc<dyn Peers>,
        start: impl FnOnce(ReplicatedStore, Callbacks<Tag>) -> Result<Recorder<Tag>, StartError>,
    ) -> Result<(Self, mpsc::Receiver<Committed>), OpenError> {
        let EngineOptions { member, node, store: journal, kept, goes_on } = options;
        let kept = kept.within(&journal);
        let recovered = store.recovered().clone();
        let mut found = store.log();
        let members = remembered(&mut found, member, &node, goes_on)?;
        let vote = found.vote.as_deref().map(vote_from_text).transpose();
        let vote = vote.map_err(|error| OpenError::Remembered(io::Error::other(error)))?;
        let memory = Memory::recover(&found).map_err(OpenError::Remembered)?;

        let (tell_durable, durable) = watch::channel(0);
        let callbacks = Callbacks::new(move |tags, _position| report_durable(tags, &tell_durable));
        let recorder = Arc::new(start(store, callbacks)?);
        let log = Log::new((member, kept), recorder.clone(), memory, durable);
        let tasks = Tasks::new();
        tasks.spawn("own entries", log.clone().write_own());
        let (tell_committed, committed) = mpsc::channel(COMMITTED_PENDING_MAX);
        let at = (found.applied, members);
        let state = StateMachine::new(recorder.clone(), log.clone(), at, tell_committed);
        let notes = state.notes();
        let settings = Arc::new(config(goes_on.is_some(), kept));
        let raft = Raft::new(member, settings, Network(peers), log.clone(), state)
            .await
            .map_err(|error| OpenError::Engine { reason: error.to_string() })?;
        tasks.spawn("short log", shorten(raft.clone(), log.clone()));
        let engine = Self {
            raft,
            recorder,
            log,
            tail_bytes_max: kept::tail_max(&journal),
            recovered,
            member,
            node,
            proposing: tokio::sync::Mutex::default(),
            receiving: Mutex::default(),
            heard: Mutex::default(),
            obeys_until: vote.filter(|vote| obeys(vote, member)).map(|_| Instant::now() + LEASE),
            notes,
            tasks,
        };
        Ok((engine, committed))
    }

    /// The findings of opening the store.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Id of this member.
    pub fn member(&self) -> u64 {
        self.member
    }

    /// Proposes a batch in the epoch in which this member leads. It waits until the batch is committed
    /// and applied here: as long as the majority is away, that is. Proposals wait for each other.
    ///
    /// # Errors
    /// See [`ProposeError`], which says whether anything happened.
    pub async fn propose(&self, epoch: Epoch, batch: Batch) -> Result<Position, ProposeError> {
        let _alone = self.proposing.lock().await;
        if self.position().epoch != epoch {
            // Entries of its predecessors may not be applied yet: a move would not find its file.
            return Err(ProposeError::Refused);
        }
        let encoded = self.recorder.resolve(batch)?.encode();
        let limit = self.recorder.entry_bytes_max();
        if encoded.len() > limit {
            return Err(ProposeError::TooLarge { bytes: encoded.len(), limit });
        }
        let unknown = |reason: String| ProposeError::Unknown { reason };
        let (responder, done) = ProgressResponder::complete_only();
        self.raft
            .write(Proposal(encoded))
            .with_leader(LeaderId { term: epoch.term, node_id: epoch.node })
            .responder(responder)
            .await
            .map_err(|error| unknown(error.to_string()))?;
        match done.await {
            Ok(Ok(response)) => Ok(response.data.0),
            Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(ProposeError::Refused),
            Ok(Err(error)) => Err(unknown(error.to_string())),
            Err(_gone) => Err(unknown("the engine has ended".to_owned())),
        }
    }

    /// Most bytes that the changes of one proposal may weigh together.
    pub fn proposal_bytes_max(&self) -> usize {
        self.recorder.entry_bytes_max()
    }

    /// The last entry in the log; it may not be durable yet, and never be committed.
    pub fn last(&self) -> Position {
        self.log.last().as_ref().map(crate::types::position).unwrap_or_default()
    }

    /// The last position that is applied here.
    pub fn position(&self) -> Position {
        self.recorder.position()
    }

    /// Reads what is applied.
    pub fn reader(&self) -> Reader {
        self.recorder.reader()
    }

    /// Notes which keys change from now on.
    pub fn note_changes(&self) -> Noting {
        self.notes.begin()
    }

    /// A view of the store right behind entry `index`, of everything or of one group, to be read
    /// while changes go on. It waits for that moment, at most for `patience`.
    ///
    /// # Errors
    /// See [`FrozenError`].
    pub async fn freeze_at(
        &self,
        index: u64,
        group: Option<Group>,
        patience: Duration,
    ) -> Result<Frozen, FrozenError> {
        let recorder = self.recorder.clone();
        let begin = move || recorder.freeze_at(index, group, patience);
        stdx::apart(begin).await.unwrap_or(Err(FrozenError::Ended))
    }

    /// A view of everything that is applied now, to be read while changes go on.
    ///
    /// # Errors
    /// See [`FrozenError`].
    pub async fn freeze(&self) -> Result<Frozen, FrozenError> {
        let recorder = self.recorder.clone();
        let begin = move || recorder.freeze();
        stdx::apart(begin).await.unwrap_or(Err(FrozenError::Ended))
    }

    /// The content that was written under this key last, in the log or in the store: committed or not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn newest(&self, key: &Key) -> Result<Option<Bytes>, FileError> {
        match self.log.newest(key, self.position().index) {
            Some(content) => Ok(content),
            None => self.reader().read(key),
        }
    }

    /// Whether the store would take new work now.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self) -> Result<(), Refusal> {
        self.recorder.admit()
    }

    /// The work that waits for the disk.
    pub fn backlog(&self) -> Backlog {
        self.recorder.backlog()
    }

    /// How full the journal is.
    pub fn journal_fill(&self) -> Fill {
        self.recorder.journal_fill()
    }

    /// How the store is.
    pub fn health(&self) -> queue_format::Health {
        self.recorder.health()
    }

    /// Stops taking part, brings the files up to date with what is applied, frees the lock.
    ///
    /// # Errors
    /// The files could not be completed; the next start will do it from the journal.
    pub async fn close(&self) -> Result<(), CloseError> {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the engine ended badly");
        }
        self.tasks.shutdown().await;
        let recorder = self.recorder.clone();
        match stdx::apart(move || recorder.close()).await {
            Ok(closed) => closed,
            Err(error) => Err(CloseError::Failed { reason: error.to_string() }),
        }
    }
}

/// The members that the store remembers. The store of a single master has none: it becomes that of a
/// lone voter, whose vote is not below that master's epoch.
fn remembered(
    found: &mut RecoveredLog,
    member: u64,
    node: &str,
    goes_on: Option<Epoch>,
) -> Result<StoredMembership, OpenError> {
    let members = match &found.members {
        Some((at, text)) => {
            let members = members_from_text(text)
                .map_err(|error| OpenError::Remembered(io::Error::other(error)))?;
            StoredMembership::new(log_id(*at), members)
        }
        None if found.applied == Position::default() => StoredMembership::default(),
        None => StoredMembership::new(log_id(found.applied), lone(member, node)),
    };
    if found.vote.is_none() && found.applied != Position::default() {
        let Epoch { term, node } = found.applied.epoch;
        found.vote = Some(vote_to_text(&Vote::new(term, node)));
    }
    if let Some(Epoch { term, node }) = goes_on {
        // The engine would believe anybody who says so: only a store whose one voter this is.
        if node != member || found.members.is_some() || found.applied.epoch.term > term {
            return Err(OpenError::GoesOn { epoch: Epoch { term, node } });
        }
        found.vote = Some(vote_to_text(&Vote::new_committed(term, node)));
    }
    Ok(members)
}

/// Whether a member that remembers this vote has had a leader other than itself.
fn obeys(vote: &Vote, member: u64) -> bool {
    vote.is_committed() && vote.leader_id().node_id != member
}

/// This member as the only voter.
pub(crate) fn lone(member: u64, node: &str) -> Membership {
    let nodes = BTreeMap::from([(member, BasicNode { addr: node.to_owned() })]);
    Membership::new(vec![[member].into()], nodes).expect("the only voter has an address")
}

/// Forgets entries of the log when more are in memory than are to be kept. Entries that are not applied
/// stay, and those on their way to another member go later.
async fn shorten(raft: Raft<TypeConfig, StateMachine>, log: Log) {
    let mut metrics = raft.metrics();
    loop {
        let upto = log.grown().await;
        // To the engine, what is in a snapshot may go: here that is everything that is applied.
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
        let covered = async {
            while metrics.borrow_watched().snapshot.index() < Some(upto) {
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(SHORTEN_AGAIN, covered).await);
        if raft.trigger().purge_log(upto).await.is_err() {
            return;
        }
        tokio::time::sleep(SHORTEN_AGAIN).await;
    }
}

/// The settings that decide safety, and those that keep memory bounded.
fn config(goes_on: bool, kept: Kept) -> Config {
    let config = Config {
        cluster_name: "gantry".to_owned(),
        // Only when asked, and never by itself after a restart: a new leadership is a new epoch.
        enable_elect: false,
        enable_leader_restore: Some(goes_on),
        enable_pre_vote: Some(true),
        allow_log_reversion: Some(false),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: LEASE_MS * 9 / 10,
        election_timeout_max: LEASE_MS,
        // Members write an entry at the same time as its leader.
        broadcast_submitted_on_append: Some(true),
        // Entries go by our own rule, which knows their bytes.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        replication_lag_threshold: kept.entries as u64,
        ..Config::default()
    };
    config.validate().expect("the settings are constants that agree")
}
