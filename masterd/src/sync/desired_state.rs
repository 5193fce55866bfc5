//! Keeps what every agent should have: it is pushed each time it changes, and each time an agent is
//! found that may not have it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use model::node::Node;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::AgentSync;
use crate::config::queue::{Published, Snapshot};
use crate::config::reconciler::Reconciler;

/// Pause after a push that failed, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two pushes of the same: who is away is told at once when it is reached.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Pushes of one kind at the same time: each may have a connection of its own, and a change of the
/// master concerns every node.
const AT_ONCE: usize = 32;
/// Shortest time between two pushes to one node, unless the later one is urgent. Else a thousand nodes
/// that are added one after the other would cause a push each.
const GATHER: Duration = Duration::from_secs(5);

/// Something that follows from the configuration and that every agent should have.
pub(crate) trait Kept: Debug + Send + Sync + Sized + 'static {
    /// Its name in the log.
    const WHAT: &'static str;

    /// Derives it from a committed configuration.
    fn of(snapshot: &Snapshot) -> Self;

    /// Whether the other says nothing else.
    fn is_like(&self, other: &Self) -> bool;

    /// Whether a node that was told this must hear the newest at once.
    fn must_follow(&self, newest: &Self) -> bool;

    /// Sends it to a node's agent, unless that is known to have it; says why that does not have it
    /// afterwards.
    fn push(
        &self,
        sync: &AgentSync,
        node: &Node,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// The state that all nodes should have, and the places for pushes.
#[derive(Debug)]
pub(crate) struct Wanted<K> {
    newest: watch::Sender<Arc<K>>,
    places: Arc<Semaphore>,
}

impl<K> Clone for Wanted<K> {
    fn clone(&self) -> Self {
        Self { newest: self.newest.clone(), places: Arc::clone(&self.places) }
    }
}

impl<K: Kept> Wanted<K> {
    /// Begins with the state that they should have now.
    pub(crate) fn new(published: &Published) -> Self {
        Self {
            newest: watch::Sender::new(Arc::new(K::of(&published.snapshot()))),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The state that they should have, as of the last look at the configuration.
    pub(crate) fn newest(&self) -> Arc<K> {
        Arc::clone(&self.newest.borrow())
    }

    /// Compiles what they should have whenever the configuration changes, once for all of them,
    /// until `stop`.
    pub(crate) async fn follow(
        self,
        mut changes: watch::Receiver<Snapshot>,
        stop: CancellationToken,
    ) {
        loop {
            let snapshot = changes.borrow_and_update().clone();
            let compiled = stdx::aside(|| K::of(&snapshot));
            // An equal state is no change, whatever else was changed.
            self.newest.send_if_modified(|newest| {
                let differs = !newest.is_like(&compiled);
                if differs {
                    *newest = Arc::new(compiled);
                }
                differs
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn push(&self, sync: &AgentSync, node: &Node, what: &K) -> Result<(), String> {
        let Ok(_place) = self.places.acquire().await else { return Ok(()) };
        what.push(sync, node).await
    }
}

/// Keeps what one node has, from the moment on when `due` first counts that its agent may not have
/// it.
#[derive(Debug)]
pub(super) struct Keep<K> {
    sync: Arc<AgentSync>,
    node: Arc<Node>,
    wanted: Wanted<K>,
    newest: watch::Receiver<Arc<K>>,
    due: watch::Receiver<u64>,
    tries: u32,
}

impl<K: Kept> Keep<K> {
    /// Keeps what is `wanted` at a node.
    pub(super) fn new(
        sync: Arc<AgentSync>,
        node: Arc<Node>,
        wanted: Wanted<K>,
        due: watch::Receiver<u64>,
    ) -> Self {
        let newest = wanted.newest.subscribe();
        Self { sync, node, wanted, newest, due, tries: 0 }
    }
}

impl<K: Kept> Reconciler for Keep<K> {
    const NAME: &'static str = K::WHAT;

    async fn reconcile(&mut self) -> Option<Duration> {
        if *self.due.borrow_and_update() == 0 {
            return None;
        }
        let told = Arc::clone(&self.newest.borrow_and_update());
        match self.wanted.push(&self.sync, &self.node, &told).await {
            Ok(()) => {
                self.tries = 0;
                gather(&mut self.newest, &*told).await;
                None
            }
            Err(why) => {
                if self.tries == 0 {
                    let node = &self.node.name;
                    tracing::warn!(%node, why, "the agent did not take {}", K::WHAT);
                }
                self.tries = self.tries.saturating_add(1);
                Some(pause(self.tries - 1))
            }
        }
    }

    async fn woken(&mut self) {
        let changed = tokio::select! {
            changed = self.newest.changed() => changed,
            again = self.due.changed() => again,
        };
        if changed.is_err() {
            // The sender has ended, and so does this one.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits, behind a push of `told`, until the next one may follow if there is something to tell.
async fn gather<K: Kept>(newest: &mut watch::Receiver<Arc<K>>, told: &K) {
    // An end of the sender shows where the next change is waited for.
    let urgent = async { newest.wait_for(|newest| told.must_follow(newest)).await.map(drop) };
    drop(tokio::time::timeout(GATHER, urgent).await);
    // A change that was looked at meanwhile has not been pushed.
    let differs = !newest.borrow().is_like(told);
    if differs {
        newest.mark_changed();
    }
}

fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use model::ssconf::Ssconf;

    use super::*;

    fn ssconf(files: &[(&str, &str)]) -> Arc<Ssconf> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Arc::new(Ssconf { version: Default::default(), files: files.collect() })
    }

    #[tokio::test(start_paused = true)]
    async fn further_nodes_are_told_of_together_and_another_master_at_once() {
        let told = ssconf(&[("master_node", "n1"), ("node_list", "n1")]);
        let sender = watch::Sender::new(Arc::clone(&told));
        let mut newest = sender.subscribe();
        let begun = tokio::time::Instant::now();
        sender.send_replace(ssconf(&[("master_node", "n1"), ("node_list", "n1\nn2")]));
        gather(&mut newest, &*told).await;
        assert_eq!(begun.elapsed(), GATHER);
        assert!(newest.has_changed().unwrap(), "it is still to be pushed");
        let begun = tokio::time::Instant::now();
        sender.send_replace(ssconf(&[("master_node", "n2"), ("node_list", "n1\nn2")]));
        gather(&mut newest, &*told).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(newest.has_changed().unwrap());
        // Nothing new: the next change is waited for.
        sender.send_replace(Arc::clone(&told));
        gather(&mut newest, &*told).await;
        assert!(!newest.has_changed().unwrap());
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<u64> = (0..8).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
