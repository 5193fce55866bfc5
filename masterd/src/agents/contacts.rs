//! Which agents are reached, since when, and why not; for the list of nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::blob::Blob;
use model::rack_fault::{RackCause, RackFault};
use model::{Code, Coded as _, NodeName, Timestamp};
use parking_lot::RwLock;
use rpc::RpcError;
use rpc::calls::{LeaseRangeServed, NodeFacts};
use tokio::sync::watch;

use crate::agents::clock_skew::ClockSkew;
use crate::agents::liveness::Liveness;
use crate::agents::sights::InstanceSights;
use crate::agents::unregistered::UnregisteredMachines;

/// How one agent was found at the last attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contact {
    /// When it came to be so.
    pub since: Timestamp,
    /// Why the agent is not reached; none if it is.
    pub failure: Option<String>,
    /// Whether it is not reached because its list of callers lacks this master.
    pub is_stranger: bool,
    /// Whether it is not reached because it obeys a later epoch.
    pub obeys_later: bool,
    /// How its clock differs from the master's, where it does.
    pub clock: Option<ClockSkew>,
    /// Its last answer.
    pub held: AgentHeld,
}

/// The last answer of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentHeld {
    /// Whether it did not hold the document of its rack.
    pub behind: bool,
    /// When its certificate ends.
    pub certificate_ends: Option<Timestamp>,
    /// The faults that keep it from serving its racks.
    pub faults: Vec<RackFault>,
    pub lease_ranges: Vec<LeaseRangeServed>,
    /// Why it was not sent files that it lacks, if that failed.
    pub files_failed: Option<String>,
    /// Steps that would mend the network of its host.
    pub network_drift: Vec<String>,
}

impl AgentHeld {
    /// The faults that keep it from serving its racks, with what the master knows of them.
    pub fn faults(&self) -> Vec<RackFault> {
        let mut faults = self.faults.clone();
        let lacking = faults.iter_mut().filter(|fault| fault.cause == RackCause::FileMissing);
        for (fault, why) in lacking.zip(self.files_failed.iter().cycle()) {
            fault.text = format!("{}, and cannot: {why}", fault.text);
        }
        faults
    }
}

/// Why an agent is not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreached {
    pub(crate) why: String,
    /// Its list of callers lacks this master.
    pub(crate) is_stranger: bool,
    /// It obeys a later epoch.
    pub(crate) obeys_later: bool,
    /// A certificate is not valid at the time of one of both.
    pub(crate) is_of_clock: bool,
}

impl Unreached {
    /// The reason that a failed call gives; none where its agent was not asked.
    pub(crate) fn by(error: &RpcError) -> Option<Self> {
        let (is_stranger, obeys_later) = (error.is_of_a_stranger(), error.is_of_an_epoch());
        let is_of_clock = error.code() == Some(Code::ClockOff);
        let why = stdx::daemon::chain(error);
        let told = Self { why, is_stranger, obeys_later, is_of_clock };
        (!error.is_of_being_cut_off()).then_some(told)
    }
}

/// Every agent that an exchange was tried with.
#[derive(Debug, Default)]
pub struct Contacts {
    agents: RwLock<HashMap<NodeName, Contact>>,
    /// Files of images that agents have, as they said last.
    blobs: RwLock<HashMap<NodeName, Arc<BTreeSet<Blob>>>>,
    /// Machines that are not registered and were seen by agents.
    pub(crate) unregistered: UnregisteredMachines,
    /// Signs of life of machines.
    pub(crate) liveness: Liveness,
    /// The words of agents on instances.
    pub(crate) instances: InstanceSights,
    /// The facts that agents told of their machines.
    facts: RwLock<Arc<HashMap<NodeName, Arc<NodeFacts>>>>,
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
    pub fn enrol(&self, node: NodeName) -> Enrolling {
        self.enrolling.send_if_modified(|names| names.insert(node.clone()));
        Enrolling(Arc::clone(&self.enrolling), node)
    }

    /// The nodes that are being given their certificate.
    pub(crate) fn enrolling(&self) -> watch::Receiver<BTreeSet<NodeName>> {
        self.enrolling.subscribe()
    }

    /// The last attempt's outcome, if there was one.
    pub fn get(&self, node: &NodeName) -> Option<Contact> {
        self.agents.read().get(node).cloned()
    }

    /// All of them.
    pub fn all(&self) -> HashMap<NodeName, Contact> {
        self.agents.read().clone()
    }

    /// The nodes whose agents were reached at the last attempt.
    pub fn reached(&self) -> BTreeSet<NodeName> {
        let contacts = self.agents.read();
        let reached = contacts.iter().filter(|(_, contact)| contact.failure.is_none());
        reached.map(|(name, _)| name.clone()).collect()
    }

    /// Whether an agent refuses this master since it obeys a later epoch.
    pub fn any_obeys_later(&self) -> bool {
        self.agents.read().values().any(|contact| contact.obeys_later)
    }

    /// How many agents were reached at the last attempt, and how many were not.
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
        let held = known.map(|contact| contact.held.clone()).unwrap_or_default();
        let clock = match &failure {
            Some(failure) => failure.is_of_clock.then_some(ClockSkew::Unknown),
            None => known.and_then(|contact| contact.clock),
        };
        let is_stranger = failure.as_ref().is_some_and(|failure| failure.is_stranger);
        let obeys_later = failure.as_ref().is_some_and(|failure| failure.obeys_later);
        let failure = failure.map(|failure| failure.why);
        let contact = Contact { since, failure, is_stranger, obeys_later, clock, held };
        contacts.insert(node.clone(), contact);
    }

    /// Notes what an agent said that answered, and how its clock differs.
    pub(crate) fn set_held(&self, node: &NodeName, clock: Option<ClockSkew>, held: AgentHeld) {
        if let Some(contact) = self.agents.write().get_mut(node) {
            let files_failed = contact.held.files_failed.take();
            contact.clock = clock;
            contact.held = AgentHeld { files_failed, ..held };
        }
    }

    /// Notes why an agent was not sent the files that it lacks; none where it has them all.
    pub(crate) fn set_files_failed(&self, node: &NodeName, why: Option<String>) {
        if let Some(contact) = self.agents.write().get_mut(node) {
            contact.held.files_failed = why;
        }
    }

    /// The facts that agents told of their machines.
    pub(crate) fn facts(&self) -> Arc<HashMap<NodeName, Arc<NodeFacts>>> {
        Arc::clone(&self.facts.read())
    }

    /// Notes what an agent told of its machine.
    pub(crate) fn set_facts(&self, node: &NodeName, facts: NodeFacts) {
        Arc::make_mut(&mut *self.facts.write()).insert(node.clone(), Arc::new(facts));
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
        self.instances.forget(node);
        Arc::make_mut(&mut *self.facts.write()).remove(node);
    }
}

#[cfg(test)]
mod tests {
    use rpc::client::{CertificateFault, Refusal};

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
        let (reason, fault) = ("not valid yet".to_owned(), CertificateFault::Dates);
        assert!(
            Unreached::by(&refused(Refusal::Certificate { reason, fault })).unwrap().is_of_clock
        );
    }

    #[test]
    fn the_newest_reason_and_the_oldest_time_count() {
        let contacts = Contacts::default();
        let node: NodeName = "n1".parse().unwrap();
        let at = Timestamp::from_micros;
        let held = AgentHeld {
            behind: true,
            certificate_ends: Some(at(9)),
            faults: vec![RackCause::LinkDown.fault("rack0 is off", &[])],
            network_drift: vec!["mtu".to_owned()],
            ..AgentHeld::default()
        };
        let found = |since, failure: Option<&str>| {
            let (failure, is_stranger) = (failure.map(str::to_owned), failure == Some("refused"));
            let (since, held) = (at(since), held.clone());
            Some(Contact { since, failure, is_stranger, held, ..Contact::default() })
        };
        let unreached = |why: &str| {
            let (why, is_stranger) = (why.to_owned(), why == "refused");
            Some(Unreached { why, is_stranger, obeys_later: false, is_of_clock: false })
        };
        assert_eq!(contacts.get(&node), None);
        contacts.set_held(&node, None, held.clone());
        contacts.set(&node, at(1), None);
        contacts.set_held(&node, None, held.clone());
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
