//! Core: the roles of those who ask for something.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What somebody is trusted with; a greater one may do all that a lesser one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at everything but secrets.
    Read,
    /// Changes machines, networks, images and nodes' states, and manages jobs.
    Operator,
    /// Changes the cluster itself, adds, removes and restarts nodes.
    Administrator,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Operator, Self::Administrator];

    /// The word in documents and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
