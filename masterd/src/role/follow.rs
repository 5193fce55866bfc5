//! Keeps up with what is committed, whoever is master: who the other members are, and who may ask
//! this one. Serves replication, below `commits`.

use std::sync::Arc;
use std::time::Duration;

use engine::{Committed, Engine};
use model::cluster::Cluster;
use model::document;
use model::layout::Layout;
use model::node::{Node, NodeRole};
use parking_lot::Mutex;
use queue_format::{Change, FileError, Key, Position, Reader};
use rpc::calls::{AllowList, Caller};
use rpc::tls::AllowedCallers;
use tokio::sync::{mpsc, watch};

use membership::peers::PeerBook;

/// How often is looked for what came by another way: the agent's allow-list, or an image of the
/// store. Nobody waits for it but who was just invited.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The nodes that may ask this member: the candidates by its own store, and those whom the agent of this
/// machine lets in. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Callers {
    layout: Layout,
    allowed: AllowedCallers,
    by_store: Arc<Mutex<Vec<Caller>>>,
}

impl Callers {
    /// Those whom the agent lets in.
    pub(crate) fn new(layout: Layout) -> Self {
        let callers = Self { layout, allowed: AllowedCallers::default(), by_store: Arc::default() };
        callers.refresh();
        callers
    }

    /// The callers, for the peer server.
    pub(crate) fn allowed(&self) -> AllowedCallers {
        self.allowed.clone()
    }

    fn set_nodes(&self, nodes: &[Node]) {
        let is_candidate = |node: &&Node| node.role == NodeRole::Candidate || node.member.is_some();
        *self.by_store.lock() = nodes.iter().filter(is_candidate).flat_map(Caller::of).collect();
        self.refresh();
    }

    /// Forgets what a store said that is gone.
    pub(crate) fn forget_store(&self) {
        self.by_store.lock().clear();
        self.refresh();
    }

    fn refresh(&self) {
        let AllowList { epoch, mut callers } = match rpc::identity::load_membership(&self.layout) {
            Ok(membership) => membership.allow,
            Err(error) => {
                tracing::warn!(%error, "it is not known whom the agent lets in");
                return;
            }
        };
        for caller in self.by_store.lock().iter() {
            if !callers.contains(caller) {
                callers.push(caller.clone());
            }
        }
        self.allowed.replace(AllowList { epoch, callers });
    }

    /// Looks again and again whom the agent lets in.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        while tokio::time::timeout(LOOK_AGAIN, stop.wait_for(|stop| *stop)).await.is_err() {
            self.refresh();
        }
    }
}

/// Follows one store.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    pub(crate) book: PeerBook,
    pub(crate) callers: Callers,
}

impl Follower {
    /// One of a node that is alone below `root`.
    #[cfg(test)]
    pub(crate) fn of_nobody(root: &std::path::Path) -> Self {
        let name = "n1.example".parse().unwrap();
        let now = model::Timestamp::from_micros(0);
        let authority = rpc::identity::Authority::create(&name, now).unwrap();
        let identity = Arc::new(authority.issue(&name, &[], now).unwrap());
        let book = PeerBook::new(identity, uuid::Uuid::nil());
        Self { book, callers: Callers::new(Layout::new(root)) }
    }

    /// Reads who is a node.
    pub(crate) fn look(&self, reader: &Reader) -> Result<(), FileError> {
        let mut nodes = Vec::new();
        let below = format!("{}/", document::NODES);
        for entry in reader.scan(&below)? {
            let (key, content) = entry?;
            match serde_json::from_slice::<Node>(&content) {
                Ok(node) => nodes.push(node),
                // A new master ends on it; a follower may outlive it.
                Err(error) => tracing::error!(%key, %error, "document does not read"),
            }
        }
        let cluster = Key::parse(document::CLUSTER).expect("the name of a document is a key");
        if let Some(content) = reader.read(&cluster)? {
            match serde_json::from_slice::<Cluster>(&content) {
                Ok(cluster) => self.book.set_next_member(cluster.next_node_id),
                Err(error) => tracing::error!(key = %cluster, %error, "document does not read"),
            }
        }
        self.book.set_nodes(&nodes);
        self.callers.set_nodes(&nodes);
        Ok(())
    }

    /// Listens to all that is committed, until the engine closes.
    pub(crate) async fn run(self, engine: Arc<Engine>, mut news: mpsc::Receiver<Committed>) {
        let reader = engine.reader();
        let mut seen = Position::default();
        loop {
            let look = match tokio::time::timeout(LOOK_AGAIN, news.recv()).await {
                Ok(None) => return,
                Ok(Some(Committed { position, batch })) => {
                    // Entries that are missing in between came with an image.
                    let before = std::mem::replace(&mut seen, position);
                    position.index != before.index + 1 || batch.0.iter().any(concerns)
                }
                // An image of another store comes without a word.
                Err(_elapsed) => {
                    let now = engine.position();
                    now != std::mem::replace(&mut seen, now)
                }
            };
            if look && let Err(error) = stdx::aside(|| self.look(&reader)) {
                tracing::error!(%error, "cannot read who is a node");
            }
        }
    }
}

/// Whether a change is one of nodes. Each that gives an id changes the node that gets it.
fn concerns(change: &Change) -> bool {
    let of_node = |key: &Key| key.as_str().starts_with(document::NODES);
    match change {
        Change::Put { key, .. } | Change::Delete { key } => of_node(key),
        Change::Move { from, to } => of_node(from) || of_node(to),
    }
}
