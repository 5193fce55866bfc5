//! The files of an identity, with the modes of the layout.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rcgen::KeyPair;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use model::layout::{CA_KEY_MODE, DIRECTORY_MODE, Layout, NODE_KEY_MODE, PUBLIC_MODE};

use super::{Authority, IdentityError, NodeIdentity};
use crate::calls::Membership;

/// Whether this machine belongs to a cluster: its membership is written last and removed first.
#[must_use]
pub fn is_enrolled(layout: &Layout) -> bool {
    layout.membership().exists()
}

/// Reads what this node is.
///
/// # Errors
/// The machine belongs to no cluster, or the file cannot be read.
pub fn load_membership(layout: &Layout) -> Result<Membership, IdentityError> {
    let path = layout.membership();
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|error| IdentityError::Membership { path, error }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(IdentityError::NotEnrolled { path })
        }
        Err(error) => Err(IdentityError::Read { path, error }),
    }
}

/// Removes the identity of this machine. The authority's key, where it is, stays: it is the
/// cluster's.
///
/// # Errors
/// A file that is there could not be removed.
pub fn forget(layout: &Layout) -> Result<(), IdentityError> {
    for path in
        [layout.membership(), layout.node_key(), layout.node_certificate(), layout.ca_certificate()]
    {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(IdentityError::Write { path, error });
            }
            Ok(()) | Err(_) => {}
        }
    }
    let marker = layout.membership();
    match stdx::atomic::sync_parent(&marker) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(IdentityError::Write { path: marker, error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Authority {
    /// Keeps certificate and key.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn store(&self, layout: &Layout) -> Result<(), IdentityError> {
        make_directory(&layout.pki())?;
        write(&layout.ca_key(), self.key.serialize_pem().as_bytes(), CA_KEY_MODE)?;
        write(&layout.ca_certificate(), self.certificate.as_bytes(), PUBLIC_MODE)
    }

    /// Reads certificate and key.
    ///
    /// # Errors
    /// A file could not be read or holds something else.
    pub fn load(layout: &Layout) -> Result<Self, IdentityError> {
        let key = read(&layout.ca_key())?;
        let certificate = read(&layout.ca_certificate())?;
        super::certificate_from_pem("the authority's certificate", &certificate)?;
        let key = KeyPair::from_pem(&key)
            .map_err(|error| IdentityError::Make { what: "the authority's key", error })?;
        Ok(Self { certificate, key })
    }
}

impl NodeIdentity {
    /// Keeps key, certificate, the authority's certificate and, last, what the node is: a stop in
    /// between leaves the machine without an identity, not with half of one.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn store(&self, layout: &Layout, membership: &Membership) -> Result<(), IdentityError> {
        make_directory(&layout.pki())?;
        let key = pem("PRIVATE KEY", self.key.secret_der());
        write(&layout.node_key(), key.as_bytes(), NODE_KEY_MODE)?;
        let certificate = pem("CERTIFICATE", &self.certificate);
        write(&layout.node_certificate(), certificate.as_bytes(), PUBLIC_MODE)?;
        let authority = pem("CERTIFICATE", &self.authority);
        write(&layout.ca_certificate(), authority.as_bytes(), PUBLIC_MODE)?;
        let text = serde_json::to_vec_pretty(membership)
            .map_err(|error| IdentityError::Membership { path: layout.membership(), error })?;
        write(&layout.membership(), &text, PUBLIC_MODE)
    }

    /// Reads the identity of this machine.
    ///
    /// # Errors
    /// The machine belongs to no cluster, a file cannot be read, or the files do not belong
    /// together.
    pub fn load(layout: &Layout) -> Result<(Self, Membership), IdentityError> {
        let membership = load_membership(layout)?;
        let key = read(&layout.node_key())?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| IdentityError::Pem { what: "the node's key", error })?;
        let certificate = read(&layout.node_certificate())?;
        let authority = read(&layout.ca_certificate())?;
        let name = membership.node.clone();
        Ok((Self::from_parts(name, key, &certificate, &authority)?, membership))
    }
}

fn make_directory(path: &Path) -> Result<(), IdentityError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|error| IdentityError::Write { path: path.to_owned(), error })
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), IdentityError> {
    stdx::atomic::write(path, content, mode)
        .map_err(|error| IdentityError::Write { path: path.to_owned(), error })
}

fn read(path: &Path) -> Result<String, IdentityError> {
    fs::read_to_string(path).map_err(|error| IdentityError::Read { path: path.to_owned(), error })
}

/// RFC 7468 text with lines of 64 characters.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let body = base64(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        text.extend(line.iter().map(|b| char::from(*b)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
