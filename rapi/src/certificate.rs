//! The certificate that clients see, and its key: files of the operator's, or those of the node. They are
//! read anew when they change.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate_files::{CertificateError, read};
use crate::clients::Authority;
use crate::stamp::Stamp;

/// The files of a certificate and its key, as PEM; both may be in one file, as in Ganeti's `rapi.pem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, and those between it and a root.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Files {
    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.certificate, &self.key].map(|path| Stamp::at(path))
    }

    fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
        let path = &self.certificate;
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| read("a certificate", path, error))?;
        if certificates.is_empty() {
            return Err(CertificateError::Empty { path: path.clone() });
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| read("a private key", &self.key, error))?;
        let stamp = Stamp::at(&self.key);
        stamp.into_iter().for_each(|stamp| stamp.warn_if_open(&self.key, "a private key"));
        CertifiedKey::from_der(certificates, key, provider).map_err(|error| CertificateError::Key {
            certificate: path.clone(),
            key: self.key.clone(),
            error,
        })
    }
}

/// The certificate as it is now.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    provider: Arc<CryptoProvider>,
    stamps: Mutex<[Option<Stamp>; 2]>,
    shown: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn open(files: Files) -> Result<Arc<Self>, CertificateError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let stamps = Mutex::new(files.stamps());
        let shown = RwLock::new(Arc::new(files.load(&provider)?));
        Ok(Arc::new(Self { files, provider, stamps, shown }))
    }

    /// The cryptography that it is used with.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }

    /// Reads the files anew if they changed. Files that cannot be used change nothing, as one may be
    /// written before the other.
    pub fn refresh(&self) {
        let stamps = self.files.stamps();
        if *self.stamps.lock() == stamps {
            return;
        }
        match self.files.load(&self.provider) {
            Ok(fresh) => {
                *self.shown.write() = Arc::new(fresh);
                tracing::info!("the certificate was read anew");
            }
            Err(error) => {
                let error = stdx::daemon::chain(&error);
                tracing::error!(error, "the certificate stays as it was");
            }
        }
        *self.stamps.lock() = stamps;
    }

    /// How connections are secured: TLS 1.2 or 1.3, for HTTP/2 and HTTP/1.1. With `clients` a client may
    /// show a certificate.
    ///
    /// # Errors
    /// The cryptography lacks what is needed.
    pub fn server_config(
        self: &Arc<Self>,
        clients: Option<&Authority>,
    ) -> Result<ServerConfig, rustls::Error> {
        let none = || -> Arc<dyn ClientCertVerifier> { Arc::new(NoClientAuth) };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.map_or_else(none, Authority::verifier))
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_changed_certificate_is_shown_and_half_of_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
        let write = |path: &std::path::Path, text: &str| {
            stdx::atomic::write(path, text.as_bytes(), 0o600).unwrap();
        };
        let files = Files { certificate: certificate.clone(), key: key.clone() };
        assert!(matches!(Certificate::open(files.clone()), Err(CertificateError::Read { .. })));
        let (old, new) = (pair("a.example"), pair("b.example"));
        write(&certificate, &old.0);
        write(&key, &new.1);
        assert!(matches!(Certificate::open(files.clone()), Err(CertificateError::Key { .. })));
        write(&key, &old.1);
        let open = Certificate::open(files.clone()).unwrap();
        let shown = || open.shown.read().cert[0].clone();
        let before = shown();
        write(&certificate, &new.0);
        open.refresh();
        assert_eq!(shown(), before, "its key is not there yet");
        write(&key, &new.1);
        open.refresh();
        assert_ne!(shown(), before);
        // Both in one file, as Ganeti has them.
        write(&certificate, &format!("{}{}", old.0, old.1));
        let one = Files { certificate: certificate.clone(), key: certificate };
        assert!(Certificate::open(one).unwrap().server_config(None).is_ok());
    }
}
