//! Core: the certificate that an agent shows machines. It has the addresses at which the agent serves them,
//! which the agent alone knows, and which the certificate of its node has not.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Addresses of one such certificate: an agent of 16 racks with four networks each.
pub const SERVED_ADDRESSES_MAX: usize = 64;

/// An agent's request for such a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateWanted {
    /// The certificate request, PEM, by the key of its node.
    pub request: String,
    /// The addresses at which it serves machines; at most [`SERVED_ADDRESSES_MAX`].
    pub addresses: BTreeSet<IpAddr>,
}

/// Parameters of `machine_certificate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetMachineCertificate {
    /// The certificate, PEM.
    pub certificate: String,
    /// The addresses that were asked for; the certificate may lack some.
    pub addresses: BTreeSet<IpAddr>,
}
