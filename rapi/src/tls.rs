//! How connections are secured at the moment: the certificate of the server, and who may sign those of
//! clients.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::{ServerConfig, ServerConnection};
use stdx::Throttle;

use crate::certificate::Certificate;
use crate::certificate_files::CertificateError;
use crate::clients::{Authority, ClientCertificate};

/// How connections are secured.
#[derive(Debug)]
pub struct Tls {
    certificate: Arc<Certificate>,
    clients: Option<Arc<Authority>>,
    config: RwLock<Arc<ServerConfig>>,
    refused: Throttle,
}

impl Tls {
    /// With this certificate, and clients' certificates of this authority.
    ///
    /// # Errors
    /// The cryptography lacks what is needed.
    pub fn new(
        certificate: Arc<Certificate>,
        clients: Option<Arc<Authority>>,
    ) -> Result<Arc<Self>, rustls::Error> {
        let config = RwLock::new(Arc::new(certificate.server_config(clients.as_deref())?));
        Ok(Arc::new(Self { certificate, clients, config, refused: Throttle::new() }))
    }

    /// The authority of a file, which must not be that of the cluster.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn authority(
        path: PathBuf,
        cluster: PathBuf,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Authority>, CertificateError> {
        Authority::open(path, cluster, provider).map(Arc::new)
    }

    /// Reads files anew that changed. With another authority, earlier sessions are not resumed.
    pub fn refresh(&self) {
        self.certificate.refresh();
        if !self.clients.as_deref().is_some_and(Authority::refresh) {
            return;
        }
        match self.certificate.server_config(self.clients.as_deref()) {
            Ok(fresh) => *self.config.write() = Arc::new(fresh),
            Err(error) => tracing::error!(%error, "TLS stays as it was"),
        }
    }

    /// The TLS configuration of the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }

    /// The certificate that the client of a connection showed.
    pub fn shown(&self, connection: &ServerConnection) -> Option<Arc<ClientCertificate>> {
        let authority = Arc::clone(self.clients.as_ref()?);
        let chain = connection.peer_certificates()?;
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Some(Arc::new(ClientCertificate::new(authority, chain)))
    }

    /// Logs why a handshake failed, if the client's certificate was the reason.
    pub fn note(&self, peer: SocketAddr, error: &io::Error) {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(error @ rustls::Error::InvalidCertificate(_)) = error
            && let Some(withheld) = self.refused.pass()
        {
            tracing::warn!(%peer, %error, withheld, "the certificate of a client is refused");
        }
    }
}
