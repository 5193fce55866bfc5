//! One member of the cluster, as its owner sees it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, InitializeError, RaftError};
use openraft::{BasicNode, Config, Raft, ServerState, SnapshotPolicy};
use queue_format::{
    Batch, Callbacks, Change, CloseError, Epoch, FatalError, FileError, Position, Reader, Recorder,
    Recovered, ReplicatedStore, StartError, StoreOptions,
};
use tokio::sync::{RwLock, mpsc, watch};
use tokio::time::Instant;

use crate::log::{Log, Memory, Tag, report_durable};
use crate::network::NoPeers;
use crate::state::StateMachine;
use crate::types::{
    Membership, Proposal, StoredMembership, TypeConfig, Vote, log_id, members_from_text,
    vote_to_text,
};

/// Committed batches that the owner may be behind: it applies them to memory, which is quick; when
/// it is slow, so is everyone who proposes.
const COMMITTED_PENDING_MAX: usize = 1024;

/// Entries that stay in memory for members that are a little behind; as many again before the next
/// purge. At 1 KB each this is 20 MB.
const ENTRIES_KEPT: u64 = 10_000;

/// Time between two attempts to be elected: the engine does not say that it refused one.
const ELECT_AGAIN: Duration = Duration::from_millis(100);

/// A leader that hears no majority for this long refuses to append; also how long its members
/// keep others from being elected.
const LEASE_MS: u64 = 1000;

/// Time between heartbeats: several within a lease.
const HEARTBEAT_MS: u64 = 200;

/// How a member is run.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Id of this member. It belongs to this store: after a wipe it is never used again.
    pub node: u64,
    /// Where other members reach it.
    pub address: String,
    /// How the store is kept.
    pub store: StoreOptions,
}

/// What is told when the store fails, instead of an abort.
pub type OnFatal = Box<dyn Fn(&FatalError) + Send + Sync>;

/// A batch that is committed and applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the log.
    pub position: Position,
    /// What it changed.
    pub batch: Batch,
}

/// A member that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] queue_format::OpenError),
    /// The store cannot be started.
    #[error("cannot start the store")]
    Start(#[from] StartError),
    /// What the engine had remembered is not understood.
    #[error("cannot read what the engine remembered")]
    Remembered(#[source] io::Error),
    /// The engine cannot be started.
    #[error("cannot start the engine: {reason}")]
    Engine {
        /// What it said.
        reason: String,
    },
}

/// This member does not lead.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The engine has stopped.
    #[error("the engine has stopped: {reason}")]
    Stopped {
        /// What it said.
        reason: String,
    },
    /// Not elected in time: somebody else leads, or no majority answers.
    #[error("not elected within {waited:?}: somebody else leads, or no majority answers")]
    Deadline {
        /// How long it was tried.
        waited: Duration,
    },
}

/// A batch that was not committed, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// Nothing happened: this member does not lead.
    #[error("refused: this member does not lead")]
    Refused,
    /// It was appended, and its outcome is not known. It may still be committed.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// What the engine said.
        reason: String,
    },
    /// It can never be appended.
    #[error("a batch of {bytes} bytes is larger than {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The most that an entry may have.
        limit: usize,
    },
    /// A file that a move needs cannot be read. Nothing happened.
    #[error("cannot resolve a move")]
    Move(#[from] FileError),
}

/// One member: its log, its state, and its part in the elections.
#[derive(Debug)]
pub struct Engine {
    raft: Raft<TypeConfig, StateMachine>,
    recorder: Arc<Recorder<Tag>>,
    recovered: Recovered,
    node: u64,
    address: String,
    /// A batch with moves is proposed alone: they are resolved against what is applied.
    moves: RwLock<()>,
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
    ) -> Result<(Self, mpsc::Receiver<Committed>), OpenError> {
        Self::open_or(data_dir, options, None).await
    }

    /// As [`Engine::open`], with something else than an abort when the store fails.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub async fn open_or(
        data_dir: &Path,
        options: EngineOptions,
        on_fatal: Option<OnFatal>,
    ) -> Result<(Self, mpsc::Receiver<Committed>), OpenError> {
        let EngineOptions { node, address, store } = options;
        let store = ReplicatedStore::open(data_dir, store)?;
        let recovered = store.recovered().clone();
        let mut found = store.log();
        let members = match &found.members {
            Some((at, text)) => {
                let members = members_from_text(text)
                    .map_err(|error| OpenError::Remembered(io::Error::other(error)))?;
                StoredMembership::new(log_id(*at), members)
            }
            None if found.applied == Position::default() => StoredMembership::default(),
            None => StoredMembership::new(log_id(found.applied), lone(node, &address)),
        };
        if found.vote.is_none() && found.applied != Position::default() {
            // The single master's epoch is over; the next one must be later.
            let Epoch { term, node } = found.applied.epoch;
            found.vote = Some(vote_to_text(&Vote::new(term, node)));
        }
        let memory = Memory::recover(&found).map_err(OpenError::Remembered)?;

        let (tell_durable, durable) = watch::channel(0);
        let mut callbacks =
            Callbacks::new(move |tags, _position| report_durable(tags, &tell_durable));
        if let Some(on_fatal) = on_fatal {
            callbacks = callbacks.on_fatal(on_fatal);
        }
        let recorder = Arc::new(store.start(callbacks)?);
        let log = Log::new(recorder.clone(), memory, durable);
        let (tell_committed, committed) = mpsc::channel(COMMITTED_PENDING_MAX);
        let at = (found.applied, members);
        let state = StateMachine::new(recorder.clone(), log.clone(), at, tell_committed);
        let raft = Raft::new(node, Arc::new(config()), NoPeers, log, state)
            .await
            .map_err(|error| OpenError::Engine { reason: error.to_string() })?;
        let moves = RwLock::new(());
        Ok((Self { raft, recorder, recovered, node, address, moves }, committed))
    }

    /// What opening the store found.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Asks to lead, until elected or `deadline` has passed. In a store that knows no members yet,
    /// this one becomes the only voter first.
    ///
    /// # Errors
    /// Not elected in time, or the engine has stopped.
    pub async fn take_over(&self, deadline: Duration) -> Result<Epoch, TakeOverError> {
        let stopped = |reason: String| TakeOverError::Stopped { reason };
        let me = BTreeMap::from([(self.node, BasicNode { addr: self.address.clone() })]);
        // A new store's first election comes with its members.
        let mut asked = match self.raft.initialize(me).await {
            Ok(()) => true,
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => false,
            Err(error) => return Err(stopped(error.to_string())),
        };
        let began = Instant::now();
        while began.elapsed() < deadline {
            if let Some(epoch) = self.leads() {
                return Ok(epoch);
            }
            if !std::mem::take(&mut asked) {
                // With the question first: against a healthy leader it then does no harm.
                self.raft
                    .trigger()
                    .elect(true)
                    .await
                    .map_err(|error| stopped(error.to_string()))?;
            }
            let mut metrics = self.raft.metrics();
            let elected = async {
                while self.leads().is_none() {
                    if metrics.changed().await.is_err() {
                        return;
                    }
                }
            };
            // Not elected: ask again, for a refusal is silent.
            drop(tokio::time::timeout(ELECT_AGAIN, elected).await);
        }
        self.leads().ok_or(TakeOverError::Deadline { waited: deadline })
    }

    /// The epoch in which this member leads, if it does.
    #[must_use]
    pub fn leads(&self) -> Option<Epoch> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        // After a restart the stored vote may still name this member: only the state tells.
        let leader = metrics.vote.leader_id();
        let epoch = Epoch { term: leader.term, node: leader.node_id };
        (metrics.state == ServerState::Leader && metrics.vote.is_committed()).then_some(epoch)
    }

    /// Proposes a batch and waits until it is committed and applied here.
    ///
    /// # Errors
    /// See [`ProposeError`], which says whether anything happened.
    pub async fn propose(&self, batch: Batch) -> Result<Position, ProposeError> {
        if batch.0.iter().any(|change| matches!(change, Change::Move { .. })) {
            // What this waits for is applied: a proposal keeps its place until then.
            let _alone = self.moves.write().await;
            self.propose_resolved(self.recorder.resolve(batch)?).await
        } else {
            let _shared = self.moves.read().await;
            self.propose_resolved(batch.collapse()).await
        }
    }

    async fn propose_resolved(&self, batch: Batch) -> Result<Position, ProposeError> {
        let encoded = batch.encode();
        let limit = self.recorder.entry_bytes_max();
        if encoded.len() > limit {
            return Err(ProposeError::TooLarge { bytes: encoded.len(), limit });
        }
        match self.raft.client_write(Proposal(encoded)).await {
            Ok(response) => Ok(response.data.0),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(ProposeError::Refused)
            }
            Err(error) => Err(ProposeError::Unknown { reason: error.to_string() }),
        }
    }

    /// The last position that is applied here.
    #[must_use]
    pub fn position(&self) -> Position {
        self.recorder.position()
    }

    /// Ids of the members that vote.
    #[must_use]
    pub fn voters(&self) -> Vec<u64> {
        self.raft.voter_ids().collect()
    }

    /// Reads what is applied.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.recorder.reader()
    }

    /// How the store is.
    #[must_use]
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
        let recorder = self.recorder.clone();
        match tokio::task::spawn_blocking(move || recorder.close()).await {
            Ok(closed) => closed,
            Err(error) => Err(CloseError::Failed { reason: error.to_string() }),
        }
    }
}

/// This member as the only voter.
fn lone(node: u64, address: &str) -> Membership {
    let nodes = BTreeMap::from([(node, BasicNode { addr: address.to_owned() })]);
    Membership::new(vec![[node].into()], nodes).expect("the only voter has an address")
}

/// The settings that decide safety, and those that keep memory bounded.
fn config() -> Config {
    let config = Config {
        cluster_name: "gantry".to_owned(),
        // Only when asked, and never by itself after a restart: a new reign is a new epoch.
        enable_elect: false,
        enable_leader_restore: Some(false),
        enable_pre_vote: Some(true),
        allow_log_reversion: Some(false),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: LEASE_MS * 9 / 10,
        election_timeout_max: LEASE_MS,
        // A snapshot here is only the word up to where the log may be purged: the files are it.
        snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_KEPT),
        max_in_snapshot_log_to_keep: ENTRIES_KEPT,
        purge_batch_size: ENTRIES_KEPT / 10,
        ..Config::default()
    };
    config.validate().expect("the settings are constants that agree")
}
