//! What everyone who shows or looks at a certificate needs: the cryptography, and its fingerprint and
//! name.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use sha2::{Digest as _, Sha256};

use model::NodeName;
use model::enrol::Fingerprint;

/// The cryptography of this program; named, never the process's default.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// SHA-256 of a certificate in DER form.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(Sha256::digest(certificate).into())
}

/// The node's name as a certificate carries it.
pub(crate) fn server_name(node: &NodeName) -> Result<ServerName<'static>, rustls::Error> {
    rustls::pki_types::DnsName::try_from(node.as_str().to_owned())
        .map(ServerName::DnsName)
        .map_err(|error| rustls::Error::General(format!("node name `{node}`: {error}")))
}
