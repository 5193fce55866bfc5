//! The certificate that an agent shows machines. They reach it by addresses that the certificate of its node
//! has not, since the agent alone knows them. The authority signs a further certificate for the node's own key,
//! with those addresses; where there is none, machines are shown that of the node.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use model::enrol::Fingerprint;
use model::layout::{Layout, PUBLIC_MODE};
use parking_lot::RwLock;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::files::write;
use super::{IdentityError, NodeIdentity, certificate_from_pem};
use crate::calls::CertificateWanted;

/// The certificate that machines are shown.
#[derive(Debug)]
pub struct MachineCertificate {
    node: Arc<NodeIdentity>,
    further: RwLock<Option<Further>>,
}

/// A further certificate of a node.
#[derive(Debug)]
struct Further {
    /// The node's own certificate, whose key it is for.
    of: Fingerprint,
    identity: NodeIdentity,
    /// The addresses that were asked for.
    asked: BTreeSet<IpAddr>,
}

impl Further {
    fn new(
        node: &NodeIdentity,
        certificate: &str,
        asked: Option<BTreeSet<IpAddr>>,
    ) -> Result<Self, IdentityError> {
        let certificate = certificate_from_pem("the certificate for machines", certificate)?;
        let current = node.shown.current();
        let (name, key) = (node.name.clone(), current.key.clone_key());
        let identity = NodeIdentity::of_parts(name, key, certificate, node.authority.clone())?;
        let asked = asked.map_or_else(|| identity.addresses(), Ok)?;
        Ok(Self { of: current.fingerprint, identity, asked })
    }
}

impl MachineCertificate {
    /// The certificate of a node for machines. A file that is of an earlier key, or of another node,
    /// counts for nothing.
    pub fn open(node: Arc<NodeIdentity>, layout: &Layout) -> Self {
        let kept = fs::read_to_string(layout.machine_certificate()).ok();
        let further = kept.and_then(|kept| Further::new(&node, &kept, None).ok());
        Self { node, further: RwLock::new(further) }
    }

    /// The request for a certificate with these served addresses; none where the certificate is there,
    /// or was asked for.
    ///
    /// # Errors
    /// A certificate cannot be read, or a request not be made.
    pub fn wanted(
        &self,
        served: BTreeSet<IpAddr>,
    ) -> Result<Option<CertificateWanted>, IdentityError> {
        if served.is_subset(&self.node.addresses()?) {
            return Ok(None);
        }
        let current = self.node.fingerprint();
        if let Some(further) = self.further.read().as_ref().filter(|further| further.of == current)
            && (further.asked == served || served.is_subset(&further.identity.addresses()?))
        {
            return Ok(None);
        }
        Ok(Some(CertificateWanted { request: self.node.request()?, addresses: served }))
    }

    /// Shows this one (PEM), which was made for these addresses, and keeps it.
    ///
    /// # Errors
    /// It is not one of this node's key, or the file could not be written.
    pub fn install(
        &self,
        layout: &Layout,
        certificate: &str,
        asked: BTreeSet<IpAddr>,
    ) -> Result<(), IdentityError> {
        let further = Further::new(&self.node, certificate, Some(asked))?;
        write(&layout.machine_certificate(), certificate.as_bytes(), PUBLIC_MODE)?;
        *self.further.write() = Some(further);
        Ok(())
    }
}

impl ResolvesServerCert for MachineCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let own = self.node.shown.current();
        let further = self.further.read();
        let further = further.as_ref().filter(|further| further.of == own.fingerprint);
        let shown = further.map_or(own, |further| further.identity.shown.current());
        Some(shown.certified())
    }
}

#[cfg(test)]
mod tests {
    use model::NodeName;

    use super::super::Authority;
    use super::*;
    use crate::testing::{LOCALHOST, now};

    fn set(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn machines_are_shown_the_addresses_that_are_served() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        fs::create_dir_all(layout.pki()).unwrap();
        let name: NodeName = "n1.example.com".parse().unwrap();
        let authority = Authority::create(&"c1".parse().unwrap(), now()).unwrap();
        let node = Arc::new(authority.issue(&name, &[LOCALHOST], now()).unwrap());
        let shown = MachineCertificate::open(Arc::clone(&node), &layout);
        assert_eq!(shown.wanted(set(&["127.0.0.1"])).unwrap(), None, "the node's own has it");
        let served = set(&["10.69.0.3", "fd00::3", "127.0.0.1"]);
        let wanted = shown.wanted(served.clone()).unwrap().unwrap();
        assert_eq!(wanted.addresses, served);
        let granted = set(&["10.69.0.3", "fd00::3"]);
        let granted: Vec<IpAddr> = granted.into_iter().collect();
        let made = authority.sign(&wanted.request, &name, &granted, now()).unwrap();
        shown.install(&layout, &made, wanted.addresses).unwrap();
        assert_eq!(
            shown.wanted(served.clone()).unwrap(),
            None,
            "what is refused is not asked again"
        );
        assert_eq!(shown.wanted(set(&["10.69.0.3"])).unwrap(), None);
        assert!(shown.wanted(set(&["10.69.0.4"])).unwrap().is_some());
        // After a restart it is shown as before; of another key it is none.
        let again = MachineCertificate::open(Arc::clone(&node), &layout);
        assert_eq!(again.wanted(set(&["10.69.0.3", "fd00::3"])).unwrap(), None);
        let other = Arc::new(authority.issue(&name, &[LOCALHOST], now()).unwrap());
        let other = MachineCertificate::open(other, &layout);
        assert!(other.wanted(set(&["10.69.0.3"])).unwrap().is_some());
        assert!(other.install(&layout, &made, served).is_err());
    }
}
