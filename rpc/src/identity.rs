//! The identity of a node: its key, its certificate, the cluster's authority, and their files.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    SanType, SerialNumber,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::extensions::GeneralName;

use model::enrol::Fingerprint;
use model::{NodeName, Secret, Timestamp};

use crate::certificate::provider;
use crate::secured::Dialer;
use crate::shown::{Pair, Shown};

mod check;
mod error;
mod files;
mod machines;
pub mod renewal;

pub use error::IdentityError;
pub use files::{forget, is_enrolled, load_membership, store_membership};
pub use machines::MachineCertificate;

const SECONDS_PER_DAY: i64 = 86_400;
/// How far back validity begins: clocks of new machines are often wrong, seldom by more.
const BACKDATE_DAYS: i64 = 2;
/// Life of the cluster's authority: longer than that of the hardware; nothing rotates it yet.
const AUTHORITY_DAYS: i64 = 30 * 365;
/// Life of a node's certificate: `gnt cluster renew-crypto` makes a new one.
const NODE_DAYS: i64 = 10 * 365;
/// Life of the certificate that is served during an enrolment.
const ENROLMENT_DAYS: i64 = 30;
/// Bytes of a certificate's serial number: RFC 5280 section 4.1.2.2 allows 20.
const SERIAL_BYTES: usize = 16;

/// The cluster's authority: signs nodes' certificates, lives on the master.
pub struct Authority {
    certificate: String,
    key: KeyPair,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority for a new cluster.
    ///
    /// # Errors
    /// No randomness, or a failure of the library.
    pub fn create(cluster: &NodeName, now: Timestamp) -> Result<Self, IdentityError> {
        let make = |error| IdentityError::Make { what: "the cluster's authority", error };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(make)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("Gantry cluster {cluster}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now, AUTHORITY_DAYS);
        params.serial_number = Some(serial_number()?);
        let certificate = params.self_signed(&key).map_err(make)?;
        Ok(Self { certificate: certificate.pem(), key })
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its key, PEM.
    pub fn key(&self) -> Secret<String> {
        Secret::new(self.key.serialize_pem())
    }

    /// Until when its certificate is valid.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn ends(&self) -> Result<Timestamp, IdentityError> {
        let what = "the authority's certificate";
        ends(what, &certificate_from_pem(what, &self.certificate)?)
    }

    /// Signs the certificate request (PEM) of a node; gives the certificate (PEM). The request
    /// proves that the node holds the key; names and everything else are ours.
    ///
    /// # Errors
    /// The request is malformed, is not signed by its own key, or the key is of another kind.
    pub fn sign(
        &self,
        request: &str,
        node: &NodeName,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<String, IdentityError> {
        let request = CertificateSigningRequestParams::from_pem(request)
            .map_err(|error| IdentityError::Request { node: node.clone(), error })?;
        if *request.public_key.algorithm() != PKCS_ECDSA_P256_SHA256 {
            return Err(IdentityError::RequestKey { node: node.clone() });
        }
        self.certify(&request.public_key, node, addresses, now)
    }

    /// Makes key and certificate of a node that is on this machine.
    ///
    /// # Errors
    /// No randomness, or a failure of the library.
    pub fn issue(
        &self,
        node: &NodeName,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<NodeIdentity, IdentityError> {
        let key = NodeKey::generate()?;
        let certificate = self.certify(&key.0, node, addresses, now)?;
        NodeIdentity::assemble(node.clone(), &key, &certificate, &self.certificate)
    }

    fn certify(
        &self,
        key: &impl rcgen::PublicKeyData,
        node: &NodeName,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<String, IdentityError> {
        let make = |error| IdentityError::Make { what: "a node's certificate", error };
        let params = node_params(node.as_str(), addresses, now, NODE_DAYS)?;
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, &self.key).map_err(make)?;
        Ok(params.signed_by(key, &issuer).map_err(make)?.pem())
    }
}

/// Parameters of an end entity that both serves and calls.
fn node_params(
    name: &str,
    addresses: &[IpAddr],
    now: Timestamp,
    days: i64,
) -> Result<CertificateParams, IdentityError> {
    let make = |error| IdentityError::Make { what: "a node's certificate", error };
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(make)?;
    params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params.serial_number = Some(serial_number()?);
    set_validity(&mut params, now, days);
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let day = |days: i64| {
        let seconds = now.plus_seconds(days * SECONDS_PER_DAY).seconds();
        // Before 1970 only where the clock is hopelessly wrong.
        let since_1970 = std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        rcgen::date_time_ymd(1970, 1, 1) + since_1970
    };
    params.not_before = day(-BACKDATE_DAYS);
    params.not_after = day(days);
}

fn serial_number() -> Result<SerialNumber, IdentityError> {
    let mut bytes = [0; SERIAL_BYTES];
    random(&mut bytes)?;
    // The first bit is the sign of a DER integer.
    bytes[0] &= 0x7F;
    Ok(SerialNumber::from_slice(&bytes))
}

/// Fills `bytes` from the system's source of randomness.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), IdentityError> {
    provider().secure_random.fill(bytes).map_err(|_no_details| IdentityError::Random)
}

/// A node's private key (ECDSA P-256).
pub struct NodeKey(KeyPair);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(…)")
    }
}

impl NodeKey {
    /// A new key.
    ///
    /// # Errors
    /// No randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map(Self)
            .map_err(|error| IdentityError::Make { what: "a node's key", error })
    }

    /// A certificate request (PEM) that proves to hold this key.
    ///
    /// # Errors
    /// A failure of the library.
    pub fn request(&self) -> Result<String, IdentityError> {
        let make = |error| IdentityError::Make { what: "a certificate request", error };
        CertificateParams::default().serialize_request(&self.0).and_then(|r| r.pem()).map_err(make)
    }

    /// A certificate (DER) that is signed by the key itself, for the time of an enrolment.
    ///
    /// # Errors
    /// No randomness, or a failure of the library.
    pub fn enrolment_certificate(
        &self,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, IdentityError> {
        let make = |error| IdentityError::Make { what: "an enrolment certificate", error };
        let params = node_params("enrolment.invalid", &[], now, ENROLMENT_DAYS)?;
        Ok(params.self_signed(&self.0).map_err(make)?.der().clone())
    }

    /// The key in DER form (PKCS #8).
    pub fn der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.serialize_der()))
    }
}

/// Everything that a node needs to call and to be called. Key and certificate may be replaced while
/// it is in use: whoever serves or calls by it shows the new ones from the next connection on.
pub struct NodeIdentity {
    name: NodeName,
    authority: CertificateDer<'static>,
    shown: Shown,
    dialer: Dialer,
}

impl fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeIdentity")
            .field("name", &self.name)
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

impl NodeIdentity {
    /// Puts together what belongs together; certificates are PEM.
    ///
    /// # Errors
    /// A text is no PEM, or the parts do not belong together.
    pub fn assemble(
        name: NodeName,
        key: &NodeKey,
        certificate: &str,
        authority: &str,
    ) -> Result<Self, IdentityError> {
        Self::from_parts(name, key.der(), certificate, authority)
    }

    fn from_parts(
        name: NodeName,
        key: PrivateKeyDer<'static>,
        certificate: &str,
        authority: &str,
    ) -> Result<Self, IdentityError> {
        let certificate = certificate_from_pem("the node's certificate", certificate)?;
        let authority = certificate_from_pem("the authority's certificate", authority)?;
        Self::of_parts(name, key, certificate, authority)
    }

    fn of_parts(
        name: NodeName,
        key: PrivateKeyDer<'static>,
        certificate: CertificateDer<'static>,
        authority: CertificateDer<'static>,
    ) -> Result<Self, IdentityError> {
        let pair = Pair::new(certificate, key);
        let pair = pair.map_err(|error| IdentityError::Mismatch { error })?;
        let identity = Self { name, authority, shown: Shown::new(pair), dialer: Dialer::default() };
        check::check(&identity).map_err(|error| IdentityError::Mismatch { error })?;
        Ok(identity)
    }

    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// The pin by which others know this node.
    pub fn fingerprint(&self) -> Fingerprint {
        self.shown.fingerprint()
    }

    /// Until when its certificate is valid.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn ends(&self) -> Result<Timestamp, IdentityError> {
        ends("the node's certificate", &self.shown.current().certificate)
    }

    /// Until when the certificate of the cluster's authority is valid.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn authority_ends(&self) -> Result<Timestamp, IdentityError> {
        ends("the authority's certificate", &self.authority)
    }

    /// A certificate request (PEM) that proves to hold its key.
    ///
    /// # Errors
    /// A failure of the library.
    pub fn request(&self) -> Result<String, IdentityError> {
        let key = KeyPair::try_from(&self.shown.current().key);
        let key = key.map_err(|error| IdentityError::Make { what: "a certificate request", error });
        NodeKey(key?).request()
    }

    /// The addresses of its certificate.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn addresses(&self) -> Result<BTreeSet<IpAddr>, IdentityError> {
        let (what, current) = ("the node's certificate", self.shown.current());
        let (_rest, parsed) = x509_parser::parse_x509_certificate(&current.certificate)
            .map_err(|error| IdentityError::Der { what, error })?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.into_iter().flat_map(|names| &names.value.general_names);
        let address = |name: &GeneralName<'_>| match name {
            GeneralName::IPAddress(bytes) => address_of(bytes),
            _ => None,
        };
        Ok(names.filter_map(address).collect())
    }

    /// The certificate and key for handshakes, now and later.
    pub(crate) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// The same node, whose connections are those of a host of a simulated network.
    #[cfg(any(test, feature = "simulation"))]
    pub fn on(self, host: crate::simulation::Host) -> Self {
        let dialer = Dialer::Simulated(host, self.shown());
        Self { dialer, ..self }
    }

    /// How it makes connections.
    pub(crate) fn dialer(&self) -> Dialer {
        self.dialer.clone()
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.shown.current().certificate.clone()
    }

    /// The authority, as whoever verifies a certificate of the cluster wants it.
    pub(crate) fn roots(&self) -> Result<Arc<RootCertStore>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        Ok(Arc::new(roots))
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4().or_else(|_other_length| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The end of a certificate's validity.
fn ends(what: &'static str, certificate: &[u8]) -> Result<Timestamp, IdentityError> {
    let (_rest, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| IdentityError::Der { what, error })?;
    let seconds = parsed.validity().not_after.timestamp();
    Ok(Timestamp::from_micros(0).plus_seconds(seconds))
}

pub(crate) fn certificate_from_pem(
    what: &'static str,
    text: &str,
) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(text.as_bytes())
        .map_err(|error| IdentityError::Pem { what, error })
}

#[cfg(test)]
pub(crate) mod tests;
