//! The verifiers: the library's own checks, and ours behind them.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use model::enrol::Fingerprint;
use stdx::pinned::NOT_THE_ONE;

use super::AllowedCallers;

/// The signatures of a handshake are checked as the library does.
macro_rules! signatures_by_roots {
    () => {
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
    };
}

/// A caller: signed by the authority and on the allow-list.
#[derive(Debug)]
pub(super) struct AllowedClient {
    pub(super) roots: Arc<dyn ClientCertVerifier>,
    pub(super) allowed: AllowedCallers,
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
        let caller = Fingerprint::of(end_entity);
        if self.allowed.knows(&caller) {
            return Ok(verified);
        }
        tracing::warn!(%caller, "caller of this cluster is not on the allow-list");
        Err(NOT_THE_ONE)
    }

    signatures_by_roots!();
}

/// An agent: signed by the authority for its name and, where fingerprints are known, just one of
/// those certificates.
#[derive(Debug)]
pub(super) struct PinnedAgent {
    pub(super) roots: Arc<WebPkiServerVerifier>,
    pub(super) pins: Vec<Fingerprint>,
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
        if self.pins.is_empty() || self.pins.contains(&Fingerprint::of(end_entity)) {
            Ok(verified)
        } else {
            Err(NOT_THE_ONE)
        }
    }

    signatures_by_roots!();
}
