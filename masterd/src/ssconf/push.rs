//! Sees to it that every node has the files of who is master: each time they change, and each time an
//! agent is reached that was not before.

use std::sync::Arc;
use std::time::Duration;

use model::node::{Node, NodeRole};
use model::ssconf::Ssconf;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::nodes::compile;
use crate::agents::Behalf;
use crate::lu::{Context, Failure, World};

/// Pause after a push that failed, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two pushes of the same files: nobody waits for them but tools.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Pushes at the same time: each has a connection of its own, and a change of the master concerns
/// every node.
const AT_ONCE: usize = 32;

/// What all nodes should have, and the places for pushes.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    newest: watch::Sender<Arc<Ssconf>>,
    places: Arc<Semaphore>,
}

impl Wanted {
    /// What they should have now.
    pub(crate) fn new(world: &World) -> Self {
        let ssconf = compile(&world.published.snapshot());
        Self {
            newest: watch::Sender::new(Arc::new(ssconf)),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Compiles what they should have whenever the configuration changes, once for all of them,
    /// until `stop`.
    pub(crate) async fn follow(self, world: Arc<World>, stop: CancellationToken) {
        let mut changes = world.published.subscribe();
        loop {
            let snapshot = changes.borrow_and_update().clone();
            let ssconf = stdx::aside(|| compile(&snapshot));
            // What says the same is the same, whatever else was changed.
            self.newest.send_if_modified(|newest| {
                let differs = newest.files != ssconf.files;
                if differs {
                    *newest = Arc::new(ssconf);
                }
                differs
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Keeps one node's files, from the moment on when `reached` counts that its agent was reached.
pub(crate) async fn keep(
    world: &World,
    node: &Node,
    wanted: &Wanted,
    mut reached: watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    let mut newest = wanted.newest.subscribe();
    let mut tries = 0_u32;
    if stop.run_until_cancelled(reached.changed()).await.is_none_or(|reached| reached.is_err()) {
        return;
    }
    loop {
        let ssconf = Arc::clone(&newest.borrow_and_update());
        let pushed = stop.run_until_cancelled(push(world, node, wanted, &ssconf)).await;
        let pause = match pushed {
            None => return,
            Some(Ok(())) => {
                tries = 0;
                None
            }
            Some(Err(why)) => {
                if tries == 0 {
                    tracing::warn!(node = %node.name, why, "the files of who is master were not taken");
                }
                tries = tries.saturating_add(1);
                Some(pause(tries - 1))
            }
        };
        let again = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            changed = newest.changed() => if changed.is_err() { return },
            again = reached.changed() => if again.is_err() { return },
            () = again => {}
        }
    }
}

fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE)
}

async fn push(world: &World, node: &Node, wanted: &Wanted, ssconf: &Ssconf) -> Result<(), String> {
    let Ok(_place) = wanted.places.acquire().await else { return Ok(()) };
    push_one(world, node, ssconf, None).await
}

async fn push_one(
    world: &World,
    node: &Node,
    ssconf: &Ssconf,
    behalf: Option<Behalf>,
) -> Result<(), String> {
    match world.agents.ssconf_push(node, ssconf, behalf).await {
        Ok(held) if held.digest == ssconf.digest() => Ok(()),
        Ok(held) => {
            Err(format!("it has those of version {} and takes no older ones", held.version))
        }
        Err(error) => Err(stdx::daemon::chain(&error)),
    }
}

/// Sends the files to every node that is not offline; who does not take them is told of in the job's
/// log, and gets them when it is back.
///
/// # Errors
/// Canceled, or the master is ending.
pub(crate) async fn push_all(context: &mut Context) -> Result<(), Failure> {
    let snapshot = context.committed();
    let ssconf = compile(&snapshot);
    let behalf = Some((context.job(), context.op()));
    for node in snapshot.config.nodes.values().filter(|node| node.role != NodeRole::Offline) {
        context.safe_point()?;
        // "Running" must be durable before the first call.
        context.agents().await?;
        if let Err(why) = push_one(context.world(), node, &ssconf, behalf).await {
            let name = &node.name;
            let text = format!("{name} did not take the files of who is master ({why})");
            context.say(text).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<u64> = (0..8).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
