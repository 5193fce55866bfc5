//! How a new node gets its identity (docs/nodes.md).
//!
//! The new node makes a key, serves only the enrolment calls and shows a token with the fingerprint
//! of its certificate and a one-time secret. The operator hands the token to the master. The master pins
//! the fingerprint, so that it talks to that node and no other. It sends the secret, so that the node
//! knows that this master was meant. Then it signs the node's request and hands over the identity.

use model::Secret;
use model::enrol::{EnrolSecret, SECRET_BYTES};

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

#[cfg(test)]
mod tests;
