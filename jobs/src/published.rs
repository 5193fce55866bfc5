//! The state as it was last committed, which everybody but the writer sees.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use imbl::OrdMap;
use model::{Exception, Job, JobId};
use parking_lot::RwLock;
use queue_format::Position;
use tokio::sync::{oneshot, watch};

use crate::configuration::Configuration;
use crate::event::{Channels, Reply};
use crate::view::View;

/// The changes that become visible, and the answers that leave, when a round is durable.
#[derive(Debug)]
pub struct After<C> {
    pub(crate) changed: Vec<Arc<Job>>,
    pub(crate) archived: Vec<JobId>,
    pub(crate) drained: Option<bool>,
    pub(crate) config: Option<ConfigAfter<C>>,
    pub(crate) replies: Vec<Reply<Channels>>,
    pub(crate) transactions: Vec<Done>,
}

impl<C> Default for After<C> {
    fn default() -> Self {
        Self {
            changed: Vec::new(),
            archived: Vec::new(),
            drained: None,
            config: None,
            replies: Vec::new(),
            transactions: Vec::new(),
        }
    }
}

impl<C> After<C> {
    /// The news of the first commit of a master: everything that it found becomes visible.
    pub fn role_entry(jobs: Vec<Arc<Job>>, reply: oneshot::Sender<()>) -> Self {
        let told = Done::new(move |outcome| drop(outcome.map(|()| reply.send(()))));
        Self { changed: jobs, transactions: vec![told], ..Self::default() }
    }
}

/// Tells the owner of a transaction what came of it.
pub struct Done(Box<dyn FnOnce(Result<(), Exception>) + Send>);

impl Done {
    pub(crate) fn new(tell: impl FnOnce(Result<(), Exception>) + Send + 'static) -> Self {
        Self(Box::new(tell))
    }

    pub(crate) fn tell(self, outcome: Result<(), Exception>) {
        (self.0)(outcome);
    }
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done")
    }
}

/// A configuration that becomes visible, and the racks that it concerns.
#[derive(Debug)]
pub(crate) struct ConfigAfter<C> {
    pub(crate) config: Arc<C>,
    pub(crate) racks: BTreeSet<u32>,
}

impl<C> ConfigAfter<C> {
    pub(crate) fn new(config: &Arc<C>) -> Self {
        Self { config: Arc::clone(config), racks: BTreeSet::new() }
    }
}

/// The configuration as it was committed, with the position of each rack's last change.
#[derive(Debug)]
pub struct Snapshot<C> {
    /// All objects.
    pub config: Arc<C>,
    /// Position of the last change that concerned a rack; racks not named did not change since
    /// this master began.
    rack_positions: OrdMap<u32, u64>,
    begun_at: u64,
    changed_at: u64,
}

impl<C> Clone for Snapshot<C> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            rack_positions: self.rack_positions.clone(),
            begun_at: self.begun_at,
            changed_at: self.changed_at,
        }
    }
}

impl<C> Snapshot<C> {
    /// Position of the last change of the configuration, or that at which this master began.
    pub fn position(&self) -> u64 {
        self.changed_at
    }

    /// Position of the last change that concerned a rack.
    pub fn rack_position(&self, rack: u32) -> u64 {
        self.rack_positions.get(&rack).copied().unwrap_or(self.begun_at)
    }
}

/// The committed state.
#[derive(Debug)]
pub struct Published<C> {
    pub jobs: Arc<View>,
    snapshot: watch::Sender<Snapshot<C>>,
    latest: RwLock<Arc<C>>,
    drained: AtomicBool,
}

impl<C: Configuration> Published<C> {
    /// The state with which a master begins, at position `begun_at`.
    pub fn new(jobs: Arc<View>, config: Arc<C>, drained: bool, begun_at: u64) -> Self {
        let latest = RwLock::new(Arc::clone(&config));
        let snapshot =
            Snapshot { config, rack_positions: OrdMap::new(), begun_at, changed_at: begun_at };
        Self {
            jobs,
            snapshot: watch::Sender::new(snapshot),
            latest,
            drained: AtomicBool::new(drained),
        }
    }

    /// The committed configuration.
    pub fn snapshot(&self) -> Snapshot<C> {
        self.snapshot.borrow().clone()
    }

    /// Tells of each new committed configuration.
    pub fn subscribe(&self) -> watch::Receiver<Snapshot<C>> {
        self.snapshot.subscribe()
    }

    /// The configuration with changes that are not durable yet. For logical units only: what they
    /// decide on it is committed behind it.
    pub fn latest(&self) -> Arc<C> {
        Arc::clone(&self.latest.read())
    }

    pub(crate) fn set_latest(&self, config: Arc<C>) {
        *self.latest.write() = config;
    }

    /// Whether new jobs are refused.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    /// Shows what was committed and sends the answers that waited for it; called once a group of
    /// rounds, in their order.
    pub fn publish(&self, group: Vec<After<C>>, position: Position) {
        for after in group {
            self.jobs.publish(after.changed, &after.archived);
            if let Some(drained) = after.drained {
                self.drained.store(drained, Ordering::Relaxed);
            }
            if let Some(ConfigAfter { config, racks }) = after.config {
                self.snapshot.send_modify(|snapshot| {
                    snapshot.config = config;
                    snapshot.changed_at = position.index;
                    let positions = racks.into_iter().map(|rack| (rack, position.index));
                    snapshot.rack_positions.extend(positions);
                });
            }
            after.replies.into_iter().for_each(Reply::send);
            for done in after.transactions {
                done.tell(Ok(()));
            }
        }
    }
}
