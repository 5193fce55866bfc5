//! From an address to a connection that has shown who it is.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error};

use model::NodeName;

use super::watched::{LastWord, Watched};
use super::{Refusal, RpcError};
use crate::secured::{Called, Dialer};

/// The meaning of the alert by which `tls::verify` refuses a certificate that is good, but of no allowed
/// caller.
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
    let CertificateWord { reason, fault } = certificate_word(error)?;
    Some(Refusal::Certificate { reason, fault })
}

/// The words about a certificate that is not accepted, and its fault.
pub(crate) struct CertificateWord {
    /// In words.
    pub(crate) reason: String,
    /// The fault, which decides the remedy.
    pub(crate) fault: CertificateFault,
}

/// The fault of a certificate, as far as different remedies end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateFault {
    /// It is one of another authority.
    Foreign,
    /// It is not valid at the time of one of both sides: a clock is wrong, or it has ended.
    Dates,
    /// It is not the one that is expected, or of nobody who may call.
    NotAccepted,
}

/// The same, in words.
pub(crate) fn certificate_word(error: &io::Error) -> Option<CertificateWord> {
    let inner = error.get_ref()?;
    let tls = inner.downcast_ref::<Error>()?;
    let (reason, fault) = match tls {
        Error::InvalidCertificate(error) => of_theirs(error),
        Error::AlertReceived(AlertDescription::AccessDenied) => {
            (NOT_LISTED.to_owned(), CertificateFault::NotAccepted)
        }
        // The library sends this one, too, for a certificate that is not valid yet.
        Error::AlertReceived(alert @ AlertDescription::CertificateExpired) => {
            let reason = format!(
                "ours is not valid at the time of the node (alert {alert:?}): its clock is wrong, or \
                 ours, unless our certificate has ended"
            );
            (reason, CertificateFault::Dates)
        }
        Error::AlertReceived(alert) => {
            let reason = format!("the node does not accept ours (alert {alert:?})");
            (reason, CertificateFault::NotAccepted)
        }
        // No word on a certificate: as a rule something else than an agent listens there.
        _ => return None,
    };
    Some(CertificateWord { reason, fault })
}

/// The fault of the certificate that the node showed, and the words for it.
fn of_theirs(error: &CertificateError) -> (String, CertificateFault) {
    match error {
        CertificateError::ApplicationVerificationFailure => {
            let reason = "the node shows another certificate than the one that is known of it";
            (reason.to_owned(), CertificateFault::NotAccepted)
        }
        // An authority of the same name has another key: then it is the signature that is bad.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            (error.to_string(), CertificateFault::Foreign)
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            let reason = format!("{error}: the clock here is wrong, unless it has ended");
            (reason, CertificateFault::Dates)
        }
        _ => (error.to_string(), CertificateFault::NotAccepted),
    }
}
