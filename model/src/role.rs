//! Core: the roles of those who ask for something.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::layout::{ADMIN_GROUP, OPERATOR_GROUP, READ_GROUP};

crate::words! {
    /// What somebody is trusted with; a greater one may do all that a lesser one may.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Role {
        /// Looks at everything but secrets.
        Read = "read",
        /// Changes machines, networks, images, nodes' states and the cluster's parameters, and manages jobs: all
        /// that Ganeti's remote API can do.
        Operator = "operator",
        /// Adds and removes nodes, moves the master, and gives access.
        Administrator = "administrator",
    }
}

impl Role {
    /// The group of this machine whose members have it.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Read => READ_GROUP,
            Self::Operator => OPERATOR_GROUP,
            Self::Administrator => ADMIN_GROUP,
        }
    }
}

/// A word of a users file that gives no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an option is `read`, `write` or `admin`")]
pub struct NoRole;

/// Reads an option of Ganeti's users file, where `write` makes an operator. `admin` is ours.
impl FromStr for Role {
    type Err = NoRole;

    fn from_str(option: &str) -> Result<Self, NoRole> {
        match option {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Operator),
            "admin" => Ok(Self::Administrator),
            _ => Err(NoRole),
        }
    }
}
