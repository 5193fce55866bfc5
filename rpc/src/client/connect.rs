//! From an address to a connection that has shown who it is.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use model::NodeName;

use super::watched::{LastWord, Watched};
use super::{Refusal, RpcError};
use crate::secured::{Called, Dialer};

/// What the alert means by which `tls::verify` refuses a certificate that is good, and of nobody who
/// may call.
pub(super) const NOT_LISTED: &str = "the node does not accept ours: its list of callers lacks it";

/// Connects as `config` says and shakes hands, within `limit`.
pub(crate) async fn connect(
    dialer: Dialer,
    (node, address): (&NodeName, SocketAddr),
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    limit: Duration,
) -> Result<(Watched<Called>, LastWord), RpcError> {
    let connecting = dialer.connect(address, config, server);
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection within the time limit");
    let connected = tokio::time::timeout(limit, connecting).await;
    connected.unwrap_or_else(|_elapsed| Err(late())).map(Watched::new).map_err(
        |error| match refusal(&error) {
            Some(refusal) => RpcError::Refused { node: node.clone(), refusal },
            None => RpcError::Unreachable { node: node.clone(), address, error },
        },
    )
}

/// The TLS library's word on a certificate, where it is the cause of `error`.
pub(super) fn refusal(error: &io::Error) -> Option<Refusal> {
    let CertificateWord { reason, foreign } = certificate_word(error)?;
    Some(Refusal::Certificate { reason, foreign })
}

/// What is wrong with a certificate.
pub(crate) struct CertificateWord {
    /// In words.
    pub(crate) reason: String,
    /// Whether it is one of another authority.
    pub(crate) foreign: bool,
}

/// The same, in words.
pub(crate) fn certificate_word(error: &io::Error) -> Option<CertificateWord> {
    let inner = error.get_ref()?;
    let tls = inner.downcast_ref::<rustls::Error>()?;
    // An authority of the same name has another key: then it is the signature that is bad.
    let foreign = matches!(
        tls,
        rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature
        )
    );
    let reason = match tls {
        rustls::Error::InvalidCertificate(
            rustls::CertificateError::ApplicationVerificationFailure,
        ) => "the node shows another certificate than the one that is known of it".to_owned(),
        rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied) => {
            NOT_LISTED.to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the node does not accept ours (alert {alert:?})")
        }
        rustls::Error::InvalidCertificate(error) => error.to_string(),
        // No word on a certificate: as a rule something else than an agent listens there.
        _ => return None,
    };
    Some(CertificateWord { reason, foreign })
}
