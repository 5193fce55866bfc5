//! Why an import was not made.

use std::path::PathBuf;

use model::NodeName;
use queue_format::FileError;
use queue_format::store::{HeaderError, WipeError};
use rpc::identity::IdentityError;

use super::adapt::Unfit;
use crate::role::load::FoundError;
use crate::store::bootstrap::InitError;
use crate::store::export::read::ReadError;
use crate::store::lock::LockError;

/// An import that was not made.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file does not open.
    #[error("cannot open the export `{path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// It cannot be used.
    #[error("`{path}` is not imported")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: ReadError,
    },
    /// Its documents cannot be used.
    #[error("nothing is imported")]
    Unfit(#[from] Unfit),
    /// A daemon works below this root.
    #[error("nothing is imported beside a daemon")]
    Running(#[source] LockError),
    /// The passphrase does not come.
    #[error("cannot read the passphrase")]
    Passphrase(#[source] std::io::Error),
    /// This machine is another node.
    #[error(
        "`{path}` says that this machine is the node {node} of this cluster: import with \
         `--node-name {node}`, or remove `{path}` first"
    )]
    OtherNode {
        /// The file that says so.
        path: PathBuf,
        node: NodeName,
    },
    #[error(
        "the authority's key in the export is not that of its certificate; take another export"
    )]
    Authority,
    /// There are files without a store.
    #[error("`{0}` is there, and no store to which it belongs; move it away and import again")]
    Leftovers(PathBuf),
    /// The data directory cannot be looked at.
    #[error("cannot list `{path}`")]
    List {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The disk takes no more.
    #[error("the disk is full ({reason}); make room and import again")]
    DiskFull {
        /// The system's error.
        reason: String,
    },
    /// The store ended meanwhile.
    #[error("the store ended while documents were written; import again")]
    Ended,
    /// The store there does not tell what it is.
    #[error("cannot tell whether there is a store here")]
    Header(#[from] HeaderError),
    /// The remains of an interrupted import cannot be removed.
    #[error("cannot remove what an interrupted import left")]
    Wipe(#[from] WipeError),
    /// The store does not read.
    #[error("cannot read the store")]
    File(#[from] FileError),
    /// The imported documents do not load.
    #[error("what was imported cannot be used, and was removed")]
    Found(#[from] FoundError),
    /// As for a new cluster.
    #[error(transparent)]
    Init(#[from] InitError),
    /// No certificate could be made, read or stored.
    #[error("cannot give this machine its certificates")]
    Identity(#[from] IdentityError),
}
