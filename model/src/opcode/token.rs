//! Core: parameters of opcodes on tokens of the front door.

use serde::{Deserialize, Serialize};

use crate::name::Word;
use crate::role::Role;
use crate::time::Timestamp;
use crate::token::TokenDigest;

/// Parameters of `OP_TOKEN_ADD`. The token itself stays with the client that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenAdd {
    /// Its name.
    pub token_name: Word,
    /// SHA-256 of the token.
    pub sha256: TokenDigest,
    /// What it may do.
    pub role: Role,
    /// When it ends; null means never.
    pub expires: Option<Timestamp>,
}

/// Parameters of `OP_TOKEN_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRemove {
    /// Its name.
    pub token_name: Word,
}
