//! Real machines that boot from a rack: guests of QEMU with UEFI firmware, in network namespaces.
//!
//! In reading order: [`parts`] are the kernel, the file system in memory, and the firmware. They come
//! from Debian packages that are unpacked and not installed. Firmware that boots signed files alone is
//! [`secure`]. A switch and nodes around it are [`wires`], a small cluster there and the guests that it
//! boots [`rack`]. A controller that switches a guest is [`power`]. A guest in which Xen runs is [`xen`].

pub mod parts;
pub mod power;
pub mod rack;
pub mod secure;
pub mod wires;
pub mod xen;

use std::io;
use std::process::{Command, Output};

use crate::stage::StageError;

/// A rack of guests that cannot be made, or a command in it that failed.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// This machine cannot run guests.
    #[error("{0}")]
    Impossible(String),
    /// A program does not start.
    #[error("`{command}` does not start")]
    Start {
        /// The command line.
        command: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// The command line.
        command: String,
        /// What it printed.
        said: String,
    },
    /// A guest ended.
    #[error("{what} did not come; the guest ended after\n{said}")]
    Ended {
        /// The event that was waited for.
        what: String,
        /// The end of its console.
        said: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use `{path}`")]
    File {
        /// Which.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A daemon does not start, or something did not happen in time.
    #[error(transparent)]
    Stage(#[from] StageError),
}

/// Runs a command to its end, and gives what it printed.
///
/// # Errors
/// It does not start, or fails.
pub fn run(command: &mut Command) -> Result<String, GuestError> {
    let line = format!("{command:?}");
    match command.output() {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Ok(Output { stdout, stderr, .. }) => {
            let said = [stdout, stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            Err(GuestError::Failed { command: line, said })
        }
        Err(error) => Err(GuestError::Start { command: line, error }),
    }
}
