//! Whether this master hears a majority of the voters, and what it may do meanwhile (DESIGN §7
//! "Being cut off"). The rules are in `role::cut_off`; this asks the engine and does what they say.
//! Serves replication, below `commits`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use queue_format::Epoch;
use stdx::daemon::chain;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::commits::Commits;
use crate::lu::World;
use crate::master_address;
use crate::role::cut_off::{Contact, Turn};

/// How often is looked: a tenth of the silence after which a master refuses.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the agent of this machine may take to give the address up before the rest goes on.
const DROP_MAX: Duration = Duration::from_secs(5);

/// How long after an agent did not give the address up it is asked again.
const DROP_AGAIN: Duration = Duration::from_secs(2);

/// When a majority was heard, as of the last look; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Majority(Arc<Mutex<Seen>>);

/// What the last look saw.
#[derive(Debug, Clone, Copy, Default)]
enum Seen {
    /// A master that is alone is its own majority, and one that is new was heard just now.
    #[default]
    Own,
    /// Then. Whoever looks late, since its process stood still, knows how late it is.
    At(Instant),
    /// Longer ago than can be told, or never.
    Never,
}

impl Majority {
    /// How this master stands.
    #[must_use]
    pub fn contact(&self) -> Contact {
        Contact::after(self.silence_ms())
    }

    /// How long a majority has been silent by now, in milliseconds.
    #[must_use]
    pub fn silence_ms(&self) -> u64 {
        match *self.0.lock() {
            Seen::Own => 0,
            Seen::At(then) => u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX),
            Seen::Never => u64::MAX,
        }
    }

    /// Notes for how long a majority has been silent; none where there are no others.
    pub fn note(&self, silence_ms: Option<u64>) {
        let then = |ms| Instant::now().checked_sub(Duration::from_millis(ms));
        *self.0.lock() = silence_ms.map_or(Seen::Own, |ms| then(ms).map_or(Seen::Never, Seen::At));
    }
}

/// Looks until told that it is `over`.
pub(crate) async fn look(commits: Arc<Commits>, epoch: Epoch, over: CancellationToken) {
    let majority = commits.majority();
    loop {
        majority.note(silence_ms(&commits, epoch));
        if over.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await.is_none() {
            return;
        }
    }
}

/// Does what follows from what was seen until told that it is `over`.
pub(crate) async fn run(world: Arc<World>, over: CancellationToken) {
    let majority = world.commits.majority();
    let mut contact = Contact::Heard;
    let mut holding = CancellationToken::new();
    let held = stdx::Tasks::new();
    // When the address is asked for next that its agent has not given up yet.
    let mut owed = None;
    let hold = |stop: CancellationToken| {
        held.spawn("master address", master_address::hold(Arc::clone(&world), stop));
    };
    hold(holding.clone());
    while over.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await.is_some() {
        let silence_ms = majority.silence_ms();
        let next = contact.then(silence_ms);
        for turn in contact.turns(next) {
            match turn {
                Turn::Refuse => {
                    tracing::error!(silence_ms, "no majority is heard: changes are refused");
                }
                Turn::Resume => tracing::warn!("the majority is heard again: changes are taken"),
                Turn::DropAddress => {
                    holding.cancel();
                    owed = Some(Instant::now());
                }
                Turn::RaiseAddress => {
                    owed = None;
                    holding = CancellationToken::new();
                    hold(holding.clone());
                }
            }
        }
        contact = next;
        if owed.is_some_and(|due| due <= Instant::now()) {
            let is_gone = drop_address(&world).await;
            owed = (!is_gone).then(|| Instant::now() + DROP_AGAIN);
        }
    }
    holding.cancel();
    held.shutdown().await;
}

/// How long the voters have been silent; none where this member is the only one.
fn silence_ms(commits: &Commits, epoch: Epoch) -> Option<u64> {
    let engine = commits.engine()?;
    let standing = engine.standing();
    if standing.leads != Some(epoch) {
        return Some(u64::MAX);
    }
    let is_alone = standing.members.voters == [engine.member()].into();
    (!is_alone).then(|| standing.heard_ms.unwrap_or(u64::MAX))
}

/// Has the agent of this machine give the master's address up; whether it is known to be gone.
pub(crate) async fn drop_address(world: &World) -> bool {
    match tokio::time::timeout(DROP_MAX, master_address::drop_here(world)).await {
        Ok(Ok(was_here)) => {
            if was_here {
                tracing::warn!("the master's address is given up");
            }
            return true;
        }
        Ok(Err(error)) => tracing::error!(error = chain(&error), "the address may still be here"),
        Err(_elapsed) => tracing::error!(
            "the agent of this machine does not answer: the master's address may still be here"
        ),
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::cut_off::REFUSE_AFTER_MS;

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_late_knows_how_late_it_is() {
        let majority = Majority::default();
        majority.note(Some(200));
        let (left, more) = (REFUSE_AFTER_MS - 200, 1);
        tokio::time::advance(Duration::from_millis(left)).await;
        assert_eq!(majority.contact(), Contact::Heard);
        // Nobody has looked since.
        tokio::time::advance(Duration::from_millis(more)).await;
        assert_eq!(majority.contact(), Contact::Refusing);
        assert_eq!(majority.silence_ms(), REFUSE_AFTER_MS + more);
        majority.note(Some(u64::MAX));
        assert_eq!(majority.contact(), Contact::AddressDropped);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_alone_hears_itself() {
        let majority = Majority::default();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(majority.contact(), Contact::Heard);
        majority.note(None);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(majority.silence_ms(), 0);
    }
}
