//! The verifiers: the library's own checks, and ours behind them.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use model::enrol::Fingerprint;

use super::AllowedCallers;
use crate::certificate::fingerprint;

/// The reason that both sides give where a certificate is good, but not the one that is wanted.
const NOT_THE_ONE: Error =
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

/// A caller: signed by the authority and on the allow-list.
#[derive(Debug)]
pub(super) struct AllowedClient {
    roots: Arc<dyn ClientCertVerifier>,
    allowed: AllowedCallers,
}

impl AllowedClient {
    pub(super) fn new(roots: Arc<dyn ClientCertVerifier>, allowed: AllowedCallers) -> Self {
        Self { roots, allowed }
    }
}

impl ClientCertVerifier for AllowedClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.roots.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.roots.verify_client_cert(end_entity, intermediates, now)?;
        let caller = fingerprint(end_entity);
        if self.allowed.knows(&caller) {
            return Ok(verified);
        }
        tracing::warn!(%caller, "caller of this cluster is not on the allow-list");
        Err(NOT_THE_ONE)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

/// An agent: signed by the authority for its name and, where fingerprints are known, just one of
/// those certificates.
#[derive(Debug)]
pub(super) struct PinnedAgent {
    roots: Arc<WebPkiServerVerifier>,
    pins: Vec<Fingerprint>,
}

impl PinnedAgent {
    pub(super) fn new(roots: Arc<WebPkiServerVerifier>, pins: Vec<Fingerprint>) -> Self {
        Self { roots, pins }
    }
}

impl ServerCertVerifier for PinnedAgent {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.roots.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        if self.pins.is_empty() || self.pins.contains(&fingerprint(end_entity)) {
            Ok(verified)
        } else {
            Err(NOT_THE_ONE)
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

/// A node that waits to be enrolled: nothing counts but the fingerprint that the token told, and
/// that the node holds the key (the handshake's signature).
#[derive(Debug)]
pub(super) struct PinnedEnrolment {
    /// None where the certificate is not known beforehand, and what is said over the connection proves it.
    pin: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl PinnedEnrolment {
    pub(super) fn new(pin: Option<Fingerprint>, provider: Arc<CryptoProvider>) -> Self {
        Self { pin, provider }
    }
}

impl ServerCertVerifier for PinnedEnrolment {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.pin.is_none_or(|pin| pin == fingerprint(end_entity)) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(NOT_THE_ONE)
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
