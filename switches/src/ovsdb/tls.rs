//! TLS as switches speak it: both sides show certificates, and the authority of the switches counts.

use std::sync::Arc;

use model::switch::SwitchTarget;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The settings of a connection.
///
/// # Errors
/// Certificates or key are missing, or do not read.
pub(super) fn config(target: &SwitchTarget) -> Result<ClientConfig, String> {
    let authority =
        target.authority.as_deref().ok_or("the authority of the switch is not known")?;
    let certificate = target.certificate.as_deref().ok_or("our certificate is not known")?;
    let key = target.secret.as_ref().ok_or("our key is not known")?;
    let mut roots = RootCertStore::empty();
    for one in certificates(authority)? {
        roots.add(one).map_err(|error| format!("the authority is not taken: {error}"))?;
    }
    let key = PrivateKeyDer::from_pem_slice(key.0.expose().as_bytes())
        .map_err(|_secret| "our key is no private key in PEM".to_owned())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let inner = inner.build().map_err(|error| error.to_string())?;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(inner)));
    let certificates = certificates(certificate)?;
    builder.with_client_auth_cert(certificates, key).map_err(|error| error.to_string())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| format!("a certificate is no PEM: {error}"))?;
    if all.is_empty() { Err("there is no certificate in PEM".to_owned()) } else { Ok(all) }
}

/// Takes a certificate of the authority whatever its name: those that Open vSwitch makes for its switches
/// hold no host, and its own programs do not look for one.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
