//! Sees to it that every node has the files of who is master: each time they change, and each time an
//! agent is reached that was not before.

use std::sync::Arc;
use std::time::Duration;

use model::node::{Node, NodeRole};
use model::ssconf::{EPOCH, MASTER_IP, MASTER_NODE, PEERS, Ssconf};
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

/// Shortest time between two pushes to one node where the later one does not say who is master, or
/// where candidates are: a thousand nodes that are added one after the other would else be told of
/// each of them.
const GATHER: Duration = Duration::from_secs(5);
/// The files by which a machine finds the master: what they say, every node is told at once.
const URGENT: [&str; 4] = [MASTER_NODE, MASTER_IP, EPOCH, PEERS];

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
                gather(&mut newest, &ssconf, stop).await;
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

/// Waits, behind a push of `told`, until the next one may follow if there is something to tell.
async fn gather(
    newest: &mut watch::Receiver<Arc<Ssconf>>,
    told: &Ssconf,
    stop: &CancellationToken,
) {
    // An end of the sender shows where the next change is waited for.
    let urgent = async { newest.wait_for(|newest| is_urgent(told, newest)).await.map(drop) };
    drop(tokio::time::timeout(GATHER, stop.run_until_cancelled(urgent)).await);
    // What was looked at meanwhile has not been pushed.
    let differs = newest.borrow().files != told.files;
    if differs {
        newest.mark_changed();
    }
}

/// Whether a node that was told the one must hear the other at once.
fn is_urgent(told: &Ssconf, newest: &Ssconf) -> bool {
    URGENT.iter().any(|&name| told.files.get(name) != newest.files.get(name))
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

    fn ssconf(files: &[(&str, &str)]) -> Arc<Ssconf> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Arc::new(Ssconf { version: Default::default(), files: files.collect() })
    }

    #[tokio::test(start_paused = true)]
    async fn further_nodes_are_told_of_together_and_another_master_at_once() {
        let told = ssconf(&[("master_node", "n1"), ("node_list", "n1")]);
        let sender = watch::Sender::new(Arc::clone(&told));
        let (mut newest, stop) = (sender.subscribe(), CancellationToken::new());
        let begun = tokio::time::Instant::now();
        sender.send_replace(ssconf(&[("master_node", "n1"), ("node_list", "n1\nn2")]));
        gather(&mut newest, &told, &stop).await;
        assert_eq!(begun.elapsed(), GATHER);
        assert!(newest.has_changed().unwrap(), "it is still to be pushed");
        let begun = tokio::time::Instant::now();
        sender.send_replace(ssconf(&[("master_node", "n2"), ("node_list", "n1\nn2")]));
        gather(&mut newest, &told, &stop).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(newest.has_changed().unwrap());
        // Nothing new: the next change is waited for.
        sender.send_replace(Arc::clone(&told));
        gather(&mut newest, &told, &stop).await;
        assert!(!newest.has_changed().unwrap());
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<u64> = (0..8).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
