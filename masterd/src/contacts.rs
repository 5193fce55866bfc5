//! Which agents are reached, since when, and why not; for the list of nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::blob::Blob;
use model::{NodeName, Timestamp};
use parking_lot::RwLock;
use rpc::RpcError;
use rpc::calls::LeaseRangeServed;
use tokio::sync::watch;

use crate::signs::Signs;
use crate::strangers::Strangers;

/// How one agent was found at the last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// When it came to be so.
    pub since: Timestamp,
    /// Why the agent is not reached; none if it is.
    pub failure: Option<String>,
    /// Whether it is not reached because its list of callers lacks this master.
    pub is_stranger: bool,
    /// Whether it is not reached because it obeys a later epoch.
    pub obeys_later: bool,
    /// Whether it did not hold the document of its rack when it last answered.
    pub behind: bool,
    /// When its certificate ends, as it said when it last answered.
    pub certificate_ends: Option<Timestamp>,
    /// What keeps it from serving its racks, as it said when it last answered.
    pub troubles: Vec<String>,
    /// The lease ranges that it serves, as it said when it last answered.
    pub lease_ranges: Vec<LeaseRangeServed>,
    /// Steps that would mend the network of its host, as it says itself.
    pub network_drift: Vec<String>,
}

/// Why an agent is not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreached {
    pub(crate) why: String,
    /// Its list of callers lacks this master.
    pub(crate) is_stranger: bool,
    /// It obeys a later epoch.
    pub(crate) obeys_later: bool,
}

impl Unreached {
    /// What a failure tells of its agent; nothing where that was not asked.
    pub(crate) fn by(error: &RpcError) -> Option<Self> {
        let (is_stranger, obeys_later) = (error.is_of_a_stranger(), error.is_of_an_epoch());
        let why = stdx::daemon::chain(error);
        (!error.is_of_being_cut_off()).then_some(Self { why, is_stranger, obeys_later })
    }
}

/// Every agent that an exchange was tried with.
#[derive(Debug, Default)]
pub struct Contacts {
    agents: RwLock<HashMap<NodeName, Contact>>,
    /// Files of images that agents have, as they said last.
    blobs: RwLock<HashMap<NodeName, Arc<BTreeSet<Blob>>>>,
    /// Machines that are not registered and were seen by agents.
    pub(crate) strangers: Strangers,
    /// Signs of life of machines.
    pub(crate) signs: Signs,
    /// Nodes that are being given their certificate.
    enrolling: Arc<watch::Sender<BTreeSet<NodeName>>>,
}

/// Keeps exchanges from a node until it is dropped.
#[derive(Debug)]
pub struct Enrolling(Arc<watch::Sender<BTreeSet<NodeName>>>, NodeName);

impl Drop for Enrolling {
    fn drop(&mut self) {
        self.0.send_if_modified(|names| names.remove(&self.1));
    }
}

impl Contacts {
    /// Keeps exchanges from a node that is about to be given its certificate: it would refuse them.
    #[must_use]
    pub fn enrol(&self, node: NodeName) -> Enrolling {
        self.enrolling.send_if_modified(|names| names.insert(node.clone()));
        Enrolling(Arc::clone(&self.enrolling), node)
    }

    /// The nodes that are being given their certificate.
    pub(crate) fn enrolling(&self) -> watch::Receiver<BTreeSet<NodeName>> {
        self.enrolling.subscribe()
    }

    /// The last attempt's outcome, if there was one.
    #[must_use]
    pub fn get(&self, node: &NodeName) -> Option<Contact> {
        self.agents.read().get(node).cloned()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> HashMap<NodeName, Contact> {
        self.agents.read().clone()
    }

    /// The nodes whose agents were reached at the last attempt.
    #[must_use]
    pub fn reached(&self) -> BTreeSet<NodeName> {
        let contacts = self.agents.read();
        let reached = contacts.iter().filter(|(_, contact)| contact.failure.is_none());
        reached.map(|(name, _)| name.clone()).collect()
    }

    /// Whether an agent refuses this master since it obeys a later epoch.
    #[must_use]
    pub fn any_obeys_later(&self) -> bool {
        self.agents.read().values().any(|contact| contact.obeys_later)
    }

    /// How many agents were reached at the last attempt, and how many were not.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let contacts = self.agents.read();
        let reached = contacts.values().filter(|contact| contact.failure.is_none()).count();
        (reached, contacts.len() - reached)
    }

    /// Notes the outcome of an attempt: the newest reason counts, and the time when it began to be
    /// so.
    pub(crate) fn set(&self, node: &NodeName, now: Timestamp, failure: Option<Unreached>) {
        let mut contacts = self.agents.write();
        let known = contacts.get(node);
        let before = known.filter(|c| c.failure.is_some() == failure.is_some());
        let since = before.map_or(now, |before| before.since);
        let behind = known.is_some_and(|contact| contact.behind);
        let certificate_ends = known.and_then(|contact| contact.certificate_ends);
        let troubles = known.map(|contact| contact.troubles.clone()).unwrap_or_default();
        let lease_ranges = known.map(|contact| contact.lease_ranges.clone()).unwrap_or_default();
        let network_drift = known.map(|contact| contact.network_drift.clone()).unwrap_or_default();
        let is_stranger = failure.as_ref().is_some_and(|failure| failure.is_stranger);
        let obeys_later = failure.as_ref().is_some_and(|failure| failure.obeys_later);
        let failure = failure.map(|failure| failure.why);
        let contact = Contact {
            since,
            failure,
            is_stranger,
            obeys_later,
            behind,
            certificate_ends,
            troubles,
            lease_ranges,
            network_drift,
        };
        contacts.insert(node.clone(), contact);
    }

    /// Notes whether an agent that answered holds the document of its rack, when its certificate ends,
    /// what keeps it from serving, and how its host's network drifted.
    pub(crate) fn set_held(
        &self,
        node: &NodeName,
        behind: bool,
        ends: Option<Timestamp>,
        (troubles, network_drift): (Vec<String>, Vec<String>),
    ) {
        if let Some(contact) = self.agents.write().get_mut(node) {
            (contact.behind, contact.certificate_ends) = (behind, ends);
            (contact.troubles, contact.network_drift) = (troubles, network_drift);
        }
    }

    /// Notes which lease ranges an agent serves that answered.
    pub(crate) fn set_lease_ranges(&self, node: &NodeName, ranges: Vec<LeaseRangeServed>) {
        if let Some(contact) = self.agents.write().get_mut(node) {
            contact.lease_ranges = ranges;
        }
    }

    /// Notes which files of images an agent has.
    pub(crate) fn set_blobs(&self, node: &NodeName, blobs: BTreeSet<Blob>) {
        self.blobs.write().insert(node.clone(), Arc::new(blobs));
    }

    /// The nodes whose agents have all of these files, as they said last.
    pub(crate) fn with_blobs(&self, blobs: &[Blob]) -> BTreeSet<NodeName> {
        let known = self.blobs.read();
        let whole = known.iter().filter(|(_, held)| blobs.iter().all(|blob| held.contains(blob)));
        whole.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn forget(&self, node: &NodeName) {
        self.agents.write().remove(node);
        self.blobs.write().remove(node);
    }
}

#[cfg(test)]
mod tests {
    use rpc::client::Refusal;

    use super::*;

    #[test]
    fn a_master_that_is_cut_off_learns_nothing_of_whom_it_does_not_ask() {
        let refused = |refusal| RpcError::Refused { node: "n1".parse().unwrap(), refusal };
        assert_eq!(Unreached::by(&refused(Refusal::CutOff)), None);
        let message = "not listed".to_owned();
        let stranger = Unreached::by(&refused(Refusal::Stranger { message })).unwrap();
        assert!(stranger.is_stranger && stranger.why.contains("not listed"), "{stranger:?}");
        let offline = RpcError::Offline { node: "n1".parse().unwrap() };
        assert!(!Unreached::by(&offline).unwrap().is_stranger);
    }

    #[test]
    fn the_newest_reason_and_the_oldest_time_count() {
        let contacts = Contacts::default();
        let node: NodeName = "n1".parse().unwrap();
        let at = Timestamp::from_micros;
        let found = |since, failure: Option<&str>| {
            let (failure, is_stranger) = (failure.map(str::to_owned), failure == Some("refused"));
            let certificate_ends = Some(at(9));
            let since = at(since);
            let obeys_later = false;
            let behind = true;
            let troubles = vec!["no interface".to_owned()];
            Some(Contact {
                since,
                failure,
                is_stranger,
                obeys_later,
                behind,
                certificate_ends,
                troubles,
                lease_ranges: Vec::new(),
                network_drift: vec!["mtu".to_owned()],
            })
        };
        let unreached = |why: &str| {
            let (why, is_stranger) = (why.to_owned(), why == "refused");
            Some(Unreached { why, is_stranger, obeys_later: false })
        };
        assert_eq!(contacts.get(&node), None);
        let trouble = || (vec!["no interface".to_owned()], vec!["mtu".to_owned()]);
        contacts.set_held(&node, true, Some(at(9)), trouble());
        contacts.set(&node, at(1), None);
        contacts.set_held(&node, true, Some(at(9)), trouble());
        contacts.set(&node, at(2), unreached("stopping"));
        contacts.set(&node, at(3), unreached("refused"));
        assert_eq!(contacts.get(&node), found(2, Some("refused")));
        contacts.set(&node, at(4), None);
        assert_eq!(contacts.get(&node), found(4, None));
        assert_eq!(contacts.counts(), (1, 0));
        assert_eq!(contacts.reached(), BTreeSet::from([node.clone()]));
        contacts.forget(&node);
        assert_eq!(contacts.get(&node), None);
    }

    #[test]
    fn a_node_holds_an_image_that_it_has_all_files_of() {
        let contacts = Contacts::default();
        let node = |name: &str| name.parse::<NodeName>().unwrap();
        let blob = |digit: &str| Blob { sha256: digit.repeat(64).parse().unwrap(), size: 1 };
        contacts.set_blobs(&node("n1.example"), [blob("a"), blob("b")].into());
        contacts.set_blobs(&node("n2.example"), [blob("a")].into());
        assert_eq!(contacts.with_blobs(&[blob("a")]).len(), 2);
        assert_eq!(contacts.with_blobs(&[blob("a"), blob("b")]), [node("n1.example")].into());
        contacts.forget(&node("n1.example"));
        assert_eq!(contacts.with_blobs(&[blob("b")]), [].into());
    }
}
