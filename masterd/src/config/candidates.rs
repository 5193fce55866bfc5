//! Core: the candidates of a configuration.

use std::sync::Arc;

use model::node::{Node, NodeRole};
use rpc::calls::Caller;

use super::Config;

impl Config {
    /// Whether a node may call agents: it is a candidate.
    pub fn is_caller(&self, node: &Node) -> bool {
        node.role == NodeRole::Candidate || self.is_master(node)
    }

    /// The candidates as the agents' allow-list has them.
    pub fn callers(&self) -> Vec<Caller> {
        self.candidates().flat_map(|node| Caller::of(node)).collect()
    }

    /// The candidates, the master among them.
    pub fn candidates(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values().filter(|node| self.is_caller(node))
    }

    /// How many candidates the cluster tries to have.
    pub fn pool_size(&self) -> usize {
        usize::try_from(self.cluster.candidate_pool_size).unwrap_or(usize::MAX)
    }
}
