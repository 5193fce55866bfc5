//! The proofs that a machine and the master show each other if they know one token. Neither says the
//! token itself. A proof shown to a stranger between them is worth nothing to the other side.
//!
//! HMAC-SHA256 with the token as its key, over whose word it is, the fingerprint of the certificate that the
//! machine serves, and its certificate request.

use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};
use model::Secret;
use model::enrol::{EnrolSecret, Fingerprint, SECRET_BYTES};
use model::power_cycle::MachineToken;

/// The secret that the master sends to the machine that serves this certificate.
pub(super) fn of_master(token: &MachineToken, served: Fingerprint) -> EnrolSecret {
    made(token, &[b"master\0", served.as_bytes()])
}

/// The proof of the machine that serves this certificate, for the answer with its request.
pub(super) fn of_machine(token: &MachineToken, served: Fingerprint, request: &str) -> EnrolSecret {
    made(token, &[b"machine\0", served.as_bytes(), request.as_bytes()])
}

fn made(token: &MachineToken, parts: &[&[u8]]) -> EnrolSecret {
    let mut context = hmac::Context::with_key(&Key::new(HMAC_SHA256, token.expose()));
    parts.iter().for_each(|part| context.update(part));
    let tag = context.sign();
    let mut bytes = [0; SECRET_BYTES];
    // Half of it: as long as other secrets of an enrolment, which nobody guesses either.
    bytes.iter_mut().zip(tag.as_ref()).for_each(|(byte, of_tag)| *byte = *of_tag);
    Secret::new(bytes)
}
