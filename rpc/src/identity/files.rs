//! The files of an identity, with the modes of the layout.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use model::Secret;
use model::layout::{DIRECTORY_MODE, Layout, NODE_KEY_MODE, PUBLIC_MODE};

use super::{Authority, IdentityError, NodeIdentity};
use crate::calls::Membership;

/// Whether this machine belongs to a cluster: its membership is written last and removed first.
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
    remove(layout.membership())?;
    super::renewal::forget(layout)?;
    let certificates = [layout.machine_certificate(), layout.node_certificate()];
    for path in certificates.into_iter().chain([layout.node_key(), layout.ca_certificate()]) {
        remove(path)?;
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
    /// Puts the certificate of this machine's cluster and the authority's key (PEM) together.
    ///
    /// # Errors
    /// The certificate could not be read, one of them holds something else, or they are not of the
    /// same authority.
    pub fn with_key(layout: &Layout, key: &Secret<String>) -> Result<Self, IdentityError> {
        let path = layout.ca_certificate();
        let certificate = read(&path)?;
        Self::assemble(certificate, key)?.ok_or(IdentityError::AuthorityKey { path })
    }

    /// Puts certificate and key (PEM) of an authority together; none if they are not of the same.
    ///
    /// # Errors
    /// One of them holds something else.
    pub fn assemble(
        certificate: String,
        key: &Secret<String>,
    ) -> Result<Option<Self>, IdentityError> {
        let what = "the authority's certificate";
        let der = super::certificate_from_pem(what, &certificate)?;
        let key = KeyPair::from_pem(key.expose())
            .map_err(|error| IdentityError::Make { what: "the authority's key", error })?;
        let (_rest, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|error| IdentityError::Der { what, error })?;
        let is_its_key = parsed.public_key().raw == key.subject_public_key_info();
        Ok(is_its_key.then_some(Self { certificate, key }))
    }

    /// Reads the key that versions before replication kept in a file of its own; none where there
    /// is no such file.
    ///
    /// # Errors
    /// It is there and could not be read.
    pub fn key_file(layout: &Layout) -> Result<Option<Secret<String>>, IdentityError> {
        let path = layout.ca_key();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(IdentityError::Read { path, error }),
        }
    }

    /// Removes that file.
    ///
    /// # Errors
    /// It is there and could not be removed.
    pub fn remove_key_file(layout: &Layout) -> Result<(), IdentityError> {
        remove(layout.ca_key())
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
        // The files of an earlier membership must not be taken for a renewal of this one.
        super::renewal::forget(layout)?;
        let pair = self.shown.current();
        let key = pem("PRIVATE KEY", pair.key.secret_der());
        write(&layout.node_key(), key.as_bytes(), NODE_KEY_MODE)?;
        let certificate = pem("CERTIFICATE", &pair.certificate);
        write(&layout.node_certificate(), certificate.as_bytes(), PUBLIC_MODE)?;
        let authority = pem("CERTIFICATE", &self.authority);
        write(&layout.ca_certificate(), authority.as_bytes(), PUBLIC_MODE)?;
        store_membership(layout, membership)
    }

    /// Reads the identity of this machine.
    ///
    /// # Errors
    /// The machine belongs to no cluster, a file cannot be read, or the files do not belong
    /// together.
    pub fn load(layout: &Layout) -> Result<(Self, Membership), IdentityError> {
        let membership = load_membership(layout)?;
        let authority = read(&layout.ca_certificate())?;
        let identity = super::renewal::read_consistent(layout, |key, certificate| {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| IdentityError::Pem { what: "the node's key", error })?;
            Self::from_parts(membership.node.clone(), key, &certificate, &authority)
        })?;
        Ok((identity, membership))
    }
}

/// The key and the certificate that count (PEM): of a renewal that is being completed, the new ones,
/// wherever they are by then.
pub(super) fn read_pair(layout: &Layout) -> Result<(String, String), IdentityError> {
    let renewed = layout.renewed_certificate().exists();
    let one_of = |new: PathBuf, usual: PathBuf| match renewed.then(|| fs::read_to_string(&new)) {
        Some(Ok(text)) => Ok(text),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            Err(IdentityError::Read { path: new, error })
        }
        Some(Err(_)) | None => read(&usual),
    };
    let key = one_of(layout.renewed_key(), layout.node_key())?;
    Ok((key, one_of(layout.renewed_certificate(), layout.node_certificate())?))
}

/// Removes a file that may not be there.
pub(super) fn remove(path: PathBuf) -> Result<(), IdentityError> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(IdentityError::Write { path, error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Keeps what this node is.
///
/// # Errors
/// The file could not be written.
pub fn store_membership(layout: &Layout, membership: &Membership) -> Result<(), IdentityError> {
    let path = layout.membership();
    let text = serde_json::to_vec_pretty(membership)
        .map_err(|error| IdentityError::Membership { path: path.clone(), error })?;
    write(&path, &text, PUBLIC_MODE)
}

pub(super) fn make_directory(path: &Path) -> Result<(), IdentityError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|error| IdentityError::Write { path: path.to_owned(), error })
}

pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), IdentityError> {
    stdx::atomic::write(path, content, mode)
        .map_err(|error| IdentityError::Write { path: path.to_owned(), error })
}

pub(super) fn read(path: &Path) -> Result<String, IdentityError> {
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
