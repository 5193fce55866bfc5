//! Sees to it that the master's node has the address for as long as the master is one.

use std::time::Duration;

use model::Timestamp;
use model::cluster::MasterAddress;
use parking_lot::Mutex;
use rpc::calls::MasterAddressHere;
use stdx::daemon::chain;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rule::{Rule, Seen};
use super::{AddressError, MoveAddress, master};

/// Pause after a first attempt that failed: the own agent is starting, as a rule.
const AGAIN: Duration = Duration::from_secs(2);
/// Between two looks at whether it is still there: one question to the agent of this machine, which
/// asks its kernel.
const LOOK: Duration = Duration::from_secs(2);

/// What this master knows of its address.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Who takes it or gives it up: one after the other.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// An operator took it off. Forgotten with the leadership.
    is_released: bool,
    missing: Option<(Timestamp, String)>,
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
    pub(crate) fn missing(&self) -> Option<(Timestamp, String)> {
        self.state.lock().missing.clone()
    }

    /// The newest reason counts, and the time when it began.
    fn set_missing(&self, now: Timestamp, why: Option<String>) {
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

    /// Takes the address, tries again until that was done, and takes it again where it gets lost, until
    /// `stop` is canceled. For a leadership, or what of it hears a majority.
    pub async fn hold(&self, stop: CancellationToken) {
        let holding = async {
            self.begin().await;
            self.watch().await;
        };
        let _stopped = stop.run_until_cancelled(Box::pin(holding)).await;
        self.note(None);
    }

    /// Takes it; the agent of this node may start later than the master.
    async fn begin(&self) {
        let mut told = false;
        while let Err(error) = self.take().await {
            let why = chain(&error);
            if told {
                tracing::debug!(error = why, "still not raised");
            } else {
                tracing::error!(error = why, pause_s = AGAIN.as_secs(), "it is tried again");
                told = true;
            }
            self.note(Some(why));
            tokio::time::sleep(AGAIN).await;
        }
        self.note(None);
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

    /// Looks for ever, and takes it again where that is due.
    async fn watch(&self) {
        let (begun, mut rule) = (Instant::now(), Rule::default());
        let mut failed = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let seen = self.look().await;
            let is_due = rule.step(begun.elapsed().as_secs(), seen.seen());
            let Look::Missing(address) = seen else {
                if !matches!(seen, Look::Unknown(_)) {
                    failed = None;
                    self.note(None);
                }
                continue;
            };
            if is_due {
                tracing::warn!(
                    %address,
                    "the master's address is gone from this node, and no master gave it up: it is taken \
                     again"
                );
                failed = self.take().await.err().map(|error| chain(&error));
                if let Some(error) = &failed {
                    tracing::error!(error, "it is tried again");
                }
            }
            let gone = || format!("somebody took {address} off this node");
            self.note(Some(failed.clone().unwrap_or_else(gone)));
        }
    }

    fn note(&self, missing: Option<String>) {
        let now = Timestamp::from_micros(self.clock.now_micros());
        self.held.set_missing(now, missing);
    }
}
