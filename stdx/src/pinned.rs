//! TLS servers that are known by their certificate alone.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest as _, Sha256};

/// The reason where a certificate is good, but not the one that is wanted.
pub const NOT_THE_ONE: Error =
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

/// One certificate, or any, whatever its name, dates and authority: nothing counts but its SHA-256,
/// and that the server holds its key (the handshake's signature).
#[derive(Debug)]
pub struct Pinned {
    /// None where the certificate is not known beforehand.
    pin: Option<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    /// Accepts the certificate with this SHA-256, or any.
    pub fn new(pin: Option<[u8; 32]>, provider: &CryptoProvider) -> Self {
        Self { pin, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.pin {
            Some(pin) if pin != <[u8; 32]>::from(Sha256::digest(end_entity)) => Err(NOT_THE_ONE),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
