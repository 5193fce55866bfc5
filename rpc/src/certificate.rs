//! The common part of showing and checking a certificate: the cryptography, and its name.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;

use model::NodeName;

/// The cryptography of this program; named, never the process's default.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The node's name as a certificate carries it.
pub(crate) fn server_name(node: &NodeName) -> Result<ServerName<'static>, rustls::Error> {
    rustls::pki_types::DnsName::try_from(node.as_str().to_owned())
        .map(ServerName::DnsName)
        .map_err(|error| rustls::Error::General(format!("node name `{node}`: {error}")))
}
