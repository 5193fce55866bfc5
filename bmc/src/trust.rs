//! Which certificate a controller may show.

use std::path::Path;
use std::sync::Arc;

use model::bmc::BmcTrust;
use model::enrol::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};

/// Where Debian keeps the public authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The fingerprint of a certificate.
pub(crate) fn fingerprint(certificate: &[u8]) -> Fingerprint {
    Fingerprint::from_bytes(Sha256::digest(certificate).into())
}

/// TLS as a controller is spoken to.
pub(crate) fn config(trust: BmcTrust) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let pinned = match trust {
        BmcTrust::Authority => {
            let roots = authorities(Path::new(AUTHORITIES))?;
            return Ok(builder.with_root_certificates(roots).with_no_client_auth());
        }
        BmcTrust::Certificate(fingerprint) => Some(fingerprint),
        BmcTrust::Any => None,
    };
    let verifier = Pinned { pinned, algorithms: algorithms(&provider) };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

fn algorithms(provider: &CryptoProvider) -> WebPkiSupportedAlgorithms {
    provider.signature_verification_algorithms
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_file_iter(path);
    let all = all.map_err(|error| {
        format!("{} does not read: {error}; install ca-certificates", path.display())
    })?;
    // One that does not parse is no reason to trust none.
    let (_added, _ignored) = roots.add_parsable_certificates(all.filter_map(Result::ok));
    Ok(roots)
}

/// One certificate, or any: names and dates of controllers are seldom right, the key is what counts.
#[derive(Debug)]
struct Pinned {
    pinned: Option<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
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
        if self.pinned.is_none_or(|pinned| pinned == fingerprint(end_entity)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
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
