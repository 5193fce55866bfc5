//! TLS 1.3 in both directions: what either side demands of the other's certificate.
//!
//! An agent accepts a caller whose certificate is signed by the cluster's authority *and* stands on the
//! allow-list. It also accepts the signed certificate of another agent of its rack, which gets a few
//! calls answered. A caller accepts an agent whose certificate is signed by the authority, carries the
//! node's name and, where it is known, has the node's fingerprint.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ServerConfig};

use model::NodeName;
use model::enrol::Fingerprint;
use stdx::pinned::Pinned;

use crate::calls::{AllowList, Caller};
use crate::certificate::provider;
use crate::identity::{MachineCertificate, NodeIdentity};

mod verify;

use verify::{AllowedClient, PinnedAgent};

/// Protocol names, RFC 7301: the server speaks what the client chose, it never guesses.
pub(crate) const ALPN_H2: &[u8] = b"h2";
/// For bulk.
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";
/// Between members: neither of them takes an agent, or a browser, for one of the other kind.
pub(crate) const ALPN_PEER: &[u8] = b"gantry-peer/1";

/// The allow-list in force; a clone refers to the same list. Open connections obey a new list at
/// their next call.
#[derive(Debug, Clone, Default)]
pub struct AllowedCallers(Arc<Lists>);

#[derive(Debug, Default)]
struct Lists {
    masters: RwLock<Arc<AllowList>>,
    /// Other agents, as rack documents name them.
    agents: RwLock<Vec<Caller>>,
}

impl AllowedCallers {
    /// Begins with `list`.
    pub fn new(list: AllowList) -> Self {
        Self(Arc::new(Lists { masters: RwLock::new(Arc::new(list)), ..Lists::default() }))
    }

    /// Puts `list` in force.
    pub fn replace(&self, list: AllowList) {
        *self.0.masters.write() = Arc::new(list);
    }

    /// The list in force.
    pub fn current(&self) -> Arc<AllowList> {
        Arc::clone(&self.0.masters.read())
    }

    /// The name of the caller with this certificate, where it may call.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<NodeName> {
        let list = self.current();
        list.callers.iter().find(|c| c.fingerprint == *fingerprint).map(|c| c.name.clone())
    }

    /// Replaces the other agents that may make calls of [`crate::calls::Effect::Shares`].
    pub fn replace_agents(&self, agents: Vec<Caller>) {
        *self.0.agents.write() = agents;
    }

    /// The name of the other agent with this certificate.
    pub fn find_agent(&self, fingerprint: &Fingerprint) -> Option<NodeName> {
        let agents = self.0.agents.read();
        agents.iter().find(|c| c.fingerprint == *fingerprint).map(|c| c.name.clone())
    }

    /// Whether any call of this certificate is answered.
    pub fn knows(&self, fingerprint: &Fingerprint) -> bool {
        self.find(fingerprint).is_some() || self.find_agent(fingerprint).is_some()
    }
}

/// How an agent serves.
///
/// # Errors
/// The identity does not hold together.
pub fn server_config(
    identity: &NodeIdentity,
    allowed: AllowedCallers,
) -> Result<ServerConfig, rustls::Error> {
    let provider = provider();
    let roots =
        WebPkiClientVerifier::builder_with_provider(identity.roots()?, Arc::clone(&provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(AllowedClient { roots, allowed }))
        .with_cert_resolver(Arc::new(identity.shown()));
    Ok(without_resumption(config))
}

/// How an agent serves machines, which show no certificate.
///
/// # Errors
/// The cryptography lacks what is needed.
pub fn machine_server_config(
    shown: Arc<MachineCertificate>,
) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(shown);
    let mut config = without_resumption(config);
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    Ok(config)
}

/// How a member serves the other ones: as an agent does, in another protocol.
pub(crate) fn peer_server_config(
    identity: &NodeIdentity,
    allowed: AllowedCallers,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = server_config(identity, allowed)?;
    config.alpn_protocols = vec![ALPN_PEER.to_vec()];
    Ok(config)
}

/// How a node serves that waits to be enrolled: nobody knows it yet, so callers prove themselves by
/// the secret alone.
pub(crate) fn enrolment_server_config(
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: rustls::pki_types::PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(without_resumption(config))
}

/// A resumed session would skip the look at the certificate, and with it the allow-list.
fn without_resumption(mut config: ServerConfig) -> ServerConfig {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
    config
}

/// How a caller reaches one agent, which must show one of the certificates `pins`, if there are any.
pub(crate) fn client_config(
    identity: &NodeIdentity,
    pins: Vec<Fingerprint>,
    alpn: &[u8],
) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let roots =
        WebPkiServerVerifier::builder_with_provider(identity.roots()?, Arc::clone(&provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedAgent { roots, pins }))
        .with_client_cert_resolver(Arc::new(identity.shown()));
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// How the master reaches a node that waits to be enrolled: the fingerprint is all that counts, if it is known.
pub(crate) fn enrolment_client_config(
    pin: Option<Fingerprint>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let pinned = Pinned::new(pin.map(|pin| *pin.as_bytes()), &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    Ok(config)
}
