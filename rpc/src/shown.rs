//! The pair of key and certificate that a node shows in handshakes at the moment.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, SignatureScheme};

use model::enrol::Fingerprint;

use crate::certificate::provider;

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) fingerprint: Fingerprint,
    certified: Arc<CertifiedKey>,
}

impl Pair {
    /// Puts both together.
    ///
    /// # Errors
    /// They do not belong together.
    pub(crate) fn new(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let certified =
            CertifiedKey::from_der(vec![certificate.clone()], key.clone_key(), &provider())?;
        let fingerprint = Fingerprint::of(&certificate);
        Ok(Self { certificate, key, fingerprint, certified: Arc::new(certified) })
    }

    /// Both, as a handshake wants them.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

/// The pair in use; a clone refers to the same. It is asked in every handshake, in either direction.
#[derive(Clone)]
pub(crate) struct Shown(Arc<RwLock<Arc<Pair>>>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.fingerprint()).finish()
    }
}

impl Shown {
    pub(crate) fn new(pair: Pair) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(pair))))
    }

    pub(crate) fn current(&self) -> Arc<Pair> {
        Arc::clone(&self.0.read())
    }

    /// Shows what `other` shows.
    pub(crate) fn replace_by(&self, other: &Self) {
        let pair = other.current();
        *self.0.write() = pair;
    }

    /// Fingerprint of the certificate in use. A connection that was made with another one is to be
    /// made anew: the other side may have heard that the old one counts no more.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.0.read().fingerprint
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current().certified))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(
        &self,
        _issuers: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
