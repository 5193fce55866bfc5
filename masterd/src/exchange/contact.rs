//! Which agents are reached, since when, and why not; for the list of nodes.

use std::collections::HashMap;

use model::{NodeName, Timestamp};
use parking_lot::RwLock;

/// How one agent was found at the last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// When it came to be so.
    pub since: Timestamp,
    /// Why the agent is not reached; none if it is.
    pub failure: Option<String>,
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

    pub(super) fn set(&self, node: &NodeName, since: Timestamp, failure: Option<String>) {
        self.0.write().insert(node.clone(), Contact { since, failure });
    }

    pub(super) fn forget(&self, node: &NodeName) {
        self.0.write().remove(node);
    }
}
