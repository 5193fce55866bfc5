//! What everybody but the writer sees: the state as it was last committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Exception, Job, JobId};
use parking_lot::RwLock;
use queue_format::Position;
use tokio::sync::{oneshot, watch};

use super::Reply;
use crate::config::Config;
use crate::jobs::Answer;
use crate::jobs::view::View;

/// What follows when a round is durable.
#[derive(Debug, Default)]
pub struct After {
    pub(super) changed: Vec<Arc<Job>>,
    pub(super) archived: Vec<JobId>,
    pub(super) drained: Option<bool>,
    pub(super) config: Option<ConfigAfter>,
    pub(super) replies: Vec<(Reply, Answer)>,
    pub(super) transactions: Vec<oneshot::Sender<Result<(), Exception>>>,
}

impl After {
    /// What follows the first commit of a master: everything that it found becomes visible.
    #[must_use]
    pub fn role_entry(jobs: Vec<Arc<Job>>, reply: oneshot::Sender<Result<(), Exception>>) -> Self {
        Self {
            changed: jobs,
            archived: Vec::new(),
            drained: None,
            config: None,
            replies: Vec::new(),
            transactions: vec![reply],
        }
    }
}

/// A configuration that becomes visible, and the racks that it concerns.
#[derive(Debug)]
pub(super) struct ConfigAfter {
    pub(super) config: Arc<Config>,
    pub(super) racks: BTreeSet<u32>,
}

impl ConfigAfter {
    pub(super) fn new(config: &Arc<Config>) -> Self {
        Self { config: Arc::clone(config), racks: BTreeSet::new() }
    }
}

/// The configuration as it was committed, with the position of each rack's last change.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All objects.
    pub config: Arc<Config>,
    /// Position of the last change that concerned a rack; racks not named did not change since
    /// this master began.
    rack_positions: Arc<BTreeMap<u32, u64>>,
    begun_at: u64,
    changed_at: u64,
}

impl Snapshot {
    /// Position of the last change of the configuration, or that at which this master began.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.changed_at
    }

    /// Position of the last change that concerned a rack.
    #[must_use]
    pub fn rack_position(&self, rack: u32) -> u64 {
        self.rack_positions.get(&rack).copied().unwrap_or(self.begun_at)
    }
}

/// The committed state.
#[derive(Debug)]
pub struct Published {
    /// Jobs.
    pub jobs: Arc<View>,
    snapshot: watch::Sender<Snapshot>,
    latest: RwLock<Arc<Config>>,
    drained: AtomicBool,
}

impl Published {
    /// What a master begins with, at position `begun_at`.
    #[must_use]
    pub fn new(jobs: Arc<View>, config: Arc<Config>, drained: bool, begun_at: u64) -> Self {
        let latest = RwLock::new(Arc::clone(&config));
        let snapshot =
            Snapshot { config, rack_positions: Arc::default(), begun_at, changed_at: begun_at };
        Self {
            jobs,
            snapshot: watch::Sender::new(snapshot),
            latest,
            drained: AtomicBool::new(drained),
        }
    }

    /// The committed configuration.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Tells of each new committed configuration.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.subscribe()
    }

    /// The configuration with changes that are not durable yet. For logical units only: what they
    /// decide on it is committed behind it.
    #[must_use]
    pub fn latest(&self) -> Arc<Config> {
        Arc::clone(&self.latest.read())
    }

    pub(super) fn set_latest(&self, config: Arc<Config>) {
        *self.latest.write() = config;
    }

    /// Whether new jobs are refused.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    /// Shows what was committed and sends the answers that waited for it; called once a group of
    /// rounds, in their order.
    pub fn publish(&self, group: Vec<After>, position: Position) {
        for after in group {
            self.jobs.publish(after.changed, &after.archived);
            if let Some(drained) = after.drained {
                self.drained.store(drained, Ordering::Relaxed);
            }
            if let Some(ConfigAfter { config, racks }) = after.config {
                self.snapshot.send_modify(|snapshot| {
                    snapshot.config = config;
                    snapshot.changed_at = position.index;
                    let positions = Arc::make_mut(&mut snapshot.rack_positions);
                    positions.extend(racks.into_iter().map(|rack| (rack, position.index)));
                });
            }
            // A client that left does not need its answer.
            for (reply, answer) in after.replies {
                drop(reply.send(answer));
            }
            for reply in after.transactions {
                drop(reply.send(Ok(())));
            }
        }
    }
}
