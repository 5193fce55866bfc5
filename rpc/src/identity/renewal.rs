//! Another key and certificate for a node that is one already, while it is in use.
//!
//! Two files cannot be replaced by one rename, so the new ones lie beside the old ones first. The new
//! key alone counts for nothing. Once the new certificate is durable beside it, that pair is the node's.
//! Readers take it from there, and the old files are replaced, the key first. So a crash leaves the old
//! pair or the new one, and never one's key with the other's certificate; what it left is completed by
//! the next [`complete`].

use std::fs;
use std::io;
use std::path::PathBuf;

use model::enrol::Fingerprint;
use model::layout::{Layout, NODE_KEY_MODE, PUBLIC_MODE};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::files::{make_directory, pem, read, read_pair, remove, write};
use super::{IdentityError, NodeIdentity, NodeKey, load_membership};

/// How often both files are read, where they are replaced meanwhile: each try meets at most one
/// renewal, which takes longer than a try.
const READS: usize = 5;

/// Makes a new key, and keeps it aside durably; gives the request (PEM) for its certificate. An
/// earlier one that has no certificate yet is void from here on.
///
/// # Errors
/// The machine belongs to no cluster, has no randomness, or a file could not be written.
pub fn begin(layout: &Layout) -> Result<String, IdentityError> {
    complete(layout)?;
    let _is_member = load_membership(layout)?;
    let key = NodeKey::generate()?;
    make_directory(&layout.pki())?;
    let text = pem("PRIVATE KEY", key.der().secret_der());
    write(&layout.renewed_key(), text.as_bytes(), NODE_KEY_MODE)?;
    key.request()
}

/// Takes the certificate (PEM) for the key that was kept aside; from then on both are the node's. A
/// repetition changes nothing.
///
/// # Errors
/// The certificate is not that of the key, not of this node, or of another authority; or a file
/// could not be written.
pub fn finish(layout: &Layout, certificate: &str) -> Result<(), IdentityError> {
    complete(layout)?;
    let membership = load_membership(layout)?;
    let authority = read(&layout.ca_certificate())?;
    let path = layout.renewed_key();
    let key = match fs::read_to_string(&path) {
        Ok(text) => PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|error| IdentityError::Pem { what: "the node's new key", error })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return is_in_place(layout, certificate);
        }
        Err(error) => return Err(IdentityError::Read { path, error }),
    };
    NodeIdentity::from_parts(membership.node, key, certificate, &authority)?;
    write(&layout.renewed_certificate(), certificate.as_bytes(), PUBLIC_MODE)?;
    complete(layout)
}

/// The certificate must be the one in use where there is no new key.
fn is_in_place(layout: &Layout, certificate: &str) -> Result<(), IdentityError> {
    let what = "the node's new certificate";
    let wanted = super::certificate_from_pem(what, certificate)?;
    let held = super::certificate_from_pem(what, &read(&layout.node_certificate())?)?;
    (wanted == held).then_some(()).ok_or(IdentityError::NotBegun)
}

/// Completes a renewal that was cut short after its certificate was durable; where there is none,
/// does nothing.
///
/// # Errors
/// A file could not be replaced.
pub fn complete(layout: &Layout) -> Result<(), IdentityError> {
    if layout.renewed_certificate().exists() {
        for step in STEPS {
            step(layout)?;
        }
    }
    Ok(())
}

/// A part of the way to the usual names; may be repeated.
type Step = fn(&Layout) -> Result<(), IdentityError>;

/// The steps after the new certificate is durable, in this order. The last one ends it.
const STEPS: [Step; 2] = [place_key, place_certificate];

fn place_key(layout: &Layout) -> Result<(), IdentityError> {
    place(layout.renewed_key(), layout.node_key())
}

fn place_certificate(layout: &Layout) -> Result<(), IdentityError> {
    place(layout.renewed_certificate(), layout.node_certificate())
}

fn place(from: PathBuf, to: PathBuf) -> Result<(), IdentityError> {
    match stdx::atomic::rename(&from, &to) {
        // Done before the crash.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        placed => placed.map_err(|error| IdentityError::Write { path: to, error }),
    }
}

/// Removes what a renewal left, the certificate first: what is read must not change to it.
pub(super) fn forget(layout: &Layout) -> Result<(), IdentityError> {
    remove(layout.renewed_certificate())?;
    remove(layout.renewed_key())
}

/// Reads a consistent pair (PEM), though another process may be replacing it.
pub(super) fn read_consistent<T>(
    layout: &Layout,
    assemble: impl Fn(String, String) -> Result<T, IdentityError>,
) -> Result<T, IdentityError> {
    let once = || read_pair(layout).and_then(|(key, certificate)| assemble(key, certificate));
    let mut last = once();
    for _again in 1..READS {
        match last {
            Err(
                IdentityError::Mismatch { .. }
                | IdentityError::Pem { .. }
                | IdentityError::Read { .. },
            ) => last = once(),
            Ok(_) | Err(_) => return last,
        }
    }
    last
}

impl NodeIdentity {
    /// Shows the pair that is in the files of this machine, if that is another one by now; says
    /// whether it was.
    ///
    /// # Errors
    /// They cannot be read, do not belong together, or are another node's.
    pub fn refresh(&self, layout: &Layout) -> Result<bool, IdentityError> {
        let (_key, certificate) = read_pair(layout)?;
        let what = "the node's certificate";
        let certificate = super::certificate_from_pem(what, &certificate)?;
        if Fingerprint::of(&certificate) == self.fingerprint() {
            return Ok(false);
        }
        let (now, _membership) = Self::load(layout)?;
        if now.name != self.name {
            return Err(IdentityError::OtherNode { node: now.name });
        }
        if now.authority != self.authority {
            return Err(IdentityError::OtherAuthority { path: layout.ca_certificate() });
        }
        self.shown.replace_by(&now.shown);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
