//! Core: how an instance stands: the wish of its operator, what its node sees, and the status that
//! follows, as one total function.

use serde::{Deserialize, Serialize};

crate::words! {
    /// The wish; only jobs change it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    AdminState {
        /// It is to run.
        Up = "up",
        /// It is to stand still.
        #[default]
        Down = "down",
        /// It is to stand still, and takes nothing of its node.
        Offline = "offline",
    }
}

crate::words! {
    /// The one who stopped it last.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    AdminStateSource {
        /// An operator.
        #[default]
        Admin = "admin",
        /// Its own user, from within.
        User = "user",
    }
}

crate::words! {
    /// An agent's last word on it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Seen {
        /// There is nothing of it.
        #[default]
        Absent = "absent",
        /// Its process begins.
        Starting = "starting",
        /// It runs.
        Running = "running",
        /// Somebody made it stand still.
        Paused = "paused",
        /// It stands still, as a disk does not take its writes.
        IoError = "io-error",
        /// Its guest switched it off.
        Stopped = "stopped",
        /// Its process ended by itself.
        Crashed = "crashed",
    }
}

impl Seen {
    /// Whether its process lives.
    pub const fn is_alive(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Paused | Self::IoError => true,
            Self::Absent | Self::Stopped | Self::Crashed => false,
        }
    }
}

crate::words! {
    /// How the node of an instance stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    NodeState {
        /// Its agent answers.
        #[default]
        Up = "up",
        /// Its agent is silent beyond its deadline.
        Down = "down",
        /// It is marked offline.
        Offline = "offline",
    }
}

crate::words! {
    /// The status that lists show, by Ganeti's words.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    Status {
        /// It runs, as it is to.
        #[serde(rename = "running")]
        Running = "running",
        /// It stands still, as it is to.
        #[serde(rename = "ADMIN_down")]
        AdminDown = "ADMIN_down",
        /// The same, and it takes nothing of its node.
        #[serde(rename = "ADMIN_offline")]
        AdminOffline = "ADMIN_offline",
        /// Its own user stopped it.
        #[serde(rename = "USER_down")]
        UserDown = "USER_down",
        /// It is to run, and does not.
        #[serde(rename = "ERROR_down")]
        ErrorDown = "ERROR_down",
        /// It runs, and is not to.
        #[serde(rename = "ERROR_up")]
        ErrorUp = "ERROR_up",
        /// It runs on another node than its primary one.
        #[serde(rename = "ERROR_wrongnode")]
        ErrorWrongNode = "ERROR_wrongnode",
        /// Its node is silent.
        #[serde(rename = "ERROR_nodedown")]
        ErrorNodeDown = "ERROR_nodedown",
        /// Its node is marked offline.
        #[serde(rename = "ERROR_nodeoffline")]
        ErrorNodeOffline = "ERROR_nodeoffline",
    }
}

/// All on which the status of an instance depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    pub wish: AdminState,
    pub source: AdminStateSource,
    pub node: NodeState,
    /// The word of its primary node.
    pub seen: Seen,
    /// Whether another node sees it alive.
    pub elsewhere: bool,
    /// Whether the cluster lets users shut their instances down.
    pub user_shutdown: bool,
}

impl Standing {
    /// The status: the first rule that fits counts.
    pub const fn status(self) -> Status {
        let Self { wish, source, node, seen, elsewhere, user_shutdown } = self;
        match (node, seen.is_alive(), wish) {
            (NodeState::Offline, _, _) => Status::ErrorNodeOffline,
            (NodeState::Down, _, _) => Status::ErrorNodeDown,
            (NodeState::Up, false, _) if elsewhere => Status::ErrorWrongNode,
            (NodeState::Up, true, AdminState::Up) => Status::Running,
            (NodeState::Up, true, AdminState::Down | AdminState::Offline) => Status::ErrorUp,
            (NodeState::Up, false, AdminState::Up) => match seen {
                Seen::Stopped if user_shutdown => Status::UserDown,
                Seen::Absent
                | Seen::Starting
                | Seen::Running
                | Seen::Paused
                | Seen::IoError
                | Seen::Stopped
                | Seen::Crashed => Status::ErrorDown,
            },
            (NodeState::Up, false, AdminState::Offline) => Status::AdminOffline,
            (NodeState::Up, false, AdminState::Down) => match source {
                AdminStateSource::User => Status::UserDown,
                AdminStateSource::Admin => Status::AdminDown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table, with what makes no difference left out.
    #[test]
    fn the_table_of_status() {
        let mut text = String::new();
        for wish in AdminState::ALL {
            for source in AdminStateSource::ALL {
                for seen in Seen::ALL {
                    let with = |node, elsewhere, user_shutdown| {
                        Standing { wish, source, node, seen, elsewhere, user_shutdown }.status()
                    };
                    let up = NodeState::Up;
                    text.push_str(&format!(
                        "{wish} by {source}, {seen}: {}; with user shutdown {}; alive elsewhere {}; node down {}, offline {}\n",
                        with(up, false, false),
                        with(up, false, true),
                        with(up, true, false),
                        with(NodeState::Down, false, false),
                        with(NodeState::Offline, true, true),
                    ));
                }
            }
        }
        insta::assert_snapshot!(text);
    }
}
