//! Asks members whether their disks take anything: the master learns it of who is sent something, and
//! an idle cluster sends nothing. Serves `gnt cluster status`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use model::node::NodeRole;
use rpc::peer::control::AskPosition;
use stdx::daemon::chain;

use crate::config::queue::Published;
use crate::config::reconciler::Reconciler;
use membership::peers::{PeerBook, PeerStore};

/// How often all members are asked. A full disk is a matter of minutes for an operator, and each
/// answer costs a look at the role entry.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// Asks members for the room of their disks. The last word of a member counts until it has another
/// one: who does not answer is told of otherwise.
pub(crate) struct AskForRoom {
    book: PeerBook,
    published: Arc<Published>,
    begun: bool,
}

impl AskForRoom {
    /// Asks the members of the `published` configuration by `book`.
    pub(crate) fn new(book: PeerBook, published: Arc<Published>) -> Self {
        Self { book, published, begun: false }
    }
}

impl Reconciler for AskForRoom {
    const NAME: &'static str = "room of members";

    async fn reconcile(&mut self) -> Option<Duration> {
        let book = &self.book;
        if !std::mem::replace(&mut self.begun, true) {
            // Answers to an earlier leadership are out of date.
            for (member, _) in book.others() {
                book.note_full(member, false);
            }
            return Some(ASK_AGAIN);
        }
        let asked = called(book, &self.published).into_iter().map(async |(member, place)| {
            if let Some(is_full) = is_full(book, place).await {
                book.note_full(member, is_full);
            }
        });
        join_all(asked).await;
        Some(ASK_AGAIN)
    }
}

/// The other members whose nodes are called.
fn called(book: &PeerBook, published: &Published) -> Vec<(u64, PeerStore)> {
    let config = published.snapshot().config;
    let is_called = |place: &PeerStore| {
        config.nodes.get(&place.target.name).is_some_and(|n| n.role != NodeRole::Offline)
    };
    let others = book.others().into_iter();
    others.filter(|(_, place)| is_called(place)).collect()
}

/// Whether the disk of a member takes nothing more, if it answers.
async fn is_full(book: &PeerBook, place: PeerStore) -> Option<bool> {
    let node = place.target.name.clone();
    let asked = match book.ask(place) {
        Ok(mut link) => link.call(&AskPosition {}).await,
        Err(error) => Err(error),
    };
    let told = asked.inspect_err(|error| {
        tracing::debug!(%node, error = chain(error), "it is not known whether its disk is full");
    });
    told.ok().map(|position| position.disk_full)
}
