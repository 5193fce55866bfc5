//! The certificate that machines are shown where they ask for the keys of their disks: it has the addresses at
//! which this agent serves them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use model::layout::Layout;
use model::rack::RackDocument;
use rpc::calls::{CertificateWanted, SERVED_ADDRESSES_MAX, SetMachineCertificate};
use rpc::identity::{IdentityError, MachineCertificate};
use stdx::daemon::chain;
use stdx::net::interfaces;

use netboot::rack::Racks;

/// The certificate, and what tells which addresses it is to have.
#[derive(Debug)]
pub struct MachineCertificates {
    /// The one that is shown.
    pub certificate: Arc<MachineCertificate>,
    /// The rack documents that are served.
    pub racks: Arc<Racks>,
    /// The layout, with the place of its file.
    pub layout: Layout,
    /// The address at which machines ask for keys; none where they cannot.
    pub keys: Option<SocketAddr>,
    /// Addresses to which relays write.
    pub relays: Vec<Ipv4Addr>,
}

impl MachineCertificates {
    /// The certificate to ask the master for.
    pub(crate) fn wanted(&self) -> Option<CertificateWanted> {
        let documents = self.racks.all();
        let own = interfaces().unwrap_or_default();
        let own = own.iter().filter(|one| one.up && !one.loopback).flat_map(|one| &one.addresses);
        let own: Vec<Ipv4Addr> = own.map(|own| own.address).collect();
        let served = served(self.keys?, &own, &self.relays, &documents);
        let wanted = self.certificate.wanted(served);
        wanted.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "no certificate for machines is asked for");
            None
        })
    }

    /// Shows machines another one.
    pub(crate) fn install(&self, call: SetMachineCertificate) -> Result<(), IdentityError> {
        let SetMachineCertificate { certificate, addresses } = call;
        tracing::info!(?addresses, "machines are shown a certificate with these addresses");
        self.certificate.install(&self.layout, &certificate, addresses)
    }
}

/// The addresses of ours at which machines of these racks ask for keys. They are the one that is
/// listened at or those in the networks of the racks, and those to which relays write.
fn served(
    keys: SocketAddr,
    own: &[Ipv4Addr],
    relays: &[Ipv4Addr],
    documents: &[Arc<RackDocument>],
) -> BTreeSet<IpAddr> {
    if documents.is_empty() {
        return BTreeSet::new();
    }
    if !keys.ip().is_unspecified() {
        return BTreeSet::from([keys.ip()]);
    }
    let ranges = || documents.iter().flat_map(|document| &document.ranges);
    let is_of_rack = |address: &&Ipv4Addr| ranges().any(|range| range.subnet.contains(*address));
    let of_racks = own.iter().filter(is_of_rack);
    of_racks.chain(relays).copied().map(IpAddr::V4).take(SERVED_ADDRESSES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use netboot::testing::rack;

    use super::*;

    #[test]
    fn a_certificate_has_the_addresses_in_the_racks_networks() {
        let documents = [Arc::new(rack(0, 1))];
        let own = ["192.0.2.11", "10.69.0.3", "172.17.0.1"].map(|own| own.parse().unwrap());
        let relay: Ipv4Addr = "192.0.2.12".parse().unwrap();
        for (keys, relays, documents, wanted) in [
            ("0.0.0.0:10443", &[][..], &documents[..], &["10.69.0.3"][..]),
            ("[::]:10443", &[relay], &documents, &["10.69.0.3", "192.0.2.12"]),
            ("192.0.2.13:10443", &[relay], &documents, &["192.0.2.13"]),
            ("0.0.0.0:10443", &[relay], &[], &[]),
        ] {
            let wanted: BTreeSet<IpAddr> = wanted.iter().map(|one| one.parse().unwrap()).collect();
            assert_eq!(served(keys.parse().unwrap(), &own, relays, documents), wanted, "{keys}");
        }
    }
}
