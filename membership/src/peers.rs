//! The way to the other members' `masterd`: who they are, by the configuration, and the engine's
//! links to them. Serves replication, below `commits`.

mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Answer, Link, Peers};
use model::NodeName;
use model::node::Node;
use parking_lot::RwLock;
use queue_format::{Epoch, Position};
use rpc::identity::NodeIdentity;
use rpc::peer::{ControlLink, PassLink, PeerClient, PeerError, PeerTarget, StoreId};
use tokio::time::Instant;
use uuid::Uuid;

pub use status::{Instead, Stray};
use status::{PeerStatuses, Word};

use crate::acknowledged::{Acknowledged, recorded};

/// A member as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStore {
    /// Its node.
    pub target: PeerTarget,
    pub store: StoreId,
}

impl PeerStore {
    /// The address of a node's `masterd`, and the member that it should have.
    pub fn of(node: &Node) -> Self {
        let target = PeerTarget {
            name: node.name.clone(),
            address: node.peer_address(),
            fingerprint: Some(node.fingerprint),
            renewing: node.renewing,
        };
        let store = node.member.as_ref().map_or(StoreId::NONE, |member| StoreId {
            member: Some(member.id),
            incarnation: member.incarnation,
        });
        Self { target, store }
    }
}

/// The book of the other members, with the identity that asks them; clones share it.
#[derive(Debug, Clone)]
pub struct PeerBook {
    identity: Arc<NodeIdentity>,
    cluster_uuid: Uuid,
    began: Instant,
    pages: Arc<RwLock<Pages>>,
}

#[derive(Debug, Default)]
struct Pages {
    /// This machine's own store.
    here: StoreId,
    /// Members by id.
    members: BTreeMap<u64, PeerStore>,
    /// Ids from here on were given to nobody, as far as is known here.
    next_member: u64,
    /// Up to where they are known to hold the log.
    acknowledged: Acknowledged,
    /// The members' words on their stores and disks.
    said: PeerStatuses,
}

impl PeerBook {
    /// An empty one, of the node `identity`.
    pub fn new(identity: Arc<NodeIdentity>, cluster_uuid: Uuid) -> Self {
        Self { identity, cluster_uuid, began: Instant::now(), pages: Arc::default() }
    }

    /// The node that asks.
    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Says what store this machine has.
    pub fn set_here(&self, here: StoreId) {
        self.pages.write().here = here;
    }

    /// The store of this machine.
    pub fn here(&self) -> StoreId {
        self.pages.read().here
    }

    /// Takes over the members of these nodes; who is not among them is none any more.
    pub fn set_nodes<'a>(&self, nodes: impl IntoIterator<Item = &'a Node>) {
        let mut pages = self.pages.write();
        pages.members.clear();
        for node in nodes {
            if let Some(member) = &node.member {
                pages.members.insert(member.id, PeerStore::of(node));
                pages.acknowledged.told(member.id, recorded(member));
            }
        }
        let Pages { members, said, .. } = &mut *pages;
        said.keep(|member| members.contains_key(&member));
    }

    /// Says from which id on none was given to any member.
    pub fn set_next_member(&self, next_member: u64) {
        self.pages.write().next_member = next_member;
    }

    /// Whether a member came to be after all that is known here.
    pub fn is_newer(&self, member: u64) -> bool {
        let next_member = self.pages.read().next_member;
        next_member > 0 && member >= next_member
    }

    /// The last committed entry that a member has made durable, as far as is known here.
    pub fn acknowledged(&self, member: u64) -> Position {
        self.pages.read().acknowledged.of(member)
    }

    /// Members that cannot follow with what they have, by their last words.
    pub fn strays(&self) -> BTreeMap<u64, Stray> {
        self.pages.read().said.strays(self.began.elapsed())
    }

    /// Notes whether the disk of a member takes nothing.
    pub fn note_full(&self, member: u64, is_full: bool) {
        let mut pages = self.pages.write();
        if pages.members.contains_key(&member) {
            pages.said.disk(member, is_full);
        }
    }

    /// Members whose disks take nothing, as they said last.
    pub fn full(&self) -> BTreeSet<u64> {
        self.pages.read().said.full().clone()
    }

    fn note(&self, member: u64, answer: &Result<Bytes, PeerError>) {
        let word = Word::of(answer);
        if self.pages.read().said.is_idle(member, &word) {
            return;
        }
        let why = match &word {
            Word::Stray(stray) => stray.why.clone(),
            Word::Nothing | Word::Follows => String::new(),
        };
        if self.pages.write().said.store(member, word, self.began.elapsed()) {
            tracing::error!(member, why, "does not follow");
        }
    }

    /// Whether no member is known: that of a node that was just invited, or follows nobody yet.
    pub fn is_empty(&self) -> bool {
        self.pages.read().members.is_empty()
    }

    pub fn place(&self, member: u64) -> Option<PeerStore> {
        self.pages.read().members.get(&member).cloned()
    }

    /// The place of a node's member.
    pub fn of_node(&self, node: &NodeName) -> Option<PeerStore> {
        let pages = self.pages.read();
        pages.members.values().find(|place| place.target.name == *node).cloned()
    }

    /// The places of all members but this machine's.
    pub fn others(&self) -> BTreeMap<u64, PeerStore> {
        let mut members = self.pages.read().members.clone();
        members.retain(|_, place| place.target.name != *self.identity.name());
        members
    }

    /// Names of the nodes with a member, but for this one.
    pub fn names(&self) -> Vec<NodeName> {
        self.others().into_values().map(|place| place.target.name).collect()
    }

    fn client(&self, target: PeerTarget) -> Result<PeerClient, PeerError> {
        PeerClient::new(&self.identity, self.cluster_uuid, target)
    }

    /// A link for questions to the `masterd` of a node, whatever store it has.
    ///
    /// # Errors
    /// The node's name is of no use for TLS.
    pub fn control(&self, node: &Node) -> Result<ControlLink, PeerError> {
        self.ask(PeerStore { store: StoreId::NONE, ..PeerStore::of(node) })
    }

    /// A link for requests of clients to the master at `place`.
    ///
    /// # Errors
    /// The node's name is of no use for TLS.
    pub fn pass(&self, place: PeerStore) -> Result<PassLink, PeerError> {
        Ok(self.client(place.target)?.pass(self.here(), place.store))
    }

    /// A link for questions to one member.
    ///
    /// # Errors
    /// The node's name is of no use for TLS.
    pub fn ask(&self, place: PeerStore) -> Result<ControlLink, PeerError> {
        Ok(self.client(place.target)?.control(self.here(), place.store))
    }
}

impl Peers for PeerBook {
    fn link(&self, member: u64, node: &str) -> Box<dyn Link> {
        Box::new(MemberLink { book: self.clone(), member, node: node.to_owned(), open: None })
    }
}

/// The engine's link to one member, made anew when that moves or gets another certificate.
struct MemberLink {
    book: PeerBook,
    member: u64,
    node: String,
    open: Option<(StoreId, PeerStore, rpc::peer::Link)>,
}

impl MemberLink {
    /// The link as the configuration wants it at this moment.
    fn current(&mut self) -> Result<&mut rpc::peer::Link, engine::PeerError> {
        let gone = |reason: String| engine::PeerError { reason, soon: false };
        let (here, place) = (self.book.here(), self.book.place(self.member));
        let place = place.ok_or_else(|| {
            gone(format!("member {} ({}) is not in the configuration", self.member, self.node))
        })?;
        let kept = self.open.take().filter(|(from, to, _)| *from == here && *to == place);
        let link = match kept {
            Some((_, _, link)) => link,
            None => {
                let client = self.book.client(place.target.clone());
                client.map_err(|error| gone(error.to_string()))?.engine(here, place.store)
            }
        };
        Ok(&mut self.open.insert((here, place, link)).2)
    }
}

impl Link for MemberLink {
    fn ask(&mut self, kind: u8, body: Bytes, limit: Duration) -> Answer<'_> {
        Box::pin(async move {
            let acknowledged = self.book.acknowledged(self.member);
            let link = self.current()?;
            link.expect(acknowledged);
            let answer = link.ask(kind, &[&body], limit).await;
            self.book.note(self.member, &answer);
            answer.map_err(|error| engine::PeerError {
                reason: stdx::daemon::chain(&error),
                // A connection that broke is made anew at once; who is not there is not asked so.
                soon: matches!(error, PeerError::Lost { .. } | PeerError::TimedOut { .. }),
            })
        })
    }

    fn heard(&mut self, leadership: Epoch, matched: Option<Position>, committed: Position) {
        let mut pages = self.book.pages.write();
        pages.acknowledged.heard(leadership, self.member, matched, committed);
    }
}
