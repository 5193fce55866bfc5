//! Asks every member for the digest of its store at one moment, and those that differ for the keys.
//!
//! Members can tell of a moment only before the next entry is applied. In a busy cluster, the comparison
//! picks a later moment and brings the log there.

use std::future::Future;
use std::io;
use std::sync::Arc;

use engine::Engine;
use futures_util::future::{Either, join, join_all, select};
use model::node::{Node, NodeRole};
use queue_format::Position;
use rpc::peer::control::{AskDigest, AskPosition, PeerDigest};
use rpc::peer::{ControlLink, PeerError};
use stdx::daemon::chain;

use crate::config::queue::Writer;
use crate::config::{Config, ConfigChange};
use crate::role::local_member::digest::digest;
use crate::role::replicas::{Compared, Differing, Page, page};
use membership::peers::{PeerBook, PeerStore};

/// How many entries ahead the moment is, one attempt after the other. The first is none, for an idle
/// cluster. The last is as many as a busy cluster commits in the second that a question may take.
const AHEAD: [u64; 4] = [0, 16, 256, 4_096];

/// Pages of keys that are compared in one group: each reads the whole group, on both sides.
const PAGES_MAX: usize = 8;

/// One member that is asked.
struct Asked {
    node: Arc<Node>,
    link: ControlLink,
}

/// The digests of both sides at one moment.
type Both = (Arc<PeerDigest>, PeerDigest);

/// Compares the stores of all members with the master's; nothing where there is nobody else.
pub(super) async fn compare(
    engine: Arc<Engine>,
    config: &Config,
    peers: &PeerBook,
    write: &impl Write,
) -> Vec<Compared> {
    let status = engine.status();
    let is_member =
        |id: u64| status.members.voters.contains(&id) || status.members.learners().any(|l| l == id);
    let follows = |node: &&Arc<Node>| {
        let member = node.member.as_ref().map(|member| member.id);
        let is_called = node.role != NodeRole::Offline && !config.is_master(node);
        is_called && member.is_some_and(is_member)
    };
    let nodes = config.nodes.values().filter(follows).cloned().collect();
    Comparison { engine, peers, write }.run(nodes).await
}

/// A writer that can bring the log on.
pub(super) trait Write: Sync {
    /// Makes one further entry, which changes nothing; false if none can be made.
    fn write(&self) -> impl Future<Output = bool> + Send;
}

impl Write for Writer {
    async fn write(&self) -> bool {
        // The present document once more.
        let same =
            |config: &Config| Ok((vec![ConfigChange::Cluster((*config.cluster).clone())], ()));
        self.transact(None, same).await.is_ok()
    }
}

/// A writer that only waits for the entries of others.
pub(super) struct Onlooker;

impl Write for Onlooker {
    async fn write(&self) -> bool {
        false
    }
}

/// Who compares.
struct Comparison<'a, W> {
    engine: Arc<Engine>,
    peers: &'a PeerBook,
    write: &'a W,
}

impl<W: Write> Comparison<'_, W> {
    async fn run(&self, nodes: Vec<Arc<Node>>) -> Vec<Compared> {
        let (mut asked, mut compared) = self.open(nodes).await;
        let groups = self.at_one_moment(&mut asked, None, None).await;
        for (mut asked, both) in asked.into_iter().zip(groups) {
            let outcome = match both {
                Ok((own, theirs)) => self.keys(&mut asked, page(&own, &theirs)).await,
                Err(why) => Err(why),
            };
            let node = asked.node.name.clone();
            compared.push(Compared { node, outcome, is_refused: false });
        }
        compared.sort_by(|one, other| one.node.cmp(&other.node));
        compared
    }

    /// Opens a connection to every member, so that a question for a moment is quick; and who is not
    /// reached.
    async fn open(&self, nodes: Vec<Arc<Node>>) -> (Vec<Asked>, Vec<Compared>) {
        let opened = nodes.into_iter().map(|node| {
            let link = self.peers.ask(PeerStore::of(&node));
            async move {
                let opened = match link {
                    Ok(mut link) => link.call(&AskPosition {}).await.map(|_position| link),
                    Err(error) => Err(error),
                };
                (node, opened)
            }
        });
        let (mut asked, mut away) = (Vec::new(), Vec::new());
        for (node, opened) in join_all(opened).await {
            match opened {
                Ok(link) => asked.push(Asked { node, link }),
                Err(error) => away.push(Compared {
                    node: node.name.clone(),
                    outcome: Err(chain(&error)),
                    is_refused: is_refused(&error),
                }),
            }
        }
        (asked, away)
    }

    /// Names the keys that differ in the groups that do.
    async fn keys(&self, asked: &mut Asked, groups: Page) -> Result<Differing, String> {
        let groups: Vec<String> = groups.first.into_iter().map(|other| other.key).collect();
        let mut differing = Differing::default();
        for group in &groups {
            let mut after = None;
            for pages in 1.. {
                let one = std::slice::from_mut(asked);
                let both = self.at_one_moment(one, Some(group), after.as_deref()).await;
                let (own, theirs) = both.into_iter().next().ok_or("nobody was asked")??;
                let mut page = page(&own, &theirs);
                after = page.next.take();
                differing.take(page);
                if after.is_none() {
                    break;
                }
                if pages == PAGES_MAX {
                    differing.cut_short = true;
                    break;
                }
            }
        }
        differing.groups = groups;
        Ok(differing)
    }

    /// The digests of the master and of each of these members, each pair at one moment.
    async fn at_one_moment(
        &self,
        asked: &mut [Asked],
        group: Option<&str>,
        after: Option<&str>,
    ) -> Vec<Result<Both, String>> {
        let mut told: Vec<Result<Both, String>> =
            asked.iter().map(|_| Err("it was not asked".to_owned())).collect();
        let mut open: Vec<usize> = (0..asked.len()).collect();
        for ahead in AHEAD {
            if open.is_empty() {
                break;
            }
            let now = self.engine.position();
            let position = Position { index: now.index.saturating_add(ahead), ..now };
            let (group, after) = (group.map(str::to_owned), after.map(str::to_owned));
            let call = AskDigest { position, group, after };
            let ask = asked.iter_mut().enumerate().filter(|(at, _)| open.contains(at));
            let ask = ask.map(|(at, one)| {
                let call = call.clone();
                async move { (at, one.link.call(&call).await) }
            });
            let both = join(digest(&self.engine, call.clone()), join_all(ask));
            let moving = self.bring_to(position.index);
            let (own, theirs) = match select(Box::pin(both), Box::pin(moving)).await {
                Either::Left((both, _)) => both,
                Either::Right(((), both)) => both.await,
            };
            let own = own.map(Arc::new);
            for (at, theirs) in theirs {
                // A member that is not there at all is not there for the next moment either.
                let again = own.is_err() || matches!(theirs, Err(PeerError::Failed { .. }));
                if !again {
                    open.retain(|open| *open != at);
                }
                if let Some(told) = told.get_mut(at) {
                    *told = match (&own, theirs) {
                        (Ok(own), Ok(theirs)) => Ok((Arc::clone(own), theirs)),
                        (Err(why), _) => Err(format!("the master's own copy: {}", chain(why))),
                        (_, Err(error)) => Err(chain(&error)),
                    };
                }
            }
        }
        told
    }

    /// Sees to it that there is an entry `index`, if nobody else writes.
    async fn bring_to(&self, index: u64) {
        while self.engine.position().index < index {
            // A master that can write no more is told of by who waits for the moment.
            if !self.write.write().await {
                return;
            }
        }
    }
}

/// Whether the machine answers and nothing listens at that port.
fn is_refused(error: &PeerError) -> bool {
    let refused = io::ErrorKind::ConnectionRefused;
    matches!(error, PeerError::Unreachable { error, .. } if error.kind() == refused)
}

#[cfg(test)]
mod tests;
