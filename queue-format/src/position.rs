//! Core: where in the one history of changes a state stands.

use serde::{Deserialize, Serialize};

/// One leadership of one master: a term and the node that led in it.
///
/// Ordered as a pair, because one term may see two leaders and then the higher node wins. Never
/// compare terms alone.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch {
    /// Number of the election; never goes back.
    pub term: u64,
    /// Id of the node that won it.
    pub node: u64,
}

/// The place of one entry in the log: who wrote it and its running number.
///
/// The default is the position of a store that has committed nothing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Position {
    /// The leadership in which the entry was written.
    pub epoch: Epoch,
    /// Running number of the entry, without gaps; the first is 1.
    pub index: u64,
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.term, self.node)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.epoch, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_term_counts_first_then_the_node_then_the_index() {
        let at = |term, node, index| Position { epoch: Epoch { term, node }, index };
        assert!(at(1, 9, 900) < at(2, 1, 1));
        assert!(at(2, 1, 900) < at(2, 2, 1));
        assert!(at(2, 2, 1) < at(2, 2, 2));
        assert_eq!(at(2, 7, 12).to_string(), "2.7/12");
    }
}
