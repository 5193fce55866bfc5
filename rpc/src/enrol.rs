//! How a new node gets its identity (DESIGN §9 "Joining").
//!
//! The new node makes a key, serves only the enrolment calls and shows a token with the fingerprint
//! of its certificate and a one-time secret. The master, to whom the operator hands the token, pins
//! the fingerprint, so that it talks to that node and no other; sends the secret, so that the node
//! knows that this master was meant; signs the node's request and hands over the identity.

use std::net::SocketAddr;

use model::NodeName;
use model::Secret;
use model::enrol::{EnrolSecret, Fingerprint, SECRET_BYTES, Token};

use crate::identity::{self, IdentityError};

mod ask;
mod proof;
mod server;

pub use ask::{EnrolError, Enrolment, Invitation};
pub use server::{Desk, EnrolmentEnd};

/// A new one-time secret.
///
/// # Errors
/// The system has no randomness.
pub fn new_secret() -> Result<EnrolSecret, IdentityError> {
    let mut bytes = [0; SECRET_BYTES];
    identity::random(&mut bytes)?;
    Ok(Secret::new(bytes))
}

impl Invitation {
    /// What `token` says, for the node that is to be called `node`; `address` is what the token's
    /// host name was found to mean.
    #[must_use]
    pub fn from_token(token: &Token, node: NodeName, address: SocketAddr) -> Self {
        let fingerprint: Fingerprint = token.fingerprint;
        Self { node, address, fingerprint, secret: token.secret.clone() }
    }
}

#[cfg(test)]
mod tests;
