//! Core: what all methods of a kind have in common: how long they may take, and who may call them.

use std::fmt;
use std::time::Duration;

use model::role::Role;

use crate::limits::Limits;

/// How long a method may take, and what it means when it does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reads only.
    Query,
    /// Changes something; when it does not end in time, it may still have happened.
    Change,
    /// Waits for something on purpose.
    Wait,
}

impl Class {
    /// The deadline under `limits`.
    pub const fn deadline(self, limits: &Limits) -> Duration {
        match self {
            Self::Query => limits.query,
            Self::Change => limits.change,
            Self::Wait => limits.wait,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Query => "query",
            Self::Change => "change",
            Self::Wait => "wait",
        })
    }
}

/// The role that a client needs to call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A reader.
    Read,
    Operator,
    Administrator,
    /// The role that each of the submitted opcodes asks for.
    Opcodes,
}

impl Access {
    /// The role that it takes, whatever the arguments are.
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::Read => Some(Role::Read),
            Self::Operator => Some(Role::Operator),
            Self::Administrator => Some(Role::Administrator),
            Self::Opcodes => None,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.role().map_or("of its opcodes", Role::as_str))
    }
}
