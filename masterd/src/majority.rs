//! Whether this master hears a majority of the voters, and what it may do meanwhile (DESIGN §7
//! "Being cut off"). The rules are in `role::cut_off`; this asks the engine and does what they say.
//! Serves replication, below `commits`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use queue_format::Epoch;
use stdx::daemon::chain;
use tokio_util::sync::CancellationToken;

use crate::commits::Commits;
use crate::lu::World;
use crate::master_address;
use crate::role::cut_off::{Contact, Turn};

/// How often is looked: a tenth of the silence after which a master refuses.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the agent of this machine may take to give the address up before the rest goes on.
const DROP_MAX: Duration = Duration::from_secs(5);

/// How long ago a majority was heard, in milliseconds, as of the last look; clones share it. A master
/// that is alone is its own majority.
#[derive(Debug, Clone, Default)]
pub struct Majority(Arc<AtomicU64>);

impl Majority {
    /// How this master stands.
    #[must_use]
    pub fn contact(&self) -> Contact {
        Contact::after(self.silence_ms())
    }

    /// How long a majority has been silent, in milliseconds.
    #[must_use]
    pub fn silence_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes for how long a majority has been silent.
    pub fn set_silence_ms(&self, silence_ms: u64) {
        self.0.store(silence_ms, Ordering::Relaxed);
    }
}

/// Looks until the reign is `over`.
pub(crate) async fn run(world: Arc<World>, epoch: Epoch, over: CancellationToken) {
    let majority = world.commits.majority();
    let mut contact = Contact::Heard;
    let mut holding = CancellationToken::new();
    let held = stdx::Tasks::new();
    let hold = |stop: CancellationToken| {
        held.spawn("master address", master_address::hold(Arc::clone(&world), stop));
    };
    hold(holding.clone());
    while over.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await.is_some() {
        let silence_ms = silence_ms(&world.commits, epoch);
        majority.set_silence_ms(silence_ms);
        let next = contact.then(silence_ms);
        for turn in contact.turns(next) {
            match turn {
                Turn::Refuse => {
                    tracing::error!(silence_ms, "no majority is heard: changes are refused");
                }
                Turn::Resume => tracing::warn!("the majority is heard again: changes are taken"),
                Turn::DropAddress => {
                    holding.cancel();
                    drop_address(&world).await;
                }
                Turn::RaiseAddress => {
                    holding = CancellationToken::new();
                    hold(holding.clone());
                }
            }
        }
        contact = next;
    }
    holding.cancel();
    held.shutdown().await;
}

/// How long the voters have been silent.
pub(crate) fn silence_ms(commits: &Commits, epoch: Epoch) -> u64 {
    let Some(engine) = commits.engine() else { return 0 };
    let standing = engine.standing();
    let leads = standing.leads == Some(epoch);
    if leads { standing.heard_ms.unwrap_or(u64::MAX) } else { u64::MAX }
}

/// Has the agent of this machine give the master's address up.
pub(crate) async fn drop_address(world: &World) {
    match tokio::time::timeout(DROP_MAX, master_address::drop_here(world)).await {
        Ok(Ok(true)) => tracing::warn!("the master's address is given up"),
        Ok(Ok(false)) => {}
        Ok(Err(error)) => tracing::error!(error = chain(&error), "the address may still be here"),
        Err(_elapsed) => tracing::error!(
            "the agent of this machine does not answer: the master's address may still be here"
        ),
    }
}
