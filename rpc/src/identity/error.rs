//! How an identity fails.

use std::path::PathBuf;

use model::NodeName;

/// An identity that could not be made, read or kept.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A key or certificate could not be made.
    #[error("cannot make {what}")]
    Make {
        /// The object that was to be made.
        what: &'static str,
        /// The library's error.
        #[source]
        error: rcgen::Error,
    },
    /// The system has no randomness.
    #[error("cannot get random bytes")]
    Random,
    /// A certificate request is malformed, or its signature is not that of its key.
    #[error("cannot accept the certificate request of node {node}")]
    Request {
        node: NodeName,
        /// The library's error.
        #[source]
        error: rcgen::Error,
    },
    /// A certificate request with a key that is no ECDSA P-256 key.
    #[error("the certificate request of node {node} holds no ECDSA P-256 key")]
    RequestKey { node: NodeName },
    /// Text that should be PEM is not.
    #[error("{what} is no PEM text")]
    Pem {
        /// The text that should be PEM.
        what: &'static str,
        /// The PEM reader's error.
        #[source]
        error: rustls::pki_types::pem::Error,
    },
    /// A certificate that cannot be read.
    #[error("{what} cannot be read")]
    Der {
        what: &'static str,
        /// The X.509 reader's error.
        #[source]
        error: x509_parser::nom::Err<x509_parser::error::X509Error>,
    },
    /// The authority's key is not that of its certificate.
    #[error("the key of the cluster's authority is not that of its certificate `{path}`")]
    AuthorityKey {
        /// The certificate.
        path: PathBuf,
    },
    /// A key and a certificate that do not belong together, or a certificate of another authority.
    #[error("the node's certificate, its key and the cluster's authority do not belong together")]
    Mismatch {
        /// The TLS library's error.
        #[source]
        error: rustls::Error,
    },
    /// A certificate for a key that this node has not made, or made another one since.
    #[error("no key of this node waits for a certificate; begin its renewal anew")]
    NotBegun,
    /// The files of this machine are those of another node by now.
    #[error("the files of this machine are those of node {node} by now; start the daemon anew")]
    OtherNode { node: NodeName },
    /// The files of this machine are of another authority by now.
    #[error(
        "this machine was enrolled again: `{path}` is another authority's by now; start the daemon \
         anew"
    )]
    OtherAuthority {
        /// The authority's certificate.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The membership file holds something else.
    #[error("`{path}` is damaged; enrol this node again with `noded enroll`")]
    Membership {
        /// The file.
        path: PathBuf,
        /// The JSON reader's error.
        #[source]
        error: serde_json::Error,
    },
    /// There is no identity.
    #[error(
        "this machine belongs to no cluster (there is no `{path}`); run `noded enroll` on it, then `gnt node add` on the master"
    )]
    NotEnrolled {
        /// The file that would say otherwise.
        path: PathBuf,
    },
}
