//! Why a host's network was not read or changed.

use std::path::PathBuf;

use model::json::Malformed;

use super::{CheckpointError, ROUNDS_MAX};
use crate::kernel::KernelError;

/// Why a host's network was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The configuration is wrong, or does not fit this host.
    #[error("the configuration does not fit this host: {0}")]
    Misfit(Malformed),
    /// Nothing was touched.
    #[error("the kernel of this host has no {kind}, which {link} is")]
    Lacking {
        /// The kind of the link.
        kind: &'static str,
        link: String,
    },
    /// Nothing was touched.
    #[error("an earlier change waits for its commit until {deadline_micros} µs after 1970")]
    Pending {
        /// When it is rolled back.
        deadline_micros: i64,
    },
    /// Another process holds the directory.
    #[error("another process changes the network of this host, with {directory}")]
    Held { directory: PathBuf },
    /// The directory cannot be used.
    #[error("cannot open the lock in {directory}")]
    Lock {
        directory: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The checkpoint cannot be written, read or removed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The kernel could not be asked.
    #[error("cannot read the network of this host")]
    Read(#[source] KernelError),
    /// The kernel refused a step.
    #[error("cannot {step}")]
    Step {
        step: String,
        /// Why.
        #[source]
        source: KernelError,
    },
    /// The kernel took every step, and yet has another state.
    #[error("after {ROUNDS_MAX} attempts it is still necessary to {step}")]
    Unreached {
        /// What still differs.
        step: String,
    },
}
