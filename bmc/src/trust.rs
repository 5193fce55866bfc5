//! Which certificate a controller may show.

use std::path::Path;
use std::sync::Arc;

use model::bmc::BmcTrust;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use stdx::pinned::Pinned;

/// The file in which Debian keeps the public authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

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
    // Names and dates of controllers are seldom right; the key is what counts.
    let verifier = Pinned::new(pinned.map(|pin| *pin.as_bytes()), &provider);
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_file_iter(path);
    let all = all.map_err(|error| {
        format!("{} does not read: {error}; install ca-certificates", path.display())
    })?;
    // An authority that does not parse is no reason to trust none.
    let (_added, _ignored) = roots.add_parsable_certificates(all.filter_map(Result::ok));
    Ok(roots)
}
