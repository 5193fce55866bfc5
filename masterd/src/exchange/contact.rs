//! Which agents are reached, since when, and why not; for the list of nodes.

use std::collections::{BTreeSet, HashMap};

use model::{NodeName, Timestamp};
use parking_lot::RwLock;

/// How one agent was found at the last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// When it came to be so.
    pub since: Timestamp,
    /// Why the agent is not reached; none if it is.
    pub failure: Option<String>,
    /// Whether it did not hold the document of its rack when it last answered.
    pub behind: bool,
}

/// Every agent that an exchange was tried with.
#[derive(Debug, Default)]
pub struct Contacts(RwLock<HashMap<NodeName, Contact>>);

impl Contacts {
    /// The last attempt's outcome, if there was one.
    #[must_use]
    pub fn get(&self, node: &NodeName) -> Option<Contact> {
        self.0.read().get(node).cloned()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> HashMap<NodeName, Contact> {
        self.0.read().clone()
    }

    /// The nodes whose agents were reached at the last attempt.
    #[must_use]
    pub fn reached(&self) -> BTreeSet<NodeName> {
        let contacts = self.0.read();
        let reached = contacts.iter().filter(|(_, contact)| contact.failure.is_none());
        reached.map(|(name, _)| name.clone()).collect()
    }

    /// How many agents were reached at the last attempt, and how many were not.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let contacts = self.0.read();
        let reached = contacts.values().filter(|contact| contact.failure.is_none()).count();
        (reached, contacts.len() - reached)
    }

    /// Notes the outcome of an attempt: the newest reason counts, and the time when it began to be
    /// so.
    pub(super) fn set(&self, node: &NodeName, now: Timestamp, failure: Option<String>) {
        let mut contacts = self.0.write();
        let known = contacts.get(node);
        let before = known.filter(|c| c.failure.is_some() == failure.is_some());
        let since = before.map_or(now, |before| before.since);
        let behind = known.is_some_and(|contact| contact.behind);
        contacts.insert(node.clone(), Contact { since, failure, behind });
    }

    /// Notes whether an agent that answered holds the document of its rack.
    pub(super) fn set_behind(&self, node: &NodeName, behind: bool) {
        if let Some(contact) = self.0.write().get_mut(node) {
            contact.behind = behind;
        }
    }

    pub(super) fn forget(&self, node: &NodeName) {
        self.0.write().remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_reason_and_the_oldest_time_count() {
        let contacts = Contacts::default();
        let node: NodeName = "n1".parse().unwrap();
        let at = Timestamp::from_micros;
        let found = |since, failure: Option<&str>| {
            Some(Contact { since: at(since), failure: failure.map(str::to_owned), behind: true })
        };
        assert_eq!(contacts.get(&node), None);
        contacts.set_behind(&node, true);
        contacts.set(&node, at(1), None);
        contacts.set_behind(&node, true);
        contacts.set(&node, at(2), Some("stopping".to_owned()));
        contacts.set(&node, at(3), Some("refused".to_owned()));
        assert_eq!(contacts.get(&node), found(2, Some("refused")));
        contacts.set(&node, at(4), None);
        assert_eq!(contacts.get(&node), found(4, None));
        assert_eq!(contacts.counts(), (1, 0));
        assert_eq!(contacts.reached(), BTreeSet::from([node.clone()]));
        contacts.forget(&node);
        assert_eq!(contacts.get(&node), None);
    }
}
