//! Certificates of clients: those that the operator's authority signed, while they are valid. The name
//! in a certificate is a user only by a line of the users' file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificate_files::{CertificateError, read};
use crate::stamp::Stamp;

/// How long a certificate counts as checked on one connection: it may end meanwhile.
const CHECKED_TIME: Duration = Duration::from_secs(10);

/// The authority that signs the certificates of clients.
pub struct Authority {
    path: PathBuf,
    /// The file of the authority that may not be this one.
    cluster: PathBuf,
    provider: Arc<CryptoProvider>,
    stamp: Mutex<Option<Stamp>>,
    verifier: RwLock<Arc<dyn ClientCertVerifier>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads the file, which has one or more certificates as PEM, none of which is in the file of the cluster's
    /// authority.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn open(
        path: PathBuf,
        cluster: PathBuf,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, CertificateError> {
        let stamp = Mutex::new(Stamp::at(&path));
        let verifier = RwLock::new(load(&path, &cluster, &provider)?);
        Ok(Self { path, cluster, provider, stamp, verifier })
    }

    /// Reads the file anew if it changed; says whether others are trusted now. A file that cannot be
    /// used changes nothing.
    pub fn refresh(&self) -> bool {
        let stamp = Stamp::at(&self.path);
        if std::mem::replace(&mut *self.stamp.lock(), stamp) == stamp {
            return false;
        }
        match load(&self.path, &self.cluster, &self.provider) {
            Ok(fresh) => {
                *self.verifier.write() = fresh;
                tracing::info!("the authority of clients' certificates was read anew");
                true
            }
            Err(error) => {
                let error = stdx::daemon::chain(&error);
                tracing::error!(error, "the authority of clients' certificates stays as it was");
                false
            }
        }
    }

    /// The verifier of certificates in handshakes.
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier.read())
    }
}

fn load(
    path: &Path,
    cluster: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| read("a certificate", path, error))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty { path: path.to_owned() });
    }
    // A renewed authority keeps its key, and it is the key that signs.
    let clusters = keys(CertificateDer::pem_file_iter(cluster).into_iter().flatten().flatten());
    if keys(certificates.iter().cloned()).iter().any(|key| clusters.contains(key)) {
        return Err(CertificateError::Clusters { path: path.to_owned() });
    }
    let wrong = |error| CertificateError::Authority { path: path.to_owned(), error };
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(wrong)?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.allow_unauthenticated().build();
    verifier.map_err(|error| wrong(rustls::Error::General(error.to_string())))
}

/// The public keys of certificates, as far as they read.
fn keys(certificates: impl Iterator<Item = CertificateDer<'static>>) -> Vec<Vec<u8>> {
    let key = |certificate: CertificateDer<'_>| {
        let (_rest, read) = X509Certificate::from_der(&certificate).ok()?;
        Some(read.public_key().raw.to_vec())
    };
    certificates.filter_map(key).collect()
}

/// The certificate that a client showed on a connection.
#[derive(Debug)]
pub struct ClientCertificate {
    authority: Arc<Authority>,
    chain: Vec<CertificateDer<'static>>,
    checked: Mutex<Option<Checked>>,
}

#[derive(Debug, Clone)]
struct Checked {
    by: Arc<dyn ClientCertVerifier>,
    at: Instant,
    name: Result<Arc<str>, Arc<str>>,
}

impl ClientCertificate {
    /// The one with these certificates, its own first.
    pub fn new(authority: Arc<Authority>, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { authority, chain, checked: Mutex::default() }
    }

    /// The name in the certificate, if that is still valid. A connection may outlive its certificate,
    /// and the certificate of a resumed connection was not checked.
    ///
    /// # Errors
    /// Why not, for the log.
    pub fn name(&self) -> Result<Arc<str>, Arc<str>> {
        let by = self.authority.verifier();
        let mut checked = self.checked.lock();
        let known = checked
            .as_ref()
            .filter(|checked| Arc::ptr_eq(&checked.by, &by) && checked.at.elapsed() < CHECKED_TIME);
        if let Some(known) = known {
            return known.name.clone();
        }
        let name = self.check(by.as_ref()).map_err(Arc::from);
        *checked = Some(Checked { by, at: Instant::now(), name: name.clone() });
        name
    }

    fn check(&self, verifier: &dyn ClientCertVerifier) -> Result<Arc<str>, String> {
        let (own, others) = self.chain.split_first().ok_or("there is none")?;
        let verified = verifier.verify_client_cert(own, others, UnixTime::now());
        verified.map_err(|error| error.to_string())?;
        common_name(own)
    }
}

/// The one common name of a certificate's subject.
fn common_name(certificate: &[u8]) -> Result<Arc<str>, String> {
    let read = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let mut names = read.1.subject().iter_common_name();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err("its subject has not one common name".to_owned());
    };
    name.as_str().map(Arc::from).map_err(|error| error.to_string())
}
