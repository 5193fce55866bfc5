//! Why a file of certificates cannot be used.

use std::path::{Path, PathBuf};

use model::{Code, Coded};
use rustls::pki_types::pem;

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file does not read.
    #[error("cannot read {what} from `{path}`")]
    Read {
        /// What is sought.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The PEM reader's error.
        #[source]
        error: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("there is no certificate in `{path}`")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A certificate is none of an authority.
    #[error("a certificate in `{path}` cannot be that of an authority")]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: rustls::Error,
    },
    /// A certificate is that of the cluster's authority.
    #[error(
        "`{path}` has the cluster's own authority, which signs nodes' certificates: each node would \
         be the user of its name; make an authority for users"
    )]
    Clusters {
        /// The file.
        path: PathBuf,
    },
    /// They cannot be used together.
    #[error("the key in `{key}` cannot be used with the certificate in `{certificate}`")]
    Key {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        #[source]
        error: rustls::Error,
    },
}

impl Coded for CertificateError {
    fn code(&self) -> Option<Code> {
        match self {
            // Nothing is damaged, and the text says what to do.
            Self::Clusters { .. } => None,
            Self::Read { .. } | Self::Empty { .. } | Self::Authority { .. } | Self::Key { .. } => {
                Some(Code::IdentityDamaged)
            }
        }
    }
}

pub(crate) fn read(what: &'static str, path: &Path, error: pem::Error) -> CertificateError {
    CertificateError::Read { what, path: path.to_owned(), error }
}
