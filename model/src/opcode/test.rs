//! Core: opcodes that test the queue.

use serde::{Deserialize, Serialize};

/// Parameters of `OP_TEST_DELAY`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestDelay {
    /// Seconds to sleep, each time; 0 to 86,400.
    pub duration: f64,
    /// Sleep on the master.
    #[serde(default = "yes")]
    pub on_master: bool,
    /// Names of nodes to sleep on.
    #[serde(default)]
    pub on_nodes: Vec<String>,
    /// Their UUIDs; names, if there are any, are what counts.
    #[serde(default)]
    pub on_node_uuids: Option<Vec<String>>,
    /// How often to sleep again, 0 to 100,000; zero means once.
    #[serde(default)]
    pub repeat: u32,
    /// End early when a client connects to the socket that the job's log names.
    #[serde(default)]
    pub interruptible: bool,
    /// Take no locks.
    #[serde(default = "yes")]
    pub no_locks: bool,
    /// Sleep only on those nodes whose locks are free; one of them at least. Not Ganeti's, whose
    /// only opcodes with this are about instances.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opportunistic_locking: bool,
}

impl TestDelay {
    /// A sleep of so many seconds on the master, without locks.
    pub const fn on_master(duration: f64) -> Self {
        Self {
            duration,
            on_master: true,
            on_nodes: Vec::new(),
            on_node_uuids: None,
            repeat: 0,
            interruptible: false,
            no_locks: true,
            opportunistic_locking: false,
        }
    }

    /// Whether it sleeps on nodes by their agents.
    pub fn is_on_nodes(&self) -> bool {
        let uuids = self.on_node_uuids.as_ref();
        !self.on_nodes.is_empty() || uuids.is_some_and(|uuids| !uuids.is_empty())
    }
}

/// Parameters of `OP_TEST_JQUEUE`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestJqueue {
    /// Tell the client when the locks are waited for, and wait for its word.
    #[serde(default)]
    pub notify_waitlock: bool,
    /// Tell the client when execution begins, and wait for its word.
    #[serde(default)]
    pub notify_exec: bool,
    /// Messages to write to the job's log.
    #[serde(default)]
    pub log_messages: Vec<String>,
    /// Fail at the end.
    #[serde(default)]
    pub fail: bool,
}

const fn yes() -> bool {
    true
}
