//! The files of who is master, as the agents should have them.

use model::node::Node;
use model::ssconf::{EPOCH, MASTER_IP, MASTER_NODE, PEERS, Ssconf};

use super::AgentSync;
use super::desired_state::Kept;
use crate::agents::ssconf::nodes::compile;
use crate::agents::ssconf::push_one;
use crate::config::queue::Snapshot;

/// The files by which a machine finds the master: what they say, every node is told at once.
const URGENT: [&str; 4] = [MASTER_NODE, MASTER_IP, EPOCH, PEERS];

impl Kept for Ssconf {
    const WHAT: &'static str = "the files of who is master";

    fn of(snapshot: &Snapshot) -> Self {
        compile(snapshot)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.files == other.files
    }

    fn must_follow(&self, newest: &Self) -> bool {
        URGENT.iter().any(|&name| self.files.get(name) != newest.files.get(name))
    }

    async fn push(&self, sync: &AgentSync, node: &Node) -> Result<(), String> {
        push_one(&sync.agents, node, self, None).await
    }
}
