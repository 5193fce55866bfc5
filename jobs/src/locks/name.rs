//! Core: what can be locked, in which order, and by whom.

use std::fmt;
use std::sync::{Arc, LazyLock};

model::words! {
    /// The kind of object that a lock protects; the order is that in which locks are taken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Level {
        /// The cluster: the big lock.
        Cluster = "cluster",
        /// Instances, by name.
        Instance = "instance",
        /// Node groups, by UUID.
        NodeGroup = "nodegroup",
        /// Nodes, by name.
        Node = "node",
        /// The resources of a node (memory, disks), where the node itself stays usable.
        NodeRes = "node-res",
        /// Networks, by UUID.
        Network = "network",
        /// Machines of the inventory, by serial.
        Machine = "machine",
        /// Switches, by name.
        Switch = "switch",
        /// Images that machines boot, by name.
        Image = "image",
        /// The configuration as a whole.
        Config = "config",
    }
}

impl Level {
    /// Place in [`Self::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

model::words! {
    /// How a lock is held.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Mode {
        /// Together with other shared owners.
        Shared = "shared",
        /// Alone.
        Exclusive = "exclusive",
    }
}

impl Mode {
    /// The modes in which others may not hold what is held in this one.
    pub(super) fn conflicts(self) -> &'static [Self] {
        match self {
            Self::Shared => &[Self::Exclusive],
            Self::Exclusive => &[Self::Shared, Self::Exclusive],
        }
    }
}

/// The part of a level that is locked. A set comes before its members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// All members, present and future.
    Set,
    /// One member. Every name is a lock, whether such a thing exists or not.
    Member(Arc<str>),
}

/// A lock. The order is level, then set before members, then name; locks are taken in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName {
    /// The kind of object.
    pub level: Level,
    /// Which of them.
    pub target: Target,
}

impl LockName {
    /// The big lock, which every job takes shared unless it needs the cluster for itself.
    pub fn big() -> Self {
        static BIG: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("BGL"));
        Self { level: Level::Cluster, target: Target::Member(Arc::clone(&BIG)) }
    }

    /// The configuration, the last lock of all.
    pub fn config() -> Self {
        Self::set(Level::Config)
    }

    /// The set lock of a level.
    pub fn set(level: Level) -> Self {
        Self { level, target: Target::Set }
    }

    /// The lock of one member.
    pub fn member(level: Level, name: impl Into<Arc<str>>) -> Self {
        Self { level, target: Target::Member(name.into()) }
    }

    /// Whether this is a set lock.
    pub fn is_set(&self) -> bool {
        self.target == Target::Set
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.level) {
            (Target::Set, Level::Config) => f.write_str("cluster/config"),
            (Target::Set, level) => write!(f, "{level}/[lockset]"),
            (Target::Member(name), level) => write!(f, "{level}/{name}"),
        }
    }
}

/// The holder or requester of a lock: a job, by its id. A job runs one opcode at a time, so that its
/// opcodes need no names of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_in_ganeti() {
        assert_eq!(LockName::big().to_string(), "cluster/BGL");
        assert_eq!(LockName::set(Level::Node).to_string(), "node/[lockset]");
        assert_eq!(LockName::member(Level::NodeRes, "n1").to_string(), "node-res/n1");
        assert_eq!(LockName::config().to_string(), "cluster/config");
        assert_eq!(Owner(7).to_string(), "job/7");
    }

    #[test]
    fn order_is_level_then_set_then_name() {
        let names = [
            LockName::big(),
            LockName::member(Level::Instance, "z"),
            LockName::set(Level::Node),
            LockName::member(Level::Node, ""),
            LockName::member(Level::Node, "[lockset]"),
            LockName::member(Level::Node, "n1"),
            LockName::member(Level::Node, "n10"),
            LockName::member(Level::Node, "n2"),
            LockName::set(Level::Machine),
            LockName::config(),
        ];
        assert!(names.is_sorted_by(|a, b| a < b));
        assert!(Level::ALL.is_sorted_by(|a, b| a < b));
        assert!(Level::ALL.iter().enumerate().all(|(index, level)| level.index() == index));
    }
}
