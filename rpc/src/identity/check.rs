//! Whether the parts of an identity belong together.

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::UnixTime;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::NodeIdentity;
use crate::certificate::{provider, server_name};

/// Checks that certificate, name and authority of `identity` belong together; that the key does, has
/// been checked with the pair.
pub(super) fn check(identity: &NodeIdentity) -> Result<(), Error> {
    let certificate = identity.certificate();
    let parsed = ParsedCertificate::try_from(&certificate)?;
    verify_server_name(&parsed, &server_name(identity.name())?)?;
    signed_by_authority(&parsed, &*identity.roots()?)
}

/// Whether the authority signed `certificate`; its dates are left to those who meet it.
fn signed_by_authority(parsed: &ParsedCertificate<'_>, roots: &RootCertStore) -> Result<(), Error> {
    let algorithms = provider().signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(parsed, roots, &[], UnixTime::now(), algorithms)
    {
        Err(Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ))
        | Ok(()) => Ok(()),
        Err(other) => Err(other),
    }
}
