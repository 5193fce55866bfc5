//! Core: the roles of those who ask for something.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::layout::{ADMIN_GROUP, OPERATOR_GROUP, READ_GROUP};

crate::words! {
    /// The role of somebody who asks; a greater one may do all that a lesser one may.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Role {
        /// Uses the machines and ports that were given to its tenant, and sees nothing else.
        Tenant = "tenant",
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
    /// The group of this machine whose members have it; tenants come by the front door alone.
    pub const fn group(self) -> Option<&'static str> {
        match self {
            Self::Tenant => None,
            Self::Read => Some(READ_GROUP),
            Self::Operator => Some(OPERATOR_GROUP),
            Self::Administrator => Some(ADMIN_GROUP),
        }
    }
}

/// A word that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is `tenant`, `read`, `operator` (also `write`) or `administrator` (also `admin`)")]
pub struct NoRole;

/// Reads a role, also by the words of Ganeti's users file: `write` makes an operator.
impl FromStr for Role {
    type Err = NoRole;

    fn from_str(word: &str) -> Result<Self, NoRole> {
        match word {
            "tenant" => Ok(Self::Tenant),
            "read" => Ok(Self::Read),
            "operator" | "write" => Ok(Self::Operator),
            "administrator" | "admin" => Ok(Self::Administrator),
            _ => Err(NoRole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_read_by_its_own_word_and_by_ganetis() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("write".parse(), Ok(Role::Operator));
        assert_eq!("admin".parse(), Ok(Role::Administrator));
        for wrong in ["", "Admin", "root", "operators"] {
            assert_eq!(wrong.parse::<Role>(), Err(NoRole), "{wrong}");
        }
    }
}
