//! From an address to a connection that has shown who it is.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use model::NodeName;

use super::watched::{LastWord, Watched};
use super::{Refusal, RpcError};

/// Connects and shakes hands within `limit`.
pub(crate) async fn connect(
    node: &NodeName,
    address: SocketAddr,
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    limit: Duration,
) -> Result<(Watched<TlsStream<TcpStream>>, LastWord), RpcError> {
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(config).connect(server, stream).await
    };
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
    certificate_reason(error).map(|reason| Refusal::Certificate { reason })
}

/// The same, in words.
pub(crate) fn certificate_reason(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?;
    let tls = inner.downcast_ref::<rustls::Error>()?;
    match tls {
        rustls::Error::InvalidCertificate(
            rustls::CertificateError::ApplicationVerificationFailure,
        ) => Some("the node shows another certificate than the one that is known of it".to_owned()),
        rustls::Error::AlertReceived(alert) => {
            Some(format!("the node does not accept ours (alert {alert:?})"))
        }
        rustls::Error::InvalidCertificate(error) => Some(error.to_string()),
        // No word on a certificate: as a rule something else than an agent listens there.
        _ => None,
    }
}
