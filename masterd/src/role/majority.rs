//! Whether this master hears a majority of the voters, and what it may do meanwhile (docs/failover.md,
//! "Being cut off"). The rules are in `jobs::majority`; this asks the engine and does what they say.
//! Serves replication, below `commits`.

use std::sync::Arc;
use std::time::Duration;

use model::Code;
use queue_format::Epoch;
use stdx::daemon::chain;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use jobs::majority::Majority;
use jobs::majority::contact::{Contact, Turn};

use crate::agents::master_address::{Holding, MoveAddress};
use crate::config::queue::Commits;
use crate::config::reconciler;

/// How often is looked: a tenth of the silence after which a master refuses.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the agent of this machine may take to give the address up before the rest goes on.
const DROP_MAX: Duration = Duration::from_secs(5);

/// How long after an agent did not give the address up it is asked again.
const DROP_AGAIN: Duration = Duration::from_secs(2);

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
pub(crate) async fn run(majority: Majority, address: Arc<MoveAddress>, over: CancellationToken) {
    let mut contact = Contact::Heard;
    let mut holding = CancellationToken::new();
    let held = stdx::Tasks::new();
    // When the address is asked for next that its agent has not given up yet.
    let mut owed = None;
    let hold = |stop: CancellationToken| {
        let address = Arc::clone(&address);
        held.spawn("master address", reconciler::run(Holding::new(address), stop));
    };
    hold(holding.clone());
    while over.run_until_cancelled(tokio::time::sleep(LOOK_AGAIN)).await.is_some() {
        let silence_ms = majority.silence_ms();
        let next = contact.then(silence_ms);
        for turn in contact.turns(next) {
            match turn {
                Turn::Refuse => {
                    let code = Code::MajorityLost.word();
                    tracing::error!(code, silence_ms, "no majority is heard: changes are refused");
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
            let is_gone = drop_address(&address).await;
            owed = (!is_gone).then(|| Instant::now() + DROP_AGAIN);
        }
    }
    holding.cancel();
    held.shutdown().await;
}

/// How long the voters have been silent; none where this member is the only one.
fn silence_ms(commits: &Commits, epoch: Epoch) -> Option<u64> {
    let engine = commits.engine()?;
    let status = engine.status();
    if status.leads != Some(epoch) {
        return Some(u64::MAX);
    }
    let is_alone = status.members.voters == [engine.member()].into();
    (!is_alone).then(|| status.heard_ms.unwrap_or(u64::MAX))
}

/// Has the agent of this machine give the master's address up; whether it is known to be gone.
pub(crate) async fn drop_address(address: &MoveAddress) -> bool {
    match tokio::time::timeout(DROP_MAX, address.drop_here()).await {
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
