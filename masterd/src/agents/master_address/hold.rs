//! Sees to it that the master's node has the address for as long as the master is one.

use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use model::cluster::MasterAddress;
use parking_lot::Mutex;
use rpc::calls::MasterAddressHere;
use stdx::daemon::chain;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::rule::{Rule, Seen};
use super::{AddressError, Missing, MoveAddress, master};
use crate::config::reconciler::Reconciler;

/// Pause after a first attempt that failed: the own agent is starting, as a rule.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two looks at whether it is still there: one question to the agent of this machine, which
/// asks its kernel.
const LOOK: Duration = Duration::from_secs(2);

/// This master's knowledge of its address.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The turn to take it or give it up: one after the other.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// An operator took it off. Forgotten with the leadership.
    is_released: bool,
    missing: Option<(Timestamp, Missing)>,
}

impl Held {
    /// Lets no other take it or give it up meanwhile.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether an operator took it off, until it is taken by name or the role moves.
    pub(crate) fn is_released(&self) -> bool {
        self.state.lock().is_released
    }

    pub(crate) fn set_released(&self, is_released: bool) {
        self.state.lock().is_released = is_released;
    }

    /// Since when it is missing, and why; none while it is there, or not wanted.
    pub(crate) fn missing(&self) -> Option<(Timestamp, Missing)> {
        self.state.lock().missing.clone()
    }

    /// The newest reason counts, and the time when it began.
    fn set_missing(&self, now: Timestamp, why: Option<Missing>) {
        let mut state = self.state.lock();
        let since = state.missing.as_ref().map_or(now, |(since, _)| *since);
        state.missing = why.map(|why| (since, why));
    }
}

/// Whether the master's node has the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// The cluster has none.
    None,
    /// An operator took it off.
    Released(MasterAddress),
    /// It is there.
    Here,
    /// It is not there, or not as it should be.
    Missing(MasterAddress),
    /// The agent does not tell, for this reason.
    Unknown(String),
}

impl Look {
    fn seen(&self) -> Seen {
        match self {
            Self::None | Self::Released(_) => Seen::Unwanted,
            Self::Here => Seen::Here,
            Self::Missing(_) => Seen::Missing,
            Self::Unknown(_) => Seen::Unknown,
        }
    }
}

impl MoveAddress {
    /// Asks this node's agent.
    pub(crate) async fn look(&self) -> Look {
        let config = self.published.snapshot().config;
        let Some(address) = config.cluster.master_address() else { return Look::None };
        if self.held.is_released() {
            return Look::Released(address);
        }
        let me = match master(&config) {
            Ok(me) => me,
            Err(error) => return Look::Unknown(chain(&error)),
        };
        let MasterAddress { address: wanted, prefix, netdev } = address.clone();
        let here = MasterAddressHere { address: wanted, prefix, netdev };
        match self.agents.call(me, here, None).await {
            Ok(there) if there.here => Look::Here,
            Ok(_) => Look::Missing(address),
            Err(error) => Look::Unknown(chain(&error)),
        }
    }

    /// Takes it, unless an operator took it off.
    async fn take(&self) -> Result<(), AddressError> {
        let held = &self.held;
        let _turn = held.turn().await;
        if held.is_released() {
            return Ok(());
        }
        self.raise(None).await.map(drop)
    }

    fn note(&self, missing: Option<Missing>) {
        let now = Timestamp::from_micros(self.clock.now_micros());
        self.held.set_missing(now, missing);
    }
}

/// Takes the address, and again where it gets lost; for a leadership, or what of it hears a majority.
#[derive(Debug)]
pub(crate) struct Holding {
    address: Arc<MoveAddress>,
    begun: Instant,
    /// The agent of this node may start later than the master.
    was_taken: bool,
    /// Why it was not taken the last time.
    failed: Option<Missing>,
    rule: Rule,
}

impl Holding {
    /// Holds `address`.
    pub(crate) fn new(address: Arc<MoveAddress>) -> Self {
        let (begun, rule) = (Instant::now(), Rule::default());
        Self { address, begun, was_taken: false, failed: None, rule }
    }

    /// Takes it for the first time.
    async fn take(&mut self) -> Duration {
        let taken = self.address.take().await.map_err(|error| Missing::from(&error));
        self.was_taken = taken.is_ok();
        let before = std::mem::replace(&mut self.failed, taken.err());
        self.address.note(self.failed.clone());
        let Some(Missing { why, remedy }) = &self.failed else { return LOOK };
        if before.is_some() {
            tracing::debug!(why, "still not raised");
        } else {
            tracing::error!(why, remedy, pause_s = AGAIN.as_secs(), "it is tried again");
        }
        AGAIN
    }

    /// Looks, and takes it again where that is due.
    async fn look(&mut self) {
        let seen = self.address.look().await;
        let is_due = self.rule.step(self.begun.elapsed().as_secs(), seen.seen());
        let Look::Missing(address) = seen else {
            if !matches!(seen, Look::Unknown(_)) {
                self.failed = None;
                self.address.note(None);
            }
            return;
        };
        if is_due {
            tracing::warn!(
                %address,
                "the master's address is gone from this node, and no master gave it up: it is taken \
                 again"
            );
            self.failed = self.address.take().await.err().map(|error| Missing::from(&error));
            if let Some(Missing { why, remedy }) = &self.failed {
                tracing::error!(why, remedy, "it is tried again");
            }
        }
        let node = self.address.published.snapshot().config.role.master.clone();
        let gone = || Missing::gone(&node, &address);
        self.address.note(Some(self.failed.clone().unwrap_or_else(gone)));
    }
}

impl Reconciler for Holding {
    const NAME: &'static str = "master address";

    async fn reconcile(&mut self) -> Option<Duration> {
        if !self.was_taken {
            return Some(self.take().await);
        }
        self.look().await;
        Some(LOOK)
    }

    fn begin_anew(&mut self) {
        *self = Self::new(Arc::clone(&self.address));
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        // Nobody wants it here any more, so that it is not missing.
        self.address.note(None);
    }
}
